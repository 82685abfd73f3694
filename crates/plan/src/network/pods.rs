//! Ports of pods: on the default network, locked or not, and on their own networks; of other nodes' pods only those on
//! layer2 networks.

use causeway_api::crd::Topology;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_record::ObjectKey;
use causeway_types::{NamespaceName, NetworkName, NetworkNames, ObjectName};
use causeway_zone::{Active, Change, PodAddress, PodInfo, PodPort, Subject, Zone};

use super::{Result, Scope, of_present, present};
use crate::isolation;
use crate::policy;
use crate::room::{Kind, SliceKey as _, Slices};
use crate::row::{ids, map, set, switch, with};

crate::slice_key! {
    /// The ports of a pod on a network.
    pub(super) struct PodKey, PodKeys { network: NetworkName, namespace: NamespaceName, pod: String } at ["network", _, "pod", _, _]
}

impl PodKey {
    fn new(network: &NetworkName, pod: &ObjectKey) -> Self {
        Self { network: network.clone(), namespace: pod.namespace.clone(), pod: pod.name.clone() }
    }

    fn pod(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.pod.clone() }
    }
}

pub(super) struct Pods;

impl Kind<Zone> for Pods {
    type Key = PodKey;

    fn slices(&self, zone: &Zone, only: &PodKeys) -> Vec<PodKey> {
        let of = |network: &NetworkName| -> Vec<PodKey> {
            zone.pods_of(network).iter().map(|pod| PodKey::new(network, pod)).collect()
        };
        let all = present(zone, only.network.as_ref());
        let all = all.iter().flat_map(of);
        all.filter(|key| only.namespace.as_ref().is_none_or(|name| *name == key.namespace)).collect()
    }

    /// A port that the pod does not have goes, also while the network cannot be rendered.
    fn plan(&self, zone: &Zone, key: &PodKey) -> Plan {
        let (name, pod_key) = (&key.network, key.pod());
        let Some(pod) = zone.pod(&pod_key) else { return Plan::Absent };
        let unreadable = pod.local.as_ref().is_some_and(|local| local.unreadable.is_some());
        if !unreadable && !pod.ports.iter().any(|port| zone.network_of(port) == Some(name)) {
            return Plan::Absent;
        }
        of_present(zone, name, |scope| rows(zone, scope, &pod_key, pod))
    }

    fn priority(&self) -> u8 {
        20
    }

