//! Typed slice keys: one definition gives the path of a slice and reads it back.
//!
//! A key is made by [`slice_key!`](crate::slice_key). Its shape is a row of fixed words and values; the values are the
//! fields of the key, in the same order. A slice is everything below that path, or, if it says so, that path alone.

use std::borrow::Cow;
use std::marker::PhantomData;

use causeway_ovn::{Str, path};
use causeway_types::{ConnectName, NamespaceName, NetworkName, NodeName, ObjectName};

/// One component of the path of a slice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// A fixed word.
    Word(&'static str),
    /// The next field of the key.
    Value,
}

/// A value that can stand in a path.
pub trait Component: Sized {
    /// As it stands in the path, before escapes.
    fn text(&self) -> Cow<'_, str>;
    /// Reads it back; nothing if the text is no such value.
    fn read(text: &str) -> Option<Self>;
}

macro_rules! components {
    ($($type:ty),* $(,)?) => {$(
        impl Component for $type {
            fn text(&self) -> Cow<'_, str> {
                Cow::Borrowed(self.as_str())
            }

            fn read(text: &str) -> Option<Self> {
                Self::new(text).ok()
            }
        }
    )*};
}

components!(ConnectName, NamespaceName, NetworkName, NodeName, ObjectName);

/// Names that the API server has checked, and names of rows.
impl Component for String {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }

    fn read(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// What one slice is about.
pub trait SliceKey: Sized {
    /// The same key with its last fields open: all slices below.
    type Under: Under;
    /// The components of the path.
    const SHAPE: &'static [Step];
    /// Whether the slice is exactly one row's path, not everything below.
    const WHOLE: bool;

    /// The fields, as they stand in the path.
    fn texts(&self) -> Vec<Cow<'_, str>>;
    /// The key with these fields.
    fn read(texts: &[String]) -> Option<Self>;

    /// The slice: a prefix that ends in `:`, or a whole path.
    fn slice(&self) -> String {
        let mut slice = print(Self::SHAPE, &self.texts());
        if !Self::WHOLE {
            slice.push(':');
        }
        slice
    }

    /// The path of a row in the slice.
    fn path<S: AsRef<str>>(&self, rest: impl IntoIterator<Item = S>) -> Str {
        let mut path = print(Self::SHAPE, &self.texts());
        for component in rest {
            path.push(':');
            path.push_str(&path::join([component.as_ref()]));
        }
        path.into()
    }

    /// Reads a path or prefix that lies in one slice, with the length of the slice in it.
    fn of(path: &str) -> Option<(Self, usize)> {
        let length = slice_len(Self::SHAPE, Self::WHOLE, path)?;
        let parts = path.split(':').take(Self::SHAPE.len());
        Some((Self::read(&values(Self::SHAPE, parts)?)?, length))
    }
}

/// How long the slice of a shape is that a path or prefix lies in, by its words alone. Every kind is asked about every path, so this
/// copies nothing.
fn slice_len(shape: &[Step], whole: bool, path: &str) -> Option<usize> {
    let (mut parts, mut length) = (path.split(':'), 0);
    for step in shape {
        let part = parts.next()?;
        if matches!(step, Step::Word(word) if *word != part) {
            return None;
        }
        length += part.len() + 1;
    }
    (parts.next().is_none() == whole).then(|| length.min(path.len()))
}

/// A slice key with its last fields open.
pub trait Under: Sized + Default {
    /// The fields that are given, up to the first that is open.
    fn texts(&self) -> Vec<Cow<'_, str>>;
    /// The partial key with these fields.
    fn read(texts: &[String]) -> Option<Self>;
}

/// Some slices of one kind: those whose keys begin with the same fields.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Slices<K> {
    prefix: String,
    kind: PhantomData<K>,
}

impl<K: SliceKey> Slices<K> {
    /// Those below a partial key.
    pub fn under(under: &K::Under) -> Self {
        let texts = under.texts();
        let values = K::SHAPE.iter().filter(|step| **step == Step::Value).count();
        let steps = if texts.len() == values { K::SHAPE } else { before_value(K::SHAPE, texts.len()) };
        let mut prefix = print(steps, &texts);
        if !(prefix.is_empty() || (K::WHOLE && steps.len() == K::SHAPE.len())) {
            prefix.push(':');
        }
        Self { prefix, kind: PhantomData }
    }

    /// One row or member of a slice alone, by the components of its path below the slice's.
    pub fn part<S: AsRef<str>>(key: &K, rest: impl IntoIterator<Item = S>) -> Self {
        Self { prefix: key.path(rest).into(), kind: PhantomData }
    }

    /// The common beginning of their paths.
    pub fn into_prefix(self) -> String {
        self.prefix
    }
}

impl<K: SliceKey> From<K> for Slices<K> {
    fn from(key: K) -> Self {
        Self { prefix: key.slice(), kind: PhantomData }
    }
}

