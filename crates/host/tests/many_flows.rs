//! Very many flows of a bridge, and a switch that loses them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::{Applied, Flows, Programs, bring};
use causeway_testing::{Switch, program};
use causeway_types::host::{Flow, HostPlan, Item, Owner};
use node::{ip, on_own_node};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn switch() -> Switch {
    on_own_node();
    ip("link set lo up");
    let switch = Switch::start();
    switch.vsctl(&["add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=netdev"]);
    switch
}

fn ofctl(switch: &Switch, words: &[&str]) -> String {
    let target = format!("unix:{}", switch.database.folder().join("br-ex.mgmt").display());
    let (command, rest) = words.split_first().unwrap();
    let out = Command::new(program("ovs-ofctl"))
        .args(["--protocols=OpenFlow15", command, &target])
        .args(rest)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn flow(table: u8, priority: u16, matches: &str, actions: &str) -> Item {
    let (bridge, matches, actions) = ("br-ex".into(), matches.into(), actions.into());
    Item::Flow(Flow { bridge, table, priority, matches, actions })
}

fn plan(items: impl IntoIterator<Item = Item>) -> HostPlan {
    let mut plan = HostPlan::default();
    items.into_iter().for_each(|item| plan.add(&Owner::node("gateway"), item));
    plan
}

fn many(number: u16) -> impl Iterator<Item = Item> {
    (0..number).map(|port| flow(5, 100, &format!("tcp,nw_dst=192.0.2.1,tp_dst={port}"), "output:1"))
}

fn written(output: &mut Flows, plan: &HostPlan) -> usize {
    let Applied { writes, problems } = bring(output, plan);
    assert!(problems.is_empty(), "{problems:?}");
    writes
}

/// `ovs-ofctl` that notes how often it was called, and for what.
struct Noted(PathBuf);

impl Noted {
    fn new(switch: &Switch) -> Noted {
        let program = program("ovs-ofctl");
        let file = switch.database.folder().join("noted-ofctl");
        let text = format!("#!/bin/sh\necho \"$*\" >> \"$0.calls\"\nexec {} \"$@\"\n", program.display());
        fs::write(&file, text).unwrap();
        let done = Command::new("chmod").args(["755".as_ref(), file.as_os_str()]).status().unwrap();
        assert!(done.success());
        Noted(file)
    }

    /// The commands since the last time.
    fn calls(&self) -> Vec<String> {
        let file = PathBuf::from(format!("{}.calls", self.0.display()));
        let said = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, "").unwrap();
        let command = |line: &str| {
            let mut words = line.split(' ').filter(|word| !word.starts_with("--"));
            words.next().unwrap_or_default().to_owned()
        };
        said.lines().map(command).collect()
    }
}

fn output(ofctl: &Path, switch: &Switch) -> Flows {
    Flows::new(ofctl, switch.database.folder(), "br-ex")
}

#[test]
fn ten_thousand_flows_are_few_calls() {
    let switch = switch();
    let noted = Noted::new(&switch);
    let mut output = output(&noted.0, &switch);
    assert_eq!(written(&mut output, &plan(many(10_000))), 10_000);
    assert_eq!(noted.calls(), ["parse-flows", "dump-flows", "add-flows", "dump-flows"]);
    assert_eq!(written(&mut output, &plan(many(10_000))), 0);
    assert_eq!(noted.calls(), ["dump-aggregate"], "what is there is counted, not read");
    let more = plan(many(10_000).skip(1).chain([flow(0, 1, "", "drop")]));
    assert_eq!(written(&mut output, &more), 2);
    assert_eq!(noted.calls(), ["parse-flow", "dump-aggregate", "add-flows", "dump-aggregate"]);
    assert!(!output.has_changed());
    ofctl(&switch, &["del-flows", "table=5,tcp,tp_dst=7"]);
    assert!(output.has_changed());
    assert_eq!(written(&mut output, &more), 1);
}

/// Bad ones among very many are found without asking for each: those that no parser takes, and those that the switch
/// refuses.
#[test]
fn bad_flows_among_many_are_found() {
    let switch = switch();
    let noted = Noted::new(&switch);
    let bad = [flow(0, 7, "nonsense=1", "drop"), flow(3, 7, "ip", "goto_table:2")];
    let Applied { writes, problems } = bring(&mut output(&noted.0, &switch), &plan(many(2_000).chain(bad)));
    assert_eq!((writes, problems.len()), (2_000, 2), "{problems:?}");
    let calls = noted.calls().len();
    assert!(calls < 80, "{calls} calls");
}

/// The switch counts packets of a flow for as long as nobody touches it.
#[test]
fn another_process_with_the_same_plan_touches_nothing() {
    let switch = switch();
    let wanted = plan(many(100).chain([flow(0, 1, "", "drop")]));
    written(&mut output(&program("ovs-ofctl"), &switch), &wanted);
    let packet = "50540000000750540000000508004500001c000000004011f96a0a0000010a0000020001000200080000";
    for _ in 0..3 {
        ofctl(&switch, &["packet-out", &format!("in_port=controller packet={packet} actions=table")]);
    }
    let counted = |switch: &Switch| ofctl(switch, &["dump-flows", "table=0"]).contains("n_packets=3");
    assert!(counted(&switch), "{}", ofctl(&switch, &["dump-flows", "table=0"]));
    assert_eq!(written(&mut output(&program("ovs-ofctl"), &switch), &wanted), 0);
    assert!(counted(&switch), "{}", ofctl(&switch, &["dump-flows", "table=0"]));
}

/// Without flows a bridge switches by itself (`NORMAL`). That flow is the switch's own; ours stand above it, and when they
/// go the node is connected as it was.
#[test]
fn the_switchs_own_flow_stays_below_ours() {
    let switch = switch();
    let own =
        |switch: &Switch| ofctl(switch, &["dump-flows", "table=0"]).contains("priority=0 actions=NORMAL");
    assert!(own(&switch));
    let mut output = output(&program("ovs-ofctl"), &switch);
    written(&mut output, &plan([flow(0, 1, "", "drop")]));
    assert!(own(&switch));
    written(&mut output, &HostPlan::default());
    assert!(own(&switch));
}

#[test]
fn a_switch_that_was_started_again_gets_its_flows_back() {
    let mut switch = switch();
    let folder = program("ovs-ofctl").parent().unwrap().to_owned();
    let sockets = switch.database.folder().to_owned();
    let mut programs = Programs::new(Some(sockets.clone()), "br-int").from_folder(&folder);
    let wanted = plan(many(100));
    assert_eq!(programs.sockets(&wanted), [sockets.join("br-ex.mgmt")].into());
    assert_eq!(programs.apply(&wanted).writes, 100);
    assert!(!programs.have_changed());
    switch.restart();
    assert!(programs.have_changed());
    assert_eq!(programs.apply(&wanted).writes, 100);
    assert!(!programs.have_changed());
    switch.vsctl(&["del-br", "br-ex"]);
    assert!(programs.have_changed());
    switch.vsctl(&["add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=netdev"]);
    assert_eq!(programs.apply(&wanted).writes, 100);
    assert_eq!(programs.apply(&HostPlan::default()).writes, 100);
    assert!(!programs.have_changed(), "a bridge without flows of ours is nobody's business");
}
