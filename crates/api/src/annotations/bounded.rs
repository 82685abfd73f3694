//! Lists that tenants write. They are read up to the most that is allowed, so that a longer one costs no more than that.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Reads a text that is one JSON list and nothing else.
pub(super) fn list<'de, T: Deserialize<'de>>(
    text: &'de str,
    most: usize,
    what: &'static str,
) -> Result<Vec<T>, serde_json::Error> {
    let mut from = serde_json::Deserializer::from_str(text);
    let items = bounded(&mut from, most, what)?;
    from.end()?;
    Ok(items)
}

/// Reads a list inside of something else.
pub(super) fn bounded<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
    most: usize,
    what: &'static str,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Bounded { most, what, item: PhantomData })
}

/// What is said of a list that is too long.
pub(super) fn too_many(what: &str, most: usize) -> String {
    format!("there are more than {most} {what}: write fewer")
}

struct Bounded<T> {
    most: usize,
    what: &'static str,
    item: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} {}", self.most, self.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element()? {
            if read.len() == self.most {
                return Err(A::Error::custom(too_many(self.what, self.most)));
            }
            read.push(item);
        }
        Ok(read)
    }
}
