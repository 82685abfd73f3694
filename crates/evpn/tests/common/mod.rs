//! The values that the cases share: a router with a gateway on a provider's network and a tenant's subnet.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;

use causeway_evpn::{Agent, Node, Port, RawPort, Uuid};

/// The tenant's MAC address of its gateway.
pub(crate) const GATEWAY_MAC: &str = "fa:16:3e:b7:cc:47";

/// A datapath or chassis.
pub(crate) fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// The provider's switch.
pub(crate) const PROVIDER: u128 = 1;
/// The router.
pub(crate) const ROUTER: u128 = 2;
/// The tenant's switch.
pub(crate) const TENANT: u128 = 3;
/// The chassis `gw1`, where the agent runs.
pub(crate) const GW1: u128 = 11;
/// The chassis `gw2`.
pub(crate) const GW2: u128 = 12;
/// The chassis `cmp1`.
pub(crate) const CMP1: u128 = 13;

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// `neutron_bgpvpn:vni` and `neutron_bgpvpn:as`.
pub(crate) fn annotation(vni: &str, asn: &str) -> BTreeMap<String, String> {
    pairs(&[("neutron_bgpvpn:vni", vni), ("neutron_bgpvpn:as", asn)])
}

pub(crate) fn row(kind: &str, datapath: u128, mac: &str, options: &[(&str, &str)]) -> RawPort {
    let mac = if mac.is_empty() { Vec::new() } else { vec![mac.to_owned()] };
    RawPort { kind: kind.into(), datapath: id(datapath), mac, options: pairs(options), ..RawPort::default() }
}

/// A world in which rows are put and taken away.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) rows: BTreeMap<String, RawPort>,
    pub(crate) node: Node,
}

impl World {
    /// Three chassis, a router with a gateway on `gw1`, a subnet and a machine; nothing is annotated.
    pub(crate) fn new() -> Self {
        let mut node = Node::new("gw1", [10, 255, 0, 1].into());
        node.mappings = Node::read_mappings("public:br-ex");
        node.numbers = numbers("br-ex", &[("patch-provnet-to-br-int", 1), ("vo-1001", 7), ("vo-1002", 8)]);
        let mut world = Self { agent: Agent::default(), rows: BTreeMap::new(), node };
        for (chassis, name) in [(GW1, "gw1"), (GW2, "gw2"), (CMP1, "cmp1")] {
            world.agent.set_chassis(id(chassis), Some(name.into()));
        }
        world.tell();
        world.put("provnet", row("localnet", PROVIDER, "unknown", &[("network_name", "public")]));
        world.put("ext0", row("patch", PROVIDER, "router", &[("peer", "lrp-ext0")]));
        let gateway = format!("{GATEWAY_MAC} 172.24.4.146/24");
        world.put("lrp-ext0", row("patch", ROUTER, &gateway, &[("peer", "ext0")]));
        let mut redirect = row("chassisredirect", ROUTER, &gateway, &[("distributed-port", "lrp-ext0")]);
        redirect.chassis = Some(id(GW1));
        world.put("cr-lrp-ext0", redirect);
        world.put("int0", row("patch", TENANT, "router", &[("peer", "lrp-int0")]));
        world.put("lrp-int0", row("patch", ROUTER, "fa:16:3e:00:00:11 20.0.0.1/24", &[("peer", "int0")]));
        let mut vm = row("", TENANT, "fa:16:3e:00:00:f1 20.0.0.241", &[]);
        vm.chassis = Some(id(CMP1));
        world.put("vm1", vm);
        world
    }

    /// The same, exposed.
    pub(crate) fn exposed() -> Self {
        let mut world = Self::new();
        world.annotate("ext0", "1001", "64999");
        world.annotate("int0", "1001", "64999");
        world
    }

    /// The node says what it is.
    pub(crate) fn tell(&mut self) {
        self.agent.set_node(Ok(self.node.clone()));
    }

    /// A row is so now.
    pub(crate) fn put(&mut self, name: &str, row: RawPort) {
        self.agent.set_port(name, Port::read(&row));
        self.rows.insert(name.into(), row);
    }

    /// A row is gone.
    pub(crate) fn delete(&mut self, name: &str) {
        self.agent.set_port(name, None);
        self.rows.remove(name);
    }

    /// A row changes.
    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut RawPort)) {
        let mut row = self.rows[name].clone();
        change(&mut row);
        self.put(name, row);
    }

    /// What is written on a port.
    pub(crate) fn annotate(&mut self, name: &str, vni: &str, asn: &str) {
        self.change(name, |row| row.external_ids = annotation(vni, asn));
    }

    /// What the plan says, a line for each item.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.agent.plan().items().values().map(|planned| planned.item.to_string()).collect()
    }

    /// The ways that a node has when this is exposed.
    pub(crate) fn routes(&mut self) -> Vec<causeway_types::host::Route> {
        self.agent.follow();
        let plan = self.agent.plan();
        let items = plan.items().values().filter_map(|planned| match &planned.item {
            causeway_types::host::Item::Route(route) => Some(route.clone()),
            _ => None,
        });
        items.collect()
    }

    /// What differs since the last time.
    pub(crate) fn follow(&mut self) -> Vec<String> {
        let update = self.agent.follow();
        let said = |(key, planned): (&causeway_types::host::Key, &Option<causeway_types::host::Planned>)| {
            match planned {
                Some(planned) => format!("+ {}", planned.item),
                None => format!("- {key}"),
            }
        };
        update.items.iter().map(said).collect()
    }

    /// Why something is not exposed.
    pub(crate) fn refused(&mut self) -> Vec<String> {
        self.agent.follow();
        self.agent.status().refused.iter().map(|one| format!("{}: {}", one.port, one.reason)).collect()
    }
}

/// Numbers of ports.
pub(crate) fn numbers(bridge: &str, ports: &[(&str, u32)]) -> BTreeMap<String, BTreeMap<String, u32>> {
    let ports = ports.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
    [(bridge.to_owned(), ports)].into()
}
