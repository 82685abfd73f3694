//! The services of a zone, found by name and by namespace, with their endpoints.
//!
//! A service is on the primary networks of its namespace, or on the default network if the namespace has none and needs
//! none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use causeway_types::{NamespaceName, NetworkName, ObjectName};

use super::pods::object;
use super::service::{self, Choice, EndpointInfo, ServiceInfo, ServicePort, SliceInfo};
use super::{Change, Changes, Rendering, Zone};
use causeway_record::{self as record, ObjectKey, Protocol};

/// Whether services of a namespace are on a network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Serving {
    /// They are.
    Yes,
    /// They are not.
    No,
    /// That cannot be told: what is there stays.
    Uncertain(String),
}

/// Who says that an address outside leads to a service. The stronger word comes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Claimed {
    /// Whoever gives out addresses of load balancers.
    Given,
    /// The service's owner.
    Own,
}

/// A port of every node, or an address outside and a port.
type Claim = (Option<IpAddr>, Protocol, u16);

fn claims(info: &ServiceInfo) -> BTreeSet<Claim> {
    let outer = || info.external_ips.iter().chain(&info.ingress_ips);
    let of = |port: &ServicePort| -> Vec<Claim> {
        let nodes = port.node_port.map(|number| (None, port.protocol, number));
        let nodes = nodes.into_iter().chain(info.health_port.map(|number| (None, Protocol::Tcp, number)));
        outer().map(|address| (Some(*address), port.protocol, port.port)).chain(nodes).collect()
    };
    info.ports.iter().flat_map(of).collect()
}

#[derive(Debug, Default)]
struct Entry {
    service: Option<ServiceInfo>,
    /// By the name of the object.
    slices: BTreeMap<Box<str>, SliceInfo>,
}

#[derive(Debug, Default)]
pub(super) struct Services {
    /// By `namespace/name`, so that those of a namespace are side by side.
    entries: BTreeMap<Arc<str>, Entry>,
    /// The service of each slice.
    owners: HashMap<Box<str>, Arc<str>>,
    /// Who says to have a port of every node, or an address outside and a port. The API server gives a port of nodes to one.
    claims: BTreeMap<Claim, BTreeSet<Arc<str>>>,
    /// Those that have a port for load balancers outside.
    checked: BTreeSet<Arc<str>>,
    /// Those whose clients outside keep their addresses.
    sourced: BTreeSet<Arc<str>>,
}

impl Services {
    fn get(&self, key: &ObjectKey) -> Option<&Entry> {
        self.entries.get(key.to_string().as_str())
    }

    fn in_namespace(&self, namespace: &NamespaceName) -> impl Iterator<Item = &Arc<str>> {
        // `0` is the character after `/`.
        let (from, to) = (format!("{namespace}/"), format!("{namespace}0"));
        let range =
            self.entries.range::<str, _>((Bound::Included(from.as_str()), Bound::Excluded(to.as_str())));
        range.filter(|(_, entry)| entry.service.is_some()).map(|(key, _)| key)
    }

    /// Services of a namespace with such an endpoint.
    pub(super) fn naming(
        &self,
        namespace: &NamespaceName,
        is: impl Fn(&EndpointInfo) -> bool,
    ) -> Vec<ObjectKey> {
        let has = |entry: &Entry| entry.slices.values().any(|slice| slice.endpoints.iter().any(&is));
        let found = self.in_namespace(namespace).filter(|key| self.entries.get(*key).is_some_and(has));
        found.filter_map(|key| object(key)).collect()
    }

    /// All services with such an endpoint.
    pub(super) fn having(&self, is: impl Fn(&EndpointInfo) -> bool) -> Vec<ObjectKey> {
        let has = |entry: &Entry| entry.slices.values().any(|slice| slice.endpoints.iter().any(&is));
        self.entries.iter().filter(|(_, entry)| has(entry)).filter_map(|(key, _)| object(key)).collect()
    }

    /// All services that say to be reached at one of these addresses from outside.
    pub(super) fn claiming(&self, addresses: &BTreeSet<IpAddr>) -> Vec<ObjectKey> {
        let claims = |info: &ServiceInfo| {
            info.external_ips.iter().chain(&info.ingress_ips).any(|address| addresses.contains(address))
        };
        let found = self.entries.iter().filter(|(_, entry)| entry.service.as_ref().is_some_and(claims));
        found.filter_map(|(key, _)| object(key)).collect()
    }

