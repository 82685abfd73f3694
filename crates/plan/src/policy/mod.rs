//! Policies: who may talk to whom.
//!
//! Owns the paths `policy:…`. For each namespace, network and direction that some policy closes, a group of ports with a drop on it;
//! for each policy and network a group of ports, and ACLs of its rules in it; for each selector that rules name a set of addresses,
//! one for each class of networks that reach the same. A port's place in all these groups belongs to the pod's own slice: the port is
//! never there without them. Rows exist only where a policy is about a pod of this node.
//!
//! A changed policy changes in one transaction, that of its ACLs. What they name has paths that follow from what it is, not from where it
//! stands: groups from whom the policy is about, sets from whom they select. So the new ones fill before and the old ones empty after. A
//! pod that runs is closed after what it is still allowed is there, and opened before that goes.
//!
//! ```text
//!   policy:deny:<network>:<namespace>:<direction>    the drop
//!   policy:group:<network>:<policy>                  the policy's ports; those with a named port in a group of their own
//!   policy:rules:<network>:<policy>                  its ACLs, and sets of subnets where they are many
//!   policy:peers:<set>:<class>:<number>:<family>     addresses, each planned and written alone
//! ```

mod deny;
mod groups;
mod matches;
mod peers;
mod rules;

use causeway_ovn::generated::nb;
use causeway_ovn::{Planned, TypedRow, reference};
use causeway_record::{Logging, ObjectKey, Severity};
use causeway_types::{Family, NamespaceName, NetworkName};
use causeway_zone::{Action, Direction, PolicyInfo, PolicyKey, Zone};
use std::borrow::Cow;
use std::net::IpAddr;

use crate::common::ACL_METER;
use crate::network::Scope;
use crate::room::{Component, Room};
use crate::row::{Map, ids, map, with};

/// Policies.
pub(crate) static ROOM: Room<Zone> =
    Room { name: "policies", kinds: &[&deny::Denials, &groups::Groups, &rules::Rules, &peers::PeerSets] };

const MOST_IN_A_NAME: usize = 63;
/// Direction and number of a rule, and some of the policy's name.
const END_OF_A_NAME: usize = 24;

impl Component for Direction {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.as_str())
    }

    fn read(text: &str) -> Option<Self> {
        Self::BOTH.into_iter().find(|direction| direction.as_str() == text)
    }
}

/// A policy in a path: kind, namespace and name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct InPath(pub(crate) PolicyKey);

impl Component for InPath {
    fn text(&self) -> Cow<'_, str> {
        let namespace = self.0.namespace().map_or("", NamespaceName::as_str);
        Cow::Owned(format!("{}/{namespace}/{}", self.0.kind(), self.0.name()))
    }

    fn read(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('/')?;
        let (namespace, name) = rest.split_once('/')?;
        let namespace =
            Some(namespace).filter(|text| !text.is_empty()).map(NamespaceName::new).transpose().ok()?;
        PolicyKey::of(kind, namespace, name).map(Self)
    }
}

/// The name of an object that tenants' texts decide about. The usual short hash would let somebody find a text whose object is called
/// like another tenant's.
fn name_of<R: TypedRow>(path: &str) -> String {
    format!("a{}", reference::<R>(path).simple())
}

/// A port of a pod of this node on its primary network, in its place among the policies that are about the pod. It is never
/// there without the drops.
pub(crate) fn protected(zone: &Zone, scope: &Scope<'_>, pod: &ObjectKey, port: Planned) -> Planned {
    let policies = zone.policies_of(pod);
    let mut port =
        policies.iter().fold(port, |port, info| groups::joined(zone, scope.name(), info, pod, port));
    for guard in policies.iter().flat_map(|info| rules::denials(zone, scope, info)) {
        port = port.guarded_by::<nb::Acl>(&guard);
    }
    for direction in Direction::BOTH {
        let closed = policies.iter().any(|info| info.isolates(direction));
        port = deny::joined(scope.name(), &pod.namespace, (direction, closed), port);
    }
    port
}

/// An ACL at a tier and priority. Egress is looked at behind load balancers, where the destination is a pod.
pub(crate) fn acl(
    direction: Direction,
    (tier, priority): (i64, i64),
    action: &str,
    matches: String,
) -> nb::Acl {
    let outgoing = direction == Direction::Egress;
    nb::Acl {
        action: action.into(),
        direction: if outgoing { "from-lport" } else { "to-lport" }.into(),
        priority,
        r#match: matches.into(),
        meter: Some(ACL_METER.into()),
        tier,
        options: map(outgoing.then_some(("apply-after-lb", "true"))),
        ..Default::default()
    }
}

/// Packets that come from an address.
pub(crate) fn from(address: IpAddr) -> String {
    format!("{} == {address}", matches::field(Direction::Ingress, Family::of(&address)))
}

/// A name of an ACL. The database takes 63 characters: what is longer loses some of its middle, for the beginning says whose it is and
/// the end which of his rules.
fn short(name: String) -> String {
    let count = name.chars().count();
    if count <= MOST_IN_A_NAME {
        return name;
    }
    let begin = name.chars().take(MOST_IN_A_NAME - END_OF_A_NAME - 2);
    begin.chain("..".chars()).chain(name.chars().skip(count - END_OF_A_NAME)).collect()
}

/// The same with a name and a log, as the policy's namespace or the policy itself wants it.
fn logged(row: nb::Acl, name: String, severity: Option<Severity>) -> nb::Acl {
    let name = short(name);
    let severity = severity.map(|severity| severity.as_str().into());
    nb::Acl { name: Some(name.into()), log: severity.is_some(), severity, ..row }
}

fn severity_of(logging: Logging, action: Action) -> Option<Severity> {
    match action {
        Action::Allow => logging.allow,
        Action::Deny => logging.deny,
        Action::Pass => logging.pass,
    }
}

/// What is logged of a policy.
fn logging_of(zone: &Zone, info: &PolicyInfo) -> Logging {
    info.key.namespace().map_or(info.logging, |namespace| zone.logging(namespace))
}

/// Keys that say whose a row is.
fn owner(scope: &Scope<'_>, kind: &str, name: &str) -> Map {
    let owner = [
        ("k8s.ovn.org/owner-controller", scope.net.names.controller()),
        ("k8s.ovn.org/owner-type", kind.to_owned()),
        ("k8s.ovn.org/name", name.to_owned()),
    ];
    with(ids(scope.net), owner)
}

/// The same for a policy.
fn owner_of(scope: &Scope<'_>, key: &PolicyKey) -> Map {
    let (kind, name) = match key {
        PolicyKey::Network(key) => ("NetworkPolicy".to_owned(), format!("{}:{}", key.namespace, key.name)),
        PolicyKey::Cluster(id) => (id.kind.to_string(), id.name.clone()),
    };
    owner(scope, &kind, &name)
}

/// Whether networks' names are those of one network or of all.
fn networks<'a>(zone: &'a Zone, only: Option<&'a NetworkName>) -> impl Iterator<Item = &'a NetworkName> {
    let wanted = move |name: &&NetworkName| only.is_none_or(|only| only == *name);
    zone.networks_with_policies().filter(wanted).filter(|name| crate::network::is_rendered(zone, name))
}
