//! Pods: who has which addresses, who waits, and what is written.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_alloc::AddressOwner;
use causeway_api::annotations::{Annotation, Attachment, PodNetwork, PodNetworks, PodRole};
use causeway_record::Regarding;
use causeway_record::{Action, Kind, Part, Priority, Request, Target};
use causeway_record::{ObjectKey, Pod};
use causeway_types::{Mac, NetworkId, NetworkName, NodeId, NodeName, ObjectName};
use ipnet::IpNet;
use serde_json::json;

use crate::Manager;
use crate::attach::{Refusal, Wanted, object_key};
use crate::keys::{PoolKey, Wait};
use crate::nads::Verdict;
use crate::nodes::{host_ranges, node_of_address};
use crate::pools::{Pool, Pools};
use crate::routes::{default_entry, network_entry};
use crate::trouble::{ERROR_ALLOCATING_POD, Trouble};

/// All pods.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    pub(crate) all: BTreeMap<ObjectKey, PodState>,
    pub(crate) pools: Pools,
    /// Pods by the attachments that they use; pods that have finished use none.
    pub(crate) users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Pods by what they wait for, the oldest first.
    pub(crate) waiting: BTreeMap<Wait, BTreeSet<(i64, ObjectKey)>>,
}

/// A pod, and what it has.
#[derive(Debug)]
pub(crate) struct PodState {
    pub(crate) record: Pod,
    name: ObjectName,
    holds: BTreeMap<Attachment, PoolKey>,
    uses: BTreeSet<ObjectKey>,
    waits: Option<Wait>,
    told: Option<String>,
    pub(crate) primary: Option<Primary>,
}

/// What a pod has on its primary network, by its annotation alone.
#[derive(Debug)]
pub(crate) struct Primary {
    pub(crate) nad: ObjectKey,
    pub(crate) addresses: Vec<IpAddr>,
}

impl Primary {
    fn of(record: &Pod) -> Option<Self> {
        let networks = record.networks.as_ref().ok()?.as_ref()?;
        let (attachment, entry) =
            networks.0.iter().find(|(_, entry)| entry.role == Some(PodRole::Primary))?;
        let addresses = entry.ip_addresses.iter().map(IpNet::addr).collect();
        Some(Self { nad: nad_of(attachment)?, addresses })
    }
}

impl Manager {
    pub(crate) fn pod_applied(&mut self, mut record: Pod) {
        // Policies are the zones'.
        record.labels.clear();
        let key = record.key.clone();
        let Ok(name) = ObjectName::new(key.name.clone()) else { return };
        // Most events of a pod are about what nobody here reads.
        if self.pods.all.get(&key).is_some_and(|state| state.record == record) {
            return;
        }
        self.written_back(&pod_target(&key));
        let primary = Primary::of(&record);
        match self.pods.all.get_mut(&key) {
            Some(state) if state.record.uid == record.uid => {
                (state.record, state.primary) = (record, primary)
            }
            other => {
                if other.is_some() {
                    self.pod_deleted(&key);
                }
                let state = PodState {
                    record,
                    name,
                    holds: BTreeMap::new(),
                    uses: BTreeSet::new(),
                    waits: None,
                    told: None,
                    primary,
                };
                self.pods.all.insert(key.clone(), state);
            }
        }
        self.note_uses(&key);
        self.look_at_slices_of(&key);
        self.dirty.pods.insert(key);
    }

    pub(crate) fn pod_deleted(&mut self, key: &ObjectKey) {
        self.written_back(&pod_target(key));
        self.give_back(key);
        self.stop_waiting(key);
        self.pods.all.remove(key);
        self.look_at_slices_of(key);
    }

    /// The pod's addresses are free, and it uses no attachment any more.
    fn give_back(&mut self, key: &ObjectKey) {
        let Some(state) = self.pods.all.get_mut(key) else { return };
        let holds = std::mem::take(&mut state.holds);
        for (attachment, pool) in holds {
            self.release(key, &attachment, pool);
            self.wake_some(pool);
        }
        self.set_uses(key, BTreeSet::new());
    }

