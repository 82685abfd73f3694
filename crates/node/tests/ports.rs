//! The node's own ports: from the plan of the host to a device with addresses, on a real switch and a real kernel.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod switch;

use causeway_host::{Host as _, Kernel};
use causeway_node::ovs::{Error, Ovs, OvsConfig, internal_ports};
use causeway_ovsdb_client::Remote;
use causeway_plan::host::{HostLink, HostPlan, HostRoute, OvsPort};
use causeway_runtime::Tasks;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use switch::{Switch, on_own_node};

fn link(number: u8) -> HostLink {
    HostLink {
        mac: format!("0a:58:0a:f4:{number:02x}:02").parse().unwrap(),
        mtu: 1400,
        addresses: [format!("10.244.{number}.2/24"), format!("fd00:10:244:{number}::2/64")]
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
        ovs: Some(OvsPort {
            bridge: "br-int".into(),
            iface_id: format!("k8s-n{number}"),
            external_ids: BTreeMap::from([("k8s.ovn.org/network".to_owned(), "default".to_owned())]),
        }),
    }
}

fn plan(names: &[(&str, u8)]) -> HostPlan {
    let route = |(name, number): &(&str, u8)| HostRoute {
        dest: "10.244.0.0/16".parse().unwrap(),
        via: format!("10.244.{number}.1").parse().unwrap(),
        device: (*name).to_owned(),
    };
    HostPlan {
        links: names.iter().map(|(name, number)| ((*name).to_owned(), link(*number))).collect(),
        routes: names.iter().take(1).map(route).collect(),
    }
}

/// The task ends with the second value.
fn start(switch: &Switch) -> (Ovs, Tasks) {
    let remotes = Remote::list(&switch.database.remote()).unwrap();
    let mut tasks = switch::tasks();
    (Ovs::start(&mut tasks, OvsConfig { remotes, bridge: "br-int".into() }), tasks)
}

#[test]
fn a_management_port_becomes_a_device_and_then_nothing_is_written() {
    on_own_node(async || {
        let switch = Switch::start();
        let (ovs, _tasks) = start(&switch);
        let wanted = plan(&[("ovn-k8s-mp0", 1)]);
        assert_eq!(ovs.ensure_internal(internal_ports(&wanted)).await, Ok(true));
        let applied = Kernel.apply_host(&wanted);
        assert!(applied.problems.is_empty() && applied.writes > 0, "{:?}", applied.problems);

        let state = Kernel.inspect(Path::new("/proc/thread-self/ns/net"), "ovn-k8s-mp0").unwrap().unwrap();
        let want = &wanted.links["ovn-k8s-mp0"];
        assert_eq!(
            (state.mac, state.mtu, state.up, &state.addresses),
            (want.mac, 1400, true, &want.addresses)
        );
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
        assert_eq!(start(&switch).0.ensure_internal(internal_ports(&wanted)).await, Ok(false));
        assert_eq!(Kernel.apply_host(&wanted).writes, 0);
        assert_eq!(switch.database.transactions().transactions.len(), writes);
    });
}

#[test]
fn ports_follow_the_plan_and_others_stay() {
    on_own_node(async || {
        let switch = Switch::start();
        let (ovs, _tasks) = start(&switch);
        switch.vsctl(&[
            "add-port",
            "br-int",
            "by-hand",
            "--",
            "set",
            "Interface",
            "by-hand",
            "type=internal",
        ]);
        ovs.ensure_internal(internal_ports(&plan(&[("ovn-k8s-mp0", 1), ("ovn-k8s-mp7", 7)]))).await.unwrap();
        assert_eq!(switch.ports(), ["by-hand", "ovn-k8s-mp0", "ovn-k8s-mp7"]);

        let mut changed = plan(&[("ovn-k8s-mp0", 1)]);
        let link = changed.links.get_mut("ovn-k8s-mp0").unwrap();
        (link.mtu, link.mac) = (1300, "0a:58:0a:f4:09:02".parse().unwrap());
        assert_eq!(ovs.ensure_internal(internal_ports(&changed)).await, Ok(true));
        assert_eq!(switch.ports(), ["by-hand", "ovn-k8s-mp0"]);
        let columns = ["mac", "mtu_request"].map(|c| switch.vsctl(&["get", "Interface", "ovn-k8s-mp0", c]));
        assert_eq!(columns.map(|c| c.trim().to_owned()), ["\"0a:58:0a:f4:09:02\"", "1300"]);

        let clash = internal_ports(&plan(&[("by-hand", 3), ("ovn-k8s-mp9", 9)]));
        assert_eq!(ovs.ensure_internal(clash).await, Err(Error::Foreign("by-hand".into())));
        assert_eq!(switch.ports(), ["by-hand", "ovn-k8s-mp9"], "one that cannot be made stops no other");
        assert_eq!(ovs.ensure_internal(BTreeMap::new()).await, Ok(true));
        assert_eq!(switch.ports(), ["by-hand"]);
    });
}

#[test]
fn a_bridge_that_is_not_there_is_said() {
    on_own_node(async || {
        let switch = Switch::start();
        let (ovs, _tasks) = start(&switch);
        let mut wanted = plan(&[("ovn-k8s-mp0", 1)]);
        wanted.links.get_mut("ovn-k8s-mp0").unwrap().ovs.as_mut().unwrap().bridge = "br-no".into();
        assert_eq!(ovs.ensure_internal(internal_ports(&wanted)).await, Err(Error::NoBridge("br-no".into())));
    });
}

#[test]
fn a_device_that_the_switch_cannot_open_is_said() {
    on_own_node(async || {
        let switch = Switch::start();
        let (ovs, _tasks) = start(&switch);
        let port = causeway_node::ovs::PodPort {
            name: "no-such-device".into(),
            iface_id: "ns1_web".into(),
            uid: "u".into(),
            sandbox: "no-such-devicexx".into(),
            interface: "eth0".into(),
            mac: "0a:58:0a:f4:01:05".parse().unwrap(),
            addresses: vec!["10.244.1.5/24".into()],
            network: None,
        };
        ovs.ensure_ports(vec![port]).await.unwrap();
        let error = ovs.wait_installed("no-such-device", "ns1_web").await.unwrap_err();
        assert!(
            matches!(&error, Error::Device(name, words) if name == "no-such-device" && words.contains("No such device")),
            "{error}"
        );
        assert_eq!(ovs.remove_ports("no-such-devicexx").await, Ok(vec!["no-such-device".to_owned()]));
        assert_eq!(
            ovs.wait_installed("no-such-device", "ns1_web").await,
            Err(Error::Gone("no-such-device".into()))
        );
        assert_eq!(BTreeSet::from_iter(switch.ports()), BTreeSet::new());
    });
}
