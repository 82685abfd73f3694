//! What a watch says, as values: objects that are there or gone, and whether everything has been said.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a watch says.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Event<T, K> {
    /// The object exists, as this.
    Applied(T),
    /// The object is gone.
    Deleted(K),
    /// Everything that exists has been said.
    Synced,
    /// Something is wrong with the watch. Before the first `Synced` nothing may be concluded from what is missing;
    /// after it, what was said stays whole but may be old.
    Unsynced(Broken),
}

impl<T, K> Event<T, K> {
    /// The same about another value of the object.
    pub fn map<U>(self, applied: impl FnOnce(T) -> U) -> Event<U, K> {
        match self {
            Self::Applied(object) => Event::Applied(applied(object)),
            Self::Deleted(key) => Event::Deleted(key),
            Self::Synced => Event::Synced,
            Self::Unsynced(broken) => Event::Unsynced(broken),
        }
    }
}

/// What is wrong with a watch.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Broken {
    /// What follows from it.
    pub cause: Cause,
    /// What is wrong and what to do, for people.
    pub message: String,
}

/// Why a watch is broken.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Cause {
    /// The kind is not installed, so there are no objects of it.
    NotInstalled,
    /// The right to list or watch the kind is missing.
    Forbidden,
    /// Anything else, most often that the API server cannot be reached.
    Other,
}

/// Something that is watched: what is kept of an object of a kind.
pub trait Watched: Sized + Send + 'static {
    /// The object as the API server has it, with the fields that are read.
    type Object: Resource + Clone + Debug + DeserializeOwned + Send + 'static;
    /// What objects are told apart by. Reads back from how it prints, so that it can be kept as text.
    type Key: Clone + Debug + Display + FromStr + Ord + Send + 'static;
    /// The plural of the kind, for messages.
    const KIND: &'static str;

    /// The type of the object.
    fn kind() -> <Self::Object as Resource>::DynamicType;
    /// The object's key, or nothing if its name is none that the API server would accept.
    fn key(object: &Self::Object) -> Option<Self::Key>;
    /// What is kept of the object.
    fn trim(object: Self::Object, key: Self::Key) -> Self;
}
