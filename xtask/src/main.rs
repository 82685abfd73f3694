//! Development tasks: `cargo xtask check` for the workspace's own rules, `cargo xtask codegen` for typed rows.
#![allow(clippy::print_stdout)]

mod bench;
mod clusters;
mod codegen;
mod layers;
mod supply;
mod words;

use std::process::Command;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules that the compiler does not: pure crates, size of files, empty comments, licences and sources, generated code
    Check,
    /// Run the benchmarks, print their table, write target/bench.json
    Bench {
        /// Sizes of the differ's benchmark, such as 10x10,100x100
        #[arg(long, default_value = "10x10,50x50,100x100,250x250")]
        sizes: String,
    },
    /// Run the tests of whole clusters
    Clusters {
        /// Beginnings of their programs' names
        #[arg(default_value = "e2e_")]
        names: Vec<String>,
        /// How many clusters at a time
        #[arg(long, default_value_t = 2)]
        lanes: usize,
    },
    /// Generate the typed rows of crates/ovn from the OVSDB schemas that `scripts/setup` brought
    Codegen,
}

/// Cargo, as a shell would start it. What `cargo run` tells this program of itself would else be told to build scripts of dependencies, too:
/// some ask for it, and they and everything above them would be built anew.
fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    let own = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| own.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    command
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Check => {
            layers::check()?;
            supply::check()?;
            words::check()?;
            codegen::check()
        }
        Task::Bench { sizes } => bench::run(&sizes),
        Task::Clusters { names, lanes } => clusters::run(&names, lanes),
        Task::Codegen => codegen::write(),
    }
}
