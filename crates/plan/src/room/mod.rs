//! Rooms: a feature of a plan, with everything that belongs to it in one place.
//!
//! A feature is a folder (or a file) and one line in the list of its output. It has one or more [`Kind`]s of slices. A
//! kind owns a shape of paths, by a typed key; it says which slices exist, plans one, says how urgent it is, whom to
//! blame when it fails, and which of its slices follow from a change of fact. Nobody else knows its paths. [`House`]
//! puts rooms together and is the planner that the engine asks.

pub(crate) mod house;
mod key;

pub use house::House;
pub use key::{Component, SliceKey, Slices, Step, Under};

use causeway_ovn::Plan;

/// What plans are made from: an index, the changes it tells of, and whom it knows to blame.
pub trait World {
    /// One change of fact.
    type Change;
    /// Whom something is about.
    type Subject: Ord;

    /// Whether after this change everything is to be looked at.
    fn is_everything(change: &Self::Change) -> bool;
}

/// One kind of slices.
pub trait Kind<W: World>: Sync {
    /// What one slice is about.
    type Key: SliceKey;

    /// The slices that have something to say, among those that `only` names.
    fn slices(&self, world: &W, only: &<Self::Key as SliceKey>::Under) -> Vec<Self::Key>;

    /// The plan of one slice; a slice that does not exist is absent.
    fn plan(&self, world: &W, key: &Self::Key) -> Plan;

    /// The plan of one row or member of a slice, by the components of its path below the slice's, where that costs less than the
    /// plan of the whole.
    fn plan_part(&self, _world: &W, _key: &Self::Key, _part: &[String]) -> Option<Plan> {
        None
    }

    /// Smaller is more urgent. What others hang on comes first.
    fn priority(&self) -> u8;

    /// Who is not as it was asked for when the slice fails, waits or is held; the first is the one to tell.
    fn blame(&self, world: &W, key: &Self::Key) -> Vec<W::Subject>;

    /// The slice whose rows hold a row with another root, which the database knows by its own key.
    fn holds(&self, _world: &W, _path: &str) -> Option<Self::Key> {
        None
    }

    /// The slices that may differ after a change. The world is as it is after the change.
    fn follows(&self, world: &W, change: &W::Change) -> Vec<Slices<Self::Key>>;
}

/// A feature: its kinds of slices.
pub struct Room<W: World + 'static> {
    /// What people call it.
    pub name: &'static str,
    /// Its kinds of slices.
    pub kinds: &'static [&'static dyn AnyKind<W>],
}

/// A kind whose key is not named. Implemented for every [`Kind`].
pub trait AnyKind<W: World>: Sync {
    /// The first component of its paths.
    fn root(&self) -> &'static str;
    /// The length of the slice that a path or prefix lies in, if it lies in one of this kind.
    fn slice_len(&self, path: &str) -> Option<usize>;
    /// The slices below a prefix that is wider than one.
    fn below(&self, world: &W, prefix: &str) -> Vec<String>;
    /// See [`Kind::holds`].
    fn holder(&self, world: &W, path: &str) -> Option<String>;
    /// The plan of the slice that a path or prefix lies in.
    fn plan_at(&self, world: &W, slice: &str) -> Plan;
    /// See [`Kind::plan_part`].
    fn part_at(&self, world: &W, path: &str) -> Option<Plan>;
    /// See [`Kind::priority`].
    fn urgency(&self) -> u8;
    /// See [`Kind::blame`].
    fn to_blame(&self, world: &W, slice: &str) -> Vec<W::Subject>;
    /// The prefixes of all slices that follow from a change.
    fn dirty(&self, world: &W, change: &W::Change) -> Vec<String>;
}

impl<W: World, T: Kind<W>> AnyKind<W> for T {
    fn root(&self) -> &'static str {
        match <T::Key as SliceKey>::SHAPE.first() {
            Some(Step::Word(word)) => word,
            _ => "",
        }
    }

    fn slice_len(&self, path: &str) -> Option<usize> {
        T::Key::of(path).map(|(_, length)| length)
    }

    fn below(&self, world: &W, prefix: &str) -> Vec<String> {
        let only = key::partial::<T::Key>(prefix);
        only.map(|only| self.slices(world, &only).iter().map(SliceKey::slice).collect()).unwrap_or_default()
    }

    fn holder(&self, world: &W, path: &str) -> Option<String> {
        self.holds(world, path).map(|key| key.slice())
    }

    fn plan_at(&self, world: &W, slice: &str) -> Plan {
        T::Key::of(slice).map_or(Plan::Absent, |(key, _)| self.plan(world, &key))
    }

    fn part_at(&self, world: &W, path: &str) -> Option<Plan> {
        let (key, length) = T::Key::of(path)?;
        let rest = path.get(length..).filter(|rest| !rest.is_empty() && !rest.ends_with(':'))?;
        self.plan_part(world, &key, &causeway_ovn::path::split(rest))
    }

    fn urgency(&self) -> u8 {
        self.priority()
    }

    fn to_blame(&self, world: &W, slice: &str) -> Vec<W::Subject> {
        T::Key::of(slice).map(|(key, _)| self.blame(world, &key)).unwrap_or_default()
    }

    fn dirty(&self, world: &W, change: &W::Change) -> Vec<String> {
        self.follows(world, change).into_iter().map(Slices::into_prefix).collect()
    }
}