/// Reads a prefix that is wider than a slice of this kind; nothing if no slice of the kind begins with it.
pub(super) fn partial<K: SliceKey>(prefix: &str) -> Option<K::Under> {
    if prefix.is_empty() {
        return Some(K::Under::default());
    }
    let parts: Vec<&str> = prefix.strip_suffix(':')?.split(':').collect();
    if parts.len() > K::SHAPE.len() || (parts.len() == K::SHAPE.len() && K::WHOLE) {
        return None;
    }
    K::Under::read(&values(&K::SHAPE[..parts.len()], parts.into_iter())?)
}

/// The steps before the value that comes after so many others.
fn before_value(shape: &'static [Step], given: usize) -> &'static [Step] {
    let values = shape.iter().enumerate().filter(|(_, step)| **step == Step::Value);
    let end = values.map(|(at, _)| at).nth(given).unwrap_or(shape.len());
    &shape[..end]
}

fn print(shape: &[Step], texts: &[Cow<'_, str>]) -> String {
    let mut texts = texts.iter();
    let components: Vec<&str> = shape
        .iter()
        .map_while(|step| match step {
            Step::Word(word) => Some(*word),
            Step::Value => texts.next().map(AsRef::as_ref),
        })
        .collect();
    path::join(components).into()
}

/// The values of a path that has the words of a shape.
fn values<'a>(shape: &[Step], parts: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
    let mut values = Vec::new();
    for (step, part) in shape.iter().zip(parts) {
        match step {
            Step::Word(word) if *word == part => {}
            Step::Word(_) => return None,
            Step::Value => values.push(path::split(part).concat()),
        }
    }
    Some(values)
}

/// Defines a slice key, the partial key with open fields, and their paths, in one place.
///
/// ```
/// use causeway_plan::room::SliceKey as _;
/// use causeway_types::NetworkName;
///
/// causeway_plan::slice_key! {
///     /// The doors of a network.
///     pub struct DoorKey, DoorKeys { network: NetworkName, door: String } at ["network", _, "door", _]
/// }
///
/// let key = DoorKey { network: NetworkName::new("blue").unwrap(), door: "a:b".into() };
/// assert_eq!(key.slice(), "network:blue:door:a%3Ab:");
/// assert_eq!(DoorKey::of("network:blue:door:a%3Ab:handle"), Some((key, 24)));
/// ```
#[macro_export]
macro_rules! slice_key {
    ($(#[$doc:meta])* $vis:vis struct $Key:ident, $Under:ident { $($field:ident: $Type:ty),* $(,)? } at [$($step:tt),+]) => {
        $crate::slice_key!(@define $(#[$doc])* $vis $Key $Under { $($field: $Type),* } [$($step),+] false);
    };
    ($(#[$doc:meta])* $vis:vis struct $Key:ident, $Under:ident { $($field:ident: $Type:ty),* $(,)? } is [$($step:tt),+]) => {
        $crate::slice_key!(@define $(#[$doc])* $vis $Key $Under { $($field: $Type),* } [$($step),+] true);
    };
    (@define $(#[$doc:meta])* $vis:vis $Key:ident $Under:ident { $($field:ident: $Type:ty),* } [$($step:tt),+] $whole:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        $vis struct $Key {
            $(#[allow(missing_docs)] $vis $field: $Type,)*
        }

        /// The same with its last fields open.
        #[derive(Clone, Debug, Default, Eq, PartialEq)]
        $vis struct $Under {
            $(#[allow(missing_docs)] $vis $field: Option<$Type>,)*
        }

        impl $crate::room::SliceKey for $Key {
            type Under = $Under;
            const SHAPE: &'static [$crate::room::Step] = &[$($crate::slice_key!(@step $step)),+];
            const WHOLE: bool = $whole;

            fn texts(&self) -> Vec<std::borrow::Cow<'_, str>> {
                vec![$($crate::room::Component::text(&self.$field)),*]
            }

            fn read(texts: &[String]) -> Option<Self> {
                let mut texts = texts.iter();
                let key = Self { $($field: $crate::room::Component::read(texts.next()?)?,)* };
                texts.next().is_none().then_some(key)
            }
        }

        impl $crate::room::Under for $Under {
            fn texts(&self) -> Vec<std::borrow::Cow<'_, str>> {
                let all = [$(self.$field.as_ref().map($crate::room::Component::text)),*];
                all.into_iter().map_while(|text: Option<std::borrow::Cow<'_, str>>| text).collect()
            }

            fn read(texts: &[String]) -> Option<Self> {
                let mut texts = texts.iter();
                let key = Self {
                    $($field: match texts.next() {
                        Some(text) => Some($crate::room::Component::read(text)?),
                        None => None,
                    },)*
                };
                texts.next().is_none().then_some(key)
            }
        }
    };
    (@step _) => { $crate::room::Step::Value };
    (@step $word:literal) => { $crate::room::Step::Word($word) };
}
