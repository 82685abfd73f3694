//! Pods: who has which addresses, who waits, and what is written.

mod at;
mod choice;
mod entry;
mod pools;
mod state;
mod usage;
mod waiting;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::ANNOTATION_LIMIT;
use causeway_api::annotations::{Annotation, Attachment, PodNetwork, PodNetworks, PodRole};
use causeway_record::{Action, Kind, ObjectKey, Part, Pod, Priority, Regarding, Target};
use causeway_types::{Mac, NetworkId, NetworkName, NodeId, NodeName, ObjectName};
use serde_json::json;

use crate::Config;
use crate::attachments::Attachments;
use crate::desk::Desk;
use crate::dirty::Dirty;
use crate::keys::{PoolKey, Wait};
use crate::mirrors::Mirrors;
use crate::namespaces::Namespaces;
use crate::networks::{NetworkState, Networks};
use crate::nodes::{Nodes, host_ranges, node_of_address};
use crate::owners::Owners;
use crate::trouble::{
    ADDITIONAL_NETWORK_LEFT_OUT, ERROR_ALLOCATING_POD, ERROR_UPDATING_RESOURCE, SUBNET_EXHAUSTED, Trouble,
    listed,
};
use crate::writes::Writes;
use crate::zone_reports::ZoneReports;
use at::look_at_endpoints;
use entry::{default_entry, network_entry};
use pools::{Pool, Pools};
pub(crate) use state::PodAddresses;
use state::{PodState, Primary};
pub use usage::AddressUse;
pub(crate) use usage::Fullness;
use waiting::pool_waits;
use wanted::{Choice, Offer, Refusal, Wanted, nad_of};

#[derive(Debug, Default)]
pub(crate) struct Pods {
    all: BTreeMap<ObjectKey, PodState>,
    pools: Pools,
    /// Pods by the attachments that they use; pods that have finished use none.
    users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Pods by what they wait for, the oldest first.
    waiting: BTreeMap<Wait, BTreeSet<(i64, ObjectKey)>>,
    /// All of these.
    waiters: BTreeSet<ObjectKey>,
    /// How many nodes there were when addresses were counted last: each has a part.
    counted_nodes: usize,
    at: at::Addresses,
}

impl Pods {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The pods that use an attachment; nothing if none does.
    pub(crate) fn users(&self, nad: &ObjectKey) -> Option<&BTreeSet<ObjectKey>> {
        self.users.get(nad)
    }

