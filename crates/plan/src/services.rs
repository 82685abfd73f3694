//! Services: the load balancers of a service on one of its networks.
//!
//! Owns the paths `service:…`. A load balancer with the same targets on every node is in the group of all of the network's
//! switches and gateway routers; one whose targets differ from node to node is in the group of this node's switch. Both
//! are also in the group of each connection that makes the network's services reachable. A port without targets has a
//! load balancer, too: clients are told at once. Where the node has a way out and in, its gateway router has load balancers of its
//! own, and the node's addresses lead to services with node ports.

mod doors;
mod leads;
mod led;
mod siblings;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use causeway_ovn::generated::nb;
use causeway_ovn::{Members, Plan, Planned, Str};
use causeway_record::ObjectKey;
use causeway_types::{
    Families, Family, MasqueradeRole, NamespaceName, NetworkName, NetworkNames, NodeName, masquerade_address,
};
use causeway_zone::{
    Active, Change, Choice, ConnectInfo, Protocol, ServiceInfo, ServicePort, Serving, SliceInfo, Subject,
    Zone,
};

use crate::connect;
use crate::network::{self, Result, Scope, is_present, scope_of_present};
use crate::room::house::plan_of;
use crate::room::{Kind, Room, SliceKey as _, Slices};
use crate::row::{Map, map, role_ids, set, with};

pub(crate) use leads::add_leads;

/// Services.
pub(crate) static ROOM: Room<Zone> = Room { name: "services", kinds: &[&Services] };

crate::slice_key! {
    /// A service on a network.
    struct ServiceKey, ServiceKeys { namespace: NamespaceName, service: String, network: NetworkName } at ["service", _, _, _]
}

impl ServiceKey {
    fn new(service: &ObjectKey, network: &NetworkName) -> Self {
        Self { namespace: service.namespace.clone(), service: service.name.clone(), network: network.clone() }
    }

    fn service(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.service.clone() }
    }
}

struct Services;

impl Kind<Zone> for Services {
    type Key = ServiceKey;

    /// A network that cannot be rendered says so itself.
    fn slices(&self, zone: &Zone, only: &ServiceKeys) -> Vec<ServiceKey> {
        let services: Vec<ObjectKey> = match (&only.namespace, &only.service) {
            (Some(namespace), Some(name)) => {
                vec![ObjectKey { namespace: namespace.clone(), name: name.clone() }]
            }
            (Some(namespace), None) => zone.services_in(namespace).collect(),
            (None, _) => zone.services().collect(),
        };
        let of = |key: &ObjectKey| -> Vec<ServiceKey> {
            let networks = zone.service_networks(&key.namespace).into_iter();
            let rendered = networks.filter(|network| is_present(zone, network));
            rendered.map(|network| ServiceKey::new(key, network)).collect()
        };
        services.iter().flat_map(of).collect()
    }

    /// A service that is not on the network goes from it, also while the network cannot be rendered.
    fn plan(&self, zone: &Zone, key: &ServiceKey) -> Plan {
        let Some(service) = zone.service(&key.service()) else { return Plan::Absent };
        match scope_of(zone, key) {
            Ok(scope) => {
                Served::new(zone, &scope, &key.service(), service).rows().map_or_else(Plan::Hold, plan_of)
            }
            Err(plan) => plan,
        }
    }

    fn priority(&self) -> u8 {
        45
    }

