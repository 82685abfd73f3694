//! The command line: every role and tool as a subcommand.

mod crds;
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
    Crds(crds::Crds),
    Sandbox(sandbox::Sandbox),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Crds(crds) => crds.run(),
        Command::Sandbox(sandbox) => sandbox.run(),
    }
}
