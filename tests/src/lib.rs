//! What the end-to-end tests share. Each file in `tests/` is a program with a sandbox of its own.

pub mod ask;
pub mod dial;
mod flood;
pub mod forged;
mod inventory;
pub mod judge;
pub mod outside;
mod packet;
mod roads;
pub mod siblings;
pub mod stream;
pub mod talk;
mod traffic;
mod turns;

pub use flood::{Flood, Running, flood};
pub use inventory::{inventory, transactions, way_out, zone};
pub use outside::wait_outside;
pub use roads::{joined, network, nothing_wrong, road, start_labelled, wait_roads};
pub use talk::namespace;
pub use traffic::{condition, kill_and_wait, lost_by, lost_during, lost_of, wait_reach};

use causeway_sandbox::harness::Sandbox;
use std::sync::OnceLock;

/// Whether there is time for more of the same: `make e2e` has it, `make test` has not.
pub fn at_length() -> bool {
    std::env::var_os("CAUSEWAY_LARGE").is_some()
}

/// One sandbox of three nodes for all tests of a program. Its keeper removes it when the program ends.
///
/// # Panics
/// When there is no sandbox to be had: no test could go on.
pub fn shared() -> &'static Sandbox {
    static SHARED: OnceLock<Sandbox> = OnceLock::new();
    // Whoever works on a test keeps a sandbox of his own for it.
    let sandbox = || match std::env::var("CAUSEWAY_SANDBOX") {
        Ok(name) => Sandbox::existing(&name),
        Err(_) => Sandbox::new(3),
    };
    SHARED.get_or_init(|| {
        let sandbox = sandbox().unwrap_or_else(|e| panic!("{e}"));
        turns::watch(sandbox.folder().path("logs"));
        sandbox
    })
}
