//! An output that only remembers: beside the real ones, for tests of those who ask.

use crate::error::{Error, Result};
use crate::output::{Actual, Op, Output, Seen, Wanted, Whose};
use causeway_types::host::Key;
use std::collections::BTreeSet;
use std::io;

/// An output in memory, with every kind of item.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What is there.
    pub(crate) actual: Actual,
    /// Keys whose changes are refused.
    pub(crate) refused: BTreeSet<Key>,
    /// Whether nothing can be read.
    pub(crate) unreadable: bool,
}

impl Output for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn takes(&self, _key: &Key) -> bool {
        true
    }

    fn read(&mut self, _wanted: &Wanted) -> Result<Actual> {
        if self.unreadable {
            let source = io::ErrorKind::TimedOut.into();
            return Err(Error::Refused { doing: "reading the memory".into(), source });
        }
        Ok(self.actual.clone())
    }

    fn apply(&mut self, op: &Op) -> Result<()> {
        if self.refused.contains(&op.key()) {
            let source = io::ErrorKind::PermissionDenied.into();
            return Err(Error::Refused { doing: op.to_string(), source });
        }
        match op {
            Op::Create(planned) | Op::Change { to: planned, .. } => {
                let whose = Whose::Owner(planned.owner.clone());
                drop(self.actual.insert(op.key(), Seen { item: planned.item.clone(), whose }));
            }
            Op::Delete(_) => drop(self.actual.remove(&op.key())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::bring;
    use causeway_types::host::{Address, HostPlan, Item, Link, LinkKind, Owner};

    impl Memory {
        /// Puts something there that is not ours.
        fn put_foreign(&mut self, item: Item) {
            self.actual.insert(item.key(), Seen { item, whose: Whose::Foreign });
        }
    }

    fn owner(name: &str) -> Owner {
        Owner::new(format!("network:{name}"))
    }

    fn link(name: &str) -> Item {
        let (kind, mtu) = (LinkKind::Bridge, Some(1400));
        Item::Link(Link { name: name.into(), kind, mac: None, mtu, master: None })
    }

    fn address(device: &str) -> Item {
        Item::Address(Address::new(device, "10.0.0.2/24".parse().unwrap()))
    }

    /// A link with an address for each network.
    fn plan(networks: &[&str]) -> HostPlan {
        let mut plan = HostPlan::default();
        for name in networks {
            plan.add(&owner(name), link(name));
            plan.add(&owner(name), address(name));
        }
        plan
    }

    fn keys(memory: &Memory) -> Vec<String> {
        memory.actual.keys().map(Key::to_string).collect()
    }

    #[test]
    fn what_is_planned_is_made_once_and_goes_when_it_is_not_planned_any_more() {
        let mut memory = Memory::default();
        memory.put_foreign(link("theirs"));
        assert_eq!(bring(&mut memory, &plan(&["red", "blue"])).writes, 4);
        assert_eq!(bring(&mut memory, &plan(&["red", "blue"])).writes, 0);
        assert_eq!(bring(&mut memory, &plan(&["red"])).writes, 2);
        assert_eq!(keys(&memory), ["link red", "link theirs", "address 10.0.0.2/24 of red"]);
    }

    #[test]
    fn half_a_picture_deletes_nothing_and_holds_only_its_owner() {
        let mut memory = Memory::default();
        bring(&mut memory, &plan(&["red", "blue"]));
        let mut held = HostPlan::default();
        held.hold(owner("red"), "its subnets are not known");
        assert_eq!(bring(&mut memory, &held).writes, 2);
        assert_eq!(keys(&memory), ["link red", "address 10.0.0.2/24 of red"]);
        assert_eq!(bring(&mut memory, &HostPlan::held("nothing is listed")).writes, 0);
    }

    #[test]
    fn what_cannot_be_read_is_not_written() {
        let mut memory = Memory { unreadable: true, ..Memory::default() };
        let applied = bring(&mut memory, &plan(&["red"]));
        assert_eq!((applied.writes, memory.actual.len()), (0, 0));
        assert_eq!(applied.problems.len(), 1);
    }

    #[test]
    fn one_bad_item_holds_itself_and_what_stands_on_it() {
        let refused = BTreeSet::from([link("red").key()]);
        let mut memory = Memory { refused, ..Memory::default() };
        memory.put_foreign(Item::Link(Link {
            name: "green".into(),
            kind: LinkKind::Dummy,
            mac: None,
            mtu: None,
            master: None,
        }));
        let applied = bring(&mut memory, &plan(&["red", "blue", "green"]));
        assert_eq!(applied.writes, 2);
        assert_eq!(keys(&memory), ["link blue", "link green", "address 10.0.0.2/24 of blue"]);
        let blamed: Vec<String> = applied
            .problems
            .iter()
            .map(|p| format!("{} {}", p.owner.as_ref().unwrap(), p.key.as_ref().unwrap()))
            .collect();
        assert_eq!(blamed, ["network:green link green", "network:red link red"]);
    }

    #[test]
    fn two_owners_of_one_key_are_said() {
        let mut plan = plan(&["red"]);
        let other = Item::Link(Link {
            name: "red".into(),
            kind: LinkKind::Dummy,
            mac: None,
            mtu: None,
            master: None,
        });
        plan.add(&owner("blue"), other);
        let applied = bring(&mut Memory::default(), &plan);
        let problems: Vec<String> = applied.problems.iter().map(ToString::to_string).collect();
        assert_eq!((applied.writes, problems), (2, vec![format!("link red: {}", Error::Clash)]));
    }
}
