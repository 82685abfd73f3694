use causeway_types::NetworkId;
use proptest::prelude::*;

use super::*;

fn subnet(text: &str, prefix: u8) -> ConnectSubnet {
    ConnectSubnet::new(text.parse().unwrap(), prefix).unwrap()
}

fn pool_of(subnets: &[(&str, u8)], topology: ConnectTopology, max_nodes: u32) -> ConnectPool {
    let subnets: Vec<ConnectSubnet> = subnets.iter().map(|(text, prefix)| subnet(text, *prefix)).collect();
    ConnectPool::new(&subnets, topology, max_nodes).unwrap()
}

fn transit(subnets: &[(&str, u8)]) -> ConnectPool {
    pool_of(subnets, ConnectTopology::Transit, 1000)
}

fn dual() -> ConnectPool {
    transit(&[("192.168.0.0/16", 24), ("fd00::/112", 120)])
}

fn layer3(id: u32) -> ConnectOwner {
    ConnectOwner::Layer3(NetworkId::new(id).unwrap())
}

fn layer2(id: u32) -> ConnectOwner {
    ConnectOwner::Layer2(NetworkId::new(id).unwrap())
}

fn node(id: u32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn take(pool: &mut ConnectPool, owner: ConnectOwner) -> String {
    let cidrs: Vec<String> = pool.reserve(owner).unwrap().iter().map(Cidr::to_string).collect();
    cidrs.join(" + ")
}

fn annotation(pool: &ConnectPool) -> Vec<(ConnectOwner, Vec<Cidr>)> {
    pool.owners().map(|owner| (owner, pool.subnets_of(owner).unwrap())).collect()
}

fn restore(
    pool: &mut ConnectPool,
    slots: Option<u32>,
    entries: &[(ConnectOwner, Vec<Cidr>)],
) -> Vec<LostBlock> {
    pool.restore(slots, entries.iter().map(|(owner, cidrs)| (*owner, &cidrs[..])), &ConnectRecord::default())
}

fn cidrs(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn refusal(error: Error) -> RefusalReason {
    match error {
        Error::Connect { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

/// The capacities of the design: the specification's sample, a wide one, an IPv6 one.
#[test]
fn capacities() {
    let table = [
        (vec![("192.168.0.0/16", 24)], 128, 255),
        (vec![("192.168.0.0/16", 24), ("fd01::/64", 96)], 128, 255),
        (vec![("10.0.0.0/8", 23)], 256, 127),
        (vec![("fd01::/64", 96)], 1002, 32),
        (vec![("192.168.0.0/24", 28)], 8, 16),
        (vec![("fd00::/8", 64)], 1002, 32),
    ];
    for (subnets, slots, capacity) in table {
        let pool = transit(&subnets);
        assert_eq!((pool.slots(), pool.layer3_capacity()), (slots, capacity), "{subnets:?}");
        let compact = pool_of(&subnets, ConnectTopology::Compact, 1000);
        let blocks = subnets.iter().map(|(text, prefix)| subnet(text, *prefix).blocks()).min().unwrap();
        assert_eq!(compact.layer3_capacity(), blocks);
    }
}

/// cnc-cases D07 keeps only the cluster's families; here a connection has the families it names.
/// D08: no subnet at all is an error.
#[test]
fn d07_d08_construction() {
    assert_eq!(ConnectPool::new(&[], ConnectTopology::Transit, 10), Err(Error::ConnectSubnets));
    let twice = [subnet("10.0.0.0/16", 24), subnet("11.0.0.0/16", 24)];
    assert_eq!(ConnectPool::new(&twice, ConnectTopology::Transit, 10), Err(Error::ConnectSubnets));
    let mut six_first = transit(&[("fd00::/112", 120), ("192.168.0.0/16", 24)]);
    assert_eq!(take(&mut six_first, layer3(1)), "192.168.0.0/24 + fd00::/120");
}

/// cnc-cases E01, E02, E04, E05, E07, E08, E11 (not rotated), E16 (where upstream's families drift apart, ours do not).
#[test]
fn e01_to_e16_layer3_blocks() {
    let mut four = transit(&[("192.168.0.0/16", 24)]);
    let got = [1, 2, 3].map(|id| take(&mut four, layer3(id)));
    assert_eq!(got, ["192.168.0.0/24", "192.168.1.0/24", "192.168.2.0/24"]);
    let mut six = transit(&[("fd00::/112", 120)]);
    let got = [1, 2, 3].map(|id| take(&mut six, layer3(id)));
    assert_eq!(got, ["fd00::/120", "fd00::100/120", "fd00::200/120"]);
    let mut both = dual();
    let got = [layer3(1), layer3(1), layer3(2)].map(|owner| take(&mut both, owner));
    assert_eq!(
        got,
        ["192.168.0.0/24 + fd00::/120", "192.168.0.0/24 + fd00::/120", "192.168.1.0/24 + fd00::100/120"]
    );
    let mut unequal = transit(&[("192.168.0.0/16", 24), ("fd01::/64", 120)]);
    assert_eq!(take(&mut unequal, layer3(1)), "192.168.0.0/24 + fd01::/120");
    let mut halves = transit(&[("192.168.0.0/16", 25)]);
    assert_eq!(
        [1, 2, 3].map(|id| take(&mut halves, layer3(id))),
        ["192.168.0.0/25", "192.168.0.128/25", "192.168.1.0/25"]
    );
}

/// cnc-cases E13 (17th fails), E17 (the smaller family decides, nothing leaks), P02.
#[test]
fn e13_e17_p02_no_block_left() {
    let mut pool = transit(&[("192.168.0.0/16", 20), ("fd00::/124", 126)]);
    for id in 1..=4 {
        pool.reserve(layer3(id)).unwrap();
    }
    let before = pool.clone();
    let reason = refusal(pool.reserve(layer3(5)).unwrap_err());
    let subnet = "fd00::/124".parse().unwrap();
    assert_eq!(reason, RefusalReason::Blocks { subnet, blocks: 4, waiting: 0 });
    assert_eq!(reason.to_string(), "connect subnet fd00::/124 has no block left of its 4");
    assert_eq!(pool, before);
    let mut tiny = transit(&[("192.168.0.0/30", 31)]);
    assert_eq!([1, 2].map(|id| take(&mut tiny, layer3(id))), ["192.168.0.0/31", "192.168.0.2/31"]);
    assert!(tiny.reserve(layer3(3)).is_err());
    assert_eq!(tiny.nodes_without_link(&[node(2)]), [node(2)], "one link per block is number 0");
}

/// cnc-cases F01, F02, F04, F05, F07, F08, H02: the lowest free index, not the next.
#[test]
fn f01_to_f08_release_and_reuse() {
    let mut pool = dual();
    take(&mut pool, layer3(1));
    take(&mut pool, layer3(2));
    pool.release(layer3(9));
    pool.release(layer3(1));
    assert_eq!(take(&mut pool, layer3(3)), "192.168.0.0/24 + fd00::/120");
    assert_eq!(take(&mut pool, layer3(4)), "192.168.2.0/24 + fd00::200/120");
    assert_eq!(take(&mut pool, layer3(2)), "192.168.1.0/24 + fd00::100/120");
    take(&mut pool, layer2(1));
    take(&mut pool, layer2(2));
    pool.release(layer3(3));
    pool.release(layer2(1));
    assert_eq!(take(&mut pool, layer3(5)), "192.168.0.0/24 + fd00::/120");
    assert_eq!(take(&mut pool, layer2(3)), "192.168.3.0/31 + fd00::300/127");
}

/// cnc-cases G01, G02, G04, G05, G07, G08, H01; G19, G20 rotate bytes, ours count linearly.
#[test]
fn g01_to_g20_h01_parcels() {
    let mut pool = dual();
    let owners = [layer3(1), layer3(2), layer2(1), layer2(2), layer2(1), layer3(3), layer2(3)];
    let expected = [
        "192.168.0.0/24 + fd00::/120",
        "192.168.1.0/24 + fd00::100/120",
        "192.168.2.0/31 + fd00::200/127",
        "192.168.2.2/31 + fd00::202/127",
        "192.168.2.0/31 + fd00::200/127",
        "192.168.3.0/24 + fd00::300/120",
        "192.168.2.4/31 + fd00::204/127",
    ];
    assert_eq!(owners.map(|owner| take(&mut pool, owner)), expected);
    let mut wide = transit(&[("10.0.0.0/16", 20)]);
    assert_eq!([1, 2].map(|id| take(&mut wide, layer2(id))), ["10.0.0.0/31", "10.0.0.2/31"]);
}

/// cnc-cases G10, G14, G16.
#[test]
fn g10_g14_g16_parcels_fill_holes_before_blocks() {
    let mut pool = transit(&[("192.168.0.0/24", 28), ("fd00::/120", 124)]);
    for id in 1..=20 {
        pool.reserve(layer2(id)).unwrap();
    }
    assert_eq!(pool.shared.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    pool.release(layer2(5));
    assert_eq!(take(&mut pool, layer2(21)), "192.168.0.8/31 + fd00::8/127");
    assert_eq!(take(&mut pool, layer2(22)), "192.168.0.40/31 + fd00::28/127");
}

/// cnc-cases G11, G13 go on counting after a release; ours gives out the lowest parcel that no zone can still have.
#[test]
fn g11_g13_a_freed_parcel_comes_back_after_its_quarantine() {
    let table = [
        (vec![("fd00::/48", 64)], "fd00::4/127", "fd00::/127"),
        (
            vec![("192.168.0.0/16", 24), ("fd00::/112", 120)],
            "192.168.0.4/31 + fd00::4/127",
            "192.168.0.0/31 + fd00::/127",
        ),
    ];
    for (subnets, third, fourth) in table {
        let mut pool = transit(&subnets);
        pool.reserve(layer2(1)).unwrap();
        pool.reserve(layer2(2)).unwrap();
        pool.commit();
        pool.quarantine(layer2(1), Epoch(1));
        pool.release(layer2(1));
        assert_eq!(take(&mut pool, layer2(3)), third);
        pool.expire(&Cleared::new(Epoch(1), []));
        assert_eq!(take(&mut pool, layer2(4)), fourth);
    }
}

/// cnc-cases G17, H04, H05, I07: a block of parcels returns with its last parcel.
#[test]
fn g17_h04_h05_i07_a_block_returns_with_its_last_parcel() {
    let mut pool = transit(&[("10.100.0.0/27", 28)]);
    take(&mut pool, layer2(1));
    take(&mut pool, layer2(2));
    take(&mut pool, layer3(1));
    assert!(pool.reserve(layer3(2)).is_err());
    pool.release(layer2(1));
    assert!(pool.reserve(layer3(2)).is_err());
    pool.release(layer2(2));
    assert_eq!(take(&mut pool, layer3(2)), "10.100.0.0/28");
    assert!(pool.reserve(layer2(3)).is_err());
}

/// cnc-cases L31: the last block of a /16 has one key too few for a layer3 network, but not for parcels.
#[test]
fn l31_the_last_block_takes_parcels_only() {
    let mut pool = dual();
    for id in 1..=255 {
        pool.reserve(layer3(id)).unwrap();
    }
    let reason = refusal(pool.reserve(layer3(256)).unwrap_err());
    assert_eq!(reason, RefusalReason::Keys { networks: 255, slots: 128, waiting: 0 });
    assert_eq!(
        reason.to_string(),
        "the connect router has port keys for 255 layer3 networks of 128 nodes; the compact topology needs none"
    );
    for id in 300..427 {
        pool.reserve(layer2(id)).unwrap();
    }
    assert_eq!(pool.subnets_of(layer2(426)).unwrap()[0].to_string(), "192.168.255.252/31");
    assert!(pool.reserve(layer2(427)).is_err());
}

/// cnc-cases K07, P02 for nodes: a block has links for so many node ids.
#[test]
fn k07_nodes_beyond_the_block() {
    let pool = dual();
    let nodes = [node(2), node(200), node(127), node(128)];
    let forecast = pool.forecast(&[layer3(1), layer2(2)], &nodes);
    let expected =
        Forecast { fitting: vec![layer3(1), layer2(2)], refused: vec![], nodes: vec![node(128), node(200)] };
    assert_eq!(forecast, expected);
    assert_eq!(
        pool.forecast(&[layer2(2)], &nodes).nodes,
        vec![],
        "a layer2 network has one link for all nodes"
    );
    let compact = pool_of(&[("192.168.0.0/16", 24)], ConnectTopology::Compact, 1000);
    assert_eq!(compact.forecast(&[layer3(1)], &nodes).nodes, vec![]);
}

#[test]
fn a_forecast_names_the_first_network_that_does_not_fit() {
    let pool = transit(&[("10.0.0.0/30", 31)]);
    let forecast = pool.forecast(&[layer3(7), layer2(3), layer3(4), layer2(5)], &[]);
    assert_eq!(forecast.fitting, [layer3(7), layer2(3)]);
    assert_eq!(forecast.refused[0].owner, layer3(4));
    assert_eq!(pool.owners().count(), 0, "a question changes nothing");
}

/// cnc-cases I01, I02, I04, I05, I10; I08: the lowest hole before the restart as well as after.
#[test]
fn i01_to_i10_a_restart_keeps_blocks_and_parcels() {
    let mut old = dual();
    for owner in [layer3(1), layer3(2), layer2(100), layer2(101), layer3(3), layer3(4)] {
        old.reserve(owner).unwrap();
    }
    old.commit();
    old.release(layer3(2));
    let mut new = dual();
    assert_eq!(restore(&mut new, old.fixed_slots(), &annotation(&old)), vec![]);
    assert_eq!(new, old);
    assert_eq!(take(&mut new, layer3(5)), "192.168.1.0/24 + fd00::100/120");
    assert_eq!(take(&mut new, layer2(102)), "192.168.2.4/31 + fd00::204/127");
}

#[test]
fn annotated_subnets_that_are_not_ours_are_named() {
    let table = [
        (layer3(1), cidrs(&["10.0.0.0/24"])),
        (layer3(2), cidrs(&["192.168.0.0/25"])),
        (layer3(3), cidrs(&["192.168.3.0/24", "fd00::400/120"])),
        (layer2(4), cidrs(&["192.168.4.0/24"])),
        (layer2(5), cidrs(&["192.168.4.0/31", "fd00::402/127"])),
        (layer3(6), cidrs(&[])),
    ];
    for (owner, cidrs) in table {
        let lost = restore(&mut dual(), None, &[(owner, cidrs.clone())]);
        assert_eq!(lost, [LostBlock { owner, reason: RefusalReason::NotOurs(cidrs) }]);
    }
    let mut half = dual();
    assert_eq!(restore(&mut half, None, &[(layer3(1), cidrs(&["fd00::300/120"]))]), vec![]);
    assert_eq!(take(&mut half, layer3(1)), "192.168.3.0/24 + fd00::300/120");
}

#[test]
fn of_two_that_hold_the_same_the_smaller_network_id_stays() {
    let entries = [
        (layer3(9), cidrs(&["192.168.1.0/24"])),
        (layer3(3), cidrs(&["192.168.1.0/24"])),
        (layer2(4), cidrs(&["192.168.1.2/31"])),
        (layer2(5), cidrs(&["192.168.2.2/31"])),
        (layer3(6), cidrs(&["192.168.2.0/24"])),
    ];
    let mut pool = dual();
    let lost = restore(&mut pool, None, &entries);
    let taken = |owner, by| LostBlock { owner, reason: RefusalReason::TakenBy(by) };
    assert_eq!(lost, [taken(layer2(4), layer3(3)), taken(layer3(6), layer2(5)), taken(layer3(9), layer3(3))]);
    assert_eq!(pool.owners().collect::<Vec<_>>(), [layer3(3), layer2(5)]);
}

#[test]
fn slots_are_fixed_with_the_first_block() {
    let subnets = [("fd01::/64", 96)];
    let mut pool = pool_of(&subnets, ConnectTopology::Transit, 100);
    assert_eq!((pool.slots(), pool.fixed_slots()), (102, None));
    pool.reserve(layer3(1)).unwrap();
    pool.abort();
    assert_eq!(pool, pool_of(&subnets, ConnectTopology::Transit, 100), "an aborted write fixes nothing");
    pool.reserve(layer3(1)).unwrap();
    pool.commit();
    let mut later = pool_of(&subnets, ConnectTopology::Transit, 5000);
    restore(&mut later, pool.fixed_slots(), &annotation(&pool));
    assert_eq!(later.slots(), 102);
    later.release(layer3(1));
    assert_eq!(later.slots(), 102, "also when nobody is connected");
}

/// A number of slots that the blocks cannot have, written by somebody else, makes no link that does not exist.
#[test]
fn more_slots_than_links() {
    let mut pool = transit(&[("10.0.0.0/28", 30)]);
    restore(&mut pool, Some(500), &[]);
    let got = [1, 2, 3].map(|id| take(&mut pool, layer2(id)));
    assert_eq!(got, ["10.0.0.0/31", "10.0.0.2/31", "10.0.0.4/31"]);
    assert_eq!(pool.nodes_without_link(&[node(2)]), [node(2)]);
}

/// cnc-cases P20: a failed write gives everything back.
#[test]
fn p20_abort_undoes_what_was_not_committed() {
    let mut pool = dual();
    pool.reserve(layer3(1)).unwrap();
    pool.commit();
    let before = pool.clone();
    pool.reserve(layer3(2)).unwrap();
    pool.reserve(layer2(3)).unwrap();
    pool.abort();
    assert_eq!(pool, before);
}

/// Who had which place is nowhere recorded.
fn without_memory(pool: &ConnectPool) -> ConnectPool {
    ConnectPool { left: BTreeMap::new(), ..pool.clone() }
}

/// Whoever comes back while his place rests has it as if he had never left; not so a network that has only his number.
#[test]
fn a_place_waits_for_its_owner() {
    let mut pool = dual();
    let places = [take(&mut pool, layer3(1)), take(&mut pool, layer2(2))];
    pool.commit();
    let leave = |pool: &mut ConnectPool| {
        for owner in [layer3(1), layer2(2)] {
            pool.quarantine(owner, Epoch(1));
            pool.release(owner);
        }
    };
    leave(&mut pool);
    take(&mut pool, layer3(3));
    assert_eq!([take(&mut pool, layer3(1)), take(&mut pool, layer2(2))], places);
    assert_eq!(pool.record(), ConnectRecord::default());
    leave(&mut pool);
    [layer3(1), layer2(2)].into_iter().for_each(|owner| pool.forget(owner));
    assert_ne!([take(&mut pool, layer3(1)), take(&mut pool, layer2(2))], places);
    // What has rested is anybody's.
    let mut pool = dual();
    take(&mut pool, layer3(1));
    leave(&mut pool);
    pool.expire(&Cleared::new(Epoch(1), []));
    assert_eq!(take(&mut pool, layer3(9)), places[0]);
    assert_ne!(take(&mut pool, layer3(1)), places[0]);
}

/// cnc-cases V11: a block that a zone may still have is not given to another network.
#[test]
fn v11_a_freed_place_waits_for_its_epoch() {
    let mut pool = dual();
    take(&mut pool, layer3(1));
    take(&mut pool, layer2(2));
    pool.commit();
    pool.quarantine(layer3(1), Epoch(1));
    pool.quarantine(layer2(2), Epoch(2));
    pool.release(layer3(1));
    pool.release(layer2(2));
    let mut restarted = dual();
    restarted.restore(pool.fixed_slots(), [], &pool.record());
    assert_eq!(restarted, without_memory(&pool));
    assert_eq!(take(&mut pool, layer2(3)), "192.168.1.2/31 + fd00::102/127");
    pool.expire(&Cleared::new(Epoch(1), []));
    assert_eq!(take(&mut pool, layer3(4)), "192.168.0.0/24 + fd00::/120");
    pool.expire(&Cleared::new(Epoch(2), []));
    assert_eq!(take(&mut pool, layer2(5)), "192.168.1.0/31 + fd00::100/127");
}

#[test]
fn a_refusal_says_how_many_places_wait() {
    let mut pool = transit(&[("10.0.0.0/30", 31)]);
    take(&mut pool, layer3(1));
    take(&mut pool, layer3(2));
    pool.quarantine(layer3(1), Epoch(1));
    pool.release(layer3(1));
    assert_eq!(
        pool.reserve(layer3(3)).unwrap_err().to_string(),
        "layer3_3: connect subnet 10.0.0.0/30 has no block left of its 2 (1 wait for nodes to confirm that they are gone)"
    );
}

/// cnc-cases M11: what would make the annotation too large is refused before it is written.
#[test]
fn m11_the_annotation_stays_below_its_limit() {
    let mut pool =
        pool_of(&[("10.0.0.0/8", 24), ("fd00:1111:2222:3333::/64", 96)], ConnectTopology::Compact, 1000);
    let fitting = (1..=4095).filter(|id| pool.reserve(layer3(*id)).is_ok()).count();
    assert!(pool.annotation_size() <= ANNOTATION_LIMIT);
    assert!((2_500..4_095).contains(&fitting), "{fitting}");
    assert_eq!(refusal(pool.reserve(layer3(4095)).unwrap_err()), RefusalReason::Annotation);
    let text: Vec<String> = annotation(&pool)
        .iter()
        .map(|(owner, cidrs)| format!(r#""{owner}":{{"ipv4":"{}","ipv6":"{}"}}"#, cidrs[0], cidrs[1]))
        .collect();
    let written = format!("{{{}}}", text.join(","));
    assert_eq!(pool.annotation_size(), written.len() + 1, "the count has a comma after the last entry too");
}

#[test]
fn moving_to_transit_names_who_has_no_keys() {
    let mut pool = pool_of(&[("10.0.0.0/8", 24)], ConnectTopology::Compact, 1000);
    for id in 1..=257 {
        pool.reserve(layer3(id)).unwrap();
    }
    let misfits: Vec<ConnectOwner> =
        pool.misfits(ConnectTopology::Both).into_iter().map(|refusal| refusal.owner).collect();
    assert_eq!(misfits, [layer3(256), layer3(257)]);
    assert_eq!(pool.misfits(ConnectTopology::Compact), vec![]);
    pool.set_topology(ConnectTopology::Transit);
    assert!(pool.reserve(layer3(255)).is_ok());
    assert!(pool.reserve(layer3(256)).is_err(), "a key beyond the limit must never be asked for");
}

#[derive(Debug, Clone)]
enum Step {
    Reserve(ConnectOwner),
    Commit,
    Abort,
    Quarantine(ConnectOwner, u64),
    Release(ConnectOwner),
    Expire(u64),
}

/// A record that was written before the annotation let go: whoever is still in the annotation has its block.
#[test]
fn what_is_held_is_not_free() {
    let mut pool = small();
    pool.reserve(layer3(1)).unwrap();
    pool.reserve(layer3(2)).unwrap();
    pool.commit();
    pool.quarantine(layer3(1), Epoch(1));
    pool.quarantine(layer3(2), Epoch(1));
    pool.release(layer3(2));
    pool.reclaim();
    assert_eq!(pool.record(), ConnectRecord { quarantined: vec![(1, None, Epoch(1))] });
}

fn owner() -> impl Strategy<Value = ConnectOwner> {
    (any::<bool>(), 1..14u32).prop_map(|(flat, id)| if flat { layer2(id) } else { layer3(id) })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => owner().prop_map(Step::Reserve),
        2 => Just(Step::Commit),
        1 => Just(Step::Abort),
        1 => (owner(), 0..5u64).prop_map(|(owner, epoch)| Step::Quarantine(owner, epoch)),
        3 => owner().prop_map(Step::Release),
        1 => (0..5u64).prop_map(Step::Expire),
    ]
}

fn apply(pool: &mut ConnectPool, step: &Step) {
    match step {
        Step::Reserve(owner) => drop(pool.reserve(*owner)),
        Step::Commit => pool.commit(),
        Step::Abort => pool.abort(),
        Step::Quarantine(owner, epoch) => pool.quarantine(*owner, Epoch(*epoch)),
        Step::Release(owner) => pool.release(*owner),
        Step::Expire(epoch) => pool.expire(&Cleared::new(Epoch(*epoch), [])),
    }
}

fn small() -> ConnectPool {
    pool_of(&[("10.0.0.0/26", 29), ("fd00::/121", 124)], ConnectTopology::Transit, 1000)
}

proptest! {
    #[test]
    fn no_two_networks_overlap(steps in proptest::collection::vec(step(), 0..80)) {
        let mut pool = small();
        for step in &steps {
            apply(&mut pool, step);
            let all: Vec<Cidr> = annotation(&pool).into_iter().flat_map(|(_, cidrs)| cidrs).collect();
            for (position, one) in all.iter().enumerate() {
                prop_assert!(all[position + 1..].iter().all(|other| !one.overlaps(other)));
            }
            let blocks: BTreeSet<Cidr> =
                all.iter().filter(|cidr| cidr.base().is_ipv4()).map(|cidr| Cidr::around(cidr.base(), 29).unwrap()).collect();
            prop_assert!(blocks.len() <= 8);
        }
    }

    #[test]
    fn a_restart_reproduces_the_state(steps in proptest::collection::vec(step(), 0..80)) {
        let mut old = small();
        for step in &steps {
            apply(&mut old, step);
        }
        old.abort();
        let entries = annotation(&old);
        let mut new = small();
        let annotated = entries.iter().rev().map(|(owner, cidrs)| (*owner, &cidrs[..]));
        prop_assert_eq!(new.restore(old.fixed_slots(), annotated, &old.record()), vec![]);
        prop_assert_eq!(new, without_memory(&old));
    }

    #[test]
    fn incumbents_never_lose(steps in proptest::collection::vec(step(), 0..80)) {
        let mut pool = small();
        for step in &steps {
            let before = annotation(&pool);
            let committed = { let mut only = pool.clone(); only.abort(); annotation(&only) };
            apply(&mut pool, step);
            let kept = match step {
                Step::Abort => committed,
                Step::Release(gone) => before.into_iter().filter(|(owner, _)| owner != gone).collect(),
                _ => before,
            };
            for (owner, cidrs) in kept {
                prop_assert_eq!(pool.subnets_of(owner), Some(cidrs));
            }
        }
    }

    #[test]
    fn a_forecast_comes_true(
        steps in proptest::collection::vec(step(), 0..40),
        wanted in proptest::collection::vec(owner(), 0..20),
    ) {
        let mut pool = small();
        for step in &steps {
            apply(&mut pool, step);
        }
        let forecast = pool.forecast(&wanted, &[]);
        let fitting: Vec<ConnectOwner> = wanted.into_iter().filter(|owner| pool.reserve(*owner).is_ok()).collect();
        prop_assert_eq!(forecast.fitting, fitting);
    }
}