    /// Changes an entry, which is made for it and goes if nothing is left in it.
    fn change<T>(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Entry) -> T) -> T {
        let text: Arc<str> = key.to_string().into();
        let entry = self.entries.entry(text.clone()).or_default();
        let changed = change(entry);
        if entry.service.is_none() && entry.slices.is_empty() {
            self.entries.remove(&text);
        }
        changed
    }

    /// Keeps who claims what, and gives all others who claim what this one does or did.
    fn claim(
        &mut self,
        key: &ObjectKey,
        old: Option<&ServiceInfo>,
        new: Option<&ServiceInfo>,
    ) -> Vec<ObjectKey> {
        let text: Arc<str> = key.to_string().into();
        put(&mut self.checked, &text, new.is_some_and(|info| info.health_port.is_some()));
        put(&mut self.sourced, &text, new.is_some_and(|info| info.external_local));
        let (gone, come) = (old.map(claims).unwrap_or_default(), new.map(claims).unwrap_or_default());
        for claim in gone.difference(&come) {
            if let Some(who) = self.claims.get_mut(claim) {
                who.remove(&text);
                if who.is_empty() {
                    self.claims.remove(claim);
                }
            }
        }
        for claim in &come {
            self.claims.entry(*claim).or_default().insert(text.clone());
        }
        self.others(&text, gone.union(&come))
    }

    fn others<'a>(&self, text: &str, at: impl Iterator<Item = &'a Claim>) -> Vec<ObjectKey> {
        let all: BTreeSet<&Arc<str>> = at.filter_map(|claim| self.claims.get(claim)).flatten().collect();
        all.into_iter().filter(|key| key.as_ref() != text).filter_map(|key| object(key)).collect()
    }

    /// Puts or replaces a slice, or takes it out, and gives the old one.
    fn set_slice(&mut self, owner: &ObjectKey, name: &str, slice: Option<SliceInfo>) -> Option<SliceInfo> {
        let slice_key = format!("{}/{name}", owner.namespace).into_boxed_str();
        let is_there = slice.is_some();
        let old = self.change(owner, |entry| match slice {
            Some(slice) => entry.slices.insert(name.into(), slice),
            None => entry.slices.remove(name),
        });
        match self.entries.get_key_value(owner.to_string().as_str()).filter(|_| is_there) {
            Some((text, _)) => drop(self.owners.insert(slice_key, text.clone())),
            None => drop(self.owners.remove(&slice_key)),
        }
        old
    }
}

fn put(set: &mut BTreeSet<Arc<str>>, key: &Arc<str>, into: bool) {
    match into {
        true => set.insert(key.clone()),
        false => set.remove(key),
    };
}

impl Zone {
    /// A service is there, or has changed.
    pub fn apply_service(&mut self, service: &record::Service) -> Changes {
        // Names become parts of paths; what Kubernetes would refuse as a name is refused here too.
        match ObjectName::new(service.key.name.as_str()) {
            Ok(_) => self.set_service(&service.key, service::read(service)),
            Err(_) => Changes::default(),
        }
    }

    /// A service is gone.
    pub fn delete_service(&mut self, key: &ObjectKey) -> Changes {
        self.set_service(key, None)
    }

    /// Endpoints of a service are there, or have changed.
    pub fn apply_endpoint_slice(&mut self, slice: &record::EndpointSlice) -> Changes {
        let owner = slice.service().filter(|name| ObjectName::new(*name).is_ok());
        let Some(owner) = owner else { return self.delete_endpoint_slice(&slice.key) };
        let owner = ObjectKey { namespace: slice.key.namespace.clone(), name: owner.to_owned() };
        let mut changes = Changes::default();
        if self.owner_of(&slice.key).is_some_and(|before| before != owner) {
            changes = self.delete_endpoint_slice(&slice.key);
        }
        let info = service::read_slice(slice, &self.config.node);
        changes.merge(self.set_slice(&owner, &slice.key.name, Some(info)));
        changes
    }

    /// Endpoints of a service are gone.
    pub fn delete_endpoint_slice(&mut self, key: &ObjectKey) -> Changes {
        match self.owner_of(key) {
            Some(owner) => self.set_slice(&owner, &key.name, None),
            None => Changes::default(),
        }
    }

    /// All services that have an address.
    pub fn services(&self) -> impl Iterator<Item = ObjectKey> {
        let with_address = self.services.entries.iter().filter(|(_, entry)| entry.service.is_some());
        with_address.filter_map(|(key, _)| object(key))
    }

    /// Those of a namespace.
    pub fn services_in(&self, namespace: &NamespaceName) -> impl Iterator<Item = ObjectKey> {
        self.services.in_namespace(namespace).filter_map(|key| object(key))
    }

    /// A service that has an address.
    pub fn service(&self, key: &ObjectKey) -> Option<&ServiceInfo> {
        self.services.get(key)?.service.as_ref()
    }

    /// Services that claim a port of nodes, or an address and port outside, that this one claims.
    pub fn rivals(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let claimed = self.service(key).map(claims).unwrap_or_default();
        self.services.others(&key.to_string(), claimed.iter())
    }

