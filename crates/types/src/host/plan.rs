//! The plan: items by key, each with its owner, and which owners are held.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hasher;

use fnv::FnvHasher;
use serde::{Deserialize, Serialize};

use super::item::Item;
use super::key::Key;
use crate::NetworkName;

const NETWORK: &str = "network:";

/// For whom an item is, and so whom to blame if it cannot be: `network:blue`, `node:tunnels`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(String);

impl Owner {
    /// An owner by its label.
    pub fn new(label: impl Into<String>) -> Self {
        Self(label.into())
    }

    /// A network as an owner.
    pub fn network(name: &NetworkName) -> Self {
        Self(format!("{NETWORK}{name}"))
    }

    /// The network, if it is one.
    pub fn as_network(&self) -> Option<NetworkName> {
        NetworkName::new(self.0.strip_prefix(NETWORK)?).ok()
    }

    /// A part of the node itself as an owner.
    pub fn node(part: &str) -> Self {
        Self(format!("node:{part}"))
    }

    /// Whether it is a part of the node itself.
    pub fn is_of_node(&self) -> bool {
        self.0.starts_with("node:")
    }

    /// The label.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A number for where a label does not fit.
    pub fn tag(&self) -> u32 {
        let mut hash = FnvHasher::default();
        hash.write(self.0.as_bytes());
        let wide = hash.finish();
        (wide >> 32) as u32 ^ wide as u32
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An item with its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// For whom.
    pub owner: Owner,
    /// What shall be there; its key follows from it.
    pub item: Item,
}

/// What shall be on a node. Whatever carries our mark and is not planned goes, unless its owner is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct HostPlan {
    items: BTreeMap<Key, Planned>,
    /// Who also asked for a key that somebody else had first.
    clashes: BTreeMap<Key, BTreeSet<Owner>>,
    holds: BTreeMap<Owner, String>,
    hold_all: Option<String>,
}

/// What differs between two plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostUpdate {
    /// What stands under a key now; none if nobody plans it any more.
    pub items: BTreeMap<Key, Option<Planned>>,
    /// Who asks in vain for a key now.
    pub clashes: BTreeMap<Key, BTreeSet<Owner>>,
    /// Why an owner is held now; none if it is not any more.
    pub holds: BTreeMap<Owner, Option<String>>,
    /// Why everybody is held now, if that differs.
    pub hold_all: Option<Option<String>>,
}

impl HostUpdate {
    /// Whether the plans are equal.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// This one, then a later one: what both say, the later one says.
    pub fn merge(&mut self, later: Self) {
        self.items.extend(later.items);
        self.clashes.extend(later.clashes);
        self.holds.extend(later.holds);
        self.hold_all = later.hold_all.or(self.hold_all.take());
    }
}

/// A plan as it is written: keys follow from items.
#[derive(Serialize, Deserialize)]
struct Written {
    items: Vec<Planned>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    clashes: Vec<(Key, BTreeSet<Owner>)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    holds: BTreeMap<Owner, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold_all: Option<String>,
}

impl HostPlan {
    /// Plans an item. Who comes second with another item for the same key does not get it, and that is remembered.
    pub fn add(&mut self, owner: &Owner, item: Item) {
        let key = item.key();
        match self.items.get(&key) {
            None => drop(self.items.insert(key, Planned { owner: owner.clone(), item })),
            Some(first) if first.item == item => {}
            Some(_) => drop(self.clashes.entry(key).or_default().insert(owner.clone())),
        }
    }

    /// Makes another plan of it.
    pub fn update(&mut self, update: HostUpdate) {
        for (key, planned) in update.items {
            match planned {
                Some(planned) => drop(self.items.insert(key, planned)),
                None => drop(self.items.remove(&key)),
            }
        }
        for (key, owners) in update.clashes {
            match owners.is_empty() {
                true => drop(self.clashes.remove(&key)),
                false => drop(self.clashes.insert(key, owners)),
            }
        }
        for (owner, reason) in update.holds {
            match reason {
                Some(reason) => drop(self.holds.insert(owner, reason)),
                None => drop(self.holds.remove(&owner)),
            }
        }
        if let Some(hold_all) = update.hold_all {
            self.hold_all = hold_all;
        }
    }

    /// What an owner shall have is not known: what it has stays.
    pub fn hold(&mut self, owner: Owner, reason: impl Into<String>) {
        self.holds.insert(owner, reason.into());
    }

