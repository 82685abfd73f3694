//! The places that the agent writes to, each looked at only when there is a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use causeway_host::{
    Actual, Applied, BridgePorts, Error, Flows, Frr, KernelOutput, Mark, Op, Output, Problem, Seen, bring,
    diff,
};
use causeway_types::host::{Address, HostPlan, HostUpdate, Item, Key, Planned, Route};

use super::flags::EvpnFlags;

/// Which places are to be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) ports: bool,
    pub(super) kernel: bool,
    pub(super) flows: bool,
    pub(super) frr: bool,
}

impl Look {
    pub(super) const ALL: Look = Look { ports: true, kernel: true, flows: true, frr: true };

    pub(super) fn any(self) -> bool {
        self != Look::default()
    }

    pub(super) fn and(self, other: Look) -> Look {
        Look {
            ports: self.ports || other.ports,
            kernel: self.kernel || other.kernel,
            flows: self.flows || other.flows,
            frr: self.frr || other.frr,
        }
    }

    /// Where an item of this key is.
    pub(super) fn at(key: &Key) -> Look {
        let nowhere = Look::default();
        match key {
            Key::BridgePort(_) => Look { ports: true, ..nowhere },
            Key::Flow { .. } => Look { flows: true, ..nowhere },
            Key::Section(_) => Look { frr: true, ..nowhere },
            _ => Look { kernel: true, ..nowhere },
        }
    }
}

/// The agent's ways that this node has: who is exposed by an earlier process stays so.
///
/// # Errors
/// If the kernel does not tell.
pub(super) fn ways() -> Result<Vec<Route>, Error> {
    let there = KernelOutput::open(Mark::EVPN)?.read(&BTreeMap::new())?;
    let route = |seen: Seen| match seen.item {
        Item::Route(route) => Some(route),
        _ => None,
    };
    Ok(there.into_values().filter_map(route).collect())
}

/// Addresses that come, and that go.
pub(super) type Addresses = BTreeMap<Key, (Address, bool)>;

/// What an update changes, if that is addresses alone.
pub(super) fn addresses_of(update: &HostUpdate) -> Option<Addresses> {
    if update.hold_all.is_some() || !update.holds.is_empty() {
        return None;
    }
    let one = |(key, planned): (&Key, &Option<Planned>)| {
        let change = match (key, planned.as_ref().map(|planned| &planned.item)) {
            (_, Some(Item::Address(address))) => (address.clone(), true),
            (Key::Address { device, net }, None) => (Address::new(device.clone(), *net), false),
            _ => return None,
        };
        Some((key.clone(), change))
    };
    update.items.iter().map(one).collect()
}

/// Ports, kernel, flows and FRR of this node.
pub(super) struct Outputs {
    ports: BridgePorts,
    frr: Frr,
    frr_folder: PathBuf,
    sockets: PathBuf,
    flows: BTreeMap<String, Flows>,
    /// All bridges that may have flows of ours.
    bridges: BTreeSet<String>,
}

impl Outputs {
    pub(super) fn new(flags: &EvpnFlags) -> Outputs {
        let frr = Frr::new("vtysh", Frr::EVPN);
        let frr = flags.frr_folder.as_deref().map_or(frr, |folder| Frr::new("vtysh", Frr::EVPN).at(folder));
        Outputs {
            ports: BridgePorts::new("ovs-vsctl", flags.vswitch.to_string(), BridgePorts::EVPN),
            frr,
            frr_folder: flags.frr(),
            sockets: flags.sockets(),
            flows: BTreeMap::new(),
            bridges: BTreeSet::new(),
        }
    }

    /// The bridges that there are.
    pub(super) fn set_bridges(&mut self, bridges: BTreeSet<String>) {
        self.flows.retain(|bridge, _| bridges.contains(bridge));
        self.bridges = bridges;
    }

    /// The sockets of the bridges on which flows are planned.
    pub(super) fn sockets_of(&self, plan: &HostPlan) -> BTreeSet<PathBuf> {
        planned_bridges(plan).iter().map(|bridge| self.sockets.join(format!("{bridge}.mgmt"))).collect()
    }

