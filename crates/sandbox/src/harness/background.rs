//! A command that goes on while a test does something else.

use super::PATIENCE;
use crate::error::{Error, Result};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

/// A command in the background. It ends with this value.
pub struct Background {
    child: Child,
    command: String,
    lines: Mutex<Receiver<String>>,
}

impl Background {
    pub(super) fn start(words: &[String]) -> Result<Background> {
        let command = words.join(" ");
        let (program, arguments) =
            words.split_first().ok_or_else(|| Error::Request("an empty command".into()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Error::Command { command: command.clone(), message: e.to_string() })?;
        let (sender, lines) = channel();
        let output = child.stdout.take();
        thread::spawn(move || {
            let lines =
                output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(Result::ok);
            // Nobody listens any more: the test is over.
            let _over = lines.into_iter().try_for_each(|line| sender.send(line));
        });
        Ok(Background { child, command, lines: Mutex::new(lines) })
    }

    /// The next line that contains this text.
    pub fn wait_for_line(&self, text: &str) -> Result<String> {
        self.lines_to(text).map(|mut lines| lines.pop().unwrap_or_default())
    }

    /// All lines from here to the next one that contains this text.
    pub fn lines_to(&self, text: &str) -> Result<Vec<String>> {
        let end = Instant::now() + PATIENCE;
        let lines = self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut seen = Vec::new();
        while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            let found = line.contains(text);
            seen.push(line);
            if found {
                return Ok(seen);
            }
        }
        Err(Error::Timeout {
            what: format!("a line with {text:?} from {}", self.command),
            seconds: PATIENCE.as_secs(),
            state: seen.join("\n"),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