    /// Counts the attachments that the pod's annotation names.
    fn note_uses(&mut self, key: &ObjectKey) {
        let Some(state) = self.pods.all.get(key) else { return };
        let networks = state.record.networks.iter().flatten();
        let attachments = networks.flat_map(|networks| networks.0.keys()).chain(state.holds.keys());
        let uses =
            if state.record.finished { BTreeSet::new() } else { attachments.filter_map(nad_of).collect() };
        self.set_uses(key, uses);
    }

    fn set_uses(&mut self, key: &ObjectKey, uses: BTreeSet<ObjectKey>) {
        let Some(state) = self.pods.all.get_mut(key) else { return };
        let before = std::mem::replace(&mut state.uses, uses.clone());
        for nad in uses.difference(&before) {
            self.pods.users.entry(nad.clone()).or_default().insert(key.clone());
        }
        for nad in before.difference(&uses) {
            let Some(users) = self.pods.users.get_mut(nad) else { continue };
            users.remove(key);
            if users.is_empty() {
                self.pods.users.remove(nad);
            }
            self.unused(nad);
        }
    }

    /// One user fewer matters only where somebody waits for the last one to go.
    fn unused(&mut self, nad: &ObjectKey) {
        let Some(state) = self.nads.all.get(nad) else { return };
        let Some(owner_key) = self.owner_of_nad(nad).cloned() else {
            self.dirty.nads.insert(nad.clone());
            return;
        };
        let Some(owner) = self.owners.all.get(&owner_key) else { return };
        if owner.object.deleting || state.record.deleting || !owner.wanted.contains(&nad.namespace) {
            self.dirty.nads.insert(nad.clone());
            self.dirty.owners_in([owner_key], &nad.namespace);
        }
    }

    /// Pods that use an attachment which has become a network take up what they have there, the oldest first, and
    /// before anybody gets something new.
    pub(crate) fn adopt_users(&mut self, nad: &ObjectKey) {
        let users = self.pods.users.get(nad).into_iter().flatten();
        let mut by_age: Vec<(i64, ObjectKey)> =
            users.filter_map(|pod| Some((self.pods.all.get(pod)?.record.created, pod.clone()))).collect();
        by_age.sort();
        for (_, pod) in by_age {
            // Whoever cannot keep an address is told when it is settled.
            let _told_later = self.adopt(&pod);
            self.dirty.pods.insert(pod);
        }
    }

    /// What pods have on an attachment is in no pool any more: its network is gone. Should it come back, they take it up anew.
    pub(crate) fn forget_holds(&mut self, nad: &ObjectKey) {
        for pod in self.pods.users.get(nad).into_iter().flatten() {
            if let Some(state) = self.pods.all.get_mut(pod) {
                state.holds.retain(|attachment, _| nad_of(attachment).as_ref() != Some(nad));
            }
        }
    }

    /// Takes up what the pod's annotation says, and gives nothing new.
    pub(crate) fn adopt(&mut self, key: &ObjectKey) -> Result<PodNetworks, Refusal> {
        let Some(state) = self.pods.all.get(key) else { return Ok(PodNetworks::default()) };
        let current = state.record.networks.clone();
        let current = current
            .map_err(|error| Refusal::told(Trouble::new("InvalidAnnotation", error), None))?
            .unwrap_or_default();
        for (attachment, entry) in &current.0 {
            if self.pods.all.get(key).is_some_and(|state| state.holds.contains_key(attachment)) {
                continue;
            }
            let network = match nad_of(attachment) {
                None => None,
                Some(nad) => match self.network_of(&nad) {
                    Some(network) => Some(network),
                    None => continue,
                },
            };
            // By the address, not by the node: a node that is gone, or came back with another id, changes nothing.
            let Some(id) = self.place_of(network.as_ref(), entry) else { continue };
            let Ok(pool_key) = self.pool_at(network.as_ref(), id) else { continue };
            self.adopt_entry(key, attachment, entry, pool_key)?;
        }
        Ok(current)
    }

