//! A node of a test's own, and `ip` in it.
#![allow(dead_code, unreachable_pub, clippy::expect_used)]

use nix::sched::{CloneFlags, unshare};
use std::process::Command;

/// Puts this test's thread, and what it starts, into a namespace of its own: the node.
pub fn on_own_node() {
    unshare(CloneFlags::CLONE_NEWNET).expect("tests of the kernel need root");
}

/// Runs `ip`; what it printed. A table that nothing ever stood in is an empty one.
pub fn ip(words: &str) -> String {
    let out = Command::new("ip").args(words.split(' ')).output().expect("ip is there");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() || said.contains("FIB table does not exist"), "ip {words}: {said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}