    pub(crate) fn addresses(&self, key: &ObjectKey) -> Option<PodAddresses<'_>> {
        let PodState { record: pod, primary, .. } = self.all.get(key)?;
        let primary = primary.as_ref().map(|primary| (&primary.nad, &primary.addresses[..]));
        Some(PodAddresses { pod, primary })
    }

    /// A network is gone: there are no addresses of it any more.
    pub(crate) fn forget_network(&mut self, network: NetworkId, nads: &BTreeSet<ObjectKey>) {
        self.pools.drop_network(network);
        nads.iter().for_each(|nad| self.forget_holds(nad));
    }

    /// What pods have on an attachment is in no pool any more: its network is gone. Should it come back, they take it up anew.
    pub(crate) fn forget_holds(&mut self, nad: &ObjectKey) {
        for pod in self.users.get(nad).into_iter().flatten() {
            if let Some(state) = self.all.get_mut(pod) {
                state.holds.retain(|attachment, _| nad_of(attachment).as_ref() != Some(nad));
            }
        }
    }

    /// Counts the attachments that a pod uses. The answer is which it uses no longer.
    fn count_uses(&mut self, key: &ObjectKey) -> Vec<ObjectKey> {
        let Some(state) = self.all.get_mut(key) else { return Vec::new() };
        let uses = state.attachments();
        let before = std::mem::replace(&mut state.uses, uses.clone());
        for nad in uses.difference(&before) {
            self.users.entry(nad.clone()).or_default().insert(key.clone());
        }
        self.leave(key, before.difference(&uses).cloned().collect())
    }

    fn leave(&mut self, key: &ObjectKey, nads: Vec<ObjectKey>) -> Vec<ObjectKey> {
        for nad in &nads {
            let Some(users) = self.users.get_mut(nad) else { continue };
            users.remove(key);
            if users.is_empty() {
                self.users.remove(nad);
            }
        }
        nads
    }

    /// The pod's addresses are free, and it uses no attachment any more. The answer is the pools that have more room now, and
    /// the attachments.
    fn let_go_of_all(&mut self, key: &ObjectKey) -> (Vec<PoolKey>, Vec<ObjectKey>) {
        let Some(state) = self.all.get_mut(key) else { return (Vec::new(), Vec::new()) };
        let holds: Vec<(Attachment, PoolKey)> = std::mem::take(&mut state.holds).into_iter().collect();
        let uses = std::mem::take(&mut state.uses).into_iter().collect();
        for (attachment, pool) in &holds {
            self.release(key, attachment, *pool);
        }
        (holds.into_iter().map(|(_, pool)| pool).collect(), self.leave(key, uses))
    }

    fn release(&mut self, key: &ObjectKey, attachment: &Attachment, pool: PoolKey) {
        let owner = self.all.get(key).map(|state| state.address_owner(attachment));
        if let (Some(owner), Some(pool)) = (owner, self.pools.get_mut(pool)) {
            pool.release(&owner);
        }
    }

    /// Takes back what a pod has just been given.
    fn undo(&mut self, key: &ObjectKey, fresh: &[Attachment]) {
        for attachment in fresh {
            let held = self.all.get_mut(key).and_then(|state| state.holds.remove(attachment));
            if let Some(pool) = held {
                self.release(key, attachment, pool);
            }
        }
    }

    /// All pods, the oldest first.
    fn by_age(&self) -> Vec<ObjectKey> {
        let mut pods: Vec<(i64, &ObjectKey)> =
            self.all.iter().map(|(key, pod)| (pod.record.created, key)).collect();
        pods.sort();
        pods.into_iter().map(|(_, key)| key.clone()).collect()
    }

    /// Whether the pod's trouble is news; it counts as told then.
    fn tell(&mut self, key: &ObjectKey, trouble: &Trouble) -> Option<Regarding> {
        let state = self.all.get_mut(key).filter(|state| state.told.as_ref() != Some(&trouble.message))?;
        state.told = Some(trouble.message.clone());
        Some(state.regarding())
    }

    /// What is wrong with the ports that the pod opens, if that is news.
    fn tell_of_ports(&mut self, key: &ObjectKey) -> Option<(Regarding, String)> {
        let state = self.all.get_mut(key)?;
        let problem = state.record.open_ports.as_ref().err().cloned();
        let news = problem.as_ref().filter(|problem| state.told_of_ports.as_ref() != Some(*problem)).cloned();
        state.told_of_ports = problem;
        news.map(|problem| (state.regarding(), problem))
    }
}

/// What pods are given addresses from, and who must know of it.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) config: &'a Config,
    pub(crate) nodes: &'a Nodes,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) owners: &'a Owners,
    pub(crate) attachments: &'a Attachments,
    pub(crate) networks: &'a Networks,
    pub(crate) zone_reports: &'a ZoneReports,
    pub(crate) mirrors: &'a Mirrors,
}

impl Around<'_> {
    fn offer(&self) -> Offer<'_> {
        let Self { config, namespaces, attachments, networks, owners, zone_reports, .. } = *self;
        Offer { config, namespaces, attachments, networks, owners, zone_reports }
    }

    /// One user fewer matters only where somebody waits for the last one to go.
    fn unused(self, nad: &ObjectKey, dirty: &mut Dirty) {
        let Some(record) = self.attachments.get(nad) else { return };
        match self.attachments.owner(nad, self.owners) {
            None => dirty.nads([nad.clone()]),
            Some(owner) if record.deleting || self.owners.lets_go_of(owner, &nad.namespace) => {
                dirty.nads([nad.clone()]);
                dirty.owners_in([owner.clone()], &nad.namespace);
            }
            Some(_) => {}
        }
    }

    /// The number of the node's part that an entry's addresses are in; any will do for a network without parts.
    fn place_of(self, network: Option<&NetworkName>, entry: &PodNetwork) -> Option<NodeId> {
        let subnets = match network.and_then(|network| self.networks.get(network)) {
            None => &self.config.default_subnets,
            Some(state) if state.parts().is_some() => &state.intent().subnets,
            Some(_) => return Some(NodeId::FIRST),
        };
        node_of_address(&host_ranges(subnets), entry.ip_addresses.first()?.addr())
    }
}

