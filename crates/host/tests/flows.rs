//! Flows of a bridge of a real Open vSwitch on its userspace datapath.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::{Applied, Error, Flows, Programs, bring};
use causeway_testing::{Switch, program};
use causeway_types::host::{Flow, FrrSection, HostPlan, Item, Owner};
use node::{ip, on_own_node};
use std::process::Command;

/// A switch with a bridge `br-ex`, in a namespace of the test's own.
fn switch() -> Switch {
    on_own_node();
    ip("link set lo up");
    let switch = Switch::start();
    switch.add_bridge("br-ex");
    switch
}

fn target(switch: &Switch) -> String {
    format!("unix:{}", switch.database.folder().join("br-ex.mgmt").display())
}

fn ofctl(switch: &Switch, words: &[&str]) -> String {
    let (command, rest) = words.split_first().unwrap();
    let out = Command::new(program("ovs-ofctl"))
        .args(["--protocols=OpenFlow15", "--no-stats", "--no-names", command, &target(switch)])
        .args(rest)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The flows without their cookies, sorted.
fn flows(switch: &Switch) -> Vec<String> {
    let shown = ofctl(switch, &["dump-flows"]);
    let shown = shown.lines().map(str::trim).filter(|line| line.contains("actions="));
    let plain = |line: &str| {
        let rest = line.strip_prefix("cookie=").and_then(|rest| rest.split_once(", "));
        rest.map_or(line, |(_, rest)| rest).to_owned()
    };
    let mut lines: Vec<String> = shown.map(plain).collect();
    lines.sort();
    lines
}

fn output(switch: &Switch) -> Flows {
    Flows::new(program("ovs-ofctl"), switch.database.folder(), "br-ex")
}

fn owner(network: &str) -> Owner {
    Owner::new(format!("network:{network}"))
}

fn flow(network: &str, table: u8, priority: u16, matches: &str, actions: &str) -> (Owner, Item) {
    let (bridge, matches, actions) = ("br-ex".into(), matches.into(), actions.into());
    (owner(network), Item::Flow(Flow { bridge, table, priority, matches, actions }))
}

fn plan(flows: impl IntoIterator<Item = (Owner, Item)>) -> HostPlan {
    let mut plan = HostPlan::default();
    flows.into_iter().for_each(|(owner, item)| plan.add(&owner, item));
    plan
}

/// Written as a person would: the switch prints them in another form.
fn all() -> Vec<(Owner, Item)> {
    vec![
        flow("red", 0, 100, "dl_type=0x0800,nw_dst=10.1.0.0/255.255.0.0", "ct(commit,zone=7),output:2"),
        flow("red", 1, 100, "ipv6,ipv6_dst=fd00:1::/48", "mod_dl_dst:0a:58:00:00:00:01,NORMAL"),
        flow("blue", 0, 32768, "tcp,tp_dst=80", "drop"),
        flow("node", 0, 0, "", "NORMAL"),
    ]
}

fn written(output: &mut Flows, plan: &HostPlan) -> usize {
    let Applied { writes, problems } = bring(output, plan);
    assert!(problems.is_empty(), "{problems:?}");
    writes
}

const SEEN: [&str; 5] = [
    "priority=0 actions=NORMAL",
    "priority=100,ip,nw_dst=10.1.0.0/16 actions=ct(commit,zone=7),output:2",
    "priority=9,arp actions=FLOOD",
    "table=1, priority=100,ipv6,ipv6_dst=fd00:1::/48 actions=set_field:0a:58:00:00:00:01->eth_dst,NORMAL",
    "tcp,tp_dst=80 actions=drop",
];

#[test]
fn flows_follow_the_plan_and_others_stay() {
    let switch = switch();
    ofctl(&switch, &["add-flow", "priority=9,arp actions=FLOOD"]);
    assert_eq!(written(&mut output(&switch), &plan(all())), 4);
    assert_eq!(flows(&switch), SEEN);
    // Another process, the same plan.
    assert_eq!(written(&mut output(&switch), &plan(all())), 0);

    let changed = plan([flow("blue", 0, 32768, "tcp,tp_dst=80", "output:3")]);
    assert_eq!(written(&mut output(&switch), &changed), 4, "one changed, three gone");
    assert_eq!(flows(&switch), ["priority=9,arp actions=FLOOD", "tcp,tp_dst=80 actions=output:3"]);
    assert_eq!(written(&mut output(&switch), &HostPlan::default()), 1);
    assert_eq!(flows(&switch), ["priority=9,arp actions=FLOOD"]);
}

#[test]
fn what_somebody_changed_is_put_right() {
    let switch = switch();
    ofctl(&switch, &["add-flow", "priority=9,arp actions=FLOOD"]);
    written(&mut output(&switch), &plan(all()));
    ofctl(&switch, &["del-flows", "tcp"]);
    assert_eq!(written(&mut output(&switch), &plan(all())), 1);
    ofctl(&switch, &["mod-flows", "table=1,ipv6 actions=drop"]);
    assert_eq!(written(&mut output(&switch), &plan(all())), 1);
    assert_eq!(flows(&switch), SEEN);
}

/// One that no parser takes, one that the switch refuses, one that is somebody else's; the rest is made.
#[test]
fn one_bad_flow_holds_only_itself() {
    let switch = switch();
    ofctl(&switch, &["add-flow", "priority=9,arp actions=FLOOD"]);
    let mixed = plan([
        flow("red", 0, 1, "nonsense=1", "drop"),
        flow("blue", 3, 1, "ip", "goto_table:2"),
        flow("green", 0, 9, "arp", "drop"),
        flow("white", 0, 1, "ip", "drop"),
    ]);
    let Applied { writes, problems } = bring(&mut output(&switch), &mixed);
    let blamed: Vec<&str> = problems.iter().map(|p| p.owner.as_ref().unwrap().as_str()).collect();
    assert_eq!(writes, 1);
    assert_eq!(blamed.len(), 3, "{problems:?}");
    for owner in ["network:red", "network:blue", "network:green"] {
        assert!(blamed.contains(&owner), "{owner} in {problems:?}");
    }
    assert_eq!(flows(&switch), ["priority=1,ip actions=drop", "priority=9,arp actions=FLOOD"]);
}

#[test]
fn half_a_picture_deletes_nothing() {
    let switch = switch();
    written(&mut output(&switch), &plan(all()));
    let mut held = HostPlan::default();
    held.hold(owner("red"), "half known");
    assert_eq!(written(&mut output(&switch), &held), 2);
    assert_eq!(flows(&switch).len(), 2);
    let mut lost = Flows::new(program("ovs-ofctl"), switch.database.folder(), "br-no");
    let applied = bring(&mut lost, &HostPlan::default());
    assert!(matches!(applied.problems.as_slice(), [p] if matches!(p.error, Error::Program { .. })));
}

/// What a node runs: bridges are found by their sockets, so that flows go when nobody plans any on their bridge.
#[test]
fn the_last_flow_of_a_bridge_goes() {
    let switch = switch();
    let folder = program("ovs-ofctl").parent().unwrap().to_owned();
    let programs = || {
        let sockets = switch.database.folder().to_owned();
        Programs::new(Some(sockets.clone()), "br-int").from_folder(&folder).with_frr_at(&sockets)
    };
    let section = FrrSection { first: "router bgp 64512".into(), lines: String::new() };
    let mut plan = plan(all());
    plan.add(&owner("red"), Item::Section(section));
    let applied = programs().apply(&plan);
    assert_eq!((applied.writes, flows(&switch).len()), (4, 4));
    assert!(
        matches!(applied.problems.as_slice(), [p] if matches!(p.error, Error::Program { .. })),
        "there is no FRR"
    );
    let applied = programs().apply(&HostPlan::default());
    assert_eq!((applied.writes, applied.problems.len()), (4, 0));
    assert_eq!(flows(&switch).len(), 0);
}
