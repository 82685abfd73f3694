//! Sets of addresses that rules name. Each address is planned and written alone, so a pod that joins costs the same however large
//! the set is.
//!
//! Addresses come with the ports, before the rules that name the set, and go after them.

use std::borrow::Cow;
use std::net::IpAddr;

use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_record::Protocol;
use causeway_types::{Family, NetworkName};
use causeway_zone::{Change, Class, Number, PeerSetHere, SetSpec, Subject, Zone};

use super::name_of;
use crate::room::{Component, Kind, SliceKey as _, Slices};
use crate::row::map;

crate::slice_key! {
    /// A set for a class of networks.
    pub(super) struct SetKey, SetKeys { set: String, class: String, number: OfNumber, family: OfFamily }
        at ["policy", "peers", _, _, _, _]
}

/// A port's number in a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OfNumber(Number);

impl Component for OfNumber {
    fn text(&self) -> Cow<'_, str> {
        match self.0 {
            None => Cow::Borrowed("any"),
            Some((protocol, number)) => Cow::Owned(format!("{protocol}-{number}")),
        }
    }

    fn read(text: &str) -> Option<Self> {
        if text == "any" {
            return Some(Self(None));
        }
        let (word, number) = text.split_once('-')?;
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let protocol = all.into_iter().find(|protocol| protocol.to_string() == word)?;
        Some(Self(Some((protocol, number.parse().ok()?))))
    }
}

/// A family in a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OfFamily(Family);

impl Component for OfFamily {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(short(self.0))
    }

    fn read(text: &str) -> Option<Self> {
        [Family::Ipv4, Family::Ipv6].into_iter().find(|family| short(*family) == text).map(Self)
    }
}

fn short(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "v4",
        Family::Ipv6 => "v6",
    }
}

/// A set that a rule names: its path, and its name in matches.
pub(super) fn named(
    zone: &Zone,
    spec: &SetSpec,
    class: &Class,
    number: Number,
    family: Family,
) -> (Str, String) {
    let key = SetKey {
        set: zone.set_mark(spec).to_string(),
        class: class.key.to_string(),
        number: OfNumber(number),
        family: OfFamily(family),
    };
    let path = row_path(&key);
    let name = name_of::<nb::AddressSet>(&path);
    (path, name)
}

fn row_path(key: &SetKey) -> Str {
    key.path(["set"])
}

/// A set has both, whatever its networks have: while one of them cannot be rendered, rules that stay as they are still name it.
const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

pub(super) struct PeerSets;

impl Kind<Zone> for PeerSets {
    type Key = SetKey;

    fn slices(&self, zone: &Zone, only: &SetKeys) -> Vec<SetKey> {
        let wanted = |only: &Option<String>, text: &str| only.as_ref().is_none_or(|only| only == text);
        let sets =
            zone.peer_sets().filter(|(set, class)| wanted(&only.set, set) && wanted(&only.class, class));
        let of = |(set, class): (&causeway_zone::SetMark, &std::sync::Arc<str>)| -> Vec<SetKey> {
            let Some(here) = zone.peer_set(set, class) else { return Vec::new() };
            let numbers = here.numbers().into_iter();
            let all = numbers.flat_map(|number| FAMILIES.map(move |family| (number, family)));
            let key = |(number, family)| SetKey {
                set: set.to_string(),
                class: class.to_string(),
                number: OfNumber(number),
                family: OfFamily(family),
            };
            all.map(key).collect()
        };
        sets.flat_map(of).collect()
    }

    fn plan(&self, zone: &Zone, key: &SetKey) -> Plan {
        let here = match found(zone, key) {
            Ok(here) => here,
            Err(plan) => return plan,
        };
        let members =
            here.addresses(key.number.0, key.family.0).into_iter().map(|address| member(key, address));
        Plan::Rows(std::iter::once(row(&here, key)).chain(members).collect())
    }

    fn plan_part(&self, zone: &Zone, key: &SetKey, part: &[String]) -> Option<Plan> {
        let here = match found(zone, key) {
            Ok(here) => here,
            Err(plan) => return Some(plan),
        };
        let texts: Vec<&str> = part.iter().map(String::as_str).collect();
        match texts.as_slice() {
            ["set"] => Some(Plan::Rows(vec![row(&here, key)])),
            ["set", "addresses", address] => {
                let address: Option<IpAddr> = address.parse().ok();
                let is_in = |address: &IpAddr| {
                    Family::of(address) == key.family.0 && here.has(key.number.0, *address)
                };
                Some(match address.filter(is_in) {
                    Some(address) => Plan::Rows(vec![member(key, address)]),
                    None => Plan::Absent,
                })
            }
            _ => None,
        }
    }

    fn priority(&self) -> u8 {
        18
    }

    fn blame(&self, zone: &Zone, _key: &SetKey) -> Vec<Subject> {
        vec![Subject::Node(zone.config().node.clone())]
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<SetKey>> {
        match change {
            Change::PeerSet { set, class } => {
                let (set, class) = (Some(set.to_string()), Some(class.to_string()));
                vec![Slices::under(&SetKeys { set, class, ..SetKeys::default() })]
            }
            Change::Peer { set, number, network, address } => {
                let classes = zone.classes_with(network.as_ref()).into_iter();
                let named = classes.filter(|class| zone.peer_set(set, class).is_some());
                let key = |class: std::sync::Arc<str>| SetKey {
                    set: set.to_string(),
                    class: class.to_string(),
                    number: OfNumber(*number),
                    family: OfFamily(Family::of(address)),
                };
                let part = |key: SetKey| Slices::part(&key, ["set", "addresses", &address.to_string()]);
                named.map(key).map(part).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The set of a slice. One that nobody names is gone, unless it is not certain who reaches whom: then somebody may. Before roads were
/// listed nobody knows either which classes there are.
fn found<'a>(zone: &'a Zone, key: &SetKey) -> Result<PeerSetHere<'a>, Plan> {
    let unknown = || Plan::Hold("not all ClusterNetworkConnects are known yet".into());
    if !zone.knows_connects() && key.class != NetworkName::default_network().as_str() {
        return Err(unknown());
    }
    let here = zone.peer_set(&key.set, &key.class);
    let exists = |here: &PeerSetHere<'_>| here.numbers().contains(&key.number.0);
    here.filter(exists).ok_or_else(|| match zone.knows_all_reach() {
        true => Plan::Absent,
        false => unknown(),
    })
}

fn row(here: &PeerSetHere<'_>, key: &SetKey) -> Planned {
    let path = row_path(key);
    let names = here.class.networks.iter().map(|name| name.as_str());
    let single = here.class.networks.len() == 1;
    let row = nb::AddressSet {
        name: name_of::<nb::AddressSet>(&path).into(),
        external_ids: map([
            ("k8s.ovn.org/owner-type", "PodSelector".to_owned()),
            ("k8s.ovn.org/name", shortened(&here.spec().to_string())),
            ("k8s.ovn.org/network", if single { names.collect() } else { "several".to_owned() }),
            ("ip-family", short(key.family.0).to_owned()),
        ]),
        ..Default::default()
    };
    Planned::new(path, row)
}

/// For people; what the set is follows from its path.
fn shortened(text: &str) -> String {
    text.chars().take(120).collect()
}

fn member(key: &SetKey, address: IpAddr) -> Planned {
    Planned::member::<nb::AddressSet>(&row_path(key), "addresses", address.to_string()).in_phase(Phase::Port)
}