    /// A connection whose services are not all there is not as it was asked for either.
    fn blame(&self, zone: &Zone, key: &ServiceKey) -> Vec<Subject> {
        let connects = zone.service_connects(&key.network).map(|info| Subject::Connect(info.name.clone()));
        [Subject::Service(key.service())].into_iter().chain(connects).collect()
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<ServiceKey>> {
        let own = match change {
            Change::Service(key) => vec![Slices::under(&ServiceKeys {
                namespace: Some(key.namespace.clone()),
                service: Some(key.name.clone()),
                network: None,
            })],
            Change::Endpoints { service, network } => vec![ServiceKey::new(service, network).into()],
            Change::Namespace(namespace) => services_in(zone, namespace).into_iter().collect(),
            Change::Sibling { namespace, network } => among_siblings(zone, namespace, network),
            Change::Network(name) | Change::Offers(name) if name.is_default() => {
                vec![Slices::under(&ServiceKeys::default())]
            }
            Change::Network(name) if zone.service_connects(name).next().is_none() => {
                let namespaces = zone.namespaces_of(name);
                namespaces.iter().flat_map(|namespace| network_in(zone, namespace, name)).collect()
            }
            Change::Network(name) | Change::Offers(name) => {
                let namespaces = zone.namespaces_of(name);
                namespaces.iter().filter_map(|namespace| services_in(zone, namespace)).collect()
            }
            _ => Vec::new(),
        };
        own.into_iter().chain(doors::follows(zone, change)).collect()
    }
}

/// The network of a service that is on it; otherwise what becomes of its rows.
fn scope_of<'a>(zone: &'a Zone, key: &ServiceKey) -> std::result::Result<Scope<'a>, Plan> {
    match zone.serving(&key.namespace, &key.network) {
        Serving::Yes => {}
        Serving::No => return Err(Plan::Absent),
        Serving::Uncertain(reason) => return Err(Plan::Hold(format!("service {}: {reason}", key.service()))),
    }
    // Connections of the network have its load balancers too.
    if !key.network.is_default() && !zone.knows_connects() {
        let unknown = "not all ClusterNetworkConnects are known yet";
        return Err(Plan::Hold(format!("service {}: {unknown}", key.service())));
    }
    scope_of_present(zone, &key.network)
}

fn services_in(zone: &Zone, namespace: &NamespaceName) -> Option<Slices<ServiceKey>> {
    zone.services_in(namespace).next()?;
    Some(Slices::under(&ServiceKeys { namespace: Some(namespace.clone()), ..ServiceKeys::default() }))
}

/// What a network concerns in one of its namespaces.
fn network_in(zone: &Zone, namespace: &NamespaceName, network: &NetworkName) -> Vec<Slices<ServiceKey>> {
    match zone.primaries(namespace).len() {
        0 | 1 => services_in(zone, namespace).into_iter().collect(),
        _ => among_siblings(zone, namespace, network),
    }
}

/// What one of several networks concerns in a namespace: the services there, on that network; and on all networks those that it concerns.
fn among_siblings(zone: &Zone, namespace: &NamespaceName, network: &NetworkName) -> Vec<Slices<ServiceKey>> {
    let whole = |key: ObjectKey| {
        Slices::under(&ServiceKeys { namespace: Some(key.namespace), service: Some(key.name), network: None })
    };
    let own = zone.services_in(namespace).map(|key| ServiceKey::new(&key, network).into());
    own.chain(zone.services_at(namespace, network).into_iter().map(whole)).collect()
}

/// The longest affinity that Kubernetes has; OVN keeps none that long, so there the client's address chooses.
const LONGEST_AFFINITY: u32 = 86_400;

/// Where a load balancer is, and for whom.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Reach {
    /// The same everywhere.
    Cluster,
    /// This node's switch.
    NodeSwitch,
    /// This node's gateway router.
    NodeRouter,
    /// Addresses of this node and of load balancers, on its switch: for pods.
    DoorSwitch,
    /// The same on its gateway router: for clients outside.
    DoorRouter,
    /// The same, with the clients' own addresses and this node's endpoints alone.
    DoorLocal,
}

impl Reach {
    /// The end of the path, what names of load balancers have behind the protocol, and the group.
    fn words(self, names: &NetworkNames, node: &NodeName) -> (&'static str, String, String) {
        match self {
            Self::Cluster => ("cluster", "cluster".to_owned(), names.cluster_lb_group()),
            Self::NodeSwitch => ("node-switch", format!("node_switch_{node}"), names.switch_lb_group()),
            Self::NodeRouter => ("node-router", format!("node_router_{node}"), names.router_lb_group()),
            Self::DoorSwitch => {
                ("ports-switch", format!("node_ports_switch_{node}"), names.switch_lb_group())
            }
            Self::DoorRouter => {
                ("ports-router", format!("node_ports_router_{node}"), names.router_lb_group())
            }
            Self::DoorLocal => ("ports-local", format!("node_ports_local_{node}"), names.router_lb_group()),
        }
    }

    /// Whether connections that offer the network's services offer it too.
    fn is_offered(self) -> bool {
        matches!(self, Self::Cluster | Self::NodeSwitch)
    }
}

