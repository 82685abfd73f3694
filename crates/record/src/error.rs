//! Why a recording cannot be read.

/// The one error of this crate.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The first line is none that a recording begins with.
    #[error("this is no recording: {0}")]
    Header(String),
    /// Another version of Causeway has written it.
    #[error(
        "the recording has version {there}, and this program reads version {known}: use the program that recorded it"
    )]
    Version {
        /// The version of the recording.
        there: u32,
        /// The version that is read here.
        known: u32,
    },
    /// It is of another role.
    #[error("the recording is of the role {there}, not of {wanted}")]
    Role {
        /// The role that was recorded.
        there: String,
        /// The role that was to be played.
        wanted: &'static str,
    },
    /// What is recorded cannot be read, or cannot be written.
    #[error("line {line} of the recording: {problem}")]
    Line {
        /// Counted from one.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}
