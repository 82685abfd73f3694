//! What policies say of one connection, for those that run already. It is what the rows that follow from them do with its packets,
//! which a property test compares.

use std::net::IpAddr;

use causeway_record::{ObjectKey, PolicyPort, Protocol};
use causeway_types::NetworkName;

use super::info::{Action, Direction, Peers, PolicyInfo, PolicyKey, RuleInfo, SetSpec, Who};
use super::{Class, PodSelector};
use crate::Zone;

/// A connection, seen from a pod of this node.
#[derive(Clone, Copy, Debug)]
pub struct Meeting<'a> {
    /// Whose policies are asked.
    pub pod: &'a ObjectKey,
    /// The pod's primary network.
    pub network: &'a NetworkName,
    /// Whether it is to the pod or from it.
    pub direction: Direction,
    /// The other end.
    pub peer: IpAddr,
    /// TCP, UDP or SCTP.
    pub protocol: Protocol,
    /// The port at the end that answers.
    pub port: u16,
}

impl Zone {
    /// Whether policies let a connection begin. While it is not certain whom selectors reach, nothing is said against it.
    pub fn policies_allow(&self, meeting: &Meeting<'_>) -> bool {
        let class = self.class_of(meeting.network).filter(|_| self.knows_reach(meeting.network));
        let Some(class) = class else { return true };
        let asked = Asked { zone: self, class, meeting };
        let mut policies = self.policies_of(meeting.pod);
        policies.sort_by_key(|info| (info.standing.tier, -info.standing.priority));
        let tiers = policies.chunk_by(|one, next| one.standing.tier == next.standing.tier);
        tiers.into_iter().find_map(|tier| asked.tier(tier)).unwrap_or(true)
    }
}

struct Asked<'a> {
    zone: &'a Zone,
    class: &'a Class,
    meeting: &'a Meeting<'a>,
}

impl Asked<'_> {
    /// What the policies of a tier decide; nothing if they leave it to the next.
    fn tier(&self, policies: &[&PolicyInfo]) -> Option<bool> {
        let direction = self.meeting.direction;
        let rules = || policies.iter().filter_map(|info| info.rules(direction)).flatten();
        if policies.iter().any(|info| matches!(info.key, PolicyKey::Network(_))) {
            let closed = policies.iter().any(|info| info.isolates(direction));
            return closed.then(|| rules().any(|rule| self.is_about(rule)));
        }
        match rules().find(|rule| self.is_about(rule))?.action {
            Action::Allow => Some(true),
            Action::Deny => Some(false),
            Action::Pass => None,
        }
    }

    fn is_about(&self, rule: &RuleInfo) -> bool {
        let Some(ports) = &rule.ports else { return self.is_peer(rule.peers.as_ref()) };
        let Meeting { protocol, port, .. } = *self.meeting;
        ports.iter().any(|given| match given {
            PolicyPort::Numbers(of, first, last) => {
                *of == protocol && (*first..=*last).contains(&port) && self.is_peer(rule.peers.as_ref())
            }
            PolicyPort::Named(of, name) => *of == protocol && self.bears(rule, name),
        })
    }

    fn is_peer(&self, peers: Option<&Peers>) -> bool {
        peers.is_none_or(|peers| {
            self.is_in_blocks(peers) || peers.selected.iter().any(|who| self.is_in(who.clone(), None))
        })
    }

    fn is_in_blocks(&self, peers: &Peers) -> bool {
        peers.blocks.iter().any(|block| block.contains_address(self.meeting.peer))
    }

    /// Whether the destination calls the port so, and the other end is a peer.
    fn bears(&self, rule: &RuleInfo, name: &str) -> bool {
        let Meeting { pod, protocol, port, .. } = *self.meeting;
        if self.meeting.direction == Direction::Ingress {
            let mut named = self.zone.named_ports(pod).iter();
            return named.any(|own| own.protocol == protocol && own.name == name && own.port == port)
                && self.is_peer(rule.peers.as_ref());
        }
        let selected = rule.peers.iter().flat_map(|peers| peers.selected.iter().cloned());
        let wide = rule.peers.as_ref().is_none_or(|peers| self.is_in_blocks(peers));
        let everybody = wide.then(|| Who::Pods(PodSelector::everybody()));
        selected.chain(everybody).any(|who| self.is_in(who, Some(name)))
    }

    /// Whether the other end is in a set; with a name, among those at whom the name has the port's number.
    fn is_in(&self, who: Who, name: Option<&str>) -> bool {
        let Meeting { protocol, port, peer, .. } = *self.meeting;
        let spec = SetSpec { who, port: name.map(|name| (protocol, name.to_owned())) };
        let set = self.zone.peer_set(&self.zone.set_mark(&spec), &self.class.key);
        set.is_some_and(|set| set.has(name.map(|_| (protocol, port)), peer))
    }
}