    fn adopt_entry(
        &mut self,
        key: &ObjectKey,
        attachment: &Attachment,
        entry: &PodNetwork,
        pool_key: PoolKey,
    ) -> Result<(), Refusal> {
        let Some(owner) = self.address_owner(key, attachment) else { return Ok(()) };
        let Some(pool) = self.pods.pools.get_mut(pool_key) else { return Ok(()) };
        if let Err(error) = pool.adopt(&owner, entry) {
            let network = self.network_text(pool_key.network);
            let message = format!("pod {key} cannot keep its address on {network}: {error}; delete the pod");
            return Err(Refusal::told(Trouble::new("AddressConflict", message), None));
        }
        if let Some(state) = self.pods.all.get_mut(key) {
            state.holds.insert(attachment.clone(), pool_key);
        }
        Ok(())
    }

    /// The network that an attachment has been accepted as.
    pub(crate) fn network_of(&self, nad: &ObjectKey) -> Option<NetworkName> {
        match &self.nads.all.get(nad)?.verdict {
            Verdict::Accepted(network) => Some(network.clone()),
            _ => None,
        }
    }

    /// The number of the node's part that an entry's addresses are in; any will do for a network without parts.
    fn place_of(&self, network: Option<&NetworkName>, entry: &PodNetwork) -> Option<NodeId> {
        let subnets = match network.and_then(|network| self.networks.all.get(network)) {
            None => &self.config.default_subnets,
            Some(state) if state.host_subnets.is_some() => &state.intent.subnets,
            Some(_) => return Some(NodeId::FIRST),
        };
        node_of_address(&host_ranges(subnets), entry.ip_addresses.first()?.addr())
    }

    /// The pool that a pod on the node draws from, made if it is not there.
    fn pool(&mut self, network: Option<&NetworkName>, node: &NodeName) -> Result<PoolKey, Refusal> {
        let wait = || Refusal::silent(Wait::Node(node.clone()));
        let id = self.nodes.id_of(node).ok_or_else(wait)?;
        self.pool_at(network, id).map_err(|(key, error)| {
            let message = format!("{}: {error}", self.network_text(key.network));
            // Of the default network, another id of the node is the way out; of others, another subnet is too.
            let wait = if network.is_some() { Wait::Pool(key) } else { Wait::Node(node.clone()) };
            Refusal::told(Trouble::new("NoSubnet", message), Some(wait))
        })
    }

    fn pool_at(
        &mut self,
        network: Option<&NetworkName>,
        node: NodeId,
    ) -> Result<PoolKey, (PoolKey, causeway_alloc::Error)> {
        let state = network.and_then(|network| self.networks.all.get(network));
        let id = state.map_or(NetworkId::DEFAULT, |state| state.id);
        let parts = match state {
            None => Some(&self.nodes.default_subnets),
            Some(state) => state.host_subnets.as_ref(),
        };
        let key = PoolKey { network: id, node: parts.map(|_| node) };
        let make = || match (parts, state) {
            (None, Some(state)) => Pool::of_network(&state.intent),
            (parts, _) => Pool::of_node(&parts.map(|parts| parts.of(node)).transpose()?.unwrap_or_default()),
        };
        match self.pods.pools.entry(key, make) {
            Ok(_) => Ok(key),
            Err(error) => Err((key, error)),
        }
    }

    /// Gives the pod what it lacks and writes it, or says why not.
    pub(crate) fn settle_pod(&mut self, key: &ObjectKey) {
        let Some(state) = self.pods.all.get(key) else { return };
        self.dirty.pods.remove(key);
        if state.record.finished {
            self.give_back(key);
            return self.stop_waiting(key);
        }
        if state.record.host_network || state.record.node.is_none() {
            return;
        }
        let settled = self.adopt(key).and_then(|current| self.complete(key, current));
        self.stop_waiting(key);
        match settled {
            Ok(networks) => self.write_networks(key, &networks),
            Err(refusal) => self.refuse(key, refusal),
        }
    }

