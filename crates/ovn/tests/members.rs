//! Members of sets and maps, one by one: plans, foreign hands and lost moments, against a database as a value.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovn::apply::Options;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Planner, RowKey, Str, path};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use support::Stage;
use support::database::{Database, Row};

/// How wide the slices of a plan are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slices {
    /// A row with all its members.
    Whole,
    /// A row; all members of a column.
    Columns,
    /// A row; a single member. Everything at once is still planned by columns.
    Single,
}

/// One address set and one load balancer.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// Whether the rows are planned; members may be, whether the rows are or not.
    there: bool,
    addresses: BTreeSet<u8>,
    vips: BTreeMap<u8, u8>,
    held: bool,
}

#[derive(Clone, Debug)]
struct World {
    pairs: BTreeMap<u8, Pair>,
    slices: Slices,
    /// How many members have been planned so far.
    planned: Cell<usize>,
}

fn address(n: u8) -> String {
    format!("fd00::{n}")
}

fn vip(n: u8) -> String {
    format!("10.96.0.{n}:80")
}

fn set_path(i: u8) -> Str {
    path::join(["t", &i.to_string(), "set"])
}

fn balancer_path(i: u8) -> Str {
    path::join(["t", &i.to_string(), "lb"])
}

fn address_path(i: u8, n: u8) -> Str {
    path::join(["t", &i.to_string(), "set", "addresses", &address(n)])
}

fn vip_path(i: u8, n: u8) -> Str {
    path::join(["t", &i.to_string(), "lb", "vips", &vip(n)])
}

fn covers(slice: &str, path: &str) -> bool {
    if slice.is_empty() || slice.ends_with(':') { path.starts_with(slice) } else { path == slice }
}

impl World {
    fn new(slices: Slices) -> World {
        World { pairs: BTreeMap::new(), slices, planned: Cell::default() }
    }

    fn with(slices: Slices, addresses: impl IntoIterator<Item = u8>) -> World {
        let mut world = World::new(slices);
        let addresses = addresses.into_iter().collect();
        world.pairs.insert(0, Pair { there: true, addresses, ..Pair::default() });
        world
    }

    fn addresses(&mut self) -> &mut BTreeSet<u8> {
        &mut self.pairs.get_mut(&0).unwrap().addresses
    }

    /// Only what a slice covers is made: a single member costs one member.
    fn rows(&self, i: u8, pair: &Pair, slice: &str) -> Vec<Planned> {
        let (set, balancer) = (set_path(i), balancer_path(i));
        let mut rows = Vec::new();
        if pair.there && covers(slice, &set) {
            let row = nb::AddressSet { name: format!("as{i}").into(), ..Default::default() };
            rows.push(Planned::new(set.clone(), row));
        }
        if pair.there && covers(slice, &balancer) {
            let row = nb::LoadBalancer { name: format!("lb{i}").into(), ..Default::default() };
            rows.push(Planned::new(balancer.clone(), row));
        }
        let addresses = pair.addresses.iter().filter(|n| covers(slice, &address_path(i, **n)));
        rows.extend(addresses.map(|n| Planned::member::<nb::AddressSet>(&set, "addresses", address(*n))));
        let vips = pair.vips.iter().filter(|(n, _)| covers(slice, &vip_path(i, **n)));
        rows.extend(vips.map(|(n, target)| {
            Planned::pair::<nb::LoadBalancer>(&balancer, "vips", vip(*n), format!("10.0.0.{target}:80"))
        }));
        let members = rows.iter().filter(|row| row.member_of.is_some()).count();
        self.planned.set(self.planned.get() + members);
        rows
    }

