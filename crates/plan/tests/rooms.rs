//! A feature of one's own, through the public interface: its slices, what follows from a fact, whom it blames, and its rows
//! on a real database. ARCHITECTURE.md tells how to add one in ten lines; this is that feature.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_node::Applier;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Planner};
use causeway_plan::room::{House, Kind, Room, SliceKey, Slices};
use causeway_plan::slice_key;
use causeway_types::{NetworkName, ObjectName};
use causeway_zone::{Change, Subject, Zone};
use proptest::prelude::*;
use support::server::{Databases, run, settle};
use support::*;

slice_key! {
    /// The doorbell of a network.
    struct BellKey, BellKeys { network: NetworkName, tone: String } at ["bell", _, "tone", _]
}

/// Gives each network an address set that nobody asked for.
struct Bells;

const TONE: &str = "a:b%c";

impl BellKey {
    fn of_network(network: &NetworkName) -> Self {
        Self { network: network.clone(), tone: TONE.into() }
    }
}

impl Kind<Zone> for Bells {
    type Key = BellKey;

    fn slices(&self, zone: &Zone, only: &BellKeys) -> Vec<BellKey> {
        let networks = zone.networks().filter(|name| only.network.as_ref().is_none_or(|only| only == *name));
        networks.map(BellKey::of_network).collect()
    }

    fn plan(&self, zone: &Zone, key: &BellKey) -> Plan {
        if zone.active(&key.network).is_none() {
            return Plan::Absent;
        }
        let row = nb::AddressSet { name: format!("bell_{}", key.network).into(), ..Default::default() };
        Plan::Rows(vec![Planned::new(key.path(["set"]), row)])
    }

    fn priority(&self) -> u8 {
        90
    }

    fn blame(&self, _zone: &Zone, key: &BellKey) -> Vec<Subject> {
        vec![Subject::Network(key.network.clone())]
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<BellKey>> {
        match change {
            Change::Network(name) => {
                vec![Slices::under(&BellKeys { network: Some(name.clone()), tone: None })]
            }
            _ => Vec::new(),
        }
    }
}

static BELLS: Room<Zone> = Room { name: "bells", kinds: &[&Bells] };

/// The rooms that there are, and one more.
fn rooms() -> Vec<&'static Room<Zone>> {
    causeway_plan::NORTHBOUND.iter().copied().chain([&BELLS]).collect()
}

#[test]
fn a_feature_of_ones_own() {
    let mut zone = two_nodes(Ip::V4, None);
    let rooms = rooms();
    let changes = zone.apply_nad(&blue(Ip::V4));
    let house = House::new(&zone, &rooms);
    let slice = "bell:cluster_udn_blue:tone:a%3Ab%25c:";
    assert!(house.dirty(&changes).contains("bell:cluster_udn_blue:tone:"));
    assert_eq!(house.slices("bell:cluster_udn_blue:"), [slice]);
    assert_eq!(house.slice_len(&format!("{slice}set")), slice.len());
    assert_eq!(house.blame(slice), [Subject::Network(NetworkName::new("cluster_udn_blue").unwrap())]);
    assert_eq!(house.priority(slice), 90);
    assert!(house.roots().contains(&"bell") && house.roots().contains(&"cnc"));
}

#[test]
fn its_rows_on_a_real_database() {
    run(async {
        let mut databases = Databases::start();
        let mut zone = two_nodes(Ip::V4, None);
        zone.apply_nad(&blue(Ip::V4));
        let rooms = rooms();
        let writer = &mut databases.north_writer;
        settle(writer, &House::new(&zone, &rooms)).await;
        let names = |writer: &Applier| -> Vec<String> {
            let table = writer.replica().table("Address_Set").unwrap();
            let rows = writer.replica().rows(table);
            rows.filter_map(|row| Some(row.get("name")?.one()?.as_str()?.to_string())).collect()
        };
        let mut there = names(writer);
        there.sort();
        assert_eq!(there, ["bell_cluster_udn_blue", "bell_default"]);
        let changes = zone.delete_nad(&blue(Ip::V4).key);
        let house = House::new(&zone, &rooms);
        house.dirty(&changes).iter().for_each(|prefix| writer.dirty(prefix));
        settle(writer, &house).await;
        assert_eq!(names(writer), ["bell_default"]);
        // Without the room its rows are nobody's any more, and stay: only what is ours is touched.
        settle(writer, &causeway_plan::northbound(&zone)).await;
        assert_eq!(names(writer), ["bell_default"]);
    });
}

slice_key! {
    /// Every kind of component, one after the other.
    struct LongKey, LongKeys { network: NetworkName, name: ObjectName, text: String } at ["long", _, "by", _, _]
}

slice_key! {
    /// A slice that is one row.
    struct RowKey, RowKeys { text: String } is ["row", _, "end"]
}

fn texts() -> impl Strategy<Value = String> {
    "[a-z:%/ äß0-9]{1,12}"
}

proptest! {
    /// One definition, both directions: what a key prints, it reads; what lies in a slice is said to lie in it.
    #[test]
    fn keys_are_read_as_they_are_printed(name in "[a-z][a-z0-9]{0,8}", text in texts(), rest in texts()) {
        let (network, object) = (NetworkName::new(name.as_str()).unwrap(), ObjectName::new(name.as_str()).unwrap());
        let key = LongKey { network, name: object, text: text.clone() };
        let slice = key.slice();
        prop_assert_eq!(LongKey::of(&slice), Some((key.clone(), slice.len())));
        let path = key.path([rest.as_str(), "end"]);
        prop_assert!(path.starts_with(&slice));
        prop_assert_eq!(LongKey::of(&path), Some((key, slice.len())));
        let row = RowKey { text };
        let path = row.slice();
        prop_assert!(!path.ends_with(':'));
        prop_assert_eq!(RowKey::of(&path), Some((row, path.len())));
        prop_assert_eq!(RowKey::of(&format!("{path}:below")), None);
        prop_assert_eq!(LongKey::of(&path), None);
    }
}

/// What is asked for part by part is what is asked for at once.
#[test]
fn all_parts_are_the_whole() {
    let zone = support::connected(support::Ip::Dual, "both");
    let plan = causeway_plan::northbound(&zone);
    for prefix in ["", "network:", "cnc:road:", "network:cluster_udn_blue:core:", "network:none:"] {
        let parts = (0..).map_while(|part| plan.slices_in_part(prefix, part));
        assert_eq!(parts.flatten().collect::<Vec<_>>(), plan.slices(prefix), "{prefix:?}");
    }
    assert!((0..).map_while(|part| plan.slices_in_part("", part)).count() > 10, "each kind is one");
}
