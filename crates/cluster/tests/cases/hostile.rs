//! What a tenant can write, at hostile sizes: an event costs what its size allows, whatever is in it, and the work for everybody
//! else stays what it was. Counted in CPU time of this thread, against the time that parsing the same bytes takes here.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, dual, event, ipv4};

/// So much dearer than parsing its bytes may an event be, all that follows from it included.
const FACTOR: u32 = 100;
/// What any event may cost.
const BASE: Duration = Duration::from_millis(100);

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

fn cost<T>(work: impl FnOnce() -> T) -> Duration {
    let before = cpu();
    let _result = work();
    cpu().checked_sub(before).unwrap()
}

fn pod(name: &str, key: &str, text: String) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "mallory", "name": name, "annotations": {key: text}},
           "spec": {"nodeName": "n1"}})
}

fn nad(field: &str, list: String, topology: &str) -> Value {
    let mut config = json!({"type": "ovn-k8s-cni-overlay", "name": "net", "topology": topology, "role": "primary",
                            "subnets": "10.9.0.0/16/24"});
    if topology == "layer2" {
        config["subnets"] = "10.9.0.0/16".into();
    }
    config[field] = list.into();
    json!({"kind": "NetworkAttachmentDefinition", "metadata": {"namespace": "mallory", "name": "big"},
           "spec": {"config": config.to_string()}})
}

fn udn(subnets: &[Value], exclude: &[String]) -> Value {
    let spec = if exclude.is_empty() {
        json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}})
    } else {
        json!({"topology": "Layer2", "role": "Primary", "subnets": ["10.9.0.0/16"], "excludeSubnets": exclude})
    };
    json!({"kind": "UserDefinedNetwork", "metadata": {"namespace": "mallory", "name": "big"}, "spec": spec})
}

fn slice(endpoints: Vec<Value>, ports: Vec<Value>) -> Value {
    json!({"kind": "EndpointSlice",
           "metadata": {"namespace": "mallory", "name": "big", "labels": {"kubernetes.io/service-name": "web"}},
           "addressType": "IPv4", "endpoints": endpoints, "ports": ports})
}

fn address(number: usize) -> String {
    format!("10.{}.{}.{}", 9 + number / 65536, number / 256 % 256, number % 256)
}

