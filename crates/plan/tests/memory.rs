//! What a zone keeps of other nodes' pods: what selectors of policies look at of each, and ports of those on layer2 networks; and of
//! services' endpoints.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use support::*;

const PODS: u32 = 40_000;
/// With a port on a layer2 network.
const MOST: u64 = 400;
/// Without: its address twice, for services and for policies, and its labels.
const WITHOUT_PORT: u64 = 250;

/// Memory that this process really has, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// One after the other: what is measured is the whole process.
#[test]
fn what_a_zone_keeps_is_small() {
    endpoints_are_small();
    addresses_of_the_default_network_are_small();
    pods_of_other_nodes_are_small();
}

fn pods_of_other_nodes_are_small() {
    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_nad(&green(Ip::V4));
    zone.apply_nad(&blue(Ip::V4));
    let far = |n: u32, namespace: &str, nad: &str| {
        let (locked, own) =
            (format!("10.244.{}.{}/16", n >> 8, n & 255), format!("203.203.{}.{}/16", n >> 8, n & 255));
        let name = format!("{namespace}/deployment-7f4b8c9d5b-{n:05}");
        let networks: &[(&str, &str, &[&str], Option<u32>)] = &[
            ("default", "infrastructure-locked", &[locked.as_str()], None),
            (nad, "primary", &[own.as_str()], Some(1 + n % 32_000)),
        ];
        pod(&name, &format!("n{}", 2 + n % 500), networks)
    };
    (0..100).for_each(|n| drop(zone.apply_pod(&far(n, "ns1", "ns1/blue"))));
    assert_eq!(zone.pod_count(), 0, "layer3 networks have no ports of them here");
    // What the first thousand cost is mostly what any zone has.
    (0..1_000).for_each(|n| drop(zone.apply_pod(&far(n, "ns2", "ns2/green"))));
    let before = resident();
    (1_000..1_000 + PODS).for_each(|n| drop(zone.apply_pod(&far(n, "ns2", "ns2/green"))));
    let each = resident().saturating_sub(before) / u64::from(PODS);
    println!("{each} bytes for each pod");
    assert_eq!(zone.pod_count(), 1_000 + PODS as usize);
    assert!(each <= MOST, "{each} bytes for each pod");
}

/// Most endpoints of a cluster are in slices of a hundred.
fn endpoints_are_small() {
    let mut zone = two_nodes(Ip::V4, None);
    let of = |n: u32| {
        let endpoints: Vec<String> =
            (0..100).map(|at| format!("10.244.{}.{at}@n{}", n % 250, 1 + at % 2)).collect();
        let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
        slice(&format!("ns0/web-{n:05}"), &format!("web-{n:05}"), None, &endpoints)
    };
    (0..20).for_each(|n| drop(zone.apply_endpoint_slice(&of(n))));
    let before = resident();
    (20..2_020).for_each(|n| drop(zone.apply_endpoint_slice(&of(n))));
    let each = resident().saturating_sub(before) / 200_000;
    assert!(each <= 48, "{each} bytes for each endpoint");
}

/// Of a pod of the default network its address is kept, and a mark of it in its namespace, to tell whether endpoints are who they
/// say; and what selectors look at.
fn addresses_of_the_default_network_are_small() {
    let mut zone = two_nodes(Ip::V4, None);
    let far = |n: u32| {
        let own = format!("10.244.{}.{}/16", n >> 8, n & 255);
        pod(
            &format!("ns0/deployment-7f4b8c9d5b-{n:05}"),
            "n2",
            &[("default", "primary", &[own.as_str()], None)],
        )
    };
    (0..1_000).for_each(|n| drop(zone.apply_pod(&far(n))));
    let before = resident();
    (1_000..1_000 + PODS).for_each(|n| drop(zone.apply_pod(&far(n))));
    let each = resident().saturating_sub(before) / u64::from(PODS);
    println!("{each} bytes for each pod");
    assert!(each <= WITHOUT_PORT, "{each} bytes for each pod");
}
