//! What must be looked at again.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::policy::PolicyId;
use causeway_record::ObjectKey;
use causeway_types::{ConnectName, NamespaceName, NetworkName, NodeName, ObjectName};

use crate::OwnerKey;

/// What became dirty; everything is taken out before `step` returns.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    nodes: BTreeSet<NodeName>,
    clashes: BTreeSet<NetworkName>,
    all_clashes: bool,
    nads: BTreeSet<ObjectKey>,
    owners: BTreeMap<OwnerKey, Scope>,
    /// Owners that are not looked at for the time being.
    held: BTreeSet<OwnerKey>,
    pods: BTreeSet<ObjectKey>,
    endpoint_slices: BTreeSet<ObjectKey>,
    statuses: BTreeSet<OwnerKey>,
    /// Those whose status waits for its second to pass.
    late_statuses: BTreeSet<OwnerKey>,
    reach: Reach,
    connects: BTreeSet<ConnectName>,
    connect_statuses: BTreeSet<ConnectName>,
    policies: BTreeSet<PolicyId>,
    vteps: BTreeSet<ObjectName>,
}

/// How much of an owner must be looked at: a network may have thousands of namespaces.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Scope {
    All,
    /// What is in these namespaces.
    Namespaces(BTreeSet<NamespaceName>),
}

impl Scope {
    pub(crate) fn has(&self, namespace: &NamespaceName) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(namespaces) => namespaces.contains(namespace),
        }
    }
}

/// What connections must be told again.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    pub(crate) networks: BTreeSet<NetworkName>,
    pub(crate) namespaces: BTreeSet<NamespaceName>,
    pub(crate) nodes: BTreeSet<NodeName>,
}

/// What is to be done before anything else, in this order: nodes and networks come before the pods that need them.
#[derive(Debug)]
pub(crate) enum NetworkWork {
    /// A node's id.
    Node(NodeName),
    /// Whether networks can live side by side: these, and perhaps all because of nodes.
    Clashes(BTreeSet<NetworkName>, bool),
    /// What an attachment is.
    Nad(ObjectKey),
    /// What an owner needs.
    Owner(OwnerKey, Scope),
}

impl Dirty {
    pub(crate) fn nodes(&mut self, names: impl IntoIterator<Item = NodeName>) {
        self.nodes.extend(names);
    }

    /// These networks may clash with others now, or clash no longer.
    pub(crate) fn clashes(&mut self, networks: impl IntoIterator<Item = NetworkName>) {
        self.clashes.extend(networks);
    }

    /// Nodes have come or gone, and their names are part of what may clash.
    pub(crate) fn clashes_with_nodes(&mut self) {
        self.all_clashes = true;
    }

    pub(crate) fn nads(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.nads.extend(keys);
    }

    /// All of these owners must be looked at.
    pub(crate) fn owners(&mut self, keys: impl IntoIterator<Item = OwnerKey>) {
        for key in keys {
            self.owners.insert(key, Scope::All);
        }
    }

    /// What these owners have in a namespace must be looked at.
    pub(crate) fn owners_in(&mut self, keys: impl IntoIterator<Item = OwnerKey>, namespace: &NamespaceName) {
        for key in keys {
            let scope = self.owners.entry(key).or_insert_with(|| Scope::Namespaces(BTreeSet::new()));
            if let Scope::Namespaces(namespaces) = scope {
                namespaces.insert(namespace.clone());
            }
        }
    }

    /// These owners are not looked at until they are let go.
    pub(crate) fn hold_owners(&mut self, keys: impl IntoIterator<Item = OwnerKey>) {
        self.held.extend(keys);
    }

    /// All owners that were held must be looked at.
    pub(crate) fn let_go_of_owners(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.owners(held);
    }

    pub(crate) fn pods(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.pods.extend(keys);
    }

    /// The pod has been looked at.
    pub(crate) fn pod_done(&mut self, key: &ObjectKey) {
        self.pods.remove(key);
    }

