//! The plan of a zone's northbound database: which slices there are, and who plans each.

use causeway_api::crd::Topology;
use causeway_ovn::{Plan, Planned, Planner, Str};
use causeway_record::ObjectKey;
use causeway_types::{ConnectName, NamespaceName, NetworkName, NodeName};
use causeway_zone::{Active, Rendering, Serving, There, Use, Zone, paths};

use crate::connect::{self, Part};
use crate::scope::Scope;
use crate::{balancer, common, gateway, interconnect, isolation, layer2, layer3, pods, services};

const ROOTS: [&str; 4] = ["cnc", "network", "service", "zone"];
const GROUP: &str = "Load_Balancer_Group";
const BINDING: &str = "Static_MAC_Binding";

/// The plan of a zone's northbound database.
#[derive(Clone, Copy, Debug)]
pub struct Northbound<'a>(&'a Zone);

/// What a slice is about.
enum Slice<'a> {
    Common,
    Isolation,
    Core(NetworkName),
    Gateway(NetworkName),
    Node(NetworkName, NodeName),
    Pod(NetworkName, ObjectKey),
    Group(&'a str),
    Bindings(&'a str),
    Connect(Part),
    Service(ObjectKey, NetworkName),
}

impl<'a> Slice<'a> {
    /// Reads a prefix that lies in one slice; a wider one, or one that was never ours, is none.
    fn of(prefix: &'a str) -> Option<Self> {
        let parts: Vec<&str> = prefix.split(':').collect();
        let network = |name: &str| NetworkName::new(name).ok();
        Some(match parts[..] {
            ["zone", "common", _, ..] => Self::Common,
            ["zone", "isolation", _, ..] => Self::Isolation,
            ["network", name, "core", _, ..] => Self::Core(network(name)?),
            ["network", name, "gateway", _, ..] => Self::Gateway(network(name)?),
            ["network", name, "node", node, _, ..] => Self::Node(network(name)?, NodeName::new(node).ok()?),
            ["network", name, "pod", namespace, pod, _, ..] => {
                let namespace = NamespaceName::new(namespace).ok()?;
                Self::Pod(network(name)?, ObjectKey { namespace, name: pod.to_owned() })
            }
            [GROUP, name] if !name.is_empty() => Self::Group(name),
            [BINDING, port, _, ..] => Self::Bindings(port),
            ["cnc", ..] => Self::Connect(Part::of(&parts)?),
            ["service", namespace, service, name, _, ..] => {
                let namespace = NamespaceName::new(namespace).ok()?;
                Self::Service(ObjectKey { namespace, name: service.to_owned() }, network(name)?)
            }
            _ => return None,
        })
    }
}

/// How many components of a path name its slice; groups are slices of their own.
fn depth(path: &str) -> Option<usize> {
    let mut parts = path.split(':');
    match (parts.next(), parts.nth(1)) {
        (Some("zone" | BINDING), _) => Some(2),
        (Some("network"), Some("node")) | (Some("service"), _) => Some(4),
        (Some("network"), Some("pod")) => Some(5),
        (Some("network"), _) => Some(3),
        (Some("cnc"), kind) => connect::depth(kind),
        _ => None,
    }
}

impl<'a> Northbound<'a> {
    /// The plan that follows from a zone.
    pub fn new(zone: &'a Zone) -> Self {
        Self(zone)
    }

    /// Slices of one network.
    fn slices_of(&self, name: &NetworkName) -> Vec<String> {
        let zone = self.0;
        let Some(rendering) = zone.rendering(name) else { return Vec::new() };
        let names = causeway_types::NetworkNames::new(name.clone());
        let mut slices = vec![paths::core(name), paths::gateway(name)];
        slices.extend(paths::balancer_groups(&names));
        slices.push(paths::mac_bindings(&names, &zone.config().node));
        slices.extend(zone.others().map(|node| paths::node(name, &node.name)));
        slices.extend(zone.pods_of(name).iter().map(|pod| paths::pod(name, pod)));
        // A network that cannot be rendered says so once.
        if !matches!(rendering, Rendering::Rendered(_)) {
            slices.truncate(1);
        }
        slices
    }

    fn scope(&self, net: &'a Active) -> Result<Scope<'a>, String> {
        let here = self.0.here().map_err(|problem| problem.message)?;
        let gateway = self.0.gateway().map_err(|error| format!("node {}: {error}", here.name))?;
        Ok(Scope { net, here, gateway, config: self.0.config() })
    }

    /// Plans something of a network, if the network is rendered.
    fn of_network(
        &self,
        name: &NetworkName,
        rows: impl FnOnce(&Scope<'a>) -> Result<Vec<Planned>, String>,
    ) -> Plan {
        match self.0.rendering(name) {
            None | Some(Rendering::Unused) => Plan::Absent,
            Some(Rendering::Unknown) => {
                Plan::Hold(format!("network {name}: whether it is used here is not known yet"))
            }
            Some(Rendering::Broken(problem)) => Plan::Hold(problem.message.clone()),
            Some(Rendering::Rendered(active)) => {
                self.scope(active).and_then(|scope| rows(&scope)).map_or_else(Plan::Hold, plan_of)
            }
        }
    }

    fn node(&self, name: &NetworkName, node: &NodeName) -> Plan {
        if matches!(self.0.rendering(name), None | Some(Rendering::Unused)) {
            return Plan::Absent;
        }
        let there: Option<There<'_>> = match self.0.there(node) {
            Ok(there) => there,
            Err(error) => return Plan::Hold(error),
        };
        match (there, self.0.used_on(name, node)) {
            (None, _) | (_, Use::Unused) => Plan::Absent,
            (_, Use::Unknown) => {
                Plan::Hold(format!("whether node {node} uses network {name} is not known yet"))
            }
            (Some(there), Use::Used) => self.of_network(name, |scope| interconnect::rows(scope, &there)),
        }
    }

    /// A port that the pod does not have goes, also while the network cannot be rendered.
    fn pod(&self, name: &NetworkName, key: &ObjectKey) -> Plan {
        let Some(pod) = self.0.pod(key) else { return Plan::Absent };
        let unreadable = pod.local.as_ref().is_some_and(|local| local.unreadable.is_some());
        if !unreadable && !pod.ports.iter().any(|port| self.0.network_of(port) == Some(name)) {
            return Plan::Absent;
        }
        self.of_network(name, |scope| pods::rows(self.0, scope, key, pod))
    }

    /// A service that is not on the network goes from it, also while the network cannot be rendered.
    fn service(&self, key: &ObjectKey, name: &NetworkName) -> Plan {
        let zone = self.0;
        let Some(service) = zone.service(key) else { return Plan::Absent };
        match zone.serving(&key.namespace, name) {
            Serving::Yes => {}
            Serving::No => return Plan::Absent,
            Serving::Uncertain(reason) => return Plan::Hold(format!("service {key}: {reason}")),
        }
        // Connections of the network have its load balancers too.
        if !name.is_default() && !zone.knows_connects() {
            return Plan::Hold(format!("service {key}: not all ClusterNetworkConnects are known yet"));
        }
        self.of_network(name, |scope| services::rows(zone, scope, key, service))
    }

    /// The group of this name, of a network or of a connection.
    fn group(&self, group: &str) -> Plan {
        if let Some(connect) = group.strip_prefix("cnc_svc_").and_then(|name| ConnectName::new(name).ok()) {
            return connect::group(self.0, &connect);
        }
        match self.network_of_group(group) {
            Some(name) => {
                self.of_network(name, |scope| Ok(balancer::group(scope, group).into_iter().collect()))
            }
            None => Plan::Absent,
        }
    }

    /// The network of a port `rtoe-GR_<prefix><node>`.
    fn network_of_port(&self, port: &str) -> Option<&'a NetworkName> {
        let prefix = port.strip_prefix("rtoe-GR_")?.strip_suffix(self.0.config().node.as_str())?;
        self.0.network_with_prefix(prefix)
    }

    fn network_of_group(&self, name: &str) -> Option<&'a NetworkName> {
        let kinds = ["clusterLBGroup", "clusterSwitchLBGroup", "clusterRouterLBGroup"];
        let prefix = kinds.iter().find_map(|kind| name.strip_suffix(kind))?;
        self.0.network_with_prefix(prefix)
    }

    fn whole(&self, slice: &Slice<'_>) -> Plan {
        match slice {
            Slice::Common => Plan::Rows(common::rows(self.0)),
            Slice::Isolation => {
                self.of_network(&NetworkName::default_network(), |scope| Ok(isolation::rows(scope.net)))
            }
            Slice::Core(name) => self.of_network(name, |scope| match scope.net.topology {
                Topology::Layer2 => layer2::rows(scope),
                _ => layer3::rows(scope),
            }),
            Slice::Gateway(name) => self
                .of_network(name, |scope| scope.gateway.map_or(Ok(Vec::new()), |g| gateway::rows(scope, g))),
            Slice::Node(name, node) => self.node(name, node),
            Slice::Pod(name, key) => self.pod(name, key),
            Slice::Connect(part) => connect::plan(self.0, part),
            Slice::Service(key, name) => self.service(key, name),
            Slice::Group(group) => self.group(group),
            Slice::Bindings(port) => match self.network_of_port(port) {
                Some(name) => self.of_network(name, |scope| {
                    scope.gateway.map_or(Ok(Vec::new()), |g| gateway::mac_bindings(scope, g))
                }),
                None => Plan::Absent,
            },
        }
    }

    /// A prefix wider than a slice: all of them, and nothing while one is held.
    fn wide(&self, prefix: &str) -> Plan {
        let mut all = Vec::new();
        for slice in self.slices(prefix) {
            match self.plan(&slice) {
                Plan::Rows(rows) => all.extend(rows),
                Plan::Absent => {}
                Plan::Hold(reason) => return Plan::Hold(reason),
            }
        }
        plan_of(all)
    }
}

