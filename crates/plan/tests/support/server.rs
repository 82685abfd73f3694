//! A zone applied to real databases.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use causeway_node::{Applier, ApplierConfig};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::{Declarations, NORTHBOUND, SOUTHBOUND};
use causeway_ovn::{Planner, diff_slice};
use causeway_plan::{Dirty, northbound, southbound};
use causeway_testing::{OvsdbServer, program, schema_file};
use causeway_zone::Zone;

pub fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The two databases of a zone, and who writes them.
pub struct Databases {
    pub north: OvsdbServer,
    pub south: OvsdbServer,
    pub north_writer: Applier,
    pub south_writer: Applier,
}

fn applier(declarations: &'static Declarations, server: &OvsdbServer) -> Applier {
    let remotes = vec![server.remote().parse().unwrap()];
    Applier::new(ApplierConfig { declarations, remotes, tls: None, options: Options::default() })
}

pub async fn settle(writer: &mut Applier, planner: &dyn Planner) {
    let outcome = tokio::time::timeout(Duration::from_secs(60), writer.settle(planner)).await;
    let engine = writer.engine();
    assert!(outcome.is_ok(), "not settled: {:?} {:?}", engine.failures(), engine.waiting());
}

impl Databases {
    pub fn start() -> Self {
        let (north, south) =
            (OvsdbServer::start(&schema_file("ovn-nb")), OvsdbServer::start(&schema_file("ovn-sb")));
        let (north_writer, south_writer) = (applier(&NORTHBOUND, &north), applier(&SOUTHBOUND, &south));
        Self { north, south, north_writer, south_writer }
    }

    /// The role starts again and knows nothing.
    pub fn restart_role(&mut self) {
        self.north_writer = applier(&NORTHBOUND, &self.north);
        self.south_writer = applier(&SOUTHBOUND, &self.south);
    }

    /// Makes the databases as the zone plans them, looking only at what is dirty; chassis before the ports on them.
    pub async fn apply(&mut self, zone: &Zone, dirty: Dirty) {
        dirty.northbound.iter().for_each(|prefix| self.north_writer.dirty(prefix));
        dirty.southbound.iter().for_each(|prefix| self.south_writer.dirty(prefix));
        settle(&mut self.south_writer, &southbound(zone)).await;
        settle(&mut self.north_writer, &northbound(zone)).await;
    }

    /// Every slice is as planned, and nothing failed or waits.
    pub fn assert_as_planned(&self, zone: &Zone) {
        for (writer, planner, declarations) in [
            (&self.north_writer, &northbound(zone) as &dyn Planner, &NORTHBOUND),
            (&self.south_writer, &southbound(zone) as &dyn Planner, &SOUTHBOUND),
        ] {
            let engine = writer.engine();
            assert!(engine.failures().is_empty(), "{:?}", engine.failures());
            assert!(engine.waiting().is_empty(), "{:?}", engine.waiting());
            assert!(engine.lacking().is_empty(), "{:?}", engine.lacking());
            for slice in planner.slices("") {
                let diff = diff_slice(declarations, writer.replica(), planner, &slice).unwrap();
                assert!(diff.is_empty(), "{slice}\n{diff}");
            }
        }
    }

    /// How many rows each northbound table has.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let replica = self.north_writer.replica();
        let tables = replica.tables().map(|table| {
            let rows: Vec<_> = replica.rows(table).collect();
            (replica.layout(table).table().to_string(), rows.len())
        });
        tables.filter(|(_, count)| *count > 0).collect()
    }

    pub fn writes(&self) -> u64 {
        self.north_writer.engine().stats().transactions + self.south_writer.engine().stats().transactions
    }

    pub fn nbctl(&self, args: &[&str]) -> String {
        ctl("ovn-nbctl", &self.north, args)
    }

    pub fn sbctl(&self, args: &[&str]) -> String {
        ctl("ovn-sbctl", &self.south, args)
    }
}

fn ctl(tool: &str, server: &OvsdbServer, args: &[&str]) -> String {
    let out = Command::new(program(tool))
        .arg(format!("--db={}", server.remote()))
        .arg("--no-leader-only")
        .args(args)
        .output()
        .unwrap();
    assert!(out.status.success(), "{tool} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}
