//! Causeway's differ at work on a real OVN northbound database: plan, difference, apply, repair, remove.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../benches/diff/shape.rs"]
mod shape;

use causeway_node::{Applier, ApplierConfig};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::NORTHBOUND;
use causeway_ovn::{Planner, diff_slice};
use causeway_testing::{OvsdbServer, program, schema_file};
use shape::Connect;
use std::process::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut demo = Demo::start();
    demo.connect().await;
    demo.add_a_node().await;
    demo.repair().await;
    demo.restart().await;
    demo.disconnect().await;
    println!("\nThat was the engine under everything else: inputs -> model -> plan -> diff -> apply.");
    println!("Next: `make test` proves it on real servers, `make bench` measures it against the raw limit.");
}

struct Demo {
    server: OvsdbServer,
    applier: Applier,
    plan: Connect,
}

impl Demo {
    fn start() -> Demo {
        let server = OvsdbServer::start(&schema_file("ovn-nb"));
        title("A real northbound database");
        println!("ovsdb-server with OVN's own schema listens on {}", server.remote());
        let applier = applier(&server);
        Demo { server, applier, plan: Connect::new(2, 2) }
    }

    async fn connect(&mut self) {
        title("Plan: the connection `blue` joins two networks over two nodes");
        self.plan.connected = false;
        self.applier.settle(&self.plan).await;
        self.plan.connected = true;
        self.show_difference(true);
        self.apply("cnc:").await;
        self.nbctl(&["show", "connect-router-blue"]);
        self.nbctl(&["lr-route-list", "connect-router-blue"]);
    }

    async fn add_a_node(&mut self) {
        title("A node joins: only its rows are written");
        self.plan.set_nodes(3);
        self.show_difference(false);
        self.apply("cnc:").await;
    }

    async fn repair(&mut self) {
        title("Another hand at work: one row is bent, one is deleted, a note and a switch are added");
        self.nbctl(&["lr-route-del", "connect-router-blue", "100.0.1.0/24"]);
        self.nbctl(&[
            "set",
            "logical_router",
            "connect-router-blue",
            "options:requested-tnl-key=7",
            "external_ids:note=mine",
        ]);
        self.nbctl(&["ls-add", "somebody-elses"]);
        let before = self.applier.engine().stats();
        while self.applier.engine().stats().foreign_changes < before.foreign_changes + 2 {
            self.applier.turn(&self.plan).await;
        }
        self.applier.settle(&self.plan).await;
        let after = self.applier.engine().stats();
        let (created, modified) = (after.created - before.created, after.modified - before.modified);
        println!(
            "noticed and put right: {created} row created, {modified} row changed; what is not ours stays:"
        );
        self.nbctl(&[
            "get",
            "logical_router",
            "connect-router-blue",
            "options:requested-tnl-key",
            "external_ids:note",
        ]);
    }

    async fn restart(&mut self) {
        title("kill -9 of the database server, and a new process that knows nothing");
        self.server.kill();
        self.server.serve();
        let before = self.server.transactions().transactions.len();
        self.applier = applier(&self.server);
        self.applier.settle(&self.plan).await;
        let written = self.server.transactions().transactions.len() - before;
        println!("it read the database, compared everything and wrote {written} transactions");
    }

    async fn disconnect(&mut self) {
        title("The connection is deleted");
        self.plan.connected = false;
        self.apply("cnc:").await;
        println!("what is left: the networks' own routers, and what was never ours");
        self.nbctl(&["lr-list"]);
        self.nbctl(&["ls-list"]);
    }

    fn show_difference(&self, first_row_whole: bool) {
        let mut shown = !first_row_whole;
        for slice in self.plan.slices("cnc:") {
            let diff = diff_slice(&NORTHBOUND, self.applier.replica(), &self.plan, &slice).unwrap();
            let text = diff.to_string();
            for line in text.lines() {
                if !shown || line.starts_with(['+', '~', '-']) {
                    println!("  {line}");
                }
            }
            shown |= !text.is_empty();
        }
    }

    async fn apply(&mut self, prefix: &str) {
        let before = self.applier.engine().stats();
        self.applier.dirty(prefix);
        self.applier.settle(&self.plan).await;
        assert!(self.applier.engine().failures().is_empty(), "{:?}", self.applier.engine().failures());
        let after = self.applier.engine().stats();
        println!(
            "=> {} rows created, {} changed, {} deleted in {} transactions",
            after.created - before.created,
            after.modified - before.modified,
            after.deleted - before.deleted,
            after.transactions - before.transactions
        );
    }

    /// OVN's own tool, as a person would use it.
    fn nbctl(&self, args: &[&str]) {
        println!("$ ovn-nbctl {}", args.join(" "));
        let out = Command::new(program("ovn-nbctl"))
            .arg(format!("--db={}", self.server.remote()))
            .args(args)
            .output()
            .expect("ovn-nbctl runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        for line in String::from_utf8_lossy(&out.stdout).lines() {
            println!("  {line}");
        }
    }
}

fn applier(server: &OvsdbServer) -> Applier {
    Applier::new(ApplierConfig {
        declarations: &NORTHBOUND,
        remotes: vec![server.remote().parse().unwrap()],
        tls: None,
        options: Options::default(),
    })
}

fn title(text: &str) {
    println!("\n== {text}");
}
