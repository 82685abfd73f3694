//! Plays a recording again: the same messages, in the same order, give the same answers.

use causeway_record::recording::{Header, messages};
use serde::Serialize;

use crate::{Config, Error, Input, Manager, Output, Result};

/// What recordings of the manager say that they are of.
pub const ROLE: &str = "cluster-manager";

/// What the manager answered to one message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The line of the message in the recording.
    pub line: usize,
    /// What was to be done.
    pub output: Output,
}

/// Plays a recording of the manager. Nothing is written anywhere: the answers are all there is.
///
/// # Errors
/// [`Error::Recording`] if a line cannot be read; the others are those of [`Manager::new`].
pub fn replay<'a>(
    header: &Header,
    lines: impl IntoIterator<Item = &'a str>,
) -> Result<impl Iterator<Item = Result<Answer>>> {
    let mut manager = Manager::new(header.config::<Config>(ROLE).map_err(Error::Recording)?)?;
    let answers = messages::<Input>(lines).flat_map(move |message| match message {
        Ok((line, input)) => {
            let outputs = manager.step(input).into_iter();
            outputs.map(|output| Ok(Answer { line, output })).collect::<Vec<_>>()
        }
        Err(error) => vec![Err(Error::Recording(error))],
    });
    Ok(answers)
}
