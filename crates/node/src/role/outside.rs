//! The node's way out as the role follows it: the kernel and the switch tell of changes, the answer is published, and OVN
//! is told of the bridge.

use std::net::IpAddr;
use std::time::Duration;

use causeway_api::annotations::{Annotation as _, GatewayConfig, GatewayMode};
use causeway_host::{Kernel, Surroundings};
use causeway_plan::node::Underlay;
use causeway_plan::node::gateway::{Facts, Missing, Told, detect, ports};
use causeway_record::{Node, Texts};
use causeway_runtime::Tasks;
use causeway_types::{Cidr, NodeName};
use causeway_zone::BridgePorts;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use super::flags::NodeFlags;
use crate::ovs::{Bridges, Mapping, Ovs, SwitchFacts};

/// The name by which the bridge is known to OVN on every node: localnet ports carry it.
const PHYSICAL_NETWORK: &str = "physnet";
/// The kernel tells of changes; what it does not tell of is seen after so long.
const LATEST: Duration = Duration::from_secs(60);
/// Who changes one thing changes more: so long after the first, all is looked at once.
const SETTLE: Duration = Duration::from_millis(50);

/// What is known of the way out.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Way {
    /// Nobody has looked yet.
    Unknown,
    /// Nobody wants one.
    Disabled,
    Found(GatewayConfig),
    Missing(Missing),
}

/// The way out.
pub(super) struct Outside {
    /// None if there shall be no way out.
    told: Option<Told>,
    node: NodeName,
    masquerade: Vec<Cidr>,
    ovs: Ovs,
    around: watch::Receiver<Option<Surroundings>>,
    bridges: watch::Receiver<Option<Bridges>>,
    switch: watch::Receiver<SwitchFacts>,
    way: Way,
    ports: Option<BridgePorts>,
}

impl Outside {
    /// Starts to look at the kernel, which the role cannot do without.
    pub(super) fn start(
        tasks: &mut Tasks,
        flags: &NodeFlags,
        ovs: Ovs,
        events: watch::Receiver<u64>,
    ) -> Outside {
        let (seen, around) = watch::channel(None);
        tasks.start("surroundings", look_around(Kernel, seen, events));
        Outside {
            told: flags.gateway.told(),
            node: flags.node_name.clone(),
            masquerade: flags.cluster.config().masquerade_subnets,
            around,
            bridges: ovs.bridges(),
            switch: ovs.facts(),
            ovs,
            way: Way::Unknown,
            ports: None,
        }
    }

    /// Returns when the kernel or the switch say something new.
    pub(super) async fn changed(&mut self) {
        let ended = tokio::select! {
            changed = self.around.changed() => changed.is_err(),
            changed = self.bridges.changed() => changed.is_err(),
            changed = self.switch.changed() => changed.is_err(),
        };
        if ended {
            std::future::pending().await
        }
    }

    /// What the switch says of itself.
    pub(super) fn switch(&self) -> SwitchFacts {
        self.switch.borrow().clone()
    }

    /// What the node's own devices say; nothing before somebody has looked.
    pub(super) fn underlay(&self) -> Underlay {
        let around = self.around.borrow();
        let own = around.as_ref().map(|around| around.addresses.as_slice()).unwrap_or_default();
        Underlay::of(own, &self.switch.borrow().encap_ips, &self.masquerade)
    }

    /// Looks again, and says which ports the bridge has.
    pub(super) fn look(&mut self, own: Option<&Node>) -> Option<BridgePorts> {
        let (way, ports) = self.find(own);
        if self.way != way {
            tell(&way);
            self.way = way;
        }
        let published = own.and_then(|own| own.gateway.as_ref().ok()?.as_ref());
        let (config, leads) = match &self.way {
            Way::Found(config) => (Some(config), true),
            // Where there was one, it was ours.
            Way::Disabled => (published, false),
            Way::Unknown | Way::Missing(_) => (None, true),
        };
        if let Some(config) = config.filter(|config| !config.bridge_id.is_empty()) {
            let (network, bridge) = (PHYSICAL_NETWORK.to_owned(), config.bridge_id.clone());
            self.ovs.map(Mapping { network, bridge, leads });
        }
        self.ports = ports;
        self.ports.clone()
    }