    /// The database as planned.
    fn expected(&self) -> Database {
        let mut database = Database::default();
        for (i, pair) in self.pairs.iter().filter(|(_, pair)| pair.there) {
            let ids = |path: Str| BTreeMap::from([("k8s.ovn.org/id".to_owned(), path.to_string())]);
            let set = Row {
                name: format!("as{i}"),
                external_ids: ids(set_path(*i)),
                addresses: pair.addresses.iter().map(|n| address(*n)).collect(),
                ..Row::default()
            };
            let balancer = Row {
                name: format!("lb{i}"),
                external_ids: ids(balancer_path(*i)),
                vips: pair.vips.iter().map(|(n, t)| (vip(*n), format!("10.0.0.{t}:80"))).collect(),
                ..Row::default()
            };
            let key = RowKey::of::<nb::AddressSet>(&set_path(*i)).uuid;
            database.rows.insert(("Address_Set".into(), key), set);
            let key = RowKey::of::<nb::LoadBalancer>(&balancer_path(*i)).uuid;
            database.rows.insert(("Load_Balancer".into(), key), balancer);
        }
        database
    }
}

impl Planner for World {
    fn roots(&self) -> &[&str] {
        &["t"]
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        if prefix.split(':').count() > 4 {
            return vec![prefix.into()];
        }
        let mut slices = Vec::new();
        for i in self.pairs.keys() {
            match self.slices {
                Slices::Whole => slices.push(Str::from(format!("t:{i}:"))),
                Slices::Columns | Slices::Single => slices.extend([
                    set_path(*i),
                    balancer_path(*i),
                    Str::from(format!("{}:addresses:", set_path(*i))),
                    Str::from(format!("{}:vips:", balancer_path(*i))),
                ]),
            }
        }
        let inside = |slice: &Str| slice.starts_with(prefix) || covers(slice, prefix);
        slices.into_iter().filter(inside).collect()
    }

    fn slice_len(&self, path: &str) -> usize {
        let component = match self.slices {
            Slices::Whole => 1,
            Slices::Columns => 3,
            Slices::Single => return path.len(),
        };
        path.match_indices(':').nth(component).map_or(path.len(), |(at, _)| at + 1)
    }

    fn plan(&self, slice: &str) -> Plan {
        let here = |i: u8| slice.starts_with(&format!("t:{i}:"));
        let mut rows = Vec::new();
        for (i, pair) in self.pairs.iter().filter(|(i, _)| here(**i)) {
            if pair.held {
                return Plan::Hold("the test says so".into());
            }
            rows.extend(self.rows(*i, pair, slice));
        }
        if rows.is_empty() { Plan::Absent } else { Plan::Rows(rows) }
    }
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    /// The plan: an address comes or goes, a VIP gets a target or goes, rows come or go, a pair is held or not.
    Address(u8, u8),
    Vip(u8, u8, Option<u8>),
    Rows(u8),
    Hold(u8),
    /// Another hand on the database.
    ForeignAddress(u8, u8),
    ForeignVip(u8, u8, Option<u8>),
    ForeignClear(u8),
    ForeignDelete(u8),
    ForeignId(u8),
    /// The engine or the server gets a turn.
    Work,
    Serve,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let (i, n, target) = (0u8..3, 0u8..5, prop::option::of(0u8..3));
    prop_oneof![
        4 => (i.clone(), n.clone()).prop_map(|(i, n)| Event::Address(i, n)),
        4 => (i.clone(), n.clone(), target.clone()).prop_map(|(i, n, t)| Event::Vip(i, n, t)),
        2 => i.clone().prop_map(Event::Rows),
        1 => i.clone().prop_map(Event::Hold),
        2 => (i.clone(), n.clone()).prop_map(|(i, n)| Event::ForeignAddress(i, n)),
        2 => (i.clone(), n, target).prop_map(|(i, n, t)| Event::ForeignVip(i, n, t)),
        1 => i.clone().prop_map(Event::ForeignClear),
        1 => i.clone().prop_map(Event::ForeignDelete),
        1 => i.prop_map(Event::ForeignId),
        8 => Just(Event::Work),
        6 => Just(Event::Serve),
        1 => Just(Event::Restart),
    ]
}

fn options() -> Options {
    Options { round_rows: 4, txn_rows: 2, batch: 3, ..Options::default() }
}

