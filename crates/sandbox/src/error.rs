//! What can go wrong with a sandbox.

use std::io;
use std::path::{Path, PathBuf};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks something.
    #[error("a sandbox needs what this machine does not have:\n{}", list(.0))]
    Missing(Vec<String>),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the sandbox's folder makes no sense.
    #[error("{} is damaged ({source}): remove the sandbox with `causeway sandbox down` and make it anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        message: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: nix::Error,
    },
    /// The kernel refused.
    #[error(transparent)]
    Host(causeway_host::Error),
    /// Something of the network could not be made.
    #[error("the network of {place}: {problems}")]
    Network {
        /// Of which namespace.
        place: String,
        /// What, and why.
        problems: String,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate of {subject}: {source}")]
    Certificate {
        /// Whose.
        subject: String,
        /// What went wrong.
        source: rcgen::Error,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Request(String),
    /// Something did not happen in time.
    #[error("{what} took longer than {seconds} s\n{state}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
        /// What was there instead.
        state: String,
    },
}

fn list(items: &[String]) -> String {
    items.iter().map(|item| format!("  - {item}")).collect::<Vec<_>>().join("\n")
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        let path = path.as_ref().to_owned();
        move |source| Error::File { path, source }
    }

    /// For `map_err` on system calls.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(nix::Error) -> Error {
        let what = what.into();
        move |source| Error::System { what, source }
    }
}