/// Which endpoints count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum From {
    Everywhere,
    ThisNode,
}

type Vips = BTreeMap<SocketAddr, BTreeSet<SocketAddr>>;

/// A service on a network.
struct Served<'a> {
    zone: &'a Zone,
    scope: &'a Scope<'a>,
    key: &'a ObjectKey,
    service: &'a ServiceInfo,
    slices: Vec<&'a SliceInfo>,
}

impl<'a> Served<'a> {
    fn new(zone: &'a Zone, scope: &'a Scope<'a>, key: &'a ObjectKey, service: &'a ServiceInfo) -> Self {
        let slices = zone.endpoints(key, scope.name()).collect();
        Self { zone, scope, key, service, slices }
    }
}

impl Served<'_> {
    /// The load balancers of a service on a network, one for each protocol and reach.
    fn rows(&self) -> Result<Vec<Planned>> {
        let mut rows = Vec::new();
        for ((protocol, reach), vips) in self.vips_by_reach(|_| true)? {
            let balancers = self.row(protocol, reach, &vips)?;
            rows.extend(balancers.into_iter().flat_map(|balancer| balancer.members_apart("vips")));
        }
        if !self.scope.stub {
            rows.extend(self.sources());
            rows.extend(self.led());
        }
        Ok(rows)
    }

    /// What its load balancers have, for some of its ports.
    fn vips_by_reach(
        &self,
        is_wanted: impl Fn(&ServicePort) -> bool,
    ) -> Result<BTreeMap<(Protocol, Reach), Vips>> {
        let mut balancers: BTreeMap<(Protocol, Reach), Vips> = BTreeMap::new();
        for port in self.service.ports.iter().filter(|port| is_wanted(port)) {
            let doors = if self.scope.stub { Vec::new() } else { self.doors(port)? };
            let inside = self.inside(port).into_iter();
            for (reach, vips) in
                inside.filter(|(reach, _)| !self.scope.stub || reach.is_offered()).chain(doors)
            {
                balancers.entry((port.protocol, reach)).or_default().extend(vips);
            }
        }
        Ok(balancers)
    }

    /// The service's own addresses with their targets, and where they are served.
    fn inside(&self, port: &ServicePort) -> Vec<(Reach, Vips)> {
        let from = if self.service.local { From::ThisNode } else { From::Everywhere };
        let sockets = self.service.addresses.iter().map(|address| SocketAddr::new(*address, port.port));
        let vips = self.vips(port, from, sockets);
        // A target outside of the network is reached through the node's own gateway, so the load balancer is the node's.
        // So is one that has targets on another primary network of the namespace, which the gateway router does not reach.
        let leaves = vips.values().flatten().any(|target| !has_address(self.scope.net, target.ip()));
        let routed = self.scope.is_shared_gateway();
        let own = routed && self.is_for_everybody();
        if !self.service.local && !leaves && !own {
            return vec![(Reach::Cluster, vips)];
        }
        let on_router = routed.then(|| (Reach::NodeRouter, self.by_router(&vips)));
        [(Reach::NodeSwitch, vips)].into_iter().chain(on_router).collect()
    }

    /// Whether pods of all networks reach it by the default network's gateway router.
    fn is_for_everybody(&self) -> bool {
        self.scope.net.is_default() && self.zone.is_default_service(self.key)
    }

    fn families(&self) -> Families {
        self.service.addresses.iter().map(Family::of).collect()
    }

    fn vips(&self, port: &ServicePort, from: From, sockets: impl Iterator<Item = SocketAddr>) -> Vips {
        let families: BTreeMap<Family, BTreeSet<SocketAddr>> =
            Family::ALL.into_iter().map(|family| (family, self.targets(port, family, from))).collect();
        let targets =
            |socket: &SocketAddr| families.get(&Family::of(&socket.ip())).cloned().unwrap_or_default();
        sockets.map(|socket| (socket, targets(&socket))).collect()
    }

    /// The default network's gateway router has the node's own address: what it sends there would never leave it. The host is
    /// reached by its masquerade address instead.
    fn by_router(&self, vips: &Vips) -> Vips {
        let vips = &self.without_siblings(vips);
        let Some(gateway) = self.scope.gateway.filter(|_| self.scope.net.is_default()) else {
            return vips.clone();
        };
        let masquerade = |family| self.scope.net.legs.iter().find(|leg| leg.family == family);
        let host = |target: &SocketAddr| {
            let leg = masquerade(Family::of(&target.ip()))?;
            let own = gateway.addresses.iter().any(|own| own.addr() == target.ip());
            let host = masquerade_address(&leg.masquerade, MasqueradeRole::Host).ok().filter(|_| own)?;
            Some(SocketAddr::new(host, target.port()))
        };
        let moved = |targets: &BTreeSet<SocketAddr>| {
            targets.iter().map(|target| host(target).unwrap_or(*target)).collect::<BTreeSet<_>>()
        };
        vips.iter().map(|(vip, targets)| (*vip, moved(targets))).collect()
    }

    /// Whether a target is on another primary network of the service's namespace.
    fn is_at_sibling(&self, target: &SocketAddr) -> bool {
        self.zone.is_at_sibling(&self.key.namespace, self.scope.name(), target.ip())
    }

    fn without_siblings(&self, vips: &Vips) -> Vips {
        let own = |targets: &BTreeSet<SocketAddr>| {
            targets.iter().filter(|target| !self.is_at_sibling(target)).copied().collect()
        };
        vips.iter().map(|(vip, targets)| (*vip, own(targets))).collect()
    }

    /// Ready endpoints; if there are none, those that serve while they go.
    fn targets(&self, port: &ServicePort, family: Family, from: From) -> BTreeSet<SocketAddr> {
        let mut choices = Choice::ALL.into_iter().map(|choice| self.endpoints(port, family, from, choice));
        choices.find(|targets| !targets.is_empty()).unwrap_or_default()
    }

    fn endpoints(
        &self,
        port: &ServicePort,
        family: Family,
        from: From,
        choice: Choice,
    ) -> BTreeSet<SocketAddr> {
        let mut targets = BTreeSet::new();
        for slice in &self.slices {
            let ports = slice.ports.iter().filter(|of| of.name == port.name && of.protocol == port.protocol);
            for number in ports.map(|of| of.port) {
                let chosen = slice.endpoints.iter().filter(|one| {
                    let counts = (one.here || from == From::Everywhere) && self.service.chooses(choice, one);
                    let here = Family::of(&one.address) == family && counts;
                    here && self.zone.is_served(self.key, self.scope.name(), slice, one)
                });
                targets.extend(chosen.map(|one| SocketAddr::new(one.address, number)));
            }
        }
        targets
    }

    /// The load balancer, and one of a single family for connections that have only that.
    fn row(&self, protocol: Protocol, reach: Reach, vips: &Vips) -> Result<Vec<Planned>> {
        let (names, node) = (&self.scope.net.names, self.scope.here.name);
        let (word, suffix, group) = reach.words(names, node);
        let key = self.key;
        let row = nb::LoadBalancer {
            name: format!("{}Service_{key}_{protocol}_{suffix}", names.prefix()).into(),
            protocol: Some(protocol.to_string().to_lowercase().into()),
            vips: map(vips.iter().map(|(vip, targets)| (vip.to_string(), list(targets)))),
            options: self.options(protocol, reach)?,
            selection_fields: self.selection(reach),
            external_ids: with(
                role_ids(self.scope.net),
                [("k8s.ovn.org/kind", "Service".to_owned()), ("k8s.ovn.org/owner", key.to_string())],
            ),
            ..Default::default()
        };
        let within = |row: Planned, group: &str| row.within::<nb::LoadBalancerGroup>(group, "load_balancer");
        let own_group = network::GroupKey { group: network::GroupName(group) }.slice();
        let whole = |info: &&ConnectInfo| families_of(vips).iter().all(|family| info.families().has(family));
        let offers = self.zone.service_connects(self.scope.name());
        let offers = offers.filter(|info| reach.is_offered() && self.speaks_in(info));
        let (cut, offers): (Vec<_>, Vec<_>) = offers.partition(|info| self.is_cut(info, vips));
        let (all, some): (Vec<_>, Vec<_>) = offers.into_iter().partition(whole);
        let own = Planned::new(self.at([&protocol.to_string(), word]), row.clone());
        let refusals = self.refusals().into_iter().filter(|_| reach == Reach::DoorSwitch);
        let own = refusals.fold(own, |own, refusal| own.guarded_by::<nb::Acl>(&refusal));
        // Of a stub nobody is a client: its load balancers are for those who are connected.
        let wanted = !self.scope.stub || !all.is_empty();
        let own = if self.scope.stub { own } else { within(own, &own_group) };
        let own = all.into_iter().fold(own, |own, info| within(own, &group_of(info)));
        // A connection without a family has no way to pods of it: clients there must not be sent that way.
        let parts = Family::ALL.into_iter().filter_map(|family| {
            let mut of = some.iter().filter(|info| info.families().has(family)).peekable();
            of.peek()?;
            let vips = vips.iter().filter(|(vip, _)| Family::of(&vip.ip()) == family);
            let vips = map(vips.map(|(vip, targets)| (vip.to_string(), list(targets))));
            let name = format!("{}_{family}", row.name).into();
            let part = nb::LoadBalancer { vips, name, ..row.clone() };
            let part = Planned::new(self.at([&protocol.to_string(), word, &family.to_string()]), part);
            Some(of.fold(part, |part, info| within(part, &group_of(info))))
        });
        let cut = cut.into_iter().map(|info| self.cut(info, &row, vips, [&protocol.to_string(), word]));
        Ok(wanted.then_some(own).into_iter().chain(parts).chain(cut).collect())
    }

    fn at<const N: usize>(&self, parts: [&str; N]) -> Str {
        ServiceKey::new(self.key, self.scope.name()).path(parts)
    }

    /// What the target is chosen by. For services that every network reaches by the default network's router the client's address
    /// alone decides: a hash of the datapath would take one of the few turns that their packets have.
    fn selection(&self, reach: Reach) -> Members<Str> {
        if reach == Reach::NodeRouter && self.is_for_everybody() {
            return set(["ip_src"]);
        }
        let by_client = self.service.affinity == Some(LONGEST_AFFINITY);
        set(by_client.then_some(["ip_src", "ip_dst"]).into_iter().flatten())
    }

    fn options(&self, protocol: Protocol, reach: Reach) -> Result<Map> {
        let affinity = self.service.affinity.filter(|seconds| *seconds < LONGEST_AFFINITY);
        let options = balancer_options(self.scope, protocol, reach == Reach::DoorLocal)?;
        Ok(with(options, affinity.map(|seconds| ("affinity_timeout", seconds.to_string()))))
    }
}

