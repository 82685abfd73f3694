//! What may not change while a network exists, for custom resources and NADs alike.

use super::network::Network;
use super::problem::{Problem, Problems, Reason};
use crate::crd::Topology;
use crate::schema::messages as say;

/// What speaks against turning one network into the other. Only the pod subnets of a primary layer3 network may
/// grow, at the end: nodes count through the list.
pub fn changes(old: &Network, new: &Network) -> Vec<Problem> {
    let mut problems = Problems::default();
    let mut kept = |same: bool, message: &str| {
        if !same {
            problems.add(Reason::Immutable, message);
        }
    };
    kept(old.topology == new.topology, say::TOPOLOGY_IMMUTABLE);
    if old.topology == new.topology {
        match new.topology {
            Topology::Layer3 => check_layer3(old, new, &mut kept),
            Topology::Layer2 => kept(same_but_cluster_settings(old, new), say::LAYER2_IMMUTABLE),
            Topology::Localnet => kept(same_but_cluster_settings(old, new), say::LOCALNET_IMMUTABLE),
        }
    }
    kept(old.vrf == new.vrf, say::VRF_IMMUTABLE);
    kept(old.uplink == new.uplink, say::UPLINKS_IMMUTABLE);
    let kind = |network: &Network| std::mem::discriminant(&network.transport);
    kept(kind(old) == kind(new), say::TRANSPORT_IMMUTABLE);
    let no_overlay = matches!(new.transport, super::Transport::NoOverlay { .. });
    kept(!no_overlay || kind(old) != kind(new) || old.transport == new.transport, say::NO_OVERLAY_IMMUTABLE);
    problems.0
}

fn check_layer3(old: &Network, new: &Network, kept: &mut impl FnMut(bool, &str)) {
    kept(old.role == new.role, say::ROLE_IMMUTABLE);
    kept(old.mtu == new.mtu, say::MTU_IMMUTABLE);
    kept(old.join_subnets == new.join_subnets, say::JOIN_IMMUTABLE);
    if !new.is_primary() {
        kept(old.subnets == new.subnets, say::SECONDARY_IMMUTABLE);
        return;
    }
    let there = |cidr| new.pod_cidrs().any(|other| other == cidr);
    let positions = || old.pod_cidrs().zip(new.pod_cidrs()).all(|(old, new)| old == new);
    if !old.pod_cidrs().all(there) {
        kept(false, say::NO_REMOVAL);
    } else if !positions() {
        kept(false, say::APPEND_ONLY);
    } else {
        kept(old.subnets.iter().zip(&new.subnets).all(|(old, new)| old == new), say::HOST_IMMUTABLE);
    }
}

/// Everything but what belongs to the object around the block.
fn same_but_cluster_settings(old: &Network, new: &Network) -> bool {
    let core = |network: &Network| Network {
        vrf: None,
        uplink: None,
        transport: super::Transport::Overlay,
        ..network.clone()
    };
    core(old) == core(new)
}
