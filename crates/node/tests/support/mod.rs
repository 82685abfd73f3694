//! A small world to plan: slices with switches, guarded ports, routers, address sets and load balancers.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

pub mod check;
pub mod proxy;

use causeway_node::{Applier, ApplierConfig};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::NORTHBOUND;
use causeway_ovn::generated::nb;
use causeway_ovn::{Members, Pairs, Plan, Planned, Planner, Str, path};
use causeway_ovsdb_client::TlsFiles;
use causeway_testing::{OvsdbServer, schema_file};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What one slice of the world has.
#[derive(Clone, Debug, Default)]
pub struct Island {
    pub ports: BTreeSet<u8>,
    /// Moves names from path to path: `p<island>-<k + shift>`.
    pub shift: u8,
    pub address: u8,
    pub guard: Option<u8>,
    pub members: BTreeSet<u8>,
    pub routes: BTreeSet<u8>,
    /// Islands on whose switches the load balancer is attached.
    pub balancer: Option<BTreeSet<u8>>,
    pub binding: Option<u8>,
}

pub const ISLANDS: u8 = 5;

pub fn island() -> impl Strategy<Value = Island> {
    (
        prop::collection::btree_set(0u8..4, 0..4),
        0u8..3,
        0u8..3,
        prop::option::of(0u8..3),
        prop::collection::btree_set(0u8..6, 0..6),
        prop::collection::btree_set(0u8..4, 0..4),
        prop::option::of(prop::collection::btree_set(0u8..ISLANDS, 0..4)),
        prop::option::of(0u8..3),
    )
        .prop_map(|(ports, shift, address, guard, members, routes, balancer, binding)| Island {
            ports,
            shift,
            address,
            guard,
            members,
            routes,
            balancer,
            binding,
        })
}

/// A world: some islands are there, some are not.
pub fn world() -> impl Strategy<Value = World> {
    prop::collection::btree_map(0u8..ISLANDS, island(), 0..usize::from(ISLANDS))
        .prop_map(|islands| World { islands, ..World::default() })
}

/// A planner over islands.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub islands: BTreeMap<u8, Island>,
    /// Slices whose plan says Hold.
    pub holds: BTreeSet<Str>,
    /// Rows added to a slice, for tests that need something special.
    pub extra: BTreeMap<Str, Vec<Planned>>,
}

fn at(i: u8, rest: &[&str]) -> Str {
    path::join(["t", &i.to_string()].into_iter().chain(rest.iter().copied()))
}

fn ids(i: u8) -> Pairs {
    Pairs::from([
        ("k8s.ovn.org/owner-type".into(), "Island".into()),
        ("k8s.ovn.org/name".into(), i.to_string().into()),
    ])
}

impl World {
    fn guard_of(&self, i: u8) -> Option<Str> {
        // The guard of an island's ports lives on the next island, so that order matters over slices.
        let j = (i + 1) % ISLANDS;
        self.islands.get(&j).filter(|other| other.guard.is_some()).map(|_| at(j, &["acl"]))
    }

    fn island_rows(&self, i: u8, island: &Island) -> Vec<Planned> {
        let mut rows = self.switch_rows(i, island);
        rows.extend(router_rows(i, island));
        if let Some(variant) = island.guard {
            let acl = nb::Acl {
                action: "drop".into(),
                direction: "from-lport".into(),
                priority: 1000 + i64::from(variant),
                r#match: format!("ip4.src == $as{i}").into(),
                external_ids: ids(i),
                ..Default::default()
            };
            let group =
                nb::PortGroup { name: format!("pg{i}").into(), external_ids: ids(i), ..Default::default() };
            rows.push(Planned::new(at(i, &["pg"]), group));
            rows.push(Planned::new(at(i, &["acl"]), acl).within::<nb::PortGroup>(&at(i, &["pg"]), "acls"));
        }
        let set = nb::AddressSet {
            name: format!("as{i}").into(),
            addresses: island.members.iter().map(|m| Str::from(format!("10.0.{i}.{m}"))).collect(),
            external_ids: ids(i),
        };
        let set = Planned::new(at(i, &["set"]), set);
        let balancer = self.balancer_row(i, island);
        // Members are planned one by one on every other island; elsewhere their rows have them whole.
        if i.is_multiple_of(2) {
            rows.extend(set.members_apart("addresses"));
            rows.extend(balancer);
        } else {
            rows.push(set);
            rows.extend(balancer.into_iter().flat_map(|row| row.members_apart("vips")));
        }
        rows
    }

    fn switch_rows(&self, i: u8, island: &Island) -> Vec<Planned> {
        let switch = at(i, &["switch"]);
        let row = nb::LogicalSwitch {
            name: format!("s{i}").into(),
            other_config: Pairs::from([("subnet".into(), format!("10.{i}.{}.0/24", island.address).into())]),
            external_ids: ids(i),
            ..Default::default()
        };
        let mut rows = vec![Planned::new(switch.clone(), row)];
        for k in &island.ports {
            let port = nb::LogicalSwitchPort {
                name: format!("p{i}-{}", (k + island.shift) % 4).into(),
                addresses: Members::from([format!("0a:58:0a:00:0{}:0{k}", island.address).into()]),
                enabled: (island.address == 1).then_some(true),
                external_ids: ids(i),
                ..Default::default()
            };
            let mut port = Planned::new(at(i, &["port", &k.to_string()]), port)
                .within::<nb::LogicalSwitch>(&switch, "ports");
            if let Some(guard) = self.guard_of(i) {
                port = port.guarded_by::<nb::Acl>(&guard);
            }
            if island.guard.is_some() {
                port = port.within::<nb::PortGroup>(&at(i, &["pg"]), "ports").bound_to(format!("port{k}"));
            }
            rows.push(port);
        }
        rows
    }

