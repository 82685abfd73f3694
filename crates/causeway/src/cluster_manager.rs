//! `causeway cluster-manager`: the cluster manager.

use causeway_cluster_manager::Flags;

use crate::role;

/// Run once in a cluster: gives out numbers and addresses, renders user-defined networks, says how they are
#[derive(clap::Args)]
pub(crate) struct ClusterManager {
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    log: role::LogFlags,
}

impl ClusterManager {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        role::run(&self.log, async { self.flags.run().await.map_err(Into::into) })
    }
}
