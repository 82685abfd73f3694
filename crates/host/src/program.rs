//! Runs a program to its end, without a shell.

use crate::error::{Error, Result};
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

/// Feeds a program and gives what it printed. It runs in the namespace of the calling thread.
pub(crate) fn run<S: AsRef<OsStr>>(program: &Path, words: &[S], input: &str) -> Result<String> {
    let missing = |source| Error::NoProgram { program: program.to_owned(), source };
    let out = feed(program, words, input).map_err(missing)?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    let said = if said.is_empty() { out.status.to_string() } else { said };
    Err(Error::Program { program: program.display().to_string(), said })
}

/// The same for a program that reads nothing and may end well although it has something to complain about: all that it says.
pub(crate) fn run_and_hear<S: AsRef<OsStr>>(program: &Path, words: &[S]) -> Result<String> {
    let missing = |source| Error::NoProgram { program: program.to_owned(), source };
    let out = feed(program, words, "").map_err(missing)?;
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if out.status.success() {
        return Ok(said);
    }
    let said = if said.trim().is_empty() { out.status.to_string() } else { said.trim().to_owned() };
    Err(Error::Program { program: program.display().to_string(), said })
}

fn feed<S: AsRef<OsStr>>(program: &Path, words: &[S], input: &str) -> io::Result<Output> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        // A program that fails early closes its input; what it says tells more than the broken pipe.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    })
}
