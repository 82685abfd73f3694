//! The rows of one connection of N layer3 networks over M nodes, pods only, one family: a router, N·(M+1) router ports,
//! N·M static routes, N·(N−1) policies.

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Planner, Str, path};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

#[derive(Clone)]
pub struct Connect {
    pub networks: usize,
    pub nodes: usize,
    /// Without it only the networks' own routers are planned.
    pub connected: bool,
    /// Changes the next hop of one route.
    pub hop: u32,
}

const ROUTER: &str = "cnc:blue:router";

fn address(base: [u8; 4], offset: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::from(base)) + offset as u32)
}

fn mac(ip: Ipv4Addr) -> Str {
    let [a, b, c, d] = ip.octets();
    format!("0a:58:{a:02x}:{b:02x}:{c:02x}:{d:02x}").into()
}

fn network(n: usize) -> String {
    format!("cluster_udn_net{n}")
}

fn node(m: usize) -> String {
    format!("worker-{m}")
}

fn network_router(n: usize) -> Str {
    path::join(["net", &network(n), "router"])
}

fn ids(kind: &str, name: &str, more: &[(&str, String)]) -> BTreeMap<Str, Str> {
    let mut ids = BTreeMap::from([
        ("k8s.ovn.org/owner-controller".into(), "causeway-connect".into()),
        ("k8s.ovn.org/owner-type".into(), kind.into()),
        ("k8s.ovn.org/name".into(), name.into()),
    ]);
    ids.extend(more.iter().map(|(k, v)| (Str::from(*k), Str::from(v.as_str()))));
    ids
}

impl Connect {
    pub fn new(networks: usize, nodes: usize) -> Connect {
        Connect { networks, nodes, connected: true, hop: 0 }
    }

    pub fn rows(&self) -> usize {
        let (n, m) = (self.networks, self.nodes);
        1 + n * (m + 1) + n * m + n * (n - 1)
    }

    pub fn changed_route(&self) -> Str {
        path::join(["cnc", "blue", "route", &network(self.networks / 2), &node(0)])
    }

    fn slot(&self, n: usize, m: usize) -> usize {
        n * self.nodes + m
    }

    fn link(&self, n: usize, m: usize) -> Planned {
        let ip = address([10, 0, 0, 0], 2 * self.slot(n, m));
        let mut options =
            BTreeMap::from([("requested-tnl-key".into(), (self.slot(n, m) % 32_000 + 1).to_string().into())]);
        if m > 0 {
            options.insert("requested-chassis".into(), node(m).into());
        }
        let port = nb::LogicalRouterPort {
            name: format!("blue-to-{}-{}", network(n), node(m)).into(),
            mac: mac(ip),
            networks: BTreeSet::from([format!("{ip}/31").into()]),
            peer: (m == 0).then(|| format!("{}-{}-to-blue", network(n), node(0)).into()),
            options,
            external_ids: ids("link", "blue", &[("k8s.ovn.org/network", network(n)), ("node", node(m))]),
            ..Default::default()
        };
        Planned::new(path::join(["cnc", "blue", "link", &network(n), &node(m)]), port)
            .within::<nb::LogicalRouter>(ROUTER, "ports")
    }

    fn peer(&self, n: usize) -> Planned {
        let ip = address([10, 0, 0, 0], 2 * self.slot(n, 0) + 1);
        let port = nb::LogicalRouterPort {
            name: format!("{}-{}-to-blue", network(n), node(0)).into(),
            mac: mac(ip),
            networks: BTreeSet::from([format!("{ip}/31").into()]),
            peer: Some(format!("blue-to-{}-{}", network(n), node(0)).into()),
            external_ids: ids("peer", "blue", &[("k8s.ovn.org/network", network(n))]),
            ..Default::default()
        };
        Planned::new(path::join(["cnc", "blue", "peer", &network(n)]), port)
            .within::<nb::LogicalRouter>(&network_router(n), "ports")
    }

    fn route(&self, n: usize, m: usize) -> Planned {
        let path = path::join(["cnc", "blue", "route", &network(n), &node(m)]);
        let extra = if self.hop > 0 && path == self.changed_route() { self.hop as usize } else { 0 };
        let route = nb::LogicalRouterStaticRoute {
            ip_prefix: format!("{}/24", address([100, 0, 0, 0], 256 * self.slot(n, m))).into(),
            nexthop: address([10, 0, 0, 0], 2 * self.slot(n, m) + 1 + extra).to_string().into(),
            output_port: Some(format!("blue-to-{}-{}", network(n), node(m)).into()),
            external_ids: ids("route", "blue", &[("k8s.ovn.org/network", network(n)), ("node", node(m))]),
            ..Default::default()
        };
        Planned::new(path, route).within::<nb::LogicalRouter>(ROUTER, "static_routes")
    }