    /// A plan of which nothing is known: everything stays.
    pub fn held(reason: impl Into<String>) -> Self {
        Self { hold_all: Some(reason.into()), ..Self::default() }
    }

    /// The items by key.
    pub const fn items(&self) -> &BTreeMap<Key, Planned> {
        &self.items
    }

    /// One item.
    pub fn get(&self, key: &Key) -> Option<&Item> {
        self.items.get(key).map(|planned| &planned.item)
    }

    /// Who asked in vain for a key that somebody else has.
    pub const fn clashes(&self) -> &BTreeMap<Key, BTreeSet<Owner>> {
        &self.clashes
    }

    /// Why an owner is held, if it is.
    pub fn hold_of(&self, owner: &Owner) -> Option<&str> {
        self.hold_all.as_ref().or_else(|| self.holds.get(owner)).map(String::as_str)
    }

    /// The owners that are held one by one, with the reasons.
    pub const fn holds(&self) -> &BTreeMap<Owner, String> {
        &self.holds
    }

    /// Why everybody is held, if so.
    pub fn hold_all(&self) -> Option<&str> {
        self.hold_all.as_deref()
    }
}

impl From<HostPlan> for HostUpdate {
    /// What makes this plan of one in which nothing is planned.
    fn from(plan: HostPlan) -> Self {
        Self {
            items: plan.items.into_iter().map(|(key, planned)| (key, Some(planned))).collect(),
            clashes: plan.clashes,
            holds: plan.holds.into_iter().map(|(owner, reason)| (owner, Some(reason))).collect(),
            hold_all: Some(plan.hold_all),
        }
    }
}

impl From<HostPlan> for Written {
    fn from(plan: HostPlan) -> Self {
        Self {
            items: plan.items.into_values().collect(),
            clashes: plan.clashes.into_iter().collect(),
            holds: plan.holds,
            hold_all: plan.hold_all,
        }
    }
}

impl From<Written> for HostPlan {
    fn from(written: Written) -> Self {
        let items = written.items.into_iter().map(|planned| (planned.item.key(), planned));
        Self {
            items: items.collect(),
            clashes: written.clashes.into_iter().collect(),
            holds: written.holds,
            hold_all: written.hold_all,
        }
    }
}

