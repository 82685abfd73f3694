//! The sandbox's command line on its own: the same as `causeway sandbox`.

use clap::Parser;

#[derive(Parser)]
#[command(name = "causeway", version)]
enum Cli {
    /// A real Kubernetes on this machine
    Sandbox(causeway_sandbox::cli::Sandbox),
}

fn main() -> anyhow::Result<()> {
    let Cli::Sandbox(sandbox) = Cli::parse();
    sandbox.run()
}