fn plan_of(rows: Vec<Planned>) -> Plan {
    if rows.is_empty() { Plan::Absent } else { Plan::Rows(rows) }
}

impl Planner for Northbound<'_> {
    fn roots(&self) -> &[&str] {
        &ROOTS
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        // Inside one slice, or exactly one.
        if Slice::of(prefix).is_some() {
            return vec![prefix.into()];
        }
        let slices: Vec<String> = match prefix.split_once(':') {
            Some(("network", rest)) if rest.contains(':') => {
                let name = rest.split(':').next().unwrap_or_default();
                NetworkName::new(name).map(|name| self.slices_of(&name)).unwrap_or_default()
            }
            Some(("cnc", _)) => connect::slices(self.0, prefix),
            Some(("service", _)) => services::slices(self.0, prefix),
            _ => {
                let shared = [common::SLICE, isolation::SLICE].map(str::to_owned);
                let networks = self.0.networks().flat_map(|name| self.slices_of(name));
                let connects = connect::slices(self.0, "").into_iter();
                shared
                    .into_iter()
                    .chain(networks)
                    .chain(connects)
                    .chain(services::slices(self.0, ""))
                    .collect()
            }
        };
        slices.iter().filter(|slice| slice.starts_with(prefix)).map(Str::from).collect()
    }

    fn slice_len(&self, path: &str) -> usize {
        let end = depth(path).and_then(|depth| path.match_indices(':').nth(depth - 1));
        end.map_or(path.len(), |(at, _)| at + 1)
    }

    fn plan(&self, slice: &str) -> Plan {
        let Some(kind) = Slice::of(slice) else { return self.wide(slice) };
        let whole = self.whole(&kind);
        let covers = |row: &Planned| {
            if slice.ends_with(':') { row.path.starts_with(slice) } else { row.path == slice }
        };
        match whole {
            Plan::Rows(rows) if self.slice_len(slice) < slice.len() => {
                plan_of(rows.into_iter().filter(covers).collect())
            }
            other => other,
        }
    }

    /// What others hang on comes first, then pods, then the rest.
    fn priority(&self, slice: &str) -> u8 {
        match Slice::of(slice) {
            Some(Slice::Common | Slice::Isolation) => 0,
            Some(Slice::Core(_)) => 10,
            Some(Slice::Pod(..)) => 20,
            Some(Slice::Group(_)) => 30,
            Some(Slice::Gateway(_) | Slice::Bindings(_)) => 40,
            Some(Slice::Service(..)) => 45,
            Some(Slice::Node(..)) => 50,
            Some(Slice::Connect(part)) => part.priority(),
            None => 100,
        }
    }
}
