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
#[path = "evpn/scenario.rs"]
mod scenario;

#[test]
fn tenants_with_equal_addresses_reach_their_own_machines() {
    if std::process::id() == 1 {
        guest::run(scenario::run);
    } else {
        kernel::boot("tenants_with_equal_addresses_reach_their_own_machines");
    }
}
