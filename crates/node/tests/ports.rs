//! The node's own ports: from the plan of the host to a device with addresses, on a real switch and a real kernel.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod switch;

use causeway_host::{Host as _, Kernel};
use causeway_node::ovs::{Error, InternalPorts, Ovs, OvsConfig, SwitchFacts};
use causeway_ovsdb_client::Remote;
use causeway_runtime::Tasks;
use causeway_types::host::{
    Address, HostPlan, InternalPort, Item, Link, LinkKind, LinkState, MAIN_TABLE, Owner, Route, Target,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use switch::{Switch, on_own_node};

fn owner(network: &str) -> Owner {
    Owner::new(format!("network:{network}"))
}

fn port(name: &str, number: u8, network: &str) -> InternalPort {
    InternalPort {
        name: name.into(),
        bridge: "br-int".into(),
        iface_id: format!("k8s-n{number}"),
        external_ids: BTreeMap::from([("k8s.ovn.org/network".to_owned(), network.to_owned())]),
        mac: format!("0a:58:0a:f4:{number:02x}:02").parse().unwrap(),
        mtu: 1400,
    }
}

/// A port with its addresses and a route.
fn items(name: &str, number: u8, network: &str) -> Vec<Item> {
    let address = |net: String| Item::Address(Address::new(name, net.parse().unwrap()));
    let via = format!("10.244.{number}.1").parse().unwrap();
    let target = Target::Forward { via: Some(via), device: Some(name.into()) };
    let dest = format!("10.{number}.0.0/16").parse().unwrap();
    let kind = LinkKind::Given;
    vec![
        Item::Port(port(name, number, network)),
        Item::Link(Link { name: name.into(), kind, mac: None, mtu: None, master: None }),
        address(format!("10.244.{number}.2/24")),
        address(format!("fd00:10:244:{number}::2/64")),
        Item::State(LinkState { device: name.into(), up: true }),
        Item::Route(Route { table: MAIN_TABLE, dest, metric: 0, target, source: None, mtu: None }),
    ]
}

/// One network for each port.
fn plan(ports: &[(&str, u8, &str)]) -> HostPlan {
    let mut plan = HostPlan::default();
    for (name, number, network) in ports {
        items(name, *number, network).into_iter().for_each(|item| plan.add(&owner(network), item));
    }
    plan
}

/// The task ends with the second value.
fn start(switch: &Switch) -> (Ovs, Tasks) {
    let remotes = Remote::list(&switch.database.remote()).unwrap();
    let mut tasks = switch::tasks();
    (Ovs::start(&mut tasks, OvsConfig { remotes, tls: None, bridge: "br-int".into() }), tasks)
}

/// Makes the ports of the plan; whether anything was written. There are no problems.
async fn written(ovs: &Ovs, plan: &HostPlan) -> bool {
    let InternalPorts { written, problems } = ovs.ensure_internal(plan.clone()).await.unwrap();
    assert_eq!(problems, []);
    written
}

/// What could not be made, and for whom.
async fn problems(ovs: &Ovs, plan: &HostPlan) -> Vec<(Owner, Error)> {
    let done = ovs.ensure_internal(plan.clone()).await.unwrap();
    done.problems.into_iter().map(|problem| (problem.owner.unwrap(), problem.error)).collect()
}

#[test]
fn a_management_port_becomes_a_device_and_then_nothing_is_written() {
    on_own_node(async || {
        let switch = Switch::start();
        let (ovs, _tasks) = start(&switch);
        let wanted = plan(&[("ovn-k8s-mp0", 1, "default")]);
        assert!(written(&ovs, &wanted).await);
        let applied = Kernel.apply_host(&wanted);
        assert!(applied.problems.is_empty() && applied.writes > 0, "{:?}", applied.problems);

        let state = Kernel.inspect(Path::new("/proc/thread-self/ns/net"), "ovn-k8s-mp0").unwrap().unwrap();
        let addresses: BTreeSet<String> = state.addresses.iter().map(ToString::to_string).collect();
        assert_eq!((state.mac, state.mtu, state.up), (port("", 1, "").mac, 1400, true));
        assert_eq!(addresses, ["10.244.1.2/24", "fd00:10:244:1::2/64"].map(str::to_owned).into());
        let ids = switch.ids("ovn-k8s-mp0");
        let want: BTreeMap<String, String> = [
            ("iface-id", "k8s-n1"),
            ("k8s.ovn.org/network", "default"),
            ("k8s.ovn.org/owner-controller", "causeway-host"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        assert_eq!(ids, want);
        assert_eq!(switch.vsctl(&["get", "Interface", "ovn-k8s-mp0", "type"]).trim(), "internal");

        // Another process, the same plan.
        let writes = switch.database.transactions().transactions.len();
        assert!(!written(&start(&switch).0, &wanted).await);
        assert_eq!(Kernel.apply_host(&wanted).writes, 0);
        assert_eq!(switch.database.transactions().transactions.len(), writes);
    });
}

#[test]
fn ports_follow_the_plan_and_others_stay() {
    on_own_node(async || {
        let switch = Switch::start();
        let (ovs, _tasks) = start(&switch);
        let by_hand = ["add-port", "br-int", "by-hand", "--", "set", "Interface", "by-hand", "type=internal"];
        switch.vsctl(&by_hand);
        written(&ovs, &plan(&[("ovn-k8s-mp0", 1, "default"), ("ovn-k8s-mp7", 7, "red")])).await;
        assert_eq!(switch.ports(), ["by-hand", "ovn-k8s-mp0", "ovn-k8s-mp7"]);

        let mut changed = HostPlan::default();
        let mac = "0a:58:0a:f4:09:02".parse().unwrap();
        let other = InternalPort { mtu: 1300, mac, ..port("ovn-k8s-mp0", 1, "default") };
        changed.add(&owner("default"), Item::Port(other));
        changed.hold(owner("red"), "half known");
        assert!(written(&ovs, &changed).await);
        assert_eq!(switch.ports(), ["by-hand", "ovn-k8s-mp0", "ovn-k8s-mp7"], "what is held stays");
        let columns = ["mac", "mtu_request"].map(|c| switch.vsctl(&["get", "Interface", "ovn-k8s-mp0", c]));
        assert_eq!(columns.map(|c| c.trim().to_owned()), ["\"0a:58:0a:f4:09:02\"", "1300"]);

        let clash = plan(&[("by-hand", 3, "blue"), ("ovn-k8s-mp9", 9, "green")]);
        assert_eq!(problems(&ovs, &clash).await, [(owner("blue"), Error::Foreign("by-hand".into()))]);
        assert_eq!(switch.ports(), ["by-hand", "ovn-k8s-mp9"], "one that cannot be made stops no other");
        assert!(!written(&ovs, &HostPlan::held("nothing is listed")).await);
        assert!(written(&ovs, &HostPlan::default()).await);
        assert_eq!(switch.ports(), ["by-hand"]);
    });
}

#[test]
fn a_bridge_that_is_not_there_is_said() {
    on_own_node(async || {
        let switch = Switch::start();
        let (ovs, _tasks) = start(&switch);
        let mut wanted = plan(&[("ovn-k8s-mp7", 7, "red")]);
        let lost = InternalPort { bridge: "br-no".into(), ..port("ovn-k8s-mp0", 1, "default") };
        wanted.add(&owner("default"), Item::Port(lost));
        assert_eq!(problems(&ovs, &wanted).await, [(owner("default"), Error::NoBridge("br-no".into()))]);
        assert_eq!(switch.ports(), ["ovn-k8s-mp7"]);
    });
}

/// The same connection that keeps ports says what the switch says of itself.
#[test]
fn the_switch_says_who_it_is() {
    on_own_node(async || {
        let ids = ["external_ids:system-id=n1", "external_ids:ovn-encap-ip=172.18.0.2,fd00::2"];
        let switch = Switch::start_with(&ids);
        let (ovs, _tasks) = start(&switch);
        let mut facts = ovs.facts();
        let now = facts.wait_for(|facts| facts.chassis.is_some()).await.unwrap().clone();
        let encap_ips = ["172.18.0.2", "fd00::2"].map(|ip| ip.parse().unwrap()).to_vec();
        assert_eq!(now, SwitchFacts { chassis: Some("n1".into()), encap_ips, userspace: true });

        switch.vsctl(&["--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id=n2"]);
        facts.wait_for(|facts| facts.chassis.as_deref() == Some("n2")).await.unwrap();
    });
}
