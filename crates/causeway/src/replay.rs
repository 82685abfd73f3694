//! `causeway replay`: what a role would do with what was recorded. It talks to no cluster and writes nothing.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use causeway_plan::replay as node;
use causeway_record::recording::Header;

/// Play a recording that a role has made with --record, and print what the role would do: one JSON object for each write,
/// withdrawal and event of the cluster manager, or of a node for each slice of a database, each item of the host's plan (links, routes,
/// nftables, flows, FRR) and each pod's interfaces, with the line of the message that led to it
#[derive(clap::Args)]
pub(crate) struct Replay {
    /// The recording
    file: PathBuf,
}

impl Replay {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let name = self.file.display();
        let text = fs::read_to_string(&self.file).with_context(|| format!("{name} cannot be read"))?;
        let mut lines = text.lines();
        let header = Header::read(lines.next().unwrap_or_default()).with_context(|| name.to_string())?;
        match header.role() {
            causeway_cluster::ROLE => print(causeway_cluster::replay(&header, lines)?),
            node::ROLE => print(node::replay(&header, lines)?),
            other => bail!(
                "{name} is of the role {other}, and only {} and {} can be played",
                causeway_cluster::ROLE,
                node::ROLE
            ),
        }
    }
}

/// Whoever reads may have seen enough before the end.
fn print<T: serde::Serialize, E: std::error::Error + Send + Sync + 'static>(
    answers: impl Iterator<Item = Result<T, E>>,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for answer in answers {
        match writeln!(out, "{}", serde_json::to_string(&answer?)?) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    Ok(())
}
