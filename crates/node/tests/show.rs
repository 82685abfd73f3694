//! The difference as people and programs see it, against a real northbound database.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovn::declare::NORTHBOUND;
use causeway_ovn::generated::nb;
use causeway_ovn::{Members, Pairs, Planned, RowKey, Str, diff_slice};
use causeway_testing::OvsdbServer;
use serde_json::json;

use support::{World, applier, northbound, run, settle, small};

const SLICE: &str = "t:blue:";

/// A switch, and ports with these addresses.
fn world(subnet: &str, ports: &[(&str, &str)]) -> World {
    let switch = nb::LogicalSwitch {
        name: "blue".into(),
        other_config: Pairs::from([("subnet".into(), subnet.into())]),
        ..Default::default()
    };
    let mut rows = vec![Planned::new("t:blue:switch", switch)];
    for (name, address) in ports {
        let port = nb::LogicalSwitchPort {
            name: (*name).into(),
            addresses: Members::from([Str::from(*address)]),
            ..Default::default()
        };
        let path = format!("t:blue:port:{name}");
        rows.push(Planned::new(path, port).within::<nb::LogicalSwitch>("t:blue:switch", "ports"));
    }
    World { extra: [(SLICE.into(), rows)].into(), ..World::default() }
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

/// An address set and a load balancer with these members.
fn members(addresses: &[&str], vips: &[(&str, &str)]) -> World {
    let set = nb::AddressSet {
        name: "as".into(),
        addresses: addresses.iter().map(|address| Str::from(*address)).collect(),
        ..Default::default()
    };
    let balancer = nb::LoadBalancer {
        name: "lb".into(),
        vips: vips.iter().map(|(vip, target)| (Str::from(*vip), Str::from(*target))).collect(),
        ..Default::default()
    };
    let mut rows = Planned::new("t:blue:set", set).members_apart("addresses");
    rows.extend(Planned::new("t:blue:lb", balancer).members_apart("vips"));
    World { extra: [(SLICE.into(), rows)].into(), ..World::default() }
}

const CHANGED_MEMBERS: &str = "\
- Address_Set t:blue:set:addresses:10.0.0.1
    addresses      10.0.0.1
+ Address_Set t:blue:set:addresses:10.0.0.3
    addresses      10.0.0.3
~ Load_Balancer t:blue:lb:vips:10.96.0.1%3A80
    vips           10.96.0.1:80=10.0.0.5:80 -> 10.96.0.1:80=10.0.0.6:80
";

#[test]
fn members_are_told_one_by_one() {
    run(async {
        let server = northbound();
        let from =
            members(&["10.0.0.1", "10.0.0.2"], &[("10.96.0.1:80", "10.0.0.5:80"), ("10.96.0.2:80", "")]);
        let to = members(&["10.0.0.2", "10.0.0.3"], &[("10.96.0.1:80", "10.0.0.6:80"), ("10.96.0.2:80", "")]);
        let (text, json) = difference(&server, &from, &to).await;
        assert_eq!(text, CHANGED_MEMBERS);
        let ops: Vec<&str> = json.as_array().unwrap().iter().map(|row| row["op"].as_str().unwrap()).collect();
        assert_eq!(ops, ["delete", "create", "modify"]);
        let uuid = RowKey::of::<nb::LoadBalancer>("t:blue:lb").uuid;
        assert_eq!(
            json[2],
            json!({
                "op": "modify", "table": "Load_Balancer", "path": "t:blue:lb:vips:10.96.0.1%3A80",
                "uuid": uuid, "phase": "steering", "column": "vips",
                "old": ["map", [["10.96.0.1:80", "10.0.0.5:80"]]],
                "new": ["map", [["10.96.0.1:80", "10.0.0.6:80"]]],
            })
        );
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
