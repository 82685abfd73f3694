//! The rows of one connection of N layer3 networks over M nodes, pods only, one family: a router, N·(M+1) router ports,
//! N·M static routes, N·(N−1) policies.

use causeway_ovn::generated::nb;
use causeway_ovn::{Members, Pairs, Plan, Planned, Planner, RowKey, Str, path};
use std::cell::RefCell;
use std::fmt::Write;
use std::net::Ipv4Addr;

#[derive(Clone)]
pub struct Connect {
    pub networks: usize,
    pub nodes: usize,
    /// Slots kept for each network, so that nodes can come later.
    stride: usize,
    network_names: Vec<Str>,
    node_names: Vec<Str>,
    keys: Keys,
    router_key: RowKey,
    network_keys: Vec<RowKey>,
    /// Without it only the networks' own routers are planned.
    pub connected: bool,
    /// Changes the next hop of one route.
    pub hop: u32,
}

const ROUTER: &str = "cnc:blue:router";

fn address(base: [u8; 4], offset: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::from(base)) + offset as u32)
}

thread_local! {
    /// Where texts are written, so that each is allocated once and in its size.
    static SCRATCH: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A text that is put together by `write`.
fn written(write: impl FnOnce(&mut String)) -> Str {
    SCRATCH.with_borrow_mut(|text| {
        text.clear();
        write(text);
        Str::from(text.as_str())
    })
}

/// Formats once. Arguments must not be texts that are written meanwhile.
macro_rules! text {
    ($($arg:tt)*) => {
        written(|text| write!(text, $($arg)*).expect("memory takes text"))
    };
}

/// `a.b.c.d` with something behind it; the general formatting of addresses is slow.
fn ip_text(ip: Ipv4Addr, behind: &str) -> Str {
    written(|text| {
        for (i, octet) in ip.octets().into_iter().enumerate() {
            if i > 0 {
                text.push('.');
            }
            for place in [100, 10, 1] {
                if octet >= place || place == 1 {
                    text.push((b'0' + octet / place % 10) as char);
                }
            }
        }
        text.push_str(behind);
    })
}

fn mac(ip: Ipv4Addr) -> Str {
    let [a, b, c, d] = ip.octets();
    text!("0a:58:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Strings that many rows share are made once.
#[derive(Clone)]
struct Keys {
    owner: Str,
    owner_name: Str,
    kind: Str,
    name: Str,
}

impl Keys {
    fn new() -> Keys {
        Keys {
            owner: "k8s.ovn.org/owner-controller".into(),
            owner_name: "causeway-connect".into(),
            kind: "k8s.ovn.org/owner-type".into(),
            name: "k8s.ovn.org/name".into(),
        }
    }
}

impl Connect {
    pub fn new(networks: usize, nodes: usize) -> Connect {
        let network_names: Vec<Str> = (0..networks).map(|n| text!("cluster_udn_net{n}")).collect();
        let router = |name: &Str| RowKey::of::<nb::LogicalRouter>(&path::join(["net", name, "router"]));
        Connect {
            networks,
            nodes,
            stride: nodes.next_power_of_two().max(256),
            router_key: RowKey::of::<nb::LogicalRouter>(ROUTER),
            network_keys: network_names.iter().map(router).collect(),
            network_names,
            node_names: (0..nodes).map(|m| text!("worker-{m}")).collect(),
            keys: Keys::new(),
            connected: true,
            hop: 0,
        }
    }

    #[allow(dead_code, reason = "the demonstration adds a node; the benchmark does not")]
    pub fn set_nodes(&mut self, nodes: usize) {
        self.nodes = nodes;
        self.node_names = (0..nodes).map(|m| text!("worker-{m}")).collect();
    }

    fn network(&self, n: usize) -> &Str {
        &self.network_names[n]
    }

    fn node(&self, m: usize) -> &Str {
        &self.node_names[m]
    }

    fn network_router(&self, n: usize) -> Str {
        path::join(["net", self.network(n), "router"])
    }

    /// Beside the row's own id; network and node are parts of that.
    fn ids(&self, kind: &str) -> Pairs {
        let keys = &self.keys;
        Pairs::from([
            (keys.owner.clone(), keys.owner_name.clone()),
            (keys.kind.clone(), kind.into()),
            (keys.name.clone(), "blue".into()),
        ])
    }

    #[allow(dead_code, reason = "only the benchmark counts")]
    pub fn rows(&self) -> usize {
        let (n, m) = (self.networks, self.nodes);
        1 + n * (m + 1) + n * m + n * (n - 1)
    }

    pub fn changed_route(&self) -> Str {
        path::join(["cnc", "blue", "route", self.network(self.networks / 2), self.node(0)])
    }

    fn slot(&self, n: usize, m: usize) -> usize {
        n * self.stride + m
    }

    fn link(&self, n: usize, m: usize) -> Planned {
        let ip = address([10, 0, 0, 0], 2 * self.slot(n, m));
        let mut options =
            Pairs::from([("requested-tnl-key".into(), text!("{}", self.slot(n, m) % 32_000 + 1))]);
        if m > 0 {
            options.insert("requested-chassis".into(), self.node(m).clone());
        }
        let port = nb::LogicalRouterPort {
            name: text!("blue-to-{}-{}", self.network(n), self.node(m)),
            mac: mac(ip),
            networks: Members::from([ip_text(ip, "/31")]),
            peer: (m == 0).then(|| text!("{}-{}-to-blue", self.network(n), self.node(0))),
            options,
            external_ids: self.ids("link"),
            ..Default::default()
        };
        Planned::new(path::join(["cnc", "blue", "link", self.network(n), self.node(m)]), port)
            .inside(self.router_key, "ports")
    }

    fn peer(&self, n: usize) -> Planned {
        let ip = address([10, 0, 0, 0], 2 * self.slot(n, 0) + 1);
        let port = nb::LogicalRouterPort {
            name: text!("{}-{}-to-blue", self.network(n), self.node(0)),
            mac: mac(ip),
            networks: Members::from([ip_text(ip, "/31")]),
            peer: Some(text!("blue-to-{}-{}", self.network(n), self.node(0))),
            external_ids: self.ids("peer"),
            ..Default::default()
        };
        Planned::new(path::join(["cnc", "blue", "peer", self.network(n)]), port)
            .inside(self.network_keys[n], "ports")
    }

    fn route(&self, n: usize, m: usize) -> Planned {
        let path = path::join(["cnc", "blue", "route", self.network(n), self.node(m)]);
        let extra = if self.hop > 0 && path == self.changed_route() { self.hop as usize } else { 0 };
        let route = nb::LogicalRouterStaticRoute {
            ip_prefix: ip_text(address([100, 0, 0, 0], 256 * self.slot(n, m)), "/24"),
            nexthop: ip_text(address([10, 0, 0, 0], 2 * self.slot(n, m) + 1 + extra), ""),
            output_port: Some(text!("blue-to-{}-{}", self.network(n), self.node(m))),
            external_ids: self.ids("route"),
            ..Default::default()
        };
        Planned::new(path, route).inside(self.router_key, "static_routes")
    }

    fn policy(&self, n: usize, other: usize) -> Planned {
        let subnet = ip_text(address([100, 0, 0, 0], 65_536 * other), "/16");
        let policy = nb::LogicalRouterPolicy {
            priority: 9001,
            r#match: text!("inport == \"rtos-{}_{}\" && ip4.dst == {subnet}", self.network(n), self.node(0)),
            action: "reroute".into(),
            nexthops: Members::from([ip_text(address([10, 0, 0, 0], 2 * self.slot(n, 0)), "")]),
            external_ids: self.ids("policy"),
            ..Default::default()
        };
        Planned::new(path::join(["cnc", "blue", "policy", self.network(n), self.network(other)]), policy)
            .inside(self.network_keys[n], "policies")
    }

    fn router(&self) -> Planned {
        let router = nb::LogicalRouter {
            name: "connect-router-blue".into(),
            options: Pairs::from([("requested-tnl-key".into(), "16715780".into())]),
            external_ids: self.ids("router"),
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
        let mut slices: Vec<Str> = (0..self.networks).map(|n| self.network_router(n)).collect();
        if self.connected {
            slices.push(ROUTER.into());
            for n in 0..self.networks {
                slices.push(path::join(["cnc", "blue", "peer", self.network(n)]));
                slices.extend(
                    ["link", "route", "policy"]
                        .map(|kind| path::join(["cnc", "blue", kind, self.network(n), ""])),
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

    /// Routers first: everything else hangs on them.
    fn priority(&self, slice: &str) -> u8 {
        if slice.ends_with(":router") { 50 } else { 100 }
    }
}
