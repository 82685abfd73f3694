//! What can go wrong on a host.

use causeway_types::host::Key;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, with which object.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace cannot be entered: it is gone, or the process may not.
    #[error("network namespace {}: {source}", path.display())]
    Namespace {
        /// The file that stands for it, as `ip netns` has it or below `/proc`.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused a request.
    #[error("{doing}: {source}")]
    Refused {
        /// What was asked for.
        doing: String,
        /// Why.
        source: io::Error,
    },
    /// A file under /proc/sys cannot be read or written.
    #[error("setting {} to {value:?}: {source}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// What was to be written; empty if it was only read.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A link of that name belongs to somebody else.
    #[error("a link named {name} is there already and is not ours; remove it, or have it renamed")]
    Foreign {
        /// The link.
        name: String,
    },
    /// What is planned stands there already, by somebody else's hand.
    #[error("{0} is there already, otherwise and not by us; remove it, or have it renamed")]
    Taken(Key),
    /// Two owners plan one key in two ways.
    #[error("somebody else plans it otherwise")]
    Clash,
    /// What was written is not there when it is read back.
    #[error("it does not stay as it was written: somebody else changes it")]
    NotKept,
    /// A program cannot be run.
    #[error("{} cannot be run: {source}", program.display())]
    NoProgram {
        /// Which one.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program}: {said}")]
    Program {
        /// Which one.
        program: String,
        /// What it printed, mostly on standard error; its exit status if it printed nothing.
        said: String,
    },
    /// A program took too long, and was ended.
    #[error("{program} has not ended within {limit:?} and was stopped")]
    TooLong {
        /// Which one.
        program: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A pod's interface cannot get its filter of router advertisements.
    #[error("{link} gets no filter of router advertisements: {error}; install nftables on the node")]
    NoFilter {
        /// The interface.
        link: String,
        /// Why.
        error: Box<Error>,
    },
    /// The name of a thing that is ours by its name does not say so.
    #[error("its name must begin with {0:?}")]
    Unmarked(&'static str),
    /// This item is of a kind that is written elsewhere, or not yet.
    #[error("nothing here can make it so")]
    Unsupported,
    /// Somebody else's VRF has the routing table.
    #[error("routing table {table} is that of {by} already; remove that VRF, or use another number")]
    TableTaken {
        /// The number that the new VRF asks for.
        table: u32,
        /// The VRF.
        by: String,
    },
    /// There is no such link.
    #[error("there is no link named {0}")]
    NoLink(String),
}

impl Error {
    /// Whether the namespace is gone, and with it everything in it.
    pub fn namespace_is_gone(&self) -> bool {
        matches!(self, Error::Namespace { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
