//! The EVPN agent on a kernel of its own: real OVN, Open vSwitch and FRR, from a customer's host by VXLAN, VRF, OVN and Geneve to a machine and
//! back.
//!
//! The kernel is a program (User-Mode Linux) whose root is this machine's, read-only, and whose first process is this very test.
#![cfg(target_arch = "x86_64")]
// What only `make kernel` needs is there for nobody else.
#![cfg_attr(not(feature = "kernel"), allow(dead_code))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "evpn/asking.rs"]
mod asking;
#[path = "evpn/central.rs"]
mod central;
#[cfg(feature = "kernel")]
#[path = "evpn/clusters.rs"]
mod clusters;
#[path = "evpn/gateway.rs"]
mod gateway;
#[path = "evpn/guest.rs"]
mod guest;
#[path = "evpn/kernel.rs"]
mod kernel;
#[cfg(feature = "kernel")]
#[path = "evpn/moves.rs"]
mod moves;
#[path = "evpn/nodes.rs"]
mod nodes;
#[path = "evpn/own.rs"]
mod own;
#[path = "evpn/scenario.rs"]
mod scenario;
#[path = "evpn/site.rs"]
mod site;

/// Runs a scenario as the first process of a kernel of its own.
fn on_own_kernel(test: &str, scenario: fn()) {
    if std::process::id() == 1 {
        guest::run(scenario);
    } else {
        kernel::boot(test);
    }
}

#[test]
fn tenants_with_equal_addresses_reach_their_own_machines() {
    on_own_kernel("tenants_with_equal_addresses_reach_their_own_machines", scenario::run);
}

#[test]
fn networks_of_our_own_meet_others_on_the_fabric() {
    on_own_kernel("networks_of_our_own_meet_others_on_the_fabric", own::run);
}

#[test]
#[cfg(feature = "kernel")]
fn gateways_move_between_chassis_and_routes_follow() {
    on_own_kernel("gateways_move_between_chassis_and_routes_follow", moves::run);
}

#[test]
#[cfg(feature = "kernel")]
fn a_network_of_two_clusters_meets_on_the_fabric() {
    on_own_kernel("a_network_of_two_clusters_meets_on_the_fabric", clusters::run);
}
