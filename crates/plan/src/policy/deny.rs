//! What closes pods to what nobody allows: a group of ports for each namespace, network and direction, with a drop on it. A pod that
//! comes to itself by a service gets in all the same.

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_types::{NamespaceName, NetworkName};
use causeway_zone::{Change, Direction, Subject, Zone};

use super::{acl, from, logged, matches, name_of, owner};
use crate::network::{Result, Scope, is_rendered, of_network};
use crate::room::{Kind, SliceKey as _, Slices};
use crate::row::with;

crate::slice_key! {
    /// A direction that is closed for pods of a namespace on a network.
    pub(super) struct DenyKey, DenyKeys { network: NetworkName, namespace: NamespaceName, direction: Direction }
        at ["policy", "deny", _, _, _]
}

const DROP: (i64, i64) = (2, 1000);
const THROUGH: (i64, i64) = (2, 1001);

impl DenyKey {
    fn group(&self) -> Str {
        self.path(["group"])
    }

    fn drop(&self) -> Str {
        self.path(["drop"])
    }
}

/// The port, closed in a direction or not.
pub(super) fn joined(
    network: &NetworkName,
    namespace: &NamespaceName,
    (direction, closed): (Direction, bool),
    port: Planned,
) -> Planned {
    let key = DenyKey { network: network.clone(), namespace: namespace.clone(), direction };
    let port = port.closed_by::<nb::PortGroup>(&key.group(), "ports", closed);
    if closed { port.guarded_by::<nb::Acl>(&key.drop()) } else { port }
}

pub(super) struct Denials;

impl Kind<Zone> for Denials {
    type Key = DenyKey;

    fn slices(&self, zone: &Zone, only: &DenyKeys) -> Vec<DenyKey> {
        let wanted = |(network, namespace, _): &&(NetworkName, NamespaceName, Direction)| {
            only.network.as_ref().is_none_or(|only| only == network)
                && only.namespace.as_ref().is_none_or(|only| only == namespace)
                && is_rendered(zone, network)
        };
        let key = |(network, namespace, direction): &(NetworkName, NamespaceName, Direction)| DenyKey {
            network: network.clone(),
            namespace: namespace.clone(),
            direction: *direction,
        };
        zone.isolations().filter(wanted).map(key).collect()
    }

    fn plan(&self, zone: &Zone, key: &DenyKey) -> Plan {
        if !zone.is_isolated(&key.network, &key.namespace, key.direction) {
            return Plan::Absent;
        }
        of_network(zone, &key.network, |scope| rows(zone, scope, key))
    }

    fn priority(&self) -> u8 {
        15
    }

    fn blame(&self, _zone: &Zone, key: &DenyKey) -> Vec<Subject> {
        vec![Subject::Network(key.network.clone())]
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<DenyKey>> {
        let (network, namespace) = match change {
            Change::Isolation { namespace, network } => (network, Some(namespace.clone())),
            Change::Network(network) => (network, None),
            _ => return Vec::new(),
        };
        vec![Slices::under(&DenyKeys { network: Some(network.clone()), namespace, direction: None })]
    }
}

fn rows(zone: &Zone, scope: &Scope<'_>, key: &DenyKey) -> Result<Vec<Planned>> {
    let (group, word) = (key.group(), key.direction.as_str());
    let name = name_of::<nb::PortGroup>(&group);
    let external_ids =
        with(owner(scope, "NetpolNamespace", &format!("{}:{word}", key.namespace)), [("direction", word)]);
    let port = if key.direction == Direction::Ingress { "outport" } else { "inport" };
    let acl = |part: &str, at, action: &str, matches: String| {
        let row = acl(key.direction, at, action, matches);
        let row = logged(row, format!("NP:{}:{word}", key.namespace), None);
        (key.path([part]), nb::Acl { external_ids: external_ids.clone(), ..row })
    };
    let severity = zone.logging(&key.namespace).deny;
    let (drop_at, drop) = acl("drop", DROP, "drop", format!("{port} == @{name}"));
    let drop = nb::Acl { log: severity.is_some(), severity: severity.map(|one| one.as_str().into()), ..drop };
    let neighbours = acl("neighbours", THROUGH, "allow", format!("{port} == @{name} && (arp || nd)"));
    let group_row = nb::PortGroup {
        name: name.as_str().into(),
        external_ids: external_ids.clone(),
        ..Default::default()
    };
    let in_group =
        |(path, row): (Str, nb::Acl)| Planned::new(path, row).within::<nb::PortGroup>(&group, "acls");
    let icmp = scope
        .config
        .icmp_through_policies
        .then(|| acl("icmp", THROUGH, "allow-related", format!("{port} == @{name} && (icmp4 || icmp6)")));
    let itself = (key.direction == Direction::Ingress).then(|| scope.itself()).transpose()?;
    let itself = itself.map(|sources| {
        let sources = matches::either(sources.into_iter().map(from));
        acl("itself", THROUGH, "allow-related", format!("{port} == @{name} && {sources}"))
    });
    let acls = [(drop_at, drop), neighbours].into_iter().chain(icmp).chain(itself).map(in_group);
    Ok(std::iter::once(Planned::new(group.clone(), group_row)).chain(acls).collect())
}
