//! What holds for every plan and whatever is there, on the output in memory.

use crate::drive::bring;
use crate::memory::Memory;
use crate::output::{Actual, Seen, Whose};
use causeway_types::host::{Address, HostPlan, Item, Key, Link, LinkKind, MAIN_TABLE, Owner, Route, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const OWNERS: [&str; 3] = ["network:red", "network:blue", "node"];

fn owner() -> impl Strategy<Value = Owner> {
    select(&OWNERS[..]).prop_map(Owner::new)
}

/// Few keys, so that they meet.
fn item() -> impl Strategy<Value = Item> {
    let device = || select(&["a", "b"][..]).prop_map(str::to_owned);
    let link = (device(), select(&[None, Some(1300), Some(1400)][..]), select(&[None, Some("b")][..]));
    let link = link.prop_map(|(name, mtu, master)| {
        let master = master.map(str::to_owned).filter(|master| *master != name);
        Item::Link(Link { name, kind: LinkKind::Bridge, mac: None, mtu, master })
    });
    let address = (device(), 1_u8..4).prop_map(|(device, number)| {
        Item::Address(Address::new(device, format!("10.0.0.{number}/24").parse().unwrap()))
    });
    let route = (1_u8..4, device(), prop::bool::ANY).prop_map(|(number, device, via)| {
        let via = via.then(|| [10, 0, 0, 1].into());
        let dest = format!("10.{number}.0.0/16").parse().unwrap();
        let target = Target::Forward { via, device: Some(device) };
        Item::Route(Route { table: MAIN_TABLE, dest, metric: 0, target, source: None, mtu: None })
    });
    prop_oneof![link, address, route]
}

fn plan() -> impl Strategy<Value = HostPlan> {
    (vec((owner(), item()), 0..10), vec(owner(), 0..2)).prop_map(|(items, holds)| {
        let mut plan = HostPlan::default();
        items.into_iter().for_each(|(owner, item)| plan.add(&owner, item));
        holds.into_iter().for_each(|owner| plan.hold(owner, "half known"));
        plan
    })
}

fn actual() -> impl Strategy<Value = Actual> {
    let whose = prop_oneof![
        owner().prop_map(Whose::Owner),
        owner().prop_map(|owner| Whose::Tag(owner.tag())),
        Just(Whose::Ours),
        Just(Whose::Unmarked),
        Just(Whose::Foreign),
    ];
    let seen = (item(), whose).prop_map(|(item, whose)| (item.key(), Seen { item, whose }));
    vec(seen, 0..10).prop_map(|all| all.into_iter().collect())
}

proptest! {
    #[test]
    fn a_second_time_nothing_is_written(plan in plan(), actual in actual(), refused in vec(item(), 0..3)) {
        let refused = refused.iter().map(Item::key).collect();
        let mut memory = Memory { actual, refused, unreadable: false };
        bring(&mut memory, &plan);
        let after = memory.actual.clone();
        prop_assert_eq!(bring(&mut memory, &plan).writes, 0);
        prop_assert_eq!(memory.actual, after);
    }

    #[test]
    fn what_is_not_ours_or_held_stays_and_what_is_planned_is_there(plan in plan(), actual in actual()) {
        let mut memory = Memory { actual: actual.clone(), ..Memory::default() };
        let problems = bring(&mut memory, &plan).problems;
        for (key, seen) in &actual {
            let held = matches!(&seen.whose, Whose::Owner(owner) if plan.hold_of(owner).is_some());
            let nobodys = matches!(seen.whose, Whose::Foreign | Whose::Unmarked);
            if seen.whose == Whose::Foreign || ((held || nobodys) && plan.get(key).is_none()) {
                prop_assert_eq!(memory.actual.get(key), Some(seen));
            }
        }
        let blamed = |key: &Key| problems.iter().any(|problem| problem.key.as_ref() == Some(key));
        for (key, planned) in plan.items() {
            let there = memory.actual.get(key).is_some_and(|seen| seen.item == planned.item);
            let waits = planned.item.needs().iter().any(blamed) || planned.item.needs().iter().any(|on| {
                plan.get(on).is_some_and(|item| item.needs().iter().any(blamed))
            });
            prop_assert!(there || blamed(key) || waits, "{} is missing", key);
        }
        for (key, seen) in &memory.actual {
            let stray = matches!(&seen.whose, Whose::Owner(owner) if plan.hold_of(owner).is_none());
            prop_assert!(!stray || plan.get(key).is_some(), "{} should have gone", key);
        }
    }
}
