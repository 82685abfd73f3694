//! What the tests share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::Sandbox;
use std::sync::OnceLock;

/// One sandbox of three nodes for all tests of a program. Its keeper removes it when the program ends.
pub fn shared() -> &'static Sandbox {
    static SHARED: OnceLock<Sandbox> = OnceLock::new();
    SHARED.get_or_init(|| Sandbox::new(3).unwrap_or_else(|e| panic!("{e}")))
}
