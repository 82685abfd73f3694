//! Recordings: everything that went into a role, one JSON object per line, to be played again.
//!
//! The first line is the [`Header`]: version, role and configuration. Every further line is one message, in the order in which
//! the role took them. A recording begins when the role begins, so its first messages are the complete lists of all kinds:
//! they are the snapshot that everything after them goes on from. Records hold no secrets, and so do recordings.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// The version of what is written. It changes whenever older recordings cannot be read any more.
const VERSION: u32 = 1;

/// The first line of a recording.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Header {
    causeway_recording: u32,
    role: String,
    config: Value,
}

impl Header {
    /// The header of a role that begins with this configuration.
    pub fn new(role: &str, config: &impl Serialize) -> Self {
        // What cannot be written is found out when it is read, and a configuration always can be.
        let config = serde_json::to_value(config).unwrap_or_default();
        Self { causeway_recording: VERSION, role: role.to_owned(), config }
    }

    /// Reads the first line of a recording.
    ///
    /// # Errors
    /// [`Error::Header`] if it is none, [`Error::Version`] if this version does not read it.
    pub fn read(line: &str) -> Result<Self, Error> {
        let header: Self = serde_json::from_str(line).map_err(|error| Error::Header(error.to_string()))?;
        match header.causeway_recording {
            VERSION => Ok(header),
            there => Err(Error::Version { there, known: VERSION }),
        }
    }

    /// The role that was recorded.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The configuration of the role.
    ///
    /// # Errors
    /// [`Error::Role`] if another role was recorded, [`Error::Line`] if the configuration cannot be read.
    pub fn config<C: DeserializeOwned>(&self, role: &'static str) -> Result<C, Error> {
        if self.role != role {
            return Err(Error::Role { there: self.role.clone(), wanted: role });
        }
        serde_json::from_value(self.config.clone()).map_err(|error| unreadable(1, &error))
    }
}

/// One line of a recording: the header or a message.
///
/// # Errors
/// [`Error::Line`] if it is something that JSON cannot write; then it would be the line with this number.
pub fn line(number: usize, value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| unreadable(number, &error))
}

/// The messages of a recording, from the lines after its header. Each comes with the number of its line.
///
/// # Errors
/// Each that cannot be read is [`Error::Line`].
pub fn messages<'a, I: DeserializeOwned>(
    lines: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = Result<(usize, I), Error>> {
    let numbered = (2..).zip(lines);
    numbered.map(|(number, line)| match serde_json::from_str(line) {
        Ok(message) => Ok((number, message)),
        Err(error) => Err(unreadable(number, &error)),
    })
}

fn unreadable(line: usize, error: &serde_json::Error) -> Error {
    Error::Line { line, problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_reads_back() {
        let header = Header::new("node", &vec![1, 2]);
        let text = [line(1, &header).unwrap(), line(2, &"one").unwrap(), line(3, &"two").unwrap()].join("\n");
        let mut lines = text.lines();
        let read = Header::read(lines.next().unwrap()).unwrap();
        assert_eq!((read.role(), read.config::<Vec<u8>>("node")), ("node", Ok(vec![1, 2])));
        let messages: Result<Vec<(usize, String)>, Error> = messages(lines).collect();
        assert_eq!(messages, Ok(vec![(2, "one".to_owned()), (3, "two".to_owned())]));
    }

    #[test]
    fn what_cannot_be_played_says_why() {
        let text = |error: Error| error.to_string();
        assert!(text(Header::read("apiVersion: v1").unwrap_err()).starts_with("this is no recording: "));
        let old = Header { causeway_recording: 0, role: "node".into(), config: Value::Null };
        let old = text(Header::read(&line(1, &old).unwrap()).unwrap_err());
        assert_eq!(
            old,
            "the recording has version 0, and this program reads version 1: use the program that recorded it"
        );
        let other = text(Header::new("node", &1).config::<u8>("cluster-manager").unwrap_err());
        assert_eq!(other, "the recording is of the role node, not of cluster-manager");
        let broken = messages::<u8>(["1", "x"]).last().unwrap().unwrap_err();
        assert!(text(broken).starts_with("line 3 of the recording: "));
    }
}