    /// The same with the service itself.
    pub fn with_rivals(&self, key: ObjectKey) -> Vec<ObjectKey> {
        let mut all = self.rivals(&key);
        all.push(key);
        all
    }

    /// Services of which load balancers outside ask each node whether it has endpoints.
    pub fn checked_services(&self) -> impl Iterator<Item = ObjectKey> {
        self.services.checked.iter().filter_map(|key| object(key))
    }

    /// Services whose clients outside keep their addresses: `externalTrafficPolicy: Local`.
    pub fn sourced_services(&self) -> impl Iterator<Item = ObjectKey> {
        self.services.sourced.iter().filter_map(|key| object(key))
    }

    /// Whether a port of every node is a service's.
    pub fn is_node_port(&self, protocol: Protocol, port: u16) -> bool {
        self.services.claims.contains_key(&(None, protocol, port))
    }

    /// Whether pods of every network reach a service of the default network.
    pub fn is_default_service(&self, key: &ObjectKey) -> bool {
        self.config.default_services.contains(key)
            && self.serving(&key.namespace, &self.default) == Serving::Yes
    }

    /// The addresses of services that pods of every network reach.
    pub fn default_service_addresses(&self) -> BTreeSet<IpAddr> {
        let keys = self.config.default_services.iter().filter(|key| self.is_default_service(key));
        keys.filter_map(|key| self.service(key))
            .flat_map(|service| service.addresses.iter().copied())
            .collect()
    }