impl Pods {
    pub(crate) fn applied(&mut self, mut record: Pod, around: Around<'_>, desk: &mut Desk) {
        // Policies are the zones'.
        record.labels.clear();
        let key = record.key.clone();
        let Ok(name) = ObjectName::new(key.name.clone()) else { return };
        // Most events of a pod are about what nobody here reads.
        if self.all.get(&key).is_some_and(|state| state.record == record) {
            return;
        }
        desk.writes.seen(&pod_target(&key));
        if self.all.get(&key).is_some_and(|state| state.record.uid != record.uid) {
            self.deleted(&key, around, desk);
        }
        let mut moved = self.count(&key, false);
        match self.all.get_mut(&key) {
            Some(state) => (state.primary, state.record) = (Primary::of(&record), record),
            None => drop(self.all.insert(key.clone(), PodState::new(record, name))),
        }
        self.note_uses(&key, around, &mut desk.dirty);
        moved.extend(self.count(&key, true));
        look_at_endpoints(&key, &moved, around.mirrors, &mut desk.dirty);
        if let Some((regarding, problem)) = self.tell_of_ports(&key) {
            desk.writes.warn(regarding, ERROR_UPDATING_RESOURCE, problem);
        }
        desk.dirty.pods([key]);
    }

    pub(crate) fn deleted(&mut self, key: &ObjectKey, around: Around<'_>, desk: &mut Desk) {
        desk.writes.seen(&pod_target(key));
        self.give_back(key, around, &mut desk.dirty);
        self.stop_waiting(key, around.networks, &mut desk.dirty);
        let addresses = self.count(key, false);
        self.all.remove(key);
        look_at_endpoints(key, &addresses, around.mirrors, &mut desk.dirty);
    }

    fn give_back(&mut self, key: &ObjectKey, around: Around<'_>, dirty: &mut Dirty) {
        let (pools, nads) = self.let_go_of_all(key);
        for pool in pools {
            self.place_moved(pool, around.networks, dirty);
            let next = self.next_for(pool);
            dirty.pods(next);
        }
        nads.iter().for_each(|nad| around.unused(nad, dirty));
    }

    fn note_uses(&mut self, key: &ObjectKey, around: Around<'_>, dirty: &mut Dirty) {
        let left = self.count_uses(key);
        left.iter().for_each(|nad| around.unused(nad, dirty));
    }

    /// All addresses in use are taken up before the first new one is given out, the oldest pods first.
    pub(crate) fn start(&mut self, around: Around<'_>, desk: &mut Desk) {
        let pods = self.by_age();
        for pod in &pods {
            if self.all.get(pod).is_some_and(|state| !state.record.finished) {
                // Whoever cannot keep an address is told when it is settled.
                let _told_later = self.adopt(pod, around);
            }
        }
        pods.iter().for_each(|pod| self.settle(pod, around, desk));
    }

    /// Pods that use an attachment which has become a network take up what they have there, the oldest first, and
    /// before anybody gets something new.
    pub(crate) fn adopt_users(&mut self, nad: &ObjectKey, around: Around<'_>, dirty: &mut Dirty) {
        let users = self.users.get(nad).into_iter().flatten();
        let mut by_age: Vec<(i64, ObjectKey)> =
            users.filter_map(|pod| Some((self.all.get(pod)?.record.created, pod.clone()))).collect();
        by_age.sort();
        for (_, pod) in by_age {
            // Whoever cannot keep an address is told when it is settled.
            let _told_later = self.adopt(&pod, around);
            dirty.pods([pod]);
        }
    }

