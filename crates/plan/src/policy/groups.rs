//! Groups of ports that policies are about: one for each policy and network, and one for each number that a port's name has at some
//! of these pods. They do not wait for anything but the network, so neither do the ports in them.

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_record::{ObjectKey, Protocol};
use causeway_types::NetworkName;
use causeway_zone::{Change, PolicyInfo, Subject, Subjects, Zone};

use super::{InPath, name_of, networks, owner_of};
use crate::network::{Scope, of_network};
use crate::room::{Kind, SliceKey as _, Slices};

crate::slice_key! {
    /// The groups of a policy on a network.
    pub(super) struct GroupKey, GroupKeys { network: NetworkName, policy: InPath } at ["policy", "group", _, _]
}

impl GroupKey {
    pub(super) fn new(network: &NetworkName, info: &PolicyInfo) -> Self {
        Self { network: network.clone(), policy: InPath(info.key.clone()) }
    }

    /// All ports. Whoever the policy is about next is in another group: rules of before are not for him.
    pub(super) fn all(&self, info: &PolicyInfo) -> Str {
        self.path(["all", &*info.subject_mark()])
    }

    /// Those at which a port's name has a number.
    pub(super) fn named(&self, info: &PolicyInfo, protocol: Protocol, name: &str, number: u16) -> Str {
        self.path(["named", &*info.subject_mark(), &format!("{protocol} {name} {number}")])
    }
}

/// The port, in the groups of a policy.
pub(super) fn joined(
    zone: &Zone,
    network: &NetworkName,
    info: &PolicyInfo,
    pod: &ObjectKey,
    port: Planned,
) -> Planned {
    let key = GroupKey::new(network, info);
    let port = port.within::<nb::PortGroup>(&key.all(info), "ports");
    let names = info.names_at_subjects();
    let named =
        zone.named_ports(pod).iter().filter(|port| names.contains(&(port.protocol, port.name.as_str())));
    named.fold(port, |port, named| {
        port.within::<nb::PortGroup>(&key.named(info, named.protocol, &named.name, named.port), "ports")
    })
}

pub(super) struct Groups;

impl Kind<Zone> for Groups {
    type Key = GroupKey;

    fn slices(&self, zone: &Zone, only: &GroupKeys) -> Vec<GroupKey> {
        let of = |network: &NetworkName| -> Vec<GroupKey> {
            let key = |policy| GroupKey { network: network.clone(), policy };
            zone.policies_on(network).cloned().map(InPath).map(key).collect()
        };
        networks(zone, only.network.as_ref()).flat_map(of).collect()
    }

    fn plan(&self, zone: &Zone, key: &GroupKey) -> Plan {
        let Some((info, subjects)) = zone.policy_here(&key.policy.0, &key.network) else {
            return Plan::Absent;
        };
        of_network(zone, &key.network, |scope| Ok(rows(scope, key, info, subjects)))
    }

    fn priority(&self) -> u8 {
        15
    }

    fn blame(&self, _zone: &Zone, key: &GroupKey) -> Vec<Subject> {
        vec![Subject::Policy(key.policy.0.clone())]
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<GroupKey>> {
        match change {
            Change::Policy { policy, network } => {
                vec![GroupKey { network: network.clone(), policy: InPath(policy.clone()) }.into()]
            }
            Change::Network(name) => {
                vec![Slices::under(&GroupKeys { network: Some(name.clone()), policy: None })]
            }
            _ => Vec::new(),
        }
    }
}

fn rows(scope: &Scope<'_>, key: &GroupKey, info: &PolicyInfo, subjects: &Subjects) -> Vec<Planned> {
    let group = |path: Str| {
        let row = nb::PortGroup {
            name: name_of::<nb::PortGroup>(&path).into(),
            external_ids: owner_of(scope, &info.key),
            ..Default::default()
        };
        Planned::new(path, row)
    };
    let names = info.names_at_subjects();
    let named = names.iter().flat_map(|(protocol, name)| {
        subjects.numbers(*protocol, name).map(|number| key.named(info, *protocol, name, number))
    });
    std::iter::once(key.all(info)).chain(named).map(group).collect()
}