    /// EndpointSlices whose mirror may have to change; it does not matter whether they are there.
    pub(crate) fn endpoint_slices(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.endpoint_slices.extend(keys);
    }

    pub(crate) fn statuses(&mut self, keys: impl IntoIterator<Item = OwnerKey>) {
        self.statuses.extend(keys);
    }

    /// What a status counts has changed: that is told with the clock, however many pods come and go.
    pub(crate) fn status_later(&mut self, key: &OwnerKey) {
        if !self.late_statuses.contains(key) {
            self.late_statuses.insert(key.clone());
        }
    }

    /// Time passes: statuses that could wait are looked at.
    pub(crate) fn late_statuses_are_due(&mut self) {
        self.statuses.append(&mut self.late_statuses);
    }

    /// Connections see the network differently.
    pub(crate) fn reach_network(&mut self, name: &NetworkName) {
        self.reach.networks.insert(name.clone());
    }

    /// Connections see the namespace differently.
    pub(crate) fn reach_namespace(&mut self, name: &NamespaceName) {
        self.reach.namespaces.insert(name.clone());
    }

    /// Connections see the node differently.
    pub(crate) fn reach_node(&mut self, name: &NodeName) {
        self.reach.nodes.insert(name.clone());
    }

    pub(crate) fn connects(&mut self, names: impl IntoIterator<Item = ConnectName>) {
        self.connects.extend(names);
    }

    pub(crate) fn connect_statuses(&mut self, names: impl IntoIterator<Item = ConnectName>) {
        self.connect_statuses.extend(names);
    }

    /// Policies of which something else may have to be said; it does not matter whether they are there.
    pub(crate) fn policies(&mut self, ids: impl IntoIterator<Item = PolicyId>) {
        self.policies.extend(ids);
    }

    pub(crate) fn next_policy(&mut self) -> Option<PolicyId> {
        self.policies.pop_first()
    }

    /// VTEPs whose status may be another one; it does not matter whether they are there.
    pub(crate) fn vteps(&mut self, names: impl IntoIterator<Item = ObjectName>) {
        self.vteps.extend(names);
    }

    pub(crate) fn next_vtep(&mut self) -> Option<ObjectName> {
        self.vteps.pop_first()
    }

    /// Nothing is to be done for a connection that is gone.
    pub(crate) fn forget_connect(&mut self, name: &ConnectName) {
        self.connects.remove(name);
        self.connect_statuses.remove(name);
    }

    pub(crate) fn next_network_work(&mut self) -> Option<NetworkWork> {
        if let Some(node) = self.nodes.pop_first() {
            return Some(NetworkWork::Node(node));
        }
        let clashes = (std::mem::take(&mut self.clashes), std::mem::take(&mut self.all_clashes));
        if !clashes.0.is_empty() || clashes.1 {
            return Some(NetworkWork::Clashes(clashes.0, clashes.1));
        }
        if let Some(nad) = self.nads.pop_first() {
            return Some(NetworkWork::Nad(nad));
        }
        let next = self.owners.keys().find(|owner| !self.held.contains(*owner)).cloned()?;
        self.owners.remove_entry(&next).map(|(owner, scope)| NetworkWork::Owner(owner, scope))
    }

    pub(crate) fn next_pod(&mut self) -> Option<ObjectKey> {
        self.pods.pop_first()
    }

    pub(crate) fn next_endpoint_slice(&mut self) -> Option<ObjectKey> {
        self.endpoint_slices.pop_first()
    }

    pub(crate) fn next_status(&mut self) -> Option<OwnerKey> {
        self.statuses.pop_first()
    }

    pub(crate) fn take_reach(&mut self) -> Reach {
        std::mem::take(&mut self.reach)
    }

    /// All connections at once: they are decided together.
    pub(crate) fn take_connects(&mut self) -> Option<BTreeSet<ConnectName>> {
        let connects = std::mem::take(&mut self.connects);
        (!connects.is_empty()).then_some(connects)
    }

    pub(crate) fn next_connect_status(&mut self) -> Option<ConnectName> {
        self.connect_statuses.pop_first()
    }
}
