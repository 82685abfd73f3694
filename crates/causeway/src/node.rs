//! `causeway node`: the node role.

use causeway_node::role::{NodeFlags, run};

use crate::role;

/// Run on every node: brings networks to its OVN zone and kernel, and wires its pods
#[derive(clap::Args)]
pub(crate) struct Node {
    #[command(flatten)]
    flags: NodeFlags,
    #[command(flatten)]
    log: role::LogFlags,
}

impl Node {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        role::run(&self.log, run(self.flags))
    }
}
