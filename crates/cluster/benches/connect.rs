//! How long it takes to decide about a connection of 3,000 networks. One JSON object per
//! measurement.
//!
//! `cnc-allocate`: select, validate and allocate all of them, and write the annotation.
//! `cnc-allocate-one-more`: one network joins. `cnc-restore`: read the annotation and start with it.
#![allow(clippy::print_stdout, reason = "the output is the result")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use causeway_alloc::{ConnectRecord, Epoch};
use causeway_api::annotations::{Annotation, ConnectBlocks};
use causeway_api::crd::{Role, Topology};
use causeway_api::intent::Selection;
use causeway_cluster::decision::{Cluster, Connect, Connections, Network};
use causeway_cluster::{Error, Result};
use causeway_types::{
    Cidr, ConnectName, ConnectOwner, ConnectSubnet, ConnectTopology, NetworkId, NetworkName, NetworkOrigin,
    ObjectName,
};
use kube_core::Selector;
use nix::time::{ClockId, clock_gettime};
use serde_json::json;

const NETWORKS: u32 = 3_000;
const ROUNDS: usize = 25;

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    for (name, time, limit) in measure()? {
        let (time, limit) = (time.as_secs_f64(), limit.as_secs_f64());
        println!("{}", json!({"name": name, "n": NETWORKS, "client_cpu_s": time, "limit_cpu_s": limit}));
    }
    Ok(())
}

fn measure() -> Outcome<Vec<(&'static str, Duration, Duration)>> {
    let networks: Vec<Network> = (1..=NETWORKS).map(network).collect::<Result<_>>()?;
    let one_more = network(NETWORKS + 1)?;
    let fresh = connect(None, BTreeMap::new())?;
    let all = start(networks.clone(), fresh.clone())?;
    let annotation = all.annotation(&fresh.name).ok_or("the connection is gone")?;
    assert_eq!(annotation.0.len(), NETWORKS as usize, "all networks must be connected");
    let (text, slots) = (annotation.text(), all.slots(&fresh.name));
    let allocate = median(|| {
        let (networks, connect) = (networks.clone(), fresh.clone());
        timed(|| start(networks, connect).map(|all| all.annotation(&fresh.name).map(|blocks| blocks.text())))
    });
    let restore = median(|| {
        let networks = networks.clone();
        timed(|| connect(slots, read(&text)?).and_then(|connect| start(networks, connect)))
    });
    let one_more = median(|| {
        let (mut connections, network) = (all.clone(), one_more.clone());
        timed(|| (connections.apply_network(network), connections.acceptance(&fresh.name)))
    });
    Ok(vec![
        ("cnc-allocate", allocate, Duration::from_millis(40)),
        ("cnc-allocate-one-more", one_more, Duration::from_millis(1)),
        ("cnc-restore", restore, Duration::from_millis(40)),
    ])
}

fn read(text: &str) -> Result<BTreeMap<ConnectOwner, Vec<Cidr>>> {
    let blocks =
        ConnectBlocks::parse(text).map_err(|error| Error::Annotation(error.to_string()))?.0.into_iter();
    Ok(blocks.map(|(owner, both)| (owner, both.ipv4.into_iter().chain(both.ipv6).collect())).collect())
}

/// Time on the processor: what else the machine does doesn't count.
fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let before = on_processor();
    let result = black_box(work());
    let time = on_processor().saturating_sub(before);
    drop(result);
    time
}

fn on_processor() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn median(mut once: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| once()).collect();
    times.sort();
    times[ROUNDS / 2]
}

fn start(networks: Vec<Network>, connect: Connect) -> Result<Connections> {
    let cluster = Cluster {
        service_cidrs: "10.96.0.0/16".parse().into_iter().collect(),
        masquerade_subnets: "169.254.0.0/17".parse().into_iter().collect(),
        no_overlay: false,
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
