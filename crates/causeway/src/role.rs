//! What long-running roles have in common: a log and a runtime.

use std::future::Future;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// How much a role says, and how
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LogFlags {
    /// How much is logged: error, warn, info, debug or trace; or a filter, such as info,causeway_node=debug. Without it
    /// RUST_LOG decides, and without that it is info
    #[arg(long, env = "CAUSEWAY_LOG_LEVEL", value_name = "LEVEL", value_parser = level)]
    log_level: Option<String>,
    /// How it is logged: lines for people, or one JSON object in each line
    #[arg(long, env = "CAUSEWAY_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

fn level(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}; give error, warn, info, debug or trace")),
    }
}

impl LogFlags {
    fn start(&self) {
        let filter = match &self.log_level {
            Some(level) => EnvFilter::new(level),
            None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")),
        };
        let log =
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
        match self.log_format {
            Format::Text => log.init(),
            Format::Json => log.json().flatten_event(true).init(),
        }
    }
}

/// Runs a role to its end. The log goes to stderr.
pub(crate) fn run(log: &LogFlags, role: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    log.start();
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
