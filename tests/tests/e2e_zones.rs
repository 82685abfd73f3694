//! Three zones, one network: OVN objects made by hand with our own rows and our own engine carry real packets.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used)]

use causeway_node::{Applier, ApplierConfig};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::NORTHBOUND;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Planner, Str, path};
use causeway_ovsdb_client::Remote;
use causeway_tests::shared;
use std::time::Duration;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const HOSTS: &str = include_str!("manifests/hosts.yaml");
/// Beyond the keys that northd gives out itself.
const SWITCH_KEY: &str = "16711690";

/// A switch over all zones, with a port of each node.
struct Zone {
    local: &'static str,
}

fn number(node: &str) -> usize {
    NODES.iter().position(|other| *other == node).unwrap() + 1
}

fn mac(node: &str) -> String {
    format!("0a:58:0a:63:00:0{}", number(node))
}

impl Zone {
    fn rows(&self) -> Vec<Planned> {
        let switch = nb::LogicalSwitch {
            name: "ping".into(),
            other_config: [
                ("interconn-ts".into(), "ping".into()),
                ("requested-tnl-key".into(), SWITCH_KEY.into()),
            ]
            .into(),
            ..Default::default()
        };
        let mut rows = vec![Planned::new("t:switch", switch)];
        rows.extend(NODES.map(|node| self.port(node)));
        rows
    }

    fn port(&self, node: &str) -> Planned {
        let n = number(node);
        let remote = node != self.local;
        let mut options = vec![(Str::from("requested-tnl-key"), Str::from(n.to_string()))];
        if remote {
            options.push(("requested-chassis".into(), node.into()));
        }
        let port = nb::LogicalSwitchPort {
            name: format!("ping-{node}").into(),
            r#type: if remote { "remote".into() } else { Str::default() },
            addresses: [Str::from(format!("{} 10.99.0.{n} fd99::{n}", mac(node)))].into(),
            options: options.into_iter().collect(),
            ..Default::default()
        };
        Planned::new(path::join(["t", "port", node]), port).within::<nb::LogicalSwitch>("t:switch", "ports")
    }
}

impl Planner for Zone {
    fn roots(&self) -> &[&str] {
        &["t"]
    }

    fn slices(&self, _prefix: &str) -> Vec<Str> {
        vec!["t:".into()]
    }

    fn slice_len(&self, path: &str) -> usize {
        if path.starts_with("t:") { "t:".len() } else { path.len() }
    }

    fn plan(&self, slice: &str) -> Plan {
        // Rows that tables know by name are the node role's here.
        if slice == "t:" { Plan::Rows(self.rows()) } else { Plan::Hold("not this test's".into()) }
    }
}

async fn write(zone: &Zone, socket: std::path::PathBuf) {
    let mut applier = Applier::new(ApplierConfig {
        declarations: &NORTHBOUND,
        remotes: vec![Remote::Unix(socket)],
        tls: None,
        options: Options::default(),
    });
    applier.dirty("");
    tokio::time::timeout(Duration::from_secs(60), applier.settle(zone)).await.unwrap();
    let failures = applier.engine().failures();
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn zones_reach_each_other_through_objects_made_by_hand() {
    let sandbox = shared();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for node in NODES {
        runtime.block_on(write(&Zone { local: node }, sandbox.database(node, "ovnnb_db")));
        let n = number(node);
        let port = format!(
            "ovs-vsctl --timeout=30 --may-exist add-port br-int ping0 -- set interface ping0 type=internal \
             external_ids:iface-id=ping-{node} mtu_request=1400 'mac=\"{}\"' && ip link set ping0 up && \
             ip address replace 10.99.0.{n}/24 dev ping0 && ip address replace fd99::{n}/64 dev ping0 nodad",
            mac(node)
        );
        sandbox.exec(node, &["sh", "-c", &port]).unwrap();
    }
    sandbox.apply(HOSTS).unwrap();
    sandbox.kubectl(&["rollout", "status", "daemonset/host", "--timeout=120s"]).unwrap();
    let pods = sandbox.get(&["pods", "-l", "app=host"]).unwrap();
    for pod in pods["items"].as_array().unwrap() {
        let node = pod["spec"]["nodeName"].as_str().unwrap();
        let pod = sandbox.pod(pod["metadata"]["name"].as_str().unwrap());
        for other in NODES.iter().filter(|other| **other != node) {
            for address in [format!("10.99.0.{}", number(other)), format!("fd99::{}", number(other))] {
                // A tunnel's first packet may be lost while it learns its neighbour.
                let ping = || pod.exec(&["ping", "-c1", "-W1", &address]).map(Some);
                sandbox
                    .wait_within(&format!("{node} to reach {address}"), Duration::from_secs(60), ping)
                    .unwrap();
            }
        }
    }
    sandbox.kubectl(&["delete", "daemonset", "host", "--timeout=120s"]).unwrap();
}