    fn policy(&self, n: usize, other: usize) -> Planned {
        let policy = nb::LogicalRouterPolicy {
            priority: 9001,
            r#match: format!(
                "inport == \"rtos-{}_{}\" && ip4.dst == {}/16",
                network(n),
                node(0),
                address([100, 0, 0, 0], 65_536 * other)
            )
            .into(),
            action: "reroute".into(),
            nexthops: BTreeSet::from([address([10, 0, 0, 0], 2 * self.slot(n, 0)).to_string().into()]),
            external_ids: ids("policy", "blue", &[("k8s.ovn.org/network", network(n))]),
            ..Default::default()
        };
        Planned::new(path::join(["cnc", "blue", "policy", &network(n), &network(other)]), policy)
            .within::<nb::LogicalRouter>(&network_router(n), "policies")
    }

    fn router(&self) -> Planned {
        let router = nb::LogicalRouter {
            name: "connect-router-blue".into(),
            options: BTreeMap::from([("requested-tnl-key".into(), "16715780".into())]),
            external_ids: ids("router", "blue", &[]),
            ..Default::default()
        };
        Planned::new(ROUTER, router)
    }

    fn number(&self, network: &str) -> Option<usize> {
        network.strip_prefix("cluster_udn_net")?.parse().ok().filter(|n| *n < self.networks)
    }

    /// All rows of one network's part of the connection.
    fn part(&self, kind: &str, n: usize) -> Vec<Planned> {
        match kind {
            "link" => (0..self.nodes).map(|m| self.link(n, m)).collect(),
            "route" => (0..self.nodes).map(|m| self.route(n, m)).collect(),
            "policy" => (0..self.networks).filter(|o| *o != n).map(|o| self.policy(n, o)).collect(),
            "peer" => vec![self.peer(n)],
            _ => Vec::new(),
        }
    }

    /// The one row of an exact path.
    fn row(&self, kind: &str, n: usize, last: &str) -> Vec<Planned> {
        let node = last.strip_prefix("worker-").and_then(|m| m.parse().ok()).filter(|m| *m < self.nodes);
        match (kind, node) {
            ("link", Some(m)) => vec![self.link(n, m)],
            ("route", Some(m)) => vec![self.route(n, m)],
            ("policy", None) => self.number(last).map(|o| self.policy(n, o)).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

impl Planner for Connect {
    fn roots(&self) -> &[&str] {
        &["cnc", "net"]
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        if prefix.split(':').count() > 4 {
            return vec![prefix.into()];
        }
        let mut slices: Vec<Str> = (0..self.networks).map(network_router).collect();
        if self.connected {
            slices.push(ROUTER.into());
            for n in 0..self.networks {
                slices.push(path::join(["cnc", "blue", "peer", &network(n)]));
                slices.extend(
                    ["link", "route", "policy"]
                        .map(|kind| path::join(["cnc", "blue", kind, &network(n), ""])),
                );
            }
        }
        slices.retain(|s| s.starts_with(prefix));
        slices
    }

    fn slice_len(&self, path: &str) -> usize {
        match path.split(':').nth(2) {
            Some("link" | "route" | "policy") => {
                path.match_indices(':').nth(3).map_or(path.len(), |(at, _)| at + 1)
            }
            _ => path.len(),
        }
    }

    fn plan(&self, slice: &str) -> Plan {
        let parts: Vec<&str> = slice.split(':').collect();
        let rows = match parts[..] {
            ["net", _, "router"] => {
                let name = format!("{}_ovn_cluster_router", parts[1]);
                vec![Planned::new(slice, nb::LogicalRouter { name: name.into(), ..Default::default() })]
            }
            ["cnc", "blue", "router"] => vec![self.router()],
            ["cnc", "blue", kind, network] | ["cnc", "blue", kind, network, ""] => {
                self.number(network).map(|n| self.part(kind, n)).unwrap_or_default()
            }
            ["cnc", "blue", kind, network, last] => {
                self.number(network).map(|n| self.row(kind, n, last)).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        if rows.is_empty() || (parts[0] == "cnc" && !self.connected) {
            Plan::Absent
        } else {
            Plan::Rows(rows)
        }
    }
}
