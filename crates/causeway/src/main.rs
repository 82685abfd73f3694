//! The command line: every role and tool as a subcommand.

mod cluster_manager;
mod crds;
mod node;
mod replay;
mod role;
mod sandbox;

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
    Crds(crds::Crds),
    Node(Box<node::Node>),
    Replay(replay::Replay),
    Sandbox(sandbox::Sandbox),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::ClusterManager(manager) => manager.run(),
        Command::Crds(crds) => crds.run(),
        Command::Node(node) => node.run(),
        Command::Replay(replay) => replay.run(),
        Command::Sandbox(sandbox) => sandbox.run(),
    }
}