fn joined(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

/// Everything that a tenant can make long.
const FIELDS: usize = 17;

/// The object whose field number `field` has so many items; all the same if `alike`.
fn hostile(field: usize, count: usize, alike: bool) -> Value {
    let number = |item: usize| if alike { 0 } else { item };
    let networks = "k8s.v1.cni.cncf.io/networks";
    let ips = joined(count, |item| format!("\"{}\"", address(number(item))));
    match field {
        0 => pod("big", networks, joined(count, |item| format!("n{}", number(item)))),
        1 => pod("big", networks, joined(count, |item| format!("own@e{}", number(item)))),
        2 => {
            let list = joined(count, |item| format!(r#"{{"name":"own","interface":"e{}"}}"#, number(item)));
            pod("big", networks, format!("[{list}]"))
        }
        3 => pod("big", networks, format!(r#"[{{"name":"own","ips":[{ips}]}}]"#)),
        4 => {
            pod("big", "v1.multus-cni.io/default-network", format!(r#"[{{"name":"default","ips":[{ips}]}}]"#))
        }
        5 => pod("big", "k8s.ovn.org/requested-primary-udn", "x".repeat(count)),
        6 => {
            let list = joined(count, |item| format!("{{protocol: tcp, port: {}}}", number(item) % 65535 + 1));
            pod("big", "k8s.ovn.org/open-default-ports", format!("[{list}]"))
        }
        // Each name stands for two of the one before.
        7 => {
            let doubled = |item: usize| format!("- &a{} [*a{item}, *a{item}]\n", item + 1);
            let lines: String = (0..count.min(40)).map(doubled).collect();
            pod("big", "k8s.ovn.org/open-default-ports", format!("- &a0 x\n{lines}"))
        }
        8 => nad("subnets", joined(count, |item| format!("{}/32", address(number(item)))), "layer3"),
        9 => nad("excludeSubnets", joined(count, |item| format!("{}/32", address(number(item)))), "layer2"),
        10 => nad("reservedSubnets", joined(count, |item| format!("{}/32", address(number(item)))), "layer2"),
        11 => nad(
            "infrastructureSubnets",
            joined(count, |item| format!("{}/32", address(number(item)))),
            "layer2",
        ),
        12 => nad("defaultGatewayIPs", joined(count, |item| address(number(item))), "layer2"),
        13 => {
            let subnet =
                |item| json!({"cidr": format!("{}/30", address(number(item) * 4)), "hostSubnet": 31});
            udn(&(0..count).map(subnet).collect::<Vec<_>>(), &[])
        }
        14 => udn(
            &[],
            &(0..count.max(1)).map(|item| format!("{}/32", address(number(item)))).collect::<Vec<_>>(),
        ),
        15 => {
            let endpoint = |item| {
                let reference =
                    json!({"kind": "Pod", "name": format!("p{}", number(item)), "namespace": "mallory"});
                json!({"addresses": [address(number(item))], "targetRef": reference})
            };
            slice((0..count).map(endpoint).collect(), vec![json!({"name": "http", "port": 80})])
        }
        _ => {
            let addresses: Vec<String> = (0..count).map(|item| address(number(item))).collect();
            let port = |item| json!({"name": format!("p{}", number(item)), "port": 1 + item % 65535});
            slice(vec![json!({"addresses": addresses})], (0..count).map(port).collect())
        }
    }
}

/// A tenant with a network of his own, and somebody else.
fn world(families: bool) -> World {
    let mut world = World::new(if families { dual() } else { ipv4() }, &["n1"]);
    world.namespace("mallory", json!({}));
    world.tenant("innocent");
    world.layer2("innocent/net", &["10.200.0.0/16"]);
    let own = json!({"topology": "Layer2", "layer2": {"role": "Secondary", "ipam": {"mode": "Disabled"}}});
    world.udn("mallory/own", own);
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_event_costs_what_its_size_allows(
        field in 0..FIELDS, count in prop_oneof![0..100_usize, 5_000..20_000_usize], alike in any::<bool>(),
        families in any::<bool>(),
    ) {
        let mut world = world(families);
        let object = hostile(field, count, alike);
        let text = object.to_string();
        let parsing = cost(|| serde_json::from_str::<Value>(&text).unwrap());
        let spent = cost(|| world.put(object));
        prop_assert!(spent <= parsing * FACTOR + BASE, "field {field}: {spent:?} for {} bytes", text.len());
        let next = cost(|| world.pod("innocent/a", "n1"));
        prop_assert!(next <= BASE, "field {field}: the next pod took {next:?}");
        prop_assert_eq!(world.address("innocent/a", "innocent/net"), "10.200.0.3/16");
        let longest = world.objects.values().filter_map(|object| object["metadata"]["annotations"].as_object());
        let sizes = longest.flat_map(|all| all.iter().filter(|(key, _)| key.starts_with("k8s.ovn.org/pod-networks")));
        prop_assert!(sizes.into_iter().all(|(_, text)| text.to_string().len() <= 200 * 1024));
    }
}

/// Whoever asks for too much gets nothing and is told why, in few words.
#[test]
fn too_many_networks_are_refused_with_words() {
    for (field, what) in [(0, "networks"), (2, "networks"), (3, "ips"), (4, "ips")] {
        let mut world = world(false);
        world.put(hostile(field, 20_000, false));
        assert_eq!(world.networks("mallory/big"), Value::Null);
        let told = world.said.last().unwrap();
        assert!(told.contains(&format!("{what}: write fewer")) && told.len() < 400, "{told}");
    }
    let mut world = world(false);
    world.put(hostile(1, 32, true));
    assert_eq!(world.networks("mallory/big").as_object().unwrap().len(), 33, "32 and the default one");
}

/// The hundredth object of a tenant costs what the first one cost, and so does another tenant's pod after it.
#[test]
fn many_objects_cost_no_more_than_the_first() {
    let primary = |item: usize| {
        json!({"type": "ovn-k8s-cni-overlay", "name": format!("n{item}"), "topology": "layer2", "role": "primary",
               "subnets": "10.9.0.0/16"})
    };
    let of = |item: usize, kind: usize| match kind {
        0 => {
            json!({"kind": "NetworkAttachmentDefinition", "metadata": {"namespace": "many", "name": format!("n{item}")},
                    "spec": {"config": primary(item).to_string()}})
        }
        1 => {
            json!({"kind": "UserDefinedNetwork", "metadata": {"namespace": "many", "name": format!("u{item}")},
                    "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.9.0.0/16"]}}})
        }
        _ => json!({"kind": "Pod", "metadata": {"namespace": "many", "name": format!("p{item}")},
                    "spec": {"nodeName": "n1"}}),
    };
    for kind in 0..3 {
        let mut world = World::new(ipv4(), &["n1"]);
        world.tenant("many");
        let mut spent: Vec<Duration> = Vec::new();
        for item in 0..1500 {
            let object = of(item, kind);
            let mut before = object.clone();
            before["metadata"]["uid"] = format!("uid-{kind}-{item}").into();
            spent.push(cost(|| world.put(before)));
        }
        let sum = |range: std::ops::Range<usize>| spent[range].iter().sum::<Duration>();
        let (first, last) = (sum(100..300), sum(1300..1500));
        assert!(last < first * 4 + BASE, "kind {kind}: {first:?}, then {last:?}");
    }
    assert!(event(&of(0, 2), false).is_some());
}