    /// Takes up what the pod's annotation says, and gives nothing new.
    fn adopt(&mut self, key: &ObjectKey, around: Around<'_>) -> Result<PodNetworks, Refusal> {
        let Some(state) = self.all.get(key) else { return Ok(PodNetworks::default()) };
        let current = state.record.networks.clone();
        let current = current
            .map_err(|error| Refusal::told(Trouble::new("InvalidAnnotation", error), None))?
            .unwrap_or_default();
        let mut conflict = Ok(());
        for (attachment, entry) in &current.0 {
            if self.all.get(key).is_some_and(|state| state.holds.contains_key(attachment)) {
                continue;
            }
            let network = match nad_of(attachment) {
                None => None,
                Some(nad) => match around.attachments.network_of(&nad) {
                    Some(network) => Some(network.clone()),
                    None => continue,
                },
            };
            // By the address, not by the node: a node that is gone, or came back with another id, changes nothing.
            let Some(id) = around.place_of(network.as_ref(), entry) else { continue };
            let Ok(pool_key) = self.pool_at(network.as_ref(), id, around) else { continue };
            // One address that is somebody else's leaves the others the pod's own.
            conflict = conflict.and(self.adopt_entry(key, attachment, entry, pool_key, around.networks));
        }
        conflict.map(|()| current)
    }

    fn adopt_entry(
        &mut self,
        key: &ObjectKey,
        attachment: &Attachment,
        entry: &PodNetwork,
        pool_key: PoolKey,
        networks: &Networks,
    ) -> Result<(), Refusal> {
        let Some(state) = self.all.get(key) else { return Ok(()) };
        let owner = state.address_owner(attachment);
        let Some(pool) = self.pools.get_mut(pool_key) else { return Ok(()) };
        if let Err(error) = pool.adopt(&owner, entry) {
            let network = networks.text(pool_key.network);
            let message = format!("pod {key} cannot keep its address on {network}: {error}; delete the pod");
            return Err(Refusal::told(Trouble::new("AddressConflict", message), None));
        }
        if let Some(state) = self.all.get_mut(key) {
            state.holds.insert(attachment.clone(), pool_key);
        }
        Ok(())
    }

    /// The pool that a pod on the node draws from, made if it is not there.
    fn pool(
        &mut self,
        network: Option<&NetworkName>,
        node: &NodeName,
        around: Around<'_>,
    ) -> Result<PoolKey, Refusal> {
        let wait = || Refusal::silent(Wait::Node(node.clone()));
        let id = around.nodes.id_of(node).ok_or_else(wait)?;
        self.pool_at(network, id, around).map_err(|(key, error)| {
            let message = format!("{}: {error}", around.networks.text(key.network));
            // Of the default network, another id of the node is the way out; of others, another subnet is too.
            let wait = if network.is_some() { Wait::Pool(key) } else { Wait::Node(node.clone()) };
            Refusal::told(Trouble::new("NoSubnet", message), Some(wait))
        })
    }

    fn pool_at(
        &mut self,
        network: Option<&NetworkName>,
        node: NodeId,
        around: Around<'_>,
    ) -> Result<PoolKey, (PoolKey, causeway_alloc::Error)> {
        let state = network.and_then(|network| around.networks.get(network));
        let id = state.map_or(NetworkId::DEFAULT, NetworkState::id);
        let parts = match state {
            None => Some(around.nodes.parts()),
            Some(state) => state.parts(),
        };
        let key = PoolKey { network: id, node: parts.map(|_| node) };
        let make = || match (parts, state) {
            (None, Some(state)) => Pool::of_network(state.intent()),
            (parts, _) => Pool::of_node(&parts.map(|parts| parts.of(node)).transpose()?.unwrap_or_default()),
        };
        match self.pools.entry(key, make) {
            Ok(_) => Ok(key),
            Err(error) => Err((key, error)),
        }
    }

