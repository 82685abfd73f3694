//! Two hundred tenants of fifty machines each: what one more costs, and what looking at everything again costs.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway_evpn::{Port, RawPort, Uuid};
use common::{CMP1, GW1, World, annotation, id, row};

const TENANTS: u128 = 200;
const MACHINES: u128 = 50;
/// Optimised it takes a tenth of this; what counts is that it does not grow with the square.
const LONGEST: Duration = Duration::from_secs(2);

fn machine(tenant: u128, number: u128) -> RawPort {
    let mac =
        format!("fa:16:3e:{:02x}:{:02x}:01 20.0.{}.{}", tenant, number, number / 200, number % 200 + 10);
    RawPort { chassis: Some(id(CMP1)), ..row("", 1000 + tenant, &mac, &[]) }
}

/// All rows: a router with a gateway here for each tenant, a subnet, machines. Addresses are equal in all tenants.
fn rows() -> BTreeMap<String, RawPort> {
    let mut rows = BTreeMap::new();
    rows.insert("provnet".to_owned(), row("localnet", 1, "unknown", &[("network_name", "public")]));
    for n in 0..TENANTS {
        let written = annotation(&(1001 + n).to_string(), "64999");
        let router = 2000 + n;
        let gateway = format!("fa:16:3f:00:00:{n:02x} 172.24.{}.{}/16", n / 200 + 4, n % 200 + 10);
        let ends = |switch: u128, port: String, peer: String, mac: &str| {
            let outer = row("patch", switch, "router", &[("peer", &peer)]);
            let inner = row("patch", router, mac, &[("peer", &port)]);
            [(port, RawPort { external_ids: written.clone(), ..outer }), (peer, inner)]
        };
        rows.extend(ends(1, format!("ext{n}"), format!("lrp-ext{n}"), &gateway));
        rows.extend(ends(
            1000 + n,
            format!("int{n}"),
            format!("lrp-int{n}"),
            "fa:16:3e:00:00:11 20.0.0.1/22",
        ));
        let redirect =
            row("chassisredirect", router, &gateway, &[("distributed-port", &format!("lrp-ext{n}"))]);
        rows.insert(format!("cr-lrp-ext{n}"), RawPort { chassis: Some(id(GW1)), ..redirect });
        rows.extend((0..MACHINES).map(|number| (format!("vm{n}-{number}"), machine(n, number))));
    }
    rows
}

fn read(rows: &BTreeMap<String, RawPort>) -> BTreeMap<String, Port> {
    rows.iter().filter_map(|(name, raw)| Some((name.clone(), Port::read(raw)?))).collect()
}

fn chassis() -> BTreeMap<Uuid, String> {
    [(id(GW1), "gw1".to_owned()), (id(CMP1), "cmp1".to_owned())].into()
}

#[test]
fn everything_again_is_cheap_and_one_machine_more_is_one_address() {
    let mut world = World::new();
    let rows = rows();
    world.agent.replace(read(&rows), chassis());
    let first = world.agent.follow();
    assert_eq!(world.agent.status().vnis.len(), TENANTS as usize);
    let shown = first.items.keys().filter(|key| key.to_string().starts_with("address")).count();
    assert_eq!(shown, (TENANTS * MACHINES) as usize);

    let begin = Instant::now();
    world.agent.replace(read(&rows), chassis());
    let again = world.agent.follow();
    let whole = world.agent.plan();
    assert!(again.is_empty() && whole.items().len() >= first.items.len(), "unchanged, nothing differs");
    assert!(begin.elapsed() < LONGEST, "looking at everything again took {:?}", begin.elapsed());

    world.put("more", machine(7, MACHINES));
    let more: Vec<String> = world.follow();
    assert_eq!(more, ["+ address 20.0.0.60/32 of lo-1008: for show"]);
}
