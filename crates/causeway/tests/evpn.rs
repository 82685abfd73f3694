//! The EVPN agent on a kernel of its own: real OVN, Open vSwitch and FRR, from a customer's host by VXLAN, VRF, OVN and Geneve to a machine and
//! back.
//!
//! The kernel is a program (User-Mode Linux) whose root is this machine's, read-only, and whose first process is this very test.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "evpn/central.rs"]
mod central;
#[path = "evpn/guest.rs"]
mod guest;
#[path = "evpn/kernel.rs"]
mod kernel;
#[path = "evpn/nodes.rs"]
mod nodes;
#[path = "evpn/own.rs"]
mod own;
#[path = "evpn/scenario.rs"]
mod scenario;

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
