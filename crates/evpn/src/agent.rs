//! The agent: keeps what is known, plans again what a change concerns, and says what differs.

use std::collections::{BTreeMap, BTreeSet};

use causeway_types::host::{HostPlan, HostUpdate, Item, Key, Owner, Planned, Route, Setting};
use uuid::Uuid;

use crate::annotation::Vni;
use crate::holders::Holders;
use crate::names::owner;
use crate::node::Node;
use crate::part::{Part, gateways_here, plan};
use crate::port::Port;
use crate::southbound::Southbound;
use crate::status::{Refused, Status};

/// The whole of what is known and planned. Whatever the order of events, the plan is that of what is known at the end; only where two want
/// the same does it matter who has it.
#[derive(Debug)]
pub struct Agent {
    southbound: Southbound,
    /// The node, or why nothing can be planned for it.
    node: Result<Node, String>,
    parts: BTreeMap<Vni, Part>,
    /// The ways that an earlier process has left, by table.
    left: BTreeMap<u32, Vec<Route>>,
    dirty: BTreeSet<Vni>,
    /// Whether everything is to be looked at.
    all: bool,
    /// What was said last of everybody being held; nothing has been said at first.
    held: Option<Option<String>>,
    /// Whether the node's own settings were asked for.
    forwards: bool,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            southbound: Southbound::default(),
            node: Err("nothing is known yet".into()),
            parts: BTreeMap::new(),
            left: BTreeMap::new(),
            dirty: BTreeSet::new(),
            all: true,
            held: None,
            forwards: false,
        }
    }
}

impl Agent {
    /// The agent's ways that the node has at the start: who has them, keeps them.
    pub fn remember(&mut self, routes: impl IntoIterator<Item = Route>) {
        for route in routes {
            self.left.entry(route.table).or_default().push(route);
        }
    }

    /// A port is so now, or gone.
    pub fn set_port(&mut self, name: &str, port: Option<Port>) {
        let touched = self.southbound.set_port(name, port);
        self.dirty.extend(touched);
    }

    /// A chassis is called so now, or gone.
    pub fn set_chassis(&mut self, id: Uuid, name: Option<String>) {
        let names = self.southbound.set_chassis(id, name);
        let ours = |name: &String| self.node.as_ref().is_ok_and(|node| node.chassis == *name);
        // A gateway may have been there before its chassis was known.
        self.all |= names[0] != names[1] && names.iter().flatten().any(ours);
    }

    /// The node says so of itself, or why it cannot.
    pub fn set_node(&mut self, node: Result<Node, String>) {
        self.all |= self.node != node;
        self.node = node;
    }

    /// All of the southbound database at once: what is not in it is gone.
    pub fn replace(&mut self, ports: BTreeMap<String, Port>, chassis: BTreeMap<Uuid, String>) {
        for id in self.southbound.chassis_ids().into_iter().filter(|id| !chassis.contains_key(id)) {
            self.set_chassis(id, None);
        }
        chassis.into_iter().for_each(|(id, name)| self.set_chassis(id, Some(name)));
        for name in self.southbound.port_names().into_iter().filter(|name| !ports.contains_key(name)) {
            self.set_port(&name, None);
        }
        ports.into_iter().for_each(|(name, port)| self.set_port(&name, Some(port)));
    }

    /// Everything is forgotten, and nothing is planned until it is known again.
    pub fn forget(&mut self, why: &str) {
        self.southbound.clear();
        self.set_node(Err(why.to_owned()));
    }

    /// Plans again what changes concern, and says what differs from what was said before.
    pub fn follow(&mut self) -> HostUpdate {
        let mut update = HostUpdate::default();
        let held = self.node.as_ref().err().cloned();
        if self.held.as_ref() != Some(&held) {
            update.hold_all = Some(held.clone());
            self.held = Some(held.clone());
        }
        let all = std::mem::take(&mut self.all);
        let mut dirty = std::mem::take(&mut self.dirty);
        // What is held keeps its parts: nobody knows better.
        let Ok(node) = &self.node else {
            self.all = true;
            return update;
        };
        if all {
            dirty.extend(self.southbound.vnis().into_iter().chain(self.parts.keys().copied()));
        }
        for vni in dirty {
            let part = plan(&self.southbound, node, vni, &self.holders(node, vni));
            let before = self.parts.get(&vni).map(|part| &part.items);
            update.items.extend(differences(&owner(vni), before, &part.items));
            match part == Part::default() {
                true => drop(self.parts.remove(&vni)),
                false => drop(self.parts.insert(vni, part)),
            }
        }
        self.left.clear();
        self.forward(&mut update);
        update
    }

    /// Who has what of a VNI, by the last plan or by what was left before the first one.
    fn holders(&self, node: &Node, vni: Vni) -> Holders {
        let left = || {
            let gateways: Vec<_> = gateways_here(&self.southbound, node, vni).collect();
            let routes = self.left.get(&vni.number()).map(Vec::as_slice).unwrap_or_default();
            Holders::of_routes(routes, &gateways)
        };
        self.parts.get(&vni).map_or_else(left, |part| part.holders.clone())
    }

    /// A node that exposes somebody forwards; it does not stop when nobody is left, since others may rely on it.
    fn forward(&mut self, update: &mut HostUpdate) {
        let forwards = self.parts.values().any(|part| !part.items.is_empty());
        if forwards != self.forwards {
            self.forwards = forwards;
            let item = forwarding();
            let planned = forwards.then(|| Planned { owner: Owner::node("evpn"), item: item.clone() });
            update.items.insert(item.key(), planned);
        }
    }

    /// The whole plan, from what is known.
    pub fn plan(&self) -> HostPlan {
        let Ok(node) = &self.node else {
            return HostPlan::held(self.node.as_ref().err().cloned().unwrap_or_default());
        };
        let mut whole = HostPlan::default();
        for vni in self.southbound.vnis() {
            let part = plan(&self.southbound, node, vni, &self.holders(node, vni));
            part.items.into_values().for_each(|item| whole.add(&owner(vni), item));
        }
        if !whole.items().is_empty() {
            whole.add(&Owner::node("evpn"), forwarding());
        }
        whole
    }

    /// What is exposed, what is not, and why.
    pub fn status(&self) -> Status {
        let mut refused: Vec<Refused> = self.parts.values().flat_map(|part| part.refused.clone()).collect();
        let bad = self.southbound.bad();
        refused
            .extend(bad.map(|(port, reason)| Refused { port: port.to_owned(), reason: reason.to_owned() }));
        refused.sort();
        refused.dedup();
        Status {
            held: self.node.as_ref().err().cloned(),
            vnis: self.parts.values().filter_map(|part| part.status.clone()).collect(),
            refused,
        }
    }
}

/// For IPv6 there is no such setting of a device.
fn forwarding() -> Item {
    Item::Setting(Setting { path: "ipv6/conf/all/forwarding".into(), value: "1".into() })
}

fn differences(
    owner: &Owner,
    before: Option<&BTreeMap<Key, Item>>,
    now: &BTreeMap<Key, Item>,
) -> BTreeMap<Key, Option<Planned>> {
    let was = |key: &Key| before.and_then(|before| before.get(key));
    let gone = before.into_iter().flatten().filter(|(key, _)| !now.contains_key(*key));
    let gone = gone.map(|(key, _)| (key.clone(), None));
    let new = now.iter().filter(|(key, item)| was(key) != Some(*item));
    let new =
        new.map(|(key, item)| (key.clone(), Some(Planned { owner: owner.clone(), item: item.clone() })));
    gone.chain(new).collect()
}
