//! Watches: one stream for each kind, of records that are trimmed as they are decoded.
//!
//! Owns which objects were seen, as keys, to find out after a relist which of them are gone. Keeps no object. An
//! error, a refusal or a kind that is not installed is never an empty list: it is [`Event::Unsynced`], and the watch
//! tries again. Every request has a time-out, and silence counts as a broken connection, which the watcher of the client
//! library cannot do: it waits for lists without end and does not say when a connection is back.

mod follow;
mod problem;
mod seen;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use causeway_record::{Event, Watched};
use kube::{Api, Client};
use tokio::sync::mpsc;

use crate::{Health, Tasks};
use follow::{Follow, Sink};
use seen::Seen;

/// How a watch begins, and begins again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lists {
    /// With pages of the most recent state: for whoever writes what nobody else may write.
    #[default]
    Latest,
    /// With a stream from the API server's memory, where it has that: cheaper, perhaps a moment old.
    Streamed,
}

/// Which objects are watched, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// How the watch begins.
    pub lists: Lists,
    /// Only objects with these fields, as `kubectl --field-selector` has it.
    pub fields: Option<String>,
    /// Whether the cluster may do without the kind: that it is not installed is no fault then.
    pub optional: bool,
}

/// Where the watches of a role tell what they see.
pub struct Watches<'a, M> {
    /// Who owns them. A watch that ends is started again and knows what it had seen.
    pub tasks: &'a mut Tasks,
    /// Where it shows that a watch is broken.
    pub health: &'a Health,
    /// Whom they tell.
    pub sender: mpsc::Sender<M>,
}

impl<M: Send + 'static> Watches<'_, M> {
    /// Watches all objects of a kind, in all namespaces.
    pub fn everywhere<T: Watched>(
        &mut self,
        client: &Client,
        selection: Selection,
        wrap: fn(Event<T, T::Key>) -> M,
    ) where
        T::Object: Sync,
    {
        self.of(Api::all_with(client.clone(), &T::kind()), selection, wrap);
    }

    /// Watches objects of a kind.
    pub fn of<T: Watched>(
        &mut self,
        api: Api<T::Object>,
        selection: Selection,
        wrap: fn(Event<T, T::Key>) -> M,
    ) where
        T::Object: Sync,
    {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (sender, health) = (self.sender.clone(), self.health.clone());
        self.tasks.keep(&format!("watch of {}", T::KIND), move || {
            let sink = Sink::<T, M> { seen: Arc::clone(&seen), sender: sender.clone(), wrap };
            Follow::new(api.clone(), selection.clone(), sink, health.clone()).run()
        });
    }
}