    /// The addresses outside of the cluster that lead to a service. Whoever writes them must not take what the cluster uses: nodes'
    /// addresses, pods', services', and those that nobody routes.
    pub fn outer_addresses<'a>(
        &'a self,
        service: &'a ServiceInfo,
    ) -> impl Iterator<Item = (Claimed, IpAddr)> + 'a {
        let given = service.ingress_ips.iter().map(|address| (Claimed::Given, *address));
        let own = service.external_ips.iter().filter(|address| !service.ingress_ips.contains(address));
        let all = given.chain(own.map(|address| (Claimed::Own, *address)));
        let free =
            |address| !self.config.cluster.is_internal(address) && !self.node_addresses.is_settled(address);
        // Nobody but the node itself knows all of its own addresses.
        let gateway = self.gateway().ok().flatten();
        let is_here = move |address| {
            gateway.is_some_and(|gateway| gateway.addresses.iter().any(|own| own.addr() == address))
        };
        all.filter(move |(claimed, address)| {
            free(*address) && (*claimed == Claimed::Given || !is_here(*address))
        })
    }

    /// The endpoints of a service on a network, in parts.
    pub fn endpoints<'a>(
        &'a self,
        service: &ObjectKey,
        network: &'a NetworkName,
    ) -> impl Iterator<Item = &'a SliceInfo> {
        let primaries = self.primary_names(&service.namespace);
        let slices = self.services.get(service).into_iter().flat_map(|entry| entry.slices.values());
        slices.filter(move |slice| slice.is_on(network, &primaries))
    }

    pub(super) fn primary_names(&self, namespace: &NamespaceName) -> Vec<&NetworkName> {
        self.primaries(namespace).into_iter().map(|(_, network)| network).collect()
    }

    /// The network by whose gateway router others than its own pods come to a service: the oldest one of its namespace that has a
    /// target of it, on this node if only these serve. Its gateway router knows no way to the others.
    pub fn entry_network(&self, key: &ObjectKey) -> Option<&NetworkName> {
        let service = self.service(key)?;
        let primaries = self.primary_names(&key.namespace);
        let [first, _, ..] = primaries.as_slice() else {
            let mut networks = self.service_networks(&key.namespace).into_iter();
            return networks.find(|network| self.serving(&key.namespace, network) == Serving::Yes);
        };
        let mut rendered = self.those_rendered(&primaries);
        self.with_target(key, service, &primaries).or_else(|| rendered.next()).or(Some(*first))
    }

    fn those_rendered<'a>(&'a self, networks: &[&'a NetworkName]) -> impl Iterator<Item = &'a NetworkName> {
        let is_rendered =
            |network: &&NetworkName| matches!(self.rendering(network), Some(Rendering::Rendered(_)));
        networks.iter().copied().filter(is_rendered)
    }

    /// The first of these networks that is rendered here and has a target of a service. Targets are chosen as load balancers do.
    fn with_target<'a>(
        &'a self,
        key: &ObjectKey,
        service: &ServiceInfo,
        networks: &[&'a NetworkName],
    ) -> Option<&'a NetworkName> {
        let serves = |network: &'a NetworkName, here: bool, choice: Choice| {
            let own = |one: &EndpointInfo| {
                (one.here || !here) && service.chooses(choice, one) && self.is_in(network, one.address)
            };
            self.endpoints(key, network).any(|slice| slice.endpoints.iter().any(own))
        };
        let places = if service.external_local { [true, false].as_slice() } else { &[false] };
        let mut steps = places.iter().flat_map(|here| Choice::ALL.map(|choice| (*here, choice)));
        // Most have one on the first network: the others are not looked at then.
        steps.find_map(|(here, choice)| {
            self.those_rendered(networks).find(|network| serves(network, here, choice))
        })
    }

    /// The networks that services of a namespace are on, or may be on.
    pub fn service_networks(&self, namespace: &NamespaceName) -> BTreeSet<&NetworkName> {
        let mut networks: BTreeSet<&NetworkName> = self.nads.networks_in(namespace).collect();
        networks.insert(&self.default);
        networks.retain(|network| self.serving(namespace, network) != Serving::No);
        networks
    }

    /// Whether services of a namespace are on a network.
    pub fn serving(&self, namespace: &NamespaceName, network: &NetworkName) -> Serving {
        let primaries = self.primaries(namespace);
        if primaries.iter().any(|(_, primary)| *primary == network) {
            return Serving::Yes;
        }
        if let Some(problem) = self.nads.problem(namespace, network) {
            return Serving::Uncertain(problem.message.clone());
        }
        let falls_back = primaries.is_empty() && !self.demands_primary(namespace);
        if falls_back && network.is_default() { Serving::Yes } else { Serving::No }
    }

    fn owner_of(&self, slice: &ObjectKey) -> Option<ObjectKey> {
        object(self.services.owners.get(slice.to_string().as_str())?)
    }

    fn set_service(&mut self, key: &ObjectKey, info: Option<ServiceInfo>) -> Changes {
        let new = info.clone();
        let old = self.services.change(key, |entry| std::mem::replace(&mut entry.service, info));
        if old == new {
            return Changes::default();
        }
        // Who has what several claim may be another one now.
        let mut changes = Changes::from(Change::Service(key.clone()));
        for rival in self.services.claim(key, old.as_ref(), new.as_ref()) {
            changes.add(Change::Service(rival));
        }
        changes
    }

    fn set_slice(&mut self, owner: &ObjectKey, name: &str, slice: Option<SliceInfo>) -> Changes {
        let new = slice.clone();
        let old = self.services.set_slice(owner, name, slice);
        let mut changes = Changes::default();
        if old == new || self.service(owner).is_none() {
            return changes;
        }
        let concerned = self.service_networks(&owner.namespace);
        let primaries = self.primary_names(&owner.namespace);
        let is_on = |slice: &Option<SliceInfo>, network: &NetworkName| {
            slice.as_ref().is_some_and(|slice| slice.is_on(network, &primaries))
        };
        for network in concerned.into_iter().filter(|network| is_on(&old, network) || is_on(&new, network)) {
            changes.add(Change::Endpoints { service: owner.clone(), network: network.clone() });
        }
        changes
    }

    /// Namespaces with a definition of a network.
    pub fn namespaces_of(&self, network: &NetworkName) -> BTreeSet<NamespaceName> {
        let nads = self.networks.get(network).into_iter().flat_map(|entry| entry.nads());
        nads.filter_map(|nad| NamespaceName::new(nad.namespace()).ok()).collect()
    }

    /// Services of a namespace that another one of its networks concerns: those that have an endpoint in it, or a mirror that names it,
    /// and those that are entered by whichever network comes first.
    pub fn services_at(&self, namespace: &NamespaceName, network: &NetworkName) -> Vec<ObjectKey> {
        let primaries = self.primary_names(namespace);
        let knows = |slice: &SliceInfo| {
            let in_it = |one: &EndpointInfo| self.is_in(network, one.address);
            slice.mirror() == Some(network) || slice.endpoints.iter().any(in_it)
        };
        let concerned = |key: &ObjectKey| {
            self.services.get(key).is_some_and(|entry| entry.slices.values().any(knows))
                || self
                    .service(key)
                    .is_some_and(|service| self.with_target(key, service, &primaries).is_none())
        };
        self.services_in(namespace).filter(concerned).collect()
    }

    /// The primary networks of a namespace may be others than these. One that comes last concerns nobody who does not know it.
    pub(super) fn primaries_changed(
        &self,
        namespace: &NamespaceName,
        before: &[NetworkName],
        changes: &mut Changes,
    ) {
        let after = self.primary_names(namespace);
        match after.split_last() {
            Some((last, others)) if !before.is_empty() && others.iter().copied().eq(before) => {
                changes.add(Change::Sibling { namespace: namespace.clone(), network: (*last).clone() });
            }
            _ => self.namespace_changed(namespace, changes),
        }
    }

    /// The networks of a namespace have changed, and with them those of its services.
    pub(super) fn namespace_changed(&self, namespace: &NamespaceName, changes: &mut Changes) {
        changes.add(Change::Namespace(namespace.clone()));
    }
}