    fn blame(&self, _zone: &Zone, key: &PodKey) -> Vec<Subject> {
        vec![Subject::Network(key.network.clone())]
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<PodKey>> {
        match change {
            Change::Pod { pod, network } => vec![PodKey::new(network, pod).into()],
            Change::Network(name) => {
                vec![Slices::under(&PodKeys { network: Some(name.clone()), ..PodKeys::default() })]
            }
            Change::Node(node) => zone.pods_on(node).flat_map(|pod| ports_of(zone, &pod)).collect(),
            _ => Vec::new(),
        }
    }
}

fn ports_of(zone: &Zone, pod: &ObjectKey) -> Vec<Slices<PodKey>> {
    let ports = zone.pod(pod).into_iter().flat_map(|info| &info.ports);
    let networks = ports.filter_map(|port| zone.network_of(port));
    networks.map(|network| PodKey::new(network, pod).into()).collect()
}

/// The ports of a pod on a network.
fn rows(zone: &Zone, scope: &Scope<'_>, key: &ObjectKey, pod: &PodInfo) -> Result<Vec<Planned>> {
    if let Some(problem) = pod.local.as_ref().and_then(|local| local.unreadable.as_deref()) {
        return Err(format!("pod {key}: {problem}"));
    }
    let mut rows = Vec::new();
    for port in pod.ports.iter().filter(|port| zone.network_of(port) == Some(scope.name())) {
        if let Some(problem) = zone.nad_problem(port) {
            return Err(problem.message.clone());
        }
        let Some(address) = &port.address else { continue };
        rows.extend(rows_of(zone, scope, key, pod, port, address)?);
    }
    Ok(rows)
}

fn rows_of(
    zone: &Zone,
    scope: &Scope<'_>,
    key: &ObjectKey,
    pod: &PodInfo,
    port: &PodPort,
    address: &PodAddress,
) -> Result<Vec<Planned>> {
    let is_here = *pod.node == *scope.here.name;
    if !is_here && scope.net.topology != Topology::Layer2 {
        return Ok(Vec::new());
    }
    let chassis = if is_here {
        scope.here.chassis
    } else {
        match zone.there(&pod.node)? {
            Some(there) => there.chassis,
            None => return Ok(Vec::new()),
        }
    };
    let name = port_name(key, port)?;
    check_name(scope, key, &name)?;
    let uid = pod.local.as_ref().filter(|_| is_here).map(|local| local.uid.as_str());
    let row = Attached { key, port, address, name: &name, chassis, uid }.row(scope.net)?;
    let path = at(scope, key, &attachment(port));
    let planned = Planned::new(path, row).within::<nb::LogicalSwitch>(&switch(scope.name()), "ports");
    if is_here && pod.primary() == Some(port) {
        return Ok(vec![policy::protected(zone, scope, key, planned)]);
    }
    if port.attachment.is_some() || !pod.is_isolated() {
        return Ok(vec![planned]);
    }
    let open = pod.local.as_ref().map(|local| local.open_ports.as_slice()).unwrap_or_default();
    let mut rows = isolation::open_ports(&name, open, |part| at(scope, key, part));
    rows.push(locked(planned));
    Ok(rows)
}

/// A locked port is never there without its place in the group and the drops on it.
fn locked(port: Planned) -> Planned {
    let port = port.within::<nb::PortGroup>(&isolation::group(), "ports");
    isolation::guards().iter().fold(port, |port, guard| port.guarded_by::<nb::Acl>(guard))
}

fn at(scope: &Scope<'_>, key: &ObjectKey, rest: &str) -> Str {
    PodKey::new(scope.name(), key).path([rest])
}

fn attachment(port: &PodPort) -> String {
    port.attachment.as_ref().map_or_else(|| "default".to_owned(), ToString::to_string)
}

/// What a pod's port is called.
pub(crate) fn port_name(key: &ObjectKey, port: &PodPort) -> Result<String> {
    let pod = ObjectName::new(key.name.as_str()).map_err(|error| error.to_string())?;
    Ok(NetworkNames::pod_port(port.attachment.as_deref(), &key.namespace, &pod))
}

/// A pod `n1` in a namespace called like the bridge would take the name of the node's own way out.
fn check_name(scope: &Scope<'_>, key: &ObjectKey, name: &str) -> Result<()> {
    let Some(gateway) = scope.gateway.filter(|_| scope.net.is_default()) else { return Ok(()) };
    if name == scope.net.names.external_localnet_port(&gateway.bridge, scope.here.name) {
        return Err(format!("pod {key} would have the port {name}, which is the node's own: rename the pod"));
    }
    Ok(())
}

/// A pod's port as it is in one zone.
struct Attached<'a> {
    key: &'a ObjectKey,
    port: &'a PodPort,
    address: &'a PodAddress,
    name: &'a str,
    chassis: &'a str,
    /// Of a pod of this node.
    uid: Option<&'a str>,
}

impl Attached<'_> {
    fn row(&self, net: &Active) -> Result<nb::LogicalSwitchPort> {
        let mut options = map([("requested-chassis", self.chassis)]);
        options.extend(map(self.uid.map(|uid| ("iface-id-ver", uid))));
        if net.topology == Topology::Layer2 {
            let lacks = || format!("pod {} has no tunnel id on network {}", self.key, net.name());
            let tunnel = self.address.tunnel.ok_or_else(lacks)?;
            options.insert("requested-tnl-key".into(), tunnel.to_string().into());
        }
        let nad = self.port.attachment.as_ref().map(|nad| ("k8s.ovn.org/nad", nad.as_str()));
        let own = [("namespace", self.key.namespace.as_str()), ("pod", "true")];
        Ok(nb::LogicalSwitchPort {
            name: self.name.into(),
            r#type: if self.uid.is_some() { "".into() } else { "remote".into() },
            addresses: set([self.address.text()]),
            port_security: set([self.address.text()]),
            options,
            external_ids: with(with(ids(net), own), nad),
            ..Default::default()
        })
    }
}