/// What every load balancer of a network has; on a router it may leave clients their own addresses.
///
/// A client of UDP that keeps its port would stay with a target that is gone for as long as it asks: nothing tells it to begin anew. So
/// what the switch remembers goes with the target. A connection of TCP ends by itself, and may be served to its end by a pod that
/// takes no new ones.
pub(crate) fn balancer_options(scope: &Scope<'_>, protocol: Protocol, keeps_source: bool) -> Result<Map> {
    let subnets = scope.config.cluster.masquerade_subnets.iter();
    let hairpin = subnets.map(|subnet| masquerade_address(subnet, MasqueradeRole::Hairpin));
    let hairpin = hairpin.map(|address| address.map(|address| address.to_string()));
    let hairpin: std::result::Result<Vec<String>, _> = hairpin.collect();
    let hairpin = hairpin.map_err(|error| scope.fault(error))?.join(" ");
    let options = map([
        ("event", "false"),
        ("hairpin_snat_ip", hairpin.as_str()),
        ("neighbor_responder", "none"),
        ("reject", "true"),
        ("skip_snat", if keeps_source { "true" } else { "false" }),
    ]);
    Ok(with(options, (protocol == Protocol::Udp).then_some(("ct_flush", "true"))))
}

fn group_of(info: &ConnectInfo) -> String {
    connect::GroupKey { group: connect::GroupOfConnect(info.name.clone()) }.slice()
}

fn families_of(vips: &Vips) -> Families {
    vips.keys().map(|vip| Family::of(&vip.ip())).collect()
}

/// Whether an address is one of a network's pods.
fn has_address(net: &Active, address: IpAddr) -> bool {
    net.legs.iter().flat_map(|leg| &leg.subnets).any(|subnet| subnet.contains_address(address))
}

fn list(targets: &BTreeSet<SocketAddr>) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