    /// Makes the plan true in these places, and says in which it is not. The order is that in which things can be made; what stands on
    /// a device goes with it. FRR hears of a VRF that goes before its device does, and lets go of it only when that is gone.
    pub(super) fn apply(&mut self, plan: &HostPlan, look: Look) -> (Applied, Look) {
        let mut all = Applied::default();
        let mut again = Look::default();
        let frr = look.frr && self.frr_matters(plan);
        if frr && (look.ports || look.kernel) {
            self.frr.let_go_once(plan);
        }
        if look.ports {
            again.ports = add(&mut all, bring(&mut self.ports, plan));
        }
        if look.kernel {
            again.kernel = add(&mut all, apply_kernel(plan));
        }
        if look.flows {
            for bridge in self.all_bridges(plan) {
                again.flows |= add(&mut all, bring(self.flows_of(&bridge), plan));
            }
        }
        if frr {
            again.frr = add(&mut all, bring(&mut self.frr, plan));
        }
        (all, again)
    }

    /// Addresses alone, without a look at the rest: with many thousands there a look takes much longer than one more. The kernel tells of
    /// the change, and all is looked at then. How many there were; none if that is no way for them.
    pub(super) fn apply_addresses(changes: &Addresses) -> Result<usize, Error> {
        let mut kernel = KernelOutput::open(Mark::EVPN)?;
        for (address, present) in changes.values() {
            if !kernel.touch_address(address, *present)? {
                return Ok(0);
            }
        }
        Ok(changes.len())
    }

    /// What would change, without any change.
    pub(super) fn compare(&mut self, plan: &HostPlan) -> Vec<Result<Vec<Op>, Error>> {
        let mut found = vec![compare(&mut self.ports, plan)];
        found.push(match KernelOutput::open(Mark::EVPN) {
            Ok(mut kernel) => compare(&mut kernel, plan),
            Err(error) => Err(error),
        });
        for bridge in self.all_bridges(plan) {
            found.push(compare(self.flows_of(&bridge), plan));
        }
        if self.frr_matters(plan) {
            found.push(compare(&mut self.frr, plan));
        }
        found
    }

    /// Whether flows of ours came or went by somebody else's hand.
    pub(super) fn flows_have_changed(&self) -> bool {
        self.flows.values().any(Flows::has_changed)
    }

    fn all_bridges(&self, plan: &HostPlan) -> BTreeSet<String> {
        self.bridges.iter().cloned().chain(planned_bridges(plan)).collect()
    }

    fn flows_of(&mut self, bridge: &str) -> &mut Flows {
        let sockets = &self.sockets;
        let new = || Flows::new("ovs-ofctl", sockets, bridge).marked(Flows::EVPN);
        self.flows.entry(bridge.to_owned()).or_insert_with(new)
    }

    /// A node without FRR lacks it only where something is planned for it.
    fn frr_matters(&self, plan: &HostPlan) -> bool {
        self.frr_folder.exists() || plan.items().keys().any(|key| matches!(key, Key::Section(_)))
    }
}

fn apply_kernel(plan: &HostPlan) -> Applied {
    match KernelOutput::open(Mark::EVPN) {
        Ok(mut kernel) => bring(&mut kernel, plan),
        Err(error) => Applied { writes: 0, problems: vec![Problem { key: None, owner: None, error }] },
    }
}

/// Whether something could not be done.
fn add(all: &mut Applied, one: Applied) -> bool {
    let bad = !one.problems.is_empty();
    all.writes += one.writes;
    all.problems.extend(one.problems);
    bad
}

fn planned_bridges(plan: &HostPlan) -> BTreeSet<String> {
    let bridge = |key: &Key| match key {
        Key::Flow { bridge, .. } => Some(bridge.clone()),
        _ => None,
    };
    plan.items().keys().filter_map(bridge).collect()
}

fn compare(output: &mut dyn Output, plan: &HostPlan) -> Result<Vec<Op>, Error> {
    let items: Vec<_> = plan.items().values().filter(|planned| output.takes(&planned.item.key())).collect();
    output.prepare(&items.iter().map(|planned| &planned.item).collect::<Vec<_>>());
    let mut wanted = BTreeMap::new();
    for planned in items {
        let item = output.normal(&planned.item)?;
        let owner = planned.owner.clone();
        wanted.insert(item.key(), causeway_types::host::Planned { owner, item });
    }
    let actual: Actual = output.read(&wanted)?;
    Ok(diff(plan, &wanted, &actual).ops)
}