fn toggle(set: &mut BTreeSet<u8>, n: u8) {
    if !set.remove(&n) {
        set.insert(n);
    }
}

/// The rows of one pair, as another hand finds them by name.
fn rows_of(database: &mut Database, i: u8) -> impl Iterator<Item = &mut Row> {
    let names = [format!("as{i}"), format!("lb{i}")];
    database.rows.values_mut().filter(move |row| names.contains(&row.name))
}

/// Only what changed is dirty: the path of one member or of one row.
fn change_plan(stage: &mut Stage, world: &mut World, event: &Event) {
    match *event {
        Event::Address(i, n) => {
            toggle(&mut world.pairs.entry(i).or_default().addresses, n);
            stage.engine.dirty(&address_path(i, n));
        }
        Event::Vip(i, n, target) => {
            let vips = &mut world.pairs.entry(i).or_default().vips;
            match target {
                Some(target) => drop(vips.insert(n, target)),
                None => drop(vips.remove(&n)),
            }
            stage.engine.dirty(&vip_path(i, n));
        }
        Event::Rows(i) => {
            let pair = world.pairs.entry(i).or_default();
            pair.there = !pair.there;
            stage.engine.dirty(&set_path(i));
            stage.engine.dirty(&balancer_path(i));
        }
        Event::Hold(i) => {
            let pair = world.pairs.entry(i).or_default();
            pair.held = !pair.held;
            stage.engine.dirty(&format!("t:{i}:"));
        }
        _ => {}
    }
}

fn by_another_hand(database: &mut Database, event: &Event) {
    match *event {
        Event::ForeignAddress(i, n) => {
            for row in rows_of(database, i).filter(|row| row.name.starts_with("as")) {
                if !row.addresses.remove(&address(n)) {
                    row.addresses.insert(address(n));
                }
            }
        }
        Event::ForeignVip(i, n, target) => {
            for row in rows_of(database, i).filter(|row| row.name.starts_with("lb")) {
                match target {
                    Some(target) => drop(row.vips.insert(vip(n), format!("10.9.9.{target}:80"))),
                    None => drop(row.vips.remove(&vip(n))),
                }
            }
        }
        Event::ForeignClear(i) => rows_of(database, i).for_each(|row| {
            row.addresses.clear();
            row.vips.clear();
        }),
        Event::ForeignDelete(i) => database.rows.retain(|_, row| row.name != format!("as{i}")),
        Event::ForeignId(i) => rows_of(database, i).for_each(|row| row.external_ids.clear()),
        _ => {}
    }
}

fn happen(stage: &mut Stage, world: &mut World, event: &Event) {
    change_plan(stage, world, event);
    stage.foreign(|database| by_another_hand(database, event));
    match event {
        Event::Work => drop(stage.work(world)),
        Event::Serve => drop(stage.serve()),
        Event::Restart => *stage = Stage::start(stage.database.clone(), options()),
        _ => {}
    }
}

/// What is held is let go, so that the end is certain.
fn end(stage: &mut Stage, world: &mut World) {
    for (i, pair) in world.pairs.iter_mut().filter(|(_, pair)| pair.held) {
        pair.held = false;
        stage.engine.dirty(&format!("t:{i}:"));
    }
    stage.settle(world);
}

fn slices() -> impl Strategy<Value = Slices> {
    prop_oneof![Just(Slices::Whole), Just(Slices::Columns), Just(Slices::Single)]
}

