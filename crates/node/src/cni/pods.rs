//! What the zone's task publishes of each pod of this node: its wiring, as a value.
//!
//! Publishing is quick and never waits; whoever waits for a pod is woken when its value changes. There are no rules here:
//! what a pod is connected with is `causeway_plan::wiring`'s to say.

use causeway_plan::wiring::Wiring;
use causeway_record::ObjectKey;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// The pods of this node, as they were published. A handle: clones are the same.
#[derive(Clone, Default)]
pub struct Pods {
    state: Arc<Mutex<State>>,
    listed: watch::Sender<bool>,
    connected: Arc<Notify>,
}

#[derive(Default)]
struct State {
    pods: FxHashMap<ObjectKey, Arc<Wiring>>,
    waiting: FxHashMap<ObjectKey, watch::Sender<()>>,
    /// Pods that were connected since somebody asked.
    connected: BTreeSet<ObjectKey>,
    /// Who would not do its part of wiring a pod.
    silent: Option<String>,
}

impl Pods {
    /// What can be said of a pod now; nothing if it is gone.
    pub fn publish(&self, key: &ObjectKey, wiring: Option<Wiring>) {
        let mut state = self.state();
        if state.pods.get(key).map(AsRef::as_ref) == wiring.as_ref() {
            return;
        }
        match wiring {
            Some(wiring) => drop(state.pods.insert(key.clone(), Arc::new(wiring))),
            None => drop(state.pods.remove(key)),
        }
        if let Some(sender) = state.waiting.get(key) {
            sender.send_replace(());
        }
    }

    /// All pods of the node were published once. Until then nothing that looks left over is removed.
    pub fn set_listed(&self) {
        self.listed.send_replace(true);
    }

    /// Who does not do its part, so that no pod could be wired; nothing if all do.
    pub fn set_silent(&self, who: Option<&str>) {
        self.state().silent = who.map(str::to_owned);
    }

    pub(super) fn silent(&self) -> Option<String> {
        self.state().silent.clone()
    }

    pub(super) fn is_listed(&self) -> bool {
        *self.listed.borrow()
    }

    pub(super) async fn listed(&self) {
        // Fails when all senders are gone, and this handle is one.
        let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// The pods that were published, by UID.
    pub(super) fn by_uid(&self) -> FxHashMap<String, ObjectKey> {
        let state = self.state();
        state.pods.iter().map(|(key, wiring)| (wiring.pod.uid.clone(), key.clone())).collect()
    }

    /// These pods have their interfaces.
    pub(super) fn set_connected(&self, pods: impl IntoIterator<Item = ObjectKey>) {
        self.state().connected.extend(pods);
        self.connected.notify_one();
    }

    /// Waits until further pods have their interfaces.
    pub async fn connected(&self) {
        self.connected.notified().await;
    }

    /// The pods that got their interfaces since this was asked last, as they were published; after a start also those that a
    /// former process has connected.
    pub fn take_connected(&self) -> Vec<(ObjectKey, Arc<Wiring>)> {
        let mut state = self.state();
        let pods = std::mem::take(&mut state.connected);
        pods.into_iter().filter_map(|key| state.pods.get(&key).cloned().map(|wiring| (key, wiring))).collect()
    }

    /// Follows one pod: wakes when something about it changed.
    pub(super) fn follow(&self, key: &ObjectKey) -> watch::Receiver<()> {
        let mut state = self.state();
        // Whoever came before may have left.
        state.waiting.retain(|_, sender| !sender.is_closed());
        state.waiting.entry(key.clone()).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// The value that was published last.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Wiring>> {
        self.state().pods.get(key).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