impl fmt::Display for HostPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for planned in self.items.values() {
            writeln!(f, "{} ({})", planned.item, planned.owner)?;
        }
        for (key, owners) in &self.clashes {
            let owners: Vec<&str> = owners.iter().map(Owner::as_str).collect();
            writeln!(f, "clash: {key} is asked for by {} too", owners.join(", "))?;
        }
        for (owner, reason) in &self.holds {
            writeln!(f, "hold {owner}: {reason}")?;
        }
        self.hold_all.as_ref().map_or(Ok(()), |reason| writeln!(f, "hold everything: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Address, Link, LinkKind, MAIN_TABLE, NftElement, NftFamily, NftTable, Route, Target};
    use super::*;

    fn address(device: &str, net: &str) -> Item {
        Item::Address(Address::new(device, net.parse().unwrap()))
    }

    fn route(dest: &str, via: &str) -> Item {
        let target = Target::Forward { via: Some(via.parse().unwrap()), device: Some("mp0".into()) };
        Item::Route(Route {
            table: MAIN_TABLE,
            dest: dest.parse().unwrap(),
            metric: 0,
            target,
            source: None,
            mtu: None,
        })
    }

    /// Two updates in one slot do what they do one after the other.
    #[test]
    fn updates_that_wait_are_one() {
        let (red, blue) = (Owner::new("network:red"), Owner::new("network:blue"));
        let planned = |owner: &Owner, item: Item| Some(Planned { owner: owner.clone(), item });
        let (there, later) = (address("mp0", "10.0.0.2/24"), route("10.1.0.0/16", "10.0.0.1"));
        let first = HostUpdate {
            items: [(there.key(), planned(&red, there.clone())), (later.key(), planned(&red, later.clone()))]
                .into(),
            clashes: [(there.key(), [blue.clone()].into())].into(),
            holds: [(red.clone(), Some("half known".into()))].into(),
            hold_all: Some(Some("nothing is known".into())),
        };
        let second = HostUpdate {
            items: [(there.key(), None), (later.key(), planned(&blue, later.clone()))].into(),
            clashes: [(there.key(), BTreeSet::new())].into(),
            holds: [(red, None)].into(),
            hold_all: None,
        };
        let mut apart = HostPlan::default();
        apart.update(first.clone());
        apart.update(second.clone());
        let (mut slot, mut together) = (HostUpdate::default(), HostPlan::default());
        slot.merge(first);
        slot.merge(second);
        slot.merge(HostUpdate::default());
        together.update(slot);
        assert_eq!(together, apart);
        assert_eq!(together.items().len(), 1);
    }

    fn plan() -> HostPlan {
        let (red, blue) = (Owner::new("network:red"), Owner::new("network:blue"));
        let mut plan = HostPlan::default();
        let kind = LinkKind::Cable { peer: "eth0".into(), namespace: Some("n1".into()) };
        plan.add(&red, route("fd00::/64", "fd00:1::1"));
        plan.add(&red, address("mp0", "10.0.0.2/24"));
        plan.add(
            &red,
            Item::Link(Link {
                name: "mp0".into(),
                kind,
                mac: None,
                mtu: Some(1400),
                master: Some("br0".into()),
            }),
        );
        plan.add(&blue, route("fd00::/64", "fd00:2::1"));
        plan.add(&blue, address("mp0", "10.0.0.2/24"));
        plan.hold(Owner::new("network:green"), "no subnet yet");
        plan
    }

    #[test]
    fn a_plan_prints_in_the_order_in_which_it_can_be_made() {
        assert_eq!(
            plan().to_string(),
            "link mp0: cable to eth0 in n1, MTU 1400, port of br0 (network:red)\n\
             address 10.0.0.2/24 of mp0 (network:red)\n\
             route to fd00::/64 in table 254 with metric 1024: via fd00:1::1 by mp0 (network:red)\n\
             clash: route to fd00::/64 in table 254 with metric 1024 is asked for by network:blue too\n\
             hold network:green: no subnet yet\n"
        );
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let text = serde_json::to_string(&plan()).unwrap();
        assert_eq!(serde_json::from_str::<HostPlan>(&text).unwrap(), plan());
    }

    #[test]
    fn a_plan_becomes_another_one() {
        let mut other = HostPlan::default();
        other.update(plan().into());
        assert_eq!(other, plan());
        let (route, green) = (route("fd00::/64", "fd00:1::1").key(), Owner::new("network:green"));
        other.update(HostUpdate {
            items: [(route.clone(), None)].into(),
            clashes: [(route, BTreeSet::new())].into(),
            holds: [(green, None)].into(),
            hold_all: None,
        });
        assert_eq!((other.items().len(), other.clashes().len(), other.holds().len()), (2, 0, 0));
    }

    #[test]
    fn a_table_has_the_elements_that_are_planned_for_it() {
        let body =
            format!("map a {{\n{}}}\nset b {{\n{}}}", NftTable::place_of("a"), NftTable::place_of("b"));
        let table = NftTable { family: NftFamily::Inet, name: "t".into(), body };
        let element = |table: &str, element: &str, value: Option<&str>| NftElement {
            family: NftFamily::Inet,
            table: table.into(),
            set: "a".into(),
            element: element.into(),
            value: value.map(str::to_owned),
        };
        let all = [element("t", "1", Some("2")), element("t", "3", None), element("other", "4", None)];
        let filled = table.filled(&all).body;
        assert_eq!(filled, "map a {\n\t\telements = { 1 : 2, 3 }\n}\nset b {\n\t\t# elements of b\n}");
    }

    #[test]
    fn a_hold_is_of_one_owner_or_of_all() {
        let (green, red) = (Owner::new("network:green"), Owner::new("network:red"));
        assert_eq!((plan().hold_of(&green), plan().hold_of(&red)), (Some("no subnet yet"), None));
        assert_eq!(HostPlan::held("not listed").hold_of(&red), Some("not listed"));
    }

    #[test]
    fn items_know_what_they_stand_on() {
        let needs = |item: Item| item.needs();
        assert_eq!(needs(address("mp0", "10.0.0.2/24")), [Key::Link("mp0".into())]);
        assert_eq!(needs(route("10.0.0.0/8", "10.0.0.1")), [Key::Link("mp0".into())]);
        let setting = |path: &str| Key::Setting(path.into());
        assert_eq!(setting("ipv6/conf/mp0/accept_ra").device(), Some("mp0"));
        assert_eq!(setting("ipv6/conf/all/forwarding").device(), None);
        assert_eq!(setting("ipv4/ip_forward").device(), None);
    }
}
