//! What a watch says, as values: objects that are there or gone, and whether everything has been said.

use std::fmt::Debug;

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
    Unsynced(String),
}

/// Something that is watched: what is kept of an object of a kind.
pub trait Watched: Sized + Send + 'static {
    /// The object as the API server has it, with the fields that are read.
    type Object: Resource + Clone + Debug + DeserializeOwned + Send + 'static;
    /// What objects are told apart by.
    type Key: Clone + Debug + Ord + Send + 'static;
    /// The plural of the kind, for messages.
    const KIND: &'static str;

    /// The type of the object.
    fn kind() -> <Self::Object as Resource>::DynamicType;
    /// The object's key, or nothing if its name is none that the API server would accept.
    fn key(object: &Self::Object) -> Option<Self::Key>;
    /// What is kept of the object.
    fn trim(object: Self::Object, key: Self::Key) -> Self;
}

/// How [`Event::Unsynced`] says that a kind is not installed.
pub const NOT_INSTALLED: &str = "are not installed in this cluster";

/// Whether [`Event::Unsynced`] says that the kind is not installed: then there are no objects of it.
pub fn is_not_installed(problem: &str) -> bool {
    problem.contains(NOT_INSTALLED)
}