    fn find(&self, own: Option<&Node>) -> (Way, Option<BridgePorts>) {
        let Some(told) = &self.told else { return (Way::Disabled, None) };
        let (around, bridges) = (self.around.borrow(), self.bridges.borrow());
        let (Some(around), Some(bridges), Some(own)) = (around.as_ref(), bridges.as_ref(), own) else {
            return (self.way.clone(), self.ports.clone());
        };
        let ends = &self.switch.borrow().encap_ips;
        let known_as: Vec<IpAddr> = ends.iter().chain(&own.addresses).copied().collect();
        let (node, masquerade) = (&self.node, self.masquerade.as_slice());
        let found = detect(told, &Facts { node, around, bridges, known_as: &known_as, masquerade });
        let published = own.gateway.as_ref().ok().and_then(Option::as_ref);
        // An address that is away for a moment takes no flows with it.
        let bridge = found.as_ref().ok().or(published).map(|config| config.bridge_id.as_str());
        let ports = bridge.and_then(|bridge| ports(told, bridge, node, bridges));
        (found.map_or_else(Way::Missing, Way::Found), ports)
    }

    /// What others shall know of the way out. One that is missing for a while stays as it was; one that is switched off
    /// is said to be, where there was one.
    pub(super) fn annotate(&self, texts: &mut Texts, own: &Node) {
        let text = match &self.way {
            Way::Found(config) => config.text(),
            Way::Disabled if own.published.contains_key(GatewayConfig::KEY) => disabled().text(),
            Way::Unknown | Way::Disabled | Way::Missing(_) => return,
        };
        texts.insert(GatewayConfig::KEY.to_owned(), text);
    }

    /// Whether there is a way out where there should be one.
    pub(super) fn health(&self) -> Result<(), String> {
        match &self.way {
            Way::Missing(missing) => Err(format!("the node has no gateway: {missing}")),
            Way::Unknown | Way::Disabled | Way::Found(_) => Ok(()),
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match &self.way {
            Way::Unknown => "unknown",
            Way::Disabled => "disabled",
            Way::Found(_) => "shared",
            Way::Missing(missing) => missing.word(),
        }
    }
}

fn disabled() -> GatewayConfig {
    GatewayConfig {
        mode: GatewayMode::Disabled,
        bridge_id: String::new(),
        interface_id: String::new(),
        mac_address: None,
        ip_addresses: Vec::new(),
        next_hops: Vec::new(),
        node_port_enable: false,
        vlan_id: 0,
    }
}

fn tell(way: &Way) {
    match way {
        Way::Found(config) => info!(
            bridge = config.bridge_id,
            addresses = ?config.ip_addresses,
            next_hops = ?config.next_hops,
            "the node's gateway"
        ),
        Way::Missing(missing) => warn!(reason = missing.word(), "the node has no gateway: {missing}"),
        Way::Unknown | Way::Disabled => {}
    }
}

/// Publishes what the node's own devices say, whenever the kernel tells of a change. What cannot be read changes nothing.
async fn look_around(
    kernel: Kernel,
    seen: watch::Sender<Option<Surroundings>>,
    mut events: watch::Receiver<u64>,
) -> String {
    while !seen.is_closed() {
        events.borrow_and_update();
        match tokio::task::spawn_blocking(move || kernel.surroundings()).await {
            Ok(Ok(now)) => drop(seen.send_if_modified(|known| {
                let differs = known.as_ref() != Some(&now);
                *known = Some(now);
                differs
            })),
            Ok(Err(error)) => warn!(%error, "the node's own addresses are not known"),
            Err(error) => warn!(%error, "the node's own addresses are not known"),
        }
        tokio::select! {
            Ok(()) = events.changed() => sleep(SETTLE).await,
            () = sleep(LATEST) => {}
        }
    }
    "nobody looks any more".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_out_that_is_switched_off() {
        assert_eq!(disabled().text(), r#"{"default":{"mode":"","node-port-enable":"false","vlan-id":"0"}}"#);
    }
}