proptest! {
    #[test]
    fn any_history_ends_as_planned(slices in slices(), events in prop::collection::vec(event(), 0..40)) {
        let mut world = World::new(slices);
        let mut stage = Stage::start(Database::default(), options());
        for event in &events {
            happen(&mut stage, &mut world, event);
        }
        end(&mut stage, &mut world);
        let expected = world.expected();
        // A row that lost its path to another hand and is not planned any more is nobody's.
        stage.foreign(|database| {
            database.rows.retain(|key, row| !row.external_ids.is_empty() || expected.rows.contains_key(key));
        });
        prop_assert_eq!(&stage.database, &expected);
        // No column of members was ever written whole, and nothing is left to do, for this engine or a new one.
        prop_assert!(stage.sent.iter().all(|op| op["op"] != "update" || op["row"].get("addresses").is_none()));
        prop_assert!(stage.sent.iter().all(|op| op["op"] != "update" || op["row"].get("vips").is_none()));
        let sent = stage.sent.len();
        stage.engine.dirty("");
        stage.settle(&world);
        prop_assert_eq!(stage.sent.len(), sent);
        let mut restarted = Stage::start(stage.database.clone(), options());
        restarted.settle(&world);
        prop_assert_eq!(restarted.sent.len(), 0);
    }
}

fn settled(world: &World) -> Stage {
    let mut stage = Stage::start(Database::default(), Options::default());
    stage.settle(world);
    assert_eq!(stage.database, world.expected());
    stage.sent.clear();
    stage
}

fn set_uuid() -> String {
    RowKey::of::<nb::AddressSet>(&set_path(0)).uuid.to_string()
}

fn of_set() -> Value {
    json!([["_uuid", "==", ["uuid", set_uuid()]]])
}

