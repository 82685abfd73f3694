//! The command line: every role and tool as a subcommand.

mod cluster_manager;
mod completion;
mod crds;
mod evpn_agent;
mod node;
mod replay;
mod role;
mod sandbox;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "causeway", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    ClusterManager(Box<cluster_manager::ClusterManager>),
    Completion(completion::Completion),
    Crds(crds::Crds),
    EvpnAgent(Box<evpn_agent::EvpnAgent>),
    Node(Box<node::Node>),
    Replay(replay::Replay),
    Sandbox(sandbox::Sandbox),
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Command::ClusterManager(manager) => manager.run(),
            Command::Completion(completion) => completion.run(),
            Command::Crds(crds) => crds.run(),
            Command::EvpnAgent(agent) => agent.run(),
            Command::Node(node) => node.run(),
            Command::Replay(replay) => replay.run(),
            Command::Sandbox(sandbox) => sandbox.run(),
        }
    }
}

/// An error is a sentence for people; where in the program it came up is nobody's business here.
fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _closed = writeln!(std::io::stderr().lock(), "causeway: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
