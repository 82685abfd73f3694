//! How long it takes to decide about a connection of 3,000 networks. One line of JSON for each benchmark.
//!
//! `cnc-allocate`: select, validate and allocate all of them. `cnc-allocate-one-more`: one network joins.
//! `cnc-restore`: start with all of them annotated.
#![allow(clippy::print_stdout, reason = "the output is the result")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use causeway_alloc::{ConnectRecord, Epoch};
use causeway_api::crd::{Role, Topology};
use causeway_api::intent::Selection;
use causeway_model::Result;
use causeway_model::connect::{Cluster, Connect, Connections, Network};
use causeway_types::{
    Cidr, ConnectName, ConnectOwner, ConnectSubnet, ConnectTopology, NetworkId, NetworkName, NetworkOrigin,
    ObjectName,
};
use kube_core::Selector;

const NETWORKS: u32 = 3_000;
const ROUNDS: usize = 25;

type Setup = std::result::Result<Vec<(&'static str, Duration, u128)>, Box<dyn std::error::Error>>;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    for (name, time, limit) in measure()? {
        let microseconds = time.as_micros();
        println!(r#"{{"name":"{name}","microseconds":{microseconds},"limit":{limit}}}"#);
    }
    Ok(())
}

fn measure() -> Setup {
    let networks: Vec<Network> = (1..=NETWORKS).map(network).collect::<Result<_>>()?;
    let one_more = network(NETWORKS + 1)?;
    let fresh = connect(None, BTreeMap::new())?;
    let all = start(networks.clone(), fresh.clone())?;
    let blocks = all.blocks(&fresh.name).ok_or("the connection is gone")?;
    assert_eq!(blocks.len(), NETWORKS as usize, "all networks must be connected");
    let written = connect(all.slots(&fresh.name), blocks)?;
    let from_scratch = |connect: &Connect| {
        let (networks, connect) = (networks.clone(), connect.clone());
        let mut kept = None;
        let time = timed(|| kept = Some(start(networks, connect)));
        drop(kept);
        time
    };
    let allocate = fastest(|| from_scratch(&fresh));
    let restore = fastest(|| from_scratch(&written));
    let one_more = fastest(|| {
        let mut connections = all.clone();
        let network = one_more.clone();
        timed(|| {
            connections.apply_network(network);
            black_box(connections.acceptance(&fresh.name));
        })
    });
    Ok(vec![
        ("cnc-allocate", allocate, 40_000),
        ("cnc-allocate-one-more", one_more, 1_000),
        ("cnc-restore", restore, 40_000),
    ])
}

fn timed(work: impl FnOnce()) -> Duration {
    let before = Instant::now();
    work();
    before.elapsed()
}

/// The fastest of many rounds: what else the machine does only ever adds, so this is nearest to the time on
/// the processor.
fn fastest(mut once: impl FnMut() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| once()).min().unwrap_or_default()
}

fn start(networks: Vec<Network>, connect: Connect) -> Result<Connections> {
    let cluster = Cluster {
        service_cidrs: "10.96.0.0/16".parse().into_iter().collect(),
        masquerade_subnets: "169.254.0.0/17".parse().into_iter().collect(),
        max_nodes: 1000,
    };
    Connections::start(cluster, Epoch(1), networks, [], [], [connect])
}

/// Every third network is a layer2 one; all have both families.
fn network(id: u32) -> Result<Network> {
    let name = ObjectName::new(format!("tenant-{id}"))?;
    Ok(Network {
        name: NetworkName::of_cluster_udn(&name),
        origin: NetworkOrigin::Cluster(name),
        id: Some(NetworkId::new(id)?),
        topology: if id.is_multiple_of(3) { Topology::Layer2 } else { Topology::Layer3 },
        role: Role::Primary,
        transport: None,
        labels: BTreeMap::from([("connected".to_owned(), "yes".to_owned())]),
        subnets: vec![
            format!("{}.{}.0.0/16", 20 + id / 256, id % 256).parse()?,
            format!("fd00:{id:x}::/48").parse()?,
        ],
        join_subnets: vec!["100.65.0.0/16".parse()?, "fd99::/64".parse()?],
        transit_subnets: vec!["100.88.0.0/16".parse()?, "fd97::/64".parse()?],
    })
}

fn connect(slots: Option<u32>, blocks: BTreeMap<ConnectOwner, Vec<Cidr>>) -> Result<Connect> {
    let selector = Selector::from_iter([("connected", "yes")]);
    Ok(Connect {
        name: ConnectName::new("enterprise")?,
        created: 0,
        selections: vec![Selection::ClusterUserDefinedNetworks(selector)],
        subnets: vec![
            ConnectSubnet::new("10.0.0.0/11".parse()?, 24)?,
            ConnectSubnet::new("fd01::/64".parse()?, 96)?,
        ],
        topology: ConnectTopology::Compact,
        slots,
        blocks,
        record: ConnectRecord::default(),
    })
}