/// The row and its members are one insert where they come together, and one mutate where they don't.
#[test]
fn a_row_comes_with_its_members_or_before_them() {
    let mut stage = Stage::start(Database::default(), Options::default());
    stage.settle(&World::with(Slices::Whole, 0..100));
    let ops: Vec<&str> = stage.sent.iter().map(|op| op["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["insert", "insert"]);
    let mut stage = Stage::start(Database::default(), Options::default());
    stage.settle(&World::with(Slices::Columns, 0..100));
    let ops: Vec<&str> = stage.sent.iter().map(|op| op["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["insert", "insert", "wait", "mutate"]);
}

/// One member that joins a set costs one planned member and one mutate of one member, however large the set is.
#[test]
fn one_member_costs_one_member() {
    for size in [10, 200] {
        let mut world = World::with(Slices::Single, 0..size);
        let mut stage = settled(&world);
        world.planned.set(0);
        world.addresses().insert(250);
        stage.engine.dirty(&address_path(0, 250));
        stage.settle(&world);
        let wait = json!({"op": "wait", "table": "Address_Set", "where": of_set(), "columns": ["_uuid"],
            "until": "==", "timeout": 0, "rows": [{"_uuid": ["uuid", set_uuid()]}]});
        let join = json!({"op": "mutate", "table": "Address_Set", "where": of_set(),
            "mutations": [["addresses", "insert", "fd00::250"]]});
        assert_eq!(stage.sent, [wait, join]);
        assert_eq!(world.planned.get(), 1);

        stage.sent.clear();
        world.addresses().remove(&250);
        stage.engine.dirty(&address_path(0, 250));
        stage.settle(&world);
        let leave = json!({"op": "mutate", "table": "Address_Set", "where": of_set(),
            "mutations": [["addresses", "delete", "fd00::250"]]});
        assert_eq!(stage.sent, [leave]);
        assert_eq!(world.planned.get(), 1);
        let stats = stage.engine.stats();
        assert_eq!((stats.joined, stats.left, stats.foreign_changes), (1 + u64::from(size), 1, 0));
    }
}

/// What somebody else does to one member is put right by looking at that member alone.
#[test]
fn a_foreign_hand_on_one_member_dirties_that_member() {
    let mut world = World::with(Slices::Single, 0..100);
    world.pairs.get_mut(&0).unwrap().vips = BTreeMap::from([(1, 1), (2, 2)]);
    let mut stage = settled(&world);
    let edits: [&dyn Fn(&mut Row); 4] = [
        &|row| assert!(row.addresses.remove(&address(7))),
        &|row| assert!(row.addresses.insert("192.0.2.1".into())),
        &|row| drop(row.vips.insert(vip(1), "192.0.2.1:80".into())),
        &|row| drop(row.vips.insert(vip(9), "192.0.2.1:80".into())),
    ];
    for (n, edit) in edits.into_iter().enumerate() {
        let table = if n < 2 { "Address_Set" } else { "Load_Balancer" };
        world.planned.set(0);
        let before = stage.engine.stats().foreign_changes;
        stage.foreign(|database| {
            database.rows.iter_mut().filter(|((of, _), _)| of == table).for_each(|(_, row)| edit(row));
        });
        stage.settle(&world);
        assert_eq!(stage.database, world.expected());
        assert_eq!(stage.engine.stats().foreign_changes, before + 1);
        assert!(world.planned.get() <= 1, "{} members planned", world.planned.get());
    }
}

/// A plan that lacks its input keeps the members that are there.
#[test]
fn a_held_slice_keeps_its_members() {
    for slices in [Slices::Whole, Slices::Columns, Slices::Single] {
        let mut world = World::with(slices, 0..10);
        let mut stage = settled(&world);
        let before = stage.database.clone();
        world.pairs.get_mut(&0).unwrap().held = true;
        world.addresses().clear();
        stage.engine.dirty("");
        stage.settle(&world);
        assert_eq!((stage.database, stage.sent), (before, vec![]));
    }
}

/// A member of a guard's set that goes waits until nothing is left to create.
#[test]
fn a_set_that_grows_shrinks_last() {
    let mut world = World::with(Slices::Whole, [1, 2]);
    let mut stage = settled(&world);
    *world.addresses() = BTreeSet::from([2, 3]);
    world.pairs.insert(1, Pair { there: true, ..Pair::default() });
    stage.engine.dirty("");
    stage.settle(&world);
    assert_eq!(stage.database, world.expected());
    let mutations: Vec<&Value> =
        stage.sent.iter().map(|op| &op["mutations"]).filter(|m| !m.is_null()).collect();
    let (join, leave) =
        (json!([["addresses", "insert", "fd00::3"]]), json!([["addresses", "delete", "fd00::1"]]));
    assert_eq!(mutations, [&join, &leave]);
    assert_eq!(stage.sent.last().unwrap()["mutations"], leave, "after the rows of the other pair");
}

/// Others that come and go for ever keep nobody in a set who was taken out of it.
#[test]
fn what_goes_late_goes() {
    let mut world = World::with(Slices::Single, [1, 2]);
    let mut stage = settled(&world);
    world.addresses().remove(&2);
    stage.engine.dirty(&address_path(0, 2));
    // Each time there is something to remove there is a load balancer, which goes first, and before the next look another one.
    for i in 1..60 {
        world.pairs.insert(i, Pair { there: true, ..Pair::default() });
        stage.engine.dirty(&format!("t:{i}:"));
        if i > 1 {
            world.pairs.remove(&(i - 1));
            stage.engine.dirty(&format!("t:{}:", i - 1));
        }
        let there =
            |stage: &Stage, i: u8| stage.database.rows.values().any(|row| row.name == format!("lb{i}"));
        while !there(&stage, i) || (i > 1 && there(&stage, i - 1)) {
            stage.work(&world);
            stage.serve();
        }
    }
    let members = rows_of(&mut stage.database, 0).map(|row| row.addresses.len()).max();
    assert_eq!(members, Some(1), "it is still there");
}

/// A large start-up is looked at in parts, between which the caller gets a turn.
#[test]
fn a_start_up_gives_turns_to_others() {
    let world = World {
        pairs: (0..200).map(|i| (i, Pair { there: true, ..Pair::default() })).collect(),
        ..World::new(Slices::Columns)
    };
    let database = settled(&world).database;
    let options = Options { batch: 50, ..Options::default() };
    let mut stage = Stage::start(database, options);
    let mut turns = 0;
    while stage.work(&world) {
        turns += 1;
    }
    // 400 rows are there and 800 slices planned: at least so many parts, and each of them ends.
    assert!(turns >= 1200 / 50, "{turns} turns");
    assert_eq!(stage.sent, Vec::<Value>::new());
}