    fn balancer_row(&self, i: u8, island: &Island) -> Option<Planned> {
        let switches = island.balancer.as_ref()?;
        let balancer = nb::LoadBalancer {
            name: format!("lb{i}").into(),
            vips: (0..=island.address)
                .map(|n| (format!("10.96.{n}.{i}:80"), format!("10.{i}.{n}.5:{}", 80 + island.shift)))
                .map(|(vip, target)| (vip.into(), target.into()))
                .collect(),
            protocol: Some("tcp".into()),
            external_ids: ids(i),
            ..Default::default()
        };
        let mut row = Planned::new(at(i, &["lb"]), balancer)
            .within::<nb::LoadBalancerGroup>(&group_path(i), "load_balancer");
        for j in switches.iter().filter(|j| self.islands.contains_key(j)) {
            row = row.within::<nb::LogicalSwitch>(&at(*j, &["switch"]), "load_balancer");
        }
        Some(row)
    }
}

fn router_rows(i: u8, island: &Island) -> Vec<Planned> {
    if island.routes.is_empty() {
        return Vec::new();
    }
    let router = at(i, &["router"]);
    let row = nb::LogicalRouter { name: format!("r{i}").into(), external_ids: ids(i), ..Default::default() };
    let mut rows = vec![Planned::new(router.clone(), row)];
    for k in &island.routes {
        let route = nb::LogicalRouterStaticRoute {
            ip_prefix: format!("10.{i}.{k}.0/24").into(),
            nexthop: format!("100.64.0.{}", island.address + 1).into(),
            external_ids: ids(i),
            ..Default::default()
        };
        let policy = nb::LogicalRouterPolicy {
            priority: 9001,
            r#match: format!("ip4.dst == 10.{i}.{k}.0/24").into(),
            action: "reroute".into(),
            nexthops: Members::from([format!("100.64.0.{}", island.address + 1).into(), "100.64.0.9".into()]),
            external_ids: ids(i),
            ..Default::default()
        };
        let (r, p) = (at(i, &["route", &k.to_string()]), at(i, &["policy", &k.to_string()]));
        rows.push(Planned::new(r, route).within::<nb::LogicalRouter>(&router, "static_routes"));
        rows.push(Planned::new(p, policy).within::<nb::LogicalRouter>(&router, "policies"));
    }
    rows
}

pub fn group_path(i: u8) -> Str {
    path::join(["Load_Balancer_Group", &format!("g{i}")])
}

fn binding_path(i: u8) -> Str {
    path::join(["Static_MAC_Binding", &format!("lrp{i}"), "10.0.0.1"])
}

impl Planner for World {
    fn roots(&self) -> &[&str] {
        &["t"]
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        let mut slices: BTreeSet<Str> = self.extra.keys().cloned().collect();
        for (i, island) in &self.islands {
            slices.insert(Str::from(format!("t:{i}:")));
            slices.extend(island.balancer.as_ref().map(|_| group_path(*i)));
            slices.extend(island.binding.map(|_| binding_path(*i)));
        }
        slices.into_iter().filter(|s| s.starts_with(prefix)).collect()
    }

    fn slice_len(&self, path: &str) -> usize {
        match path.split(':').next() {
            Some("t") => path.match_indices(':').nth(1).map_or(path.len(), |(at, _)| at + 1),
            _ => path.len(),
        }
    }

    fn plan(&self, slice: &str) -> Plan {
        if self.holds.contains(slice) {
            return Plan::Hold("the test says so".into());
        }
        let mut rows = self.extra.get(slice).cloned().unwrap_or_default();
        for (i, island) in &self.islands {
            if slice == format!("t:{i}:") {
                rows.extend(self.island_rows(*i, island));
            } else if slice == group_path(*i).as_str() && island.balancer.is_some() {
                let group = nb::LoadBalancerGroup { name: format!("g{i}").into(), ..Default::default() };
                rows.push(Planned::new(slice, group));
            } else if slice == binding_path(*i).as_str()
                && let Some(mac) = island.binding
            {
                let binding = nb::StaticMacBinding {
                    logical_port: format!("lrp{i}").into(),
                    ip: "10.0.0.1".into(),
                    mac: format!("0a:58:00:00:00:0{mac}").into(),
                    ..Default::default()
                };
                rows.push(Planned::new(slice, binding));
            }
        }
        if rows.is_empty() { Plan::Absent } else { Plan::Rows(rows) }
    }
}

pub fn northbound() -> OvsdbServer {
    OvsdbServer::start(&schema_file("ovn-nb"))
}

pub fn applier(remote: &str, options: Options) -> Applier {
    applier_with(remote, None, options)
}

pub fn applier_with(remote: &str, tls: Option<TlsFiles>, options: Options) -> Applier {
    let remotes = vec![remote.parse().unwrap()];
    Applier::new(ApplierConfig { declarations: &NORTHBOUND, remotes, tls, options })
}

/// Small rounds and transactions, so that a small world goes through many of them.
pub fn small() -> Options {
    Options { round_rows: 6, txn_rows: 3, batch: 7, ..Options::default() }
}

/// Settles, or shows why not.
pub async fn settle(applier: &mut Applier, world: &World) {
    let outcome = tokio::time::timeout(Duration::from_secs(30), applier.settle(world)).await;
    let engine = applier.engine();
    assert!(
        outcome.is_ok(),
        "not settled: failures {:?}, waiting {:?}, held {:?}",
        engine.failures(),
        engine.waiting(),
        engine.held()
    );
}

pub fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// As many cases as the environment asks for, else `n`.
pub fn cases(n: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|s| s.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(n), ..ProptestConfig::default() }
}
