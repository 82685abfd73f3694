//! Ports of pods: on the default network, locked or not, and on their own networks; of other nodes' pods only those on
//! layer2 networks.

use causeway_api::crd::Topology;
use causeway_ovn::generated::nb;
use causeway_ovn::{Planned, Str, path};
use causeway_record::ObjectKey;
use causeway_types::{NetworkNames, ObjectName};
use causeway_zone::{Active, PodAddress, PodInfo, PodPort, Zone};

use crate::isolation;
use crate::row::{ids, map, set, switch, with};
use crate::scope::{Result, Scope};

/// The ports of a pod on a network.
pub(crate) fn rows(zone: &Zone, scope: &Scope<'_>, key: &ObjectKey, pod: &PodInfo) -> Result<Vec<Planned>> {
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
    path::join(["network", scope.name().as_str(), "pod", key.namespace.as_str(), &key.name, rest])
}

fn attachment(port: &PodPort) -> String {
    port.attachment.as_ref().map_or_else(|| "default".to_owned(), ToString::to_string)
}

fn port_name(key: &ObjectKey, port: &PodPort) -> Result<String> {
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
