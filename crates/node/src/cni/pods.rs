//! What the zone's task tells the server: pods of this node, networks, and which namespaces need a primary network.
//!
//! Telling is quick and never waits; whoever waits for a pod is woken by events about that pod, and by changes of
//! networks, which are few.

use causeway_api::annotations::{Attachment, PodNetworks};
use causeway_api::crd::{Role, Topology};
use causeway_record::{ObjectKey, Pod};
use causeway_types::{Cidr, NadKey, NamespaceName, NetworkName, NodeName, ObjectName};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// What is known of a network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NetworkFacts {
    /// Its name.
    pub name: NetworkName,
    /// The MTU of its interfaces.
    pub mtu: u32,
    /// How it is laid out; the default network is a layer3 one.
    pub topology: Topology,
    /// What it is for pods.
    pub role: Role,
    /// Its subnets.
    pub subnets: Vec<Cidr>,
}

/// What is kept of a pod.
#[derive(Clone, Debug)]
pub(super) struct PodFacts {
    /// Its UID in the API.
    pub(super) uid: String,
    /// Its UID for the kubelet, where that is another: static pods.
    pub(super) static_uid: Option<String>,
    /// Its networks; an error says what is wrong with the annotation.
    pub(super) networks: Result<Option<PodNetworks>, String>,
}

impl PodFacts {
    fn of(pod: &Pod) -> PodFacts {
        PodFacts { uid: pod.uid.clone(), static_uid: pod.static_pod.clone(), networks: pod.networks.clone() }
    }

    /// Whether the kubelet means this pod. One that tells no UID means whichever is there.
    pub(super) fn is(&self, uid: &str) -> bool {
        uid.is_empty() || self.uid == uid || self.static_uid.as_deref() == Some(uid)
    }
}

/// The view of the cluster that the server has. A handle: clones are the same view.
#[derive(Clone)]
pub struct Pods {
    node: NodeName,
    state: Arc<Mutex<State>>,
    listed: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    pods: FxHashMap<ObjectKey, Arc<PodFacts>>,
    networks: BTreeMap<Attachment, Arc<NetworkFacts>>,
    /// Namespaces whose pods must have a primary network of their own.
    needing: BTreeSet<NamespaceName>,
    waiting: FxHashMap<ObjectKey, watch::Sender<()>>,
}

/// One moment of everything that concerns a pod.
pub(super) struct Glimpse {
    pub(super) pod: Option<Arc<PodFacts>>,
    /// The networks of the pod's attachments, as far as they are known.
    pub(super) networks: BTreeMap<Attachment, Arc<NetworkFacts>>,
    /// Whether the pod must have a primary network other than the default one.
    pub(super) needs_primary: bool,
    /// Whether its namespace has such a network.
    pub(super) has_primary: bool,
}

impl Pods {
    /// An empty view of this node.
    pub fn new(node: NodeName) -> Pods {
        Pods { node, state: Arc::default(), listed: watch::Sender::new(false) }
    }

    /// A pod is there, or changed. Pods of other nodes are not kept.
    pub fn apply_pod(&self, pod: &Pod) {
        if pod.host_network || pod.node.as_ref() != Some(&self.node) {
            return self.delete_pod(&pod.key);
        }
        let facts = Arc::new(PodFacts::of(pod));
        let mut state = self.state();
        state.pods.insert(pod.key.clone(), facts);
        state.wake(&pod.key);
    }

    /// A pod is gone.
    pub fn delete_pod(&self, key: &ObjectKey) {
        let mut state = self.state();
        if state.pods.remove(key).is_some() {
            state.wake(key);
        }
    }

    /// A network is there, or changed: the default one, or that of a NAD.
    pub fn apply_network(&self, attachment: &Attachment, facts: NetworkFacts) {
        let mut state = self.state();
        let known = state.networks.insert(nad_of(attachment), Arc::new(facts.clone()));
        if known.is_none_or(|known| *known != facts) {
            state.wake_all();
        }
    }

    /// The network of a NAD is gone.
    pub fn delete_network(&self, attachment: &Attachment) {
        let mut state = self.state();
        if state.networks.remove(&nad_of(attachment)).is_some() {
            state.wake_all();
        }
    }

    /// A namespace is there; whether its pods must have a primary network of their own.
    pub fn apply_namespace(&self, name: &NamespaceName, needs_primary: bool) {
        let mut state = self.state();
        let changed =
            if needs_primary { state.needing.insert(name.clone()) } else { state.needing.remove(name) };
        if changed {
            state.wake_all();
        }
    }

    /// A namespace is gone.
    pub fn delete_namespace(&self, name: &NamespaceName) {
        self.apply_namespace(name, false);
    }

    /// All pods of the node were told once. Until then nothing that looks left over is removed.
    pub fn set_listed(&self) {
        self.listed.send_replace(true);
    }

    pub(super) fn is_listed(&self) -> bool {
        *self.listed.borrow()
    }

    pub(super) async fn listed(&self) {
        // Fails when all senders are gone, and this view is one.
        let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
    }

    pub(super) fn has_uid(&self, uid: &str) -> bool {
        self.state().pods.values().any(|pod| pod.uid == uid)
    }

    /// Follows one pod: wakes when something about it changed.
    pub(super) fn follow(&self, key: &ObjectKey) -> watch::Receiver<()> {
        let mut state = self.state();
        // Whoever came before may have left.
        state.waiting.retain(|_, sender| !sender.is_closed());
        state.waiting.entry(key.clone()).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    pub(super) fn glimpse(&self, key: &ObjectKey) -> Glimpse {
        let state = self.state();
        let pod = state.pods.get(key).cloned();
        let annotated = pod.as_ref().and_then(|pod| pod.networks.as_ref().ok()?.as_ref());
        let attachments = annotated.into_iter().flat_map(|networks| networks.0.keys());
        let networks = attachments
            .filter_map(|attachment| {
                Some((attachment.clone(), state.networks.get(&nad_of(attachment))?.clone()))
            })
            .collect();
        let is_primary_here = |(attachment, facts): (&Attachment, &Arc<NetworkFacts>)| {
            let Attachment::Nad(nad) = attachment else { return false };
            facts.role == Role::Primary && nad.namespace() == key.namespace.as_str()
        };
        Glimpse {
            pod,
            networks,
            needs_primary: state.needing.contains(&key.namespace),
            has_primary: state.networks.iter().any(is_primary_here),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&self, key: &ObjectKey) {
        if let Some(sender) = self.waiting.get(key) {
            sender.send_replace(());
        }
    }

    fn wake_all(&self) {
        for sender in self.waiting.values() {
            sender.send_replace(());
        }
    }
}

/// A further attachment of a pod to the same NAD is one to the same network.
fn nad_of(attachment: &Attachment) -> Attachment {
    let Attachment::Nad(key) = attachment else { return Attachment::Default };
    match (NamespaceName::new(key.namespace()), ObjectName::new(key.nad())) {
        (Ok(namespace), Ok(nad)) => Attachment::Nad(NadKey::of(&namespace, &nad, 0)),
        _ => attachment.clone(),
    }
}
