//! `causeway completion`: what a shell needs to complete commands and flags.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::Cli;

/// Print the completion of a shell: source <(causeway completion bash)
#[derive(clap::Args)]
pub(crate) struct Completion {
    /// Whose completion to print
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        clap_complete::generate(self.shell, &mut Cli::command(), "causeway", &mut std::io::stdout().lock());
        Ok(())
    }
}