    /// Gives the pod what it lacks and writes it, or says why not.
    pub(crate) fn settle(&mut self, key: &ObjectKey, around: Around<'_>, desk: &mut Desk) {
        let Some(state) = self.all.get(key) else { return };
        desk.dirty.pod_done(key);
        if state.record.finished {
            self.give_back(key, around, &mut desk.dirty);
            return self.stop_waiting(key, around.networks, &mut desk.dirty);
        }
        if state.record.host_network || state.record.node.is_none() {
            return;
        }
        let settled = self.adopt(key, around);
        let settled = settled.and_then(|current| self.complete(key, current, around, &mut desk.dirty));
        self.stop_waiting(key, around.networks, &mut desk.dirty);
        match settled {
            Ok(networks) => self.write_networks(key, &networks, &mut desk.writes),
            Err(refusal) => self.refuse(key, refusal, around.networks, desk),
        }
    }

    /// All attachments that the pod is to have, those that it has as they are.
    fn complete(
        &mut self,
        key: &ObjectKey,
        mut current: PodNetworks,
        around: Around<'_>,
        dirty: &mut Dirty,
    ) -> Result<PodNetworks, Refusal> {
        let Some(PodState { record, .. }) = self.all.get(key) else { return Ok(current) };
        if record.deleting {
            return Ok(current);
        }
        let Some(node) = record.node.clone() else { return Ok(current) };
        let wanted = around.offer().wanted_of(record, &current)?;
        let mut fresh = Vec::new();
        let missing = wanted
            .into_iter()
            .filter(|choice| choice.iter().all(|one| !current.0.contains_key(&one.attachment)));
        let given = missing.collect::<Vec<_>>().into_iter().try_for_each(|choice| {
            let (attachment, entry) = self.give_any(key, choice, &node, around, dirty)?;
            fresh.push(attachment.clone());
            current.0.insert(attachment, entry);
            Ok(())
        });
        let fits = given.and_then(|()| if fresh.is_empty() { Ok(()) } else { fits(&current.text()) });
        if !fresh.is_empty() {
            if fits.is_err() {
                self.undo(key, &fresh);
            }
            self.note_uses(key, around, dirty);
        }
        fits.map(|()| current)
    }

    /// What the pod gets on the first of these networks that has room. Should none have, another network of its namespace would
    /// help as well.
    fn give_any(
        &mut self,
        key: &ObjectKey,
        choice: Choice,
        node: &NodeName,
        around: Around<'_>,
        dirty: &mut Dirty,
    ) -> Result<(Attachment, PodNetwork), Refusal> {
        let mut refusals = Vec::new();
        let is_primary =
            choice.iter().any(|wanted| wanted.network.is_some() && wanted.role == PodRole::Primary);
        for wanted in choice {
            match self.give(key, &wanted, node, around, dirty) {
                Ok(entry) => return Ok((wanted.attachment, entry)),
                Err(refusal) => refusals.push(refusal),
            }
        }
        let mut refusal = choice::all_of(refusals);
        if is_primary {
            refusal.waits.push(Wait::Namespace(key.namespace.clone()));
        }
        Err(refusal)
    }

    fn give(
        &mut self,
        key: &ObjectKey,
        wanted: &Wanted,
        node: &NodeName,
        around: Around<'_>,
        dirty: &mut Dirty,
    ) -> Result<PodNetwork, Refusal> {
        let pool_key = self.pool(wanted.network.as_ref(), node, around)?;
        let text = around.networks.text(pool_key.network);
        let pool = self.pools.get_mut(pool_key);
        let (Some(state), Some(pool)) = (self.all.get_mut(key), pool) else {
            return Err(Refusal::silent(Wait::Node(node.clone())));
        };
        let identity = Mac::from_identity(&state.record.uid, &wanted.attachment.to_string());
        let owner = state.address_owner(&wanted.attachment);
        let given = pool.give(&owner, &wanted.asked, identity).map_err(|error| {
            let full = matches!(
                error,
                causeway_alloc::Error::SubnetFull { .. } | causeway_alloc::Error::Exhausted { .. }
            );
            let reason = if full { SUBNET_EXHAUSTED } else { "NoAddress" };
            let trouble = Trouble::new(reason, format!("{text}: {error}"));
            Refusal::told(trouble, Some(Wait::Pool(pool_key)))
        })?;
        state.holds.insert(wanted.attachment.clone(), pool_key);
        self.place_moved(pool_key, around.networks, dirty);
        let cluster = &around.config.cluster;
        let network = wanted.network.as_ref().and_then(|network| around.networks.get(network));
        Ok(match network {
            None => default_entry(cluster, given, wanted.role),
            Some(network) => network_entry(cluster, network.intent(), given),
        })
    }

