//! The difference as people and programs see it, against a real northbound database.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovn::declare::NORTHBOUND;
use causeway_ovn::generated::nb;
use causeway_ovn::{Planned, Str, diff_slice};
use causeway_testing::OvsdbServer;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use support::{World, applier, northbound, run, settle, small};

const SLICE: &str = "t:blue:";

/// A switch, and ports with these addresses.
fn world(subnet: &str, ports: &[(&str, &str)]) -> World {
    let switch = nb::LogicalSwitch {
        name: "blue".into(),
        other_config: BTreeMap::from([("subnet".into(), subnet.into())]),
        ..Default::default()
    };
    let mut rows = vec![Planned::new("t:blue:switch", switch)];
    for (name, address) in ports {
        let port = nb::LogicalSwitchPort {
            name: (*name).into(),
            addresses: BTreeSet::from([Str::from(*address)]),
            ..Default::default()
        };
        let path = format!("t:blue:port:{name}");
        rows.push(Planned::new(path, port).within::<nb::LogicalSwitch>("t:blue:switch", "ports"));
    }
    World { extra: BTreeMap::from([(SLICE.into(), rows)]), ..World::default() }
}

async fn difference(server: &OvsdbServer, from: &World, to: &World) -> (String, serde_json::Value) {
    let mut writer = applier(&server.remote(), small());
    settle(&mut writer, from).await;
    let diff = diff_slice(&NORTHBOUND, writer.replica(), to, SLICE).unwrap();
    (diff.to_string(), serde_json::to_value(&diff).unwrap())
}

const CHANGED: &str = "\
+ Logical_Switch_Port t:blue:port:c
    addresses      0a:58:0a:00:00:05
    external_ids   k8s.ovn.org/id=t:blue:port:c
    name           c
    + in Logical_Switch ee142db3-9d11-55fb-ac8b-59060e0ab613 ports
~ Logical_Switch t:blue:switch
    other_config   subnet=10.0.0.0/24 -> subnet=10.0.0.0/16
~ Logical_Switch_Port t:blue:port:a
    addresses      0a:58:0a:00:00:03 -> 0a:58:0a:00:00:09
- Logical_Switch_Port t:blue:port:b
";

#[test]
fn a_difference_reads_well() {
    run(async {
        let server = northbound();
        let from = world("10.0.0.0/24", &[("a", "0a:58:0a:00:00:03"), ("b", "0a:58:0a:00:00:04")]);
        let to = world("10.0.0.0/16", &[("a", "0a:58:0a:00:00:09"), ("c", "0a:58:0a:00:00:05")]);
        let (text, json) = difference(&server, &from, &to).await;
        assert_eq!(text, CHANGED);
        let ops: Vec<&str> = json.as_array().unwrap().iter().map(|row| row["op"].as_str().unwrap()).collect();
        assert_eq!(ops, ["create", "modify", "modify", "delete"]);
        assert_eq!(
            json[1]["columns"],
            json!({"other_config": {
                "old": ["map", [["subnet", "10.0.0.0/24"]]],
                "new": ["map", [["subnet", "10.0.0.0/16"]]],
            }})
        );
        assert_eq!(json[3]["path"], "t:blue:port:b");
    });
}

#[test]
fn nothing_to_do_says_nothing() {
    run(async {
        let server = northbound();
        let world = world("10.0.0.0/24", &[("a", "0a:58:0a:00:00:03")]);
        let (text, json) = difference(&server, &world, &world).await;
        assert_eq!((text.as_str(), json), ("", json!([])));
    });
}