    /// All attachments that the pod is to have, those that it has as they are.
    fn complete(&mut self, key: &ObjectKey, mut current: PodNetworks) -> Result<PodNetworks, Refusal> {
        let Some(PodState { record, .. }) = self.pods.all.get(key) else { return Ok(current) };
        if record.deleting {
            return Ok(current);
        }
        let Some(node) = record.node.clone() else { return Ok(current) };
        let wanted = self.attachments(record, &current)?;
        let mut fresh = Vec::new();
        for wanted in wanted {
            if current.0.contains_key(&wanted.attachment) {
                continue;
            }
            match self.give(key, &wanted, &node) {
                Ok(entry) => {
                    fresh.push(wanted.attachment.clone());
                    current.0.insert(wanted.attachment, entry);
                }
                Err(refusal) => {
                    self.undo(key, &fresh);
                    return Err(refusal);
                }
            }
        }
        Ok(current)
    }

    fn give(&mut self, key: &ObjectKey, wanted: &Wanted, node: &NodeName) -> Result<PodNetwork, Refusal> {
        let pool_key = self.pool(wanted.network.as_ref(), node)?;
        let uid = self.pods.all.get(key).map(|state| state.record.uid.clone()).unwrap_or_default();
        let identity = Mac::from_identity(&uid, &wanted.attachment.to_string());
        let text = self.network_text(pool_key.network);
        let owner = self.address_owner(key, &wanted.attachment);
        let (Some(owner), Some(pool)) = (owner, self.pods.pools.get_mut(pool_key)) else {
            return Err(Refusal::silent(Wait::Node(node.clone())));
        };
        let given = pool.give(&owner, &wanted.asked, identity).map_err(|error| {
            let trouble = Trouble::new("NoAddress", format!("{text}: {error}"));
            Refusal::told(trouble, Some(Wait::Pool(pool_key)))
        })?;
        if let Some(state) = self.pods.all.get_mut(key) {
            state.holds.insert(wanted.attachment.clone(), pool_key);
        }
        self.note_uses(key);
        let cluster = &self.config.cluster;
        let network = wanted.network.as_ref().and_then(|network| self.networks.all.get(network));
        Ok(match network {
            None => default_entry(cluster, given, wanted.role),
            Some(network) => network_entry(cluster, &network.intent, given),
        })
    }

    fn undo(&mut self, key: &ObjectKey, fresh: &[Attachment]) {
        for attachment in fresh {
            let held = self.pods.all.get_mut(key).and_then(|state| state.holds.remove(attachment));
            if let Some(pool) = held {
                self.release(key, attachment, pool);
            }
        }
        self.note_uses(key);
    }

    /// One patch for all networks of the pod, and only for this very pod.
    fn write_networks(&mut self, key: &ObjectKey, networks: &PodNetworks) {
        let Some(state) = self.pods.all.get_mut(key) else { return };
        state.told = None;
        // An annotation that says the same in other words is left alone.
        let there = state.record.networks.as_ref().is_ok_and(|there| there.as_ref() == Some(networks));
        if networks.0.is_empty() || there || state.record.deleting {
            return;
        }
        let annotations = json!({PodNetworks::KEY: networks.text()});
        let body = json!({"metadata": {"uid": state.record.uid, "annotations": annotations}});
        self.write(Request {
            target: pod_target(key),
            part: Part::Networks,
            priority: Priority::Pod,
            action: Action::Merge { subresource: Some("status"), body },
            token: 0,
        });
    }

