//! Roads from the event to the southbound database: what ovn-northd makes of both topologies, and what it costs.
//!
//! One JSON object per step: rows and the time of the commit, then time and CPU until the southbound database has it, logical flows, memory.
//! The networks are there before, whole on every node; `stubs` are networks without pods here, of which there is as much as the road needs.
#![allow(unreachable_pub, missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "road/size.rs"]
mod size;
#[path = "../tests/support/mod.rs"]
mod support;

use causeway_plan::Dirty;
use causeway_zone::Zone;
use measure::{Meter, cpu, resident};
use serde_json::Value;
use size::Size;
use std::time::Instant;
use support::On as _;
use support::northd::Northd;
use support::server::{Databases, run};

/// Networks, nodes, topology, and whether all but one of the networks are stubs. Transit cannot have the largest.
const SIZES: [(u32, u32, &str, bool); 5] = [
    (50, 50, "compact", false),
    (50, 50, "transit", false),
    (100, 100, "compact", false),
    (100, 100, "transit", false),
    (500, 500, "compact", true),
];

fn main() {
    // `50x50` as an argument leaves the others out.
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| word.contains('x')).collect();
    for (networks, nodes, topology, stubs) in SIZES {
        if !asked.is_empty() && !asked.contains(&format!("{networks}x{nodes}")) {
            continue;
        }
        eprintln!("northd: a {topology} road of {networks} networks x {nodes} nodes");
        run(measure(Size { networks, nodes, layer: "layer3", topology, stubs }));
    }
}

/// A zone's databases and its northd.
struct Stage {
    databases: Databases,
    northd: Northd,
}

impl Stage {
    async fn of(zone: &Zone) -> Stage {
        let mut databases = Databases::start();
        databases.sbctl(&["init"]);
        databases.sbctl(&["chassis-add", "c-1", "geneve", "172.18.0.2"]);
        databases.apply(zone, Dirty::everything()).await;
        let northd = Northd::start(&databases);
        let stage = Stage { databases, northd };
        stage.sync();
        stage
    }

    fn sync(&self) {
        self.databases.nbctl(&["--timeout=1800", "--wait=sb", "sync"]);
    }

    fn flows(&self) -> u64 {
        let text = self.databases.sbctl(&["--bare", "--columns=table_id", "list", "Logical_Flow"]);
        text.lines().filter(|line| !line.is_empty()).count() as u64
    }

    /// Applies what an event made dirty, and waits until the southbound database has it.
    async fn step(&mut self, zone: &Zone, dirty: Dirty) -> Value {
        let (north, south) = (self.databases.north.pid(), self.databases.south.pid());
        let (flows, northd) = (self.flows(), self.northd.pid());
        let stats = |databases: &Databases| databases.north_writer.engine().stats();
        let (before, meter) = (stats(&self.databases), Meter::start(north));
        let (cpu_north, cpu_south) = (cpu(northd), cpu(south));
        self.databases.apply(zone, dirty).await;
        let mut row = meter.row("step");
        let begun = Instant::now();
        self.sync();
        row["sync_s"] = begun.elapsed().as_secs_f64().into();
        row["northd_cpu_s"] = (cpu(northd) - cpu_north).into();
        row["southbound_cpu_s"] = (cpu(south) - cpu_south).into();
        let after = stats(&self.databases);
        row["rows"] = (after.created - before.created).into();
        row["transactions"] = (after.transactions - before.transactions).into();
        row["flows"] = (self.flows() - flows).into();
        row["rss_mb"] = [north, south, northd].map(resident).to_vec().into();
        row
    }
}

async fn measure(size: Size) {
    let mut zone = size.zone();
    let mut stage = Stage::of(&zone).await;

    let dirty = zone.apply_connect(&size.road(size.networks)).on(&zone);
    size.say("northd-create", stage.step(&zone, dirty).await);

    let dirty = zone.apply_connect(&size.road(size.networks + 1)).on(&zone);
    size.say("northd-network-add", stage.step(&zone, dirty).await);

    // The node's rows of the networks themselves come first, and are not the road's.
    let mut dirty = zone.apply_node(&size.node(size.nodes + 1)).on(&zone);
    let (roads, others): (Vec<String>, Vec<String>) =
        std::mem::take(&mut dirty.northbound).into_iter().partition(|prefix| prefix.starts_with("cnc:"));
    stage.databases.apply(&zone, Dirty { northbound: others, ..dirty }).await;
    stage.sync();
    size.say("northd-node-add", stage.step(&zone, Dirty { northbound: roads, ..Dirty::default() }).await);
}
