//! The kernel as an output: namespaces, links, settings, addresses, routes in any table, rules, neighbours.
//!
//! What is ours carries a mark: links an alias, routes, rules, neighbours and addresses the number of a protocol,
//! addresses the mark of their link too. Settings, states and namespaces cannot be marked: they are made so and never taken back.

mod messages;
mod read;
mod shown;
mod write;

use crate::error::Result;
use crate::messages::SeenLink;
use crate::netlink::Netlink;
use crate::output::{Actual, Op, Output, Wanted};
use causeway_types::host::{Item, Key, Owner, Route};
use std::collections::BTreeMap;

/// By what things in the kernel are known as ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark {
    /// The beginning of the aliases of links.
    pub name: &'static str,
    /// The protocol of routes, rules, neighbours and addresses. The kernel keeps the numbers from 5 on for whoever wants one.
    pub protocol: u8,
}

/// Who makes and removes a link that carries our alias.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Maker {
    Us,
    Others,
}

impl Mark {
    /// The mark of the node role.
    pub const NODE: Mark = Mark { name: "causeway", protocol: 85 };
    /// The mark of the EVPN agent, which may run beside the node role.
    pub const EVPN: Mark = Mark { name: "causeway-evpn", protocol: 84 };

    fn alias(self, maker: Maker, owner: &Owner) -> String {
        let word = if maker == Maker::Us { "made" } else { "given" };
        format!("{}:{word}:{owner}", self.name)
    }

    pub(crate) fn is_on(self, alias: &str) -> bool {
        self.read(alias).is_some()
    }

    /// Who made a link with this alias, and for whom it is, if it is ours.
    fn read(self, alias: &str) -> Option<(Maker, Owner)> {
        let (maker, owner) = alias.strip_prefix(self.name)?.strip_prefix(':')?.split_once(':')?;
        match maker {
            "made" => Some((Maker::Us, Owner::new(owner))),
            "given" => Some((Maker::Others, Owner::new(owner))),
            _ => None,
        }
    }
}

/// The kernel of one network namespace.
pub struct KernelOutput {
    mark: Mark,
    netlink: Netlink,
}

/// The links of a namespace, by name and by number.
#[derive(Default)]
struct Links {
    by_name: BTreeMap<String, SeenLink>,
    names: BTreeMap<u32, String>,
}

impl KernelOutput {
    /// The kernel of the namespace that the calling thread is in.
    ///
    /// # Errors
    /// If the process may not.
    pub fn open(mark: Mark) -> Result<KernelOutput> {
        Ok(KernelOutput { mark, netlink: Netlink::open()? })
    }
}

impl Output for KernelOutput {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn takes(&self, key: &Key) -> bool {
        match key {
            Key::Namespace(_)
            | Key::Link(_)
            | Key::Setting(_)
            | Key::Address { .. }
            | Key::State(_)
            | Key::Route { .. }
            | Key::Rule { .. }
            | Key::Neighbour { .. }
            | Key::Proxy { .. } => true,
            Key::Port(_)
            | Key::BridgePort(_)
            | Key::Table { .. }
            | Key::Element { .. }
            | Key::Flow { .. }
            | Key::Section(_) => false,
        }
    }

    fn normal(&mut self, item: &Item) -> Result<Item> {
        Ok(match item {
            Item::Route(route) => Item::Route(Route { metric: route.kept_metric(), ..route.clone() }),
            other => other.clone(),
        })
    }

    fn read(&mut self, wanted: &Wanted) -> Result<Actual> {
        self.read_all(wanted)
    }

    fn apply(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Create(planned) => self.make(None, planned),
            Op::Change { from, to } => self.make(Some(from), to),
            Op::Delete(item) => self.remove(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_says_who_made_the_link_and_for_whom() {
        let owner = Owner::new("network:red");
        for maker in [Maker::Us, Maker::Others] {
            assert_eq!(Mark::NODE.read(&Mark::NODE.alias(maker, &owner)), Some((maker, owner.clone())));
        }
        for foreign in ["", "uplink", "causeway", "causeway-sandbox:made:x", "causeway:x:y"] {
            assert_eq!(Mark::NODE.read(foreign), None, "{foreign}");
        }
    }
}
