//! Writes recordings of what goes into a role. The format is `causeway_record::recording`'s.
//!
//! Owns the file, which only its owner may read. A file that cannot be written any more ends the recording, never the role.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use causeway_record::recording::{Header, line};
use serde::Serialize;

use crate::Error;

/// Only the owner may read what the cluster is like.
const MODE: u32 = 0o600;

/// A recording that is being written, or nothing where none was asked for.
#[derive(Debug, Default)]
pub struct Recording {
    file: Option<BufWriter<File>>,
    lines: usize,
}

impl Recording {
    /// Begins a recording in this file, which is emptied if it exists; without a file nothing is recorded.
    ///
    /// # Errors
    /// [`Error::Recording`] if the file cannot be written.
    pub fn begin(path: Option<&Path>, header: &Header) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::default()) };
        let problem = |error| Error::Recording { path: path.to_owned(), error };
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path);
        let file = file.map_err(problem)?;
        // A file that was there already may have let others read.
        file.set_permissions(Permissions::from_mode(MODE)).map_err(problem)?;
        let mut recording = Self { file: Some(BufWriter::new(file)), lines: 0 };
        recording.write(header).and_then(|()| recording.flush()).map_err(problem)?;
        tracing::warn!(path = %path.display(), "everything that comes in is recorded; the file grows without a bound");
        Ok(recording)
    }

    /// Records messages, in the order in which they are taken. They are in the file when this returns.
    pub fn take<M: Serialize>(&mut self, messages: &[M]) {
        let written = messages.iter().try_for_each(|message| self.write(message)).and_then(|()| self.flush());
        if let Err(error) = written {
            tracing::error!(%error, "the recording ends here");
            self.file = None;
        }
    }

    fn write(&mut self, value: &impl Serialize) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.lines += 1;
        let text = line(self.lines, value).map_err(std::io::Error::other)?;
        writeln!(file, "{text}")
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

#[cfg(test)]
mod tests {
    use causeway_record::recording::messages;

    use super::*;

    #[test]
    fn only_the_owner_reads_what_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        std::fs::write(&path, "something older, and longer than what comes").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut recording = Recording::begin(Some(&path), &Header::new("test", &"config")).unwrap();
        recording.take(&["one", "two"]);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        assert_eq!(Header::read(lines.next().unwrap()).unwrap(), Header::new("test", &"config"));
        let read: Vec<(usize, String)> = messages(lines).map(Result::unwrap).collect();
        assert_eq!(read, [(2, "one".to_owned()), (3, "two".to_owned())]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_said_at_once() {
        let nowhere = Path::new("/nonexistent/recording");
        let error = Recording::begin(Some(nowhere), &Header::new("test", &"config")).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/recording cannot be recorded to"), "{error}");
        Recording::begin(None, &Header::new("test", &"config")).unwrap().take(&["nobody listens"]);
    }
}
