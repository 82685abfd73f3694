//! Runs a program to its end, without a shell. None may take for ever: whoever asks has other things to do.

use crate::error::{Error, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Longer than what programs of Open vSwitch are told to take at most, who then say themselves what they wait for.
const LIMIT: Duration = Duration::from_secs(40);

/// Feeds a program and gives what it printed. It runs in the namespace of the calling thread.
pub(crate) fn run<S: AsRef<OsStr>>(program: &Path, words: &[S], input: &str) -> Result<String> {
    let out = feed(program, words, input, LIMIT)?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    let said = if said.is_empty() { out.status.to_string() } else { said };
    Err(Error::Program { program: program.display().to_string(), said })
}

/// The same for a program that reads nothing and may end well although it has something to complain about: all that it says.
pub(crate) fn run_and_hear<S: AsRef<OsStr>>(program: &Path, words: &[S]) -> Result<String> {
    let out = feed(program, words, "", LIMIT)?;
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if out.status.success() {
        return Ok(said);
    }
    let said = if said.trim().is_empty() { out.status.to_string() } else { said.trim().to_owned() };
    Err(Error::Program { program: program.display().to_string(), said })
}

fn feed<S: AsRef<OsStr>>(program: &Path, words: &[S], input: &str, limit: Duration) -> Result<Output> {
    let missing = |source| Error::NoProgram { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: who is ended for its time takes along whom it has started, who may have its output open.
        .process_group(0)
        .spawn()
        .map_err(missing)?;
    let stdin = child.stdin.take();
    let (out, was_late) = thread::scope(|scope| {
        // A program that fails early closes its input; what it says tells more than the broken pipe.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        within(child, limit)
    });
    match was_late {
        true => Err(Error::TooLong { program: program.display().to_string(), limit }),
        false => out.map_err(missing),
    }
}

/// Waits for a child, and ends it with its group when the time is over.
fn within(child: Child, limit: Duration) -> (io::Result<Output>, bool) {
    let group = Pid::from_raw(child.id().cast_signed());
    let (ended, waiting) = channel::<()>();
    thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let is_late = waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            is_late && killpg(group, Signal::SIGKILL).is_ok()
        });
        let out = child.wait_with_output();
        drop(ended);
        (out, watch.join().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(60);

    fn late(program: &str, words: &[&str], input: &str) {
        let begun = Instant::now();
        let error = feed(Path::new(program), words, input, SHORT).unwrap_err();
        assert_eq!(error.to_string(), format!("{program} has not ended within 100ms and was stopped"));
        assert!(begun.elapsed() < LONG, "it was not waited for");
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        late("sleep", &["600"], "");
    }

    /// What it has not read fills its pipe, and does not keep us either.
    #[test]
    fn a_program_that_does_not_read_is_ended() {
        late("sleep", &["600"], &"x".repeat(1 << 20));
    }

    /// `timeout` starts another one, which has the output open. In the foreground both stay in one group.
    #[test]
    fn whom_a_program_has_started_ends_with_it() {
        late("timeout", &["--foreground", "600", "sleep", "600"], "");
    }

    #[test]
    fn who_ends_in_time_is_heard() {
        let out = feed(Path::new("cat"), &[] as &[&str], "words", LONG).unwrap();
        assert_eq!((out.status.success(), out.stdout.as_slice()), (true, b"words".as_slice()));
        assert!(matches!(run(Path::new("no-such-program"), &["x"], ""), Err(Error::NoProgram { .. })));
        assert!(
            matches!(run(Path::new("cat"), &["/no/such/file"], ""), Err(Error::Program { said, .. }) if said.contains("/no/such/file"))
        );
    }
}
