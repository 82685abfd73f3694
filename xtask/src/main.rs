//! Development tasks: `cargo xtask check` for the workspace's own rules, `cargo xtask codegen` for typed rows.
#![allow(clippy::print_stdout)]

mod codegen;
mod layers;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules that the compiler does not: pure crates, size of files, generated code
    Check,
    /// Generate the typed rows of crates/ovn from the OVSDB schemas that `scripts/setup` brought
    Codegen,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Check => {
            layers::check()?;
            codegen::check()
        }
        Task::Codegen => codegen::write(),
    }
}
