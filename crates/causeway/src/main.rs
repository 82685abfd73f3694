//! The command line: every role and tool as a subcommand.

use clap::Parser;

#[derive(Parser)]
#[command(name = "causeway", version, about)]
struct Cli {}

fn main() -> anyhow::Result<()> {
    Cli::parse();
    Ok(())
}