    /// One patch for all networks of the pod, and only for this very pod.
    fn write_networks(&mut self, key: &ObjectKey, networks: &PodNetworks, writes: &mut Writes) {
        let Some(state) = self.all.get_mut(key) else { return };
        state.told = None;
        // An annotation that says the same in other words is left alone.
        let there = state.record.networks.as_ref().is_ok_and(|there| there.as_ref() == Some(networks));
        if networks.0.is_empty() || there || state.record.deleting {
            return;
        }
        let annotations = json!({PodNetworks::KEY: networks.text()});
        let body = json!({"metadata": {"uid": state.record.uid, "annotations": annotations}});
        let action = Action::Merge { subresource: Some("status"), body };
        writes.ask(pod_target(key), Part::Networks, Priority::Pod, action);
        self.tell_of_additional(key, networks, writes);
    }

    /// Interfaces on secondary networks are not built yet. A pod that asks for one runs without it, and its owner hears so.
    fn tell_of_additional(&self, key: &ObjectKey, networks: &PodNetworks, writes: &mut Writes) {
        let additional = networks.0.iter().filter(|(_, one)| one.role == Some(PodRole::Secondary));
        let names: Vec<String> = additional.map(|(attachment, _)| attachment.to_string()).collect();
        let Some(state) = self.all.get(key) else { return };
        if !names.is_empty() {
            let message = format!(
                "the pod gets no interface on {}: additional networks are not supported yet; it runs without them",
                listed(&names, ", ")
            );
            writes.warn(state.regarding(), ADDITIONAL_NETWORK_LEFT_OUT, message);
        }
    }

    fn refuse(&mut self, key: &ObjectKey, refusal: Refusal, networks: &Networks, desk: &mut Desk) {
        let starves = refusal.trouble.as_ref().is_some_and(|trouble| trouble.reason == SUBNET_EXHAUSTED);
        if let Some(state) = self.all.get_mut(key) {
            state.starves = starves;
        }
        self.wait(key, refusal.waits.clone());
        refusal.waits.iter().for_each(|wait| pool_waits(wait, networks, &mut desk.dirty));
        let Some(trouble) = refusal.trouble else { return };
        if let Some(regarding) = self.tell(key, &trouble) {
            desk.writes.warn(regarding, ERROR_ALLOCATING_POD, trouble.message);
        }
    }
}

/// What the API server would refuse, and with it every later write of the pod, is not written.
fn fits(text: &str) -> Result<(), Refusal> {
    if text.len() <= ANNOTATION_LIMIT {
        return Ok(());
    }
    let message = format!(
        "{} would have {} bytes, and at most {ANNOTATION_LIMIT} are written: ask for fewer networks",
        PodNetworks::KEY,
        text.len()
    );
    Err(Refusal::told(Trouble::new("TooManyNetworks", message), None))
}

fn pod_target(key: &ObjectKey) -> Target {
    Target { kind: Kind::Pod, namespace: Some(key.namespace.to_string()), name: key.name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_not_written() {
        assert_eq!(fits(&"x".repeat(ANNOTATION_LIMIT)), Ok(()));
        let refusal = fits(&"x".repeat(ANNOTATION_LIMIT + 1)).unwrap_err();
        let message = refusal.trouble.unwrap().message;
        assert_eq!(
            message,
            "k8s.ovn.org/pod-networks would have 204801 bytes, and at most 204800 are written: ask for fewer networks"
        );
    }
}