    fn refuse(&mut self, key: &ObjectKey, refusal: Refusal) {
        let Some(state) = self.pods.all.get_mut(key) else { return };
        state.waits.clone_from(&refusal.wait);
        if let Some(wait) = refusal.wait {
            let place = (state.record.created, key.clone());
            self.pods.waiting.entry(wait.clone()).or_default().insert(place);
            self.pool_waits(&wait);
        }
        let Some(trouble) = refusal.trouble else { return };
        let Some(state) = self.pods.all.get_mut(key) else { return };
        if state.told.as_ref() == Some(&trouble.message) {
            return;
        }
        state.told = Some(trouble.message.clone());
        let regarding = Regarding {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some(key.namespace.to_string()),
            name: key.name.clone(),
            uid: state.record.uid.clone(),
        };
        self.say(regarding, ERROR_ALLOCATING_POD, trouble.message);
    }

    fn stop_waiting(&mut self, key: &ObjectKey) {
        let Some(state) = self.pods.all.get_mut(key) else { return };
        let Some(wait) = state.waits.take() else { return };
        let place = (state.record.created, key.clone());
        if let Some(pods) = self.pods.waiting.get_mut(&wait) {
            pods.remove(&place);
            if pods.is_empty() {
                self.pods.waiting.remove(&wait);
            }
        }
        self.pool_waits(&wait);
    }

    /// Who waits for an address shows in the network's status.
    fn pool_waits(&mut self, wait: &Wait) {
        let Wait::Pool(key) = wait else { return };
        let network = self.networks.by_id.get(&key.network).and_then(|name| self.networks.all.get(name));
        self.dirty.statuses.extend(network.and_then(|network| network.owner.clone()));
    }

    /// Everybody who waits for this is tried again.
    pub(crate) fn wake(&mut self, wait: &Wait) {
        let pods = self.pods.waiting.get(wait).into_iter().flatten();
        self.dirty.pods.extend(pods.map(|(_, pod)| pod.clone()).collect::<Vec<_>>());
    }

    /// Pods of the node that wait for anything are tried again.
    pub(crate) fn wake_pods_of(&mut self, node: &NodeName) {
        let waiting = self.pods.waiting.values().flatten().map(|(_, pod)| pod);
        let here = |pod: &&ObjectKey| {
            self.pods.all.get(*pod).is_some_and(|state| state.record.node.as_ref() == Some(node))
        };
        self.dirty.pods.extend(waiting.filter(here).cloned().collect::<Vec<_>>());
    }

    /// As many are tried again as there are places: many may wait.
    fn wake_some(&mut self, key: PoolKey) {
        let free = self.pods.pools.get_mut(key).map_or(0, |pool| pool.free());
        let pods = self.pods.waiting.get(&Wait::Pool(key)).into_iter().flatten().take(free);
        self.dirty.pods.extend(pods.map(|(_, pod)| pod.clone()).collect::<Vec<_>>());
    }

    /// Who holds what a pod has on one of its attachments.
    fn address_owner(&self, key: &ObjectKey, attachment: &Attachment) -> Option<AddressOwner> {
        let name = self.pods.all.get(key)?.name.clone();
        Some(match attachment {
            Attachment::Default => AddressOwner::DefaultPod(key.namespace.clone(), name),
            Attachment::Nad(nad) => AddressOwner::Pod(key.namespace.clone(), name, nad.clone()),
        })
    }

    fn release(&mut self, key: &ObjectKey, attachment: &Attachment, pool: PoolKey) {
        let owner = self.address_owner(key, attachment);
        if let (Some(owner), Some(pool)) = (owner, self.pods.pools.get_mut(pool)) {
            pool.release(&owner);
        }
    }

    fn network_text(&self, id: NetworkId) -> String {
        match self.networks.by_id.get(&id) {
            Some(name) => format!("network {name}"),
            None => "the default network".to_owned(),
        }
    }
}

fn nad_of(attachment: &Attachment) -> Option<ObjectKey> {
    match attachment {
        Attachment::Default => None,
        Attachment::Nad(key) => object_key(key),
    }
}

pub(crate) fn pod_target(key: &ObjectKey) -> Target {
    Target { kind: Kind::Pod, namespace: Some(key.namespace.to_string()), name: key.name.clone() }
}
