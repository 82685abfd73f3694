//! What long-running roles have in common: a log and a runtime.

use std::future::Future;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// Runs a role to its end. The log goes to stderr; `RUST_LOG` says how much of it.
pub(crate) fn run(role: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    // One thread: a role is one task with children that wait for sockets.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    let ended = runtime.block_on(role);
    // A thread that still computes can write nothing any more; nobody waits for it.
    runtime.shutdown_background();
    ended
}
