//! Runs commands. The thin edge to the world.

use crate::error::{Error, Result};
use crate::plan::unit::Command;
use causeway_host::named_namespace;
use std::io::Write as _;
use std::process::{self, Stdio};
use std::thread;

/// Every process of a sandbox carries the folder's path under this name.
pub(crate) const MARK: &str = "CAUSEWAY_SANDBOX";
/// Processes of a node carry its name under this one.
pub(crate) const NODE_MARK: &str = "CAUSEWAY_SANDBOX_NODE";

/// A system command for a described one. `nsenter` and not `ip netns exec`: the latter mounts another /sys, and the
/// kubelet finds no cgroups.
pub(crate) fn system_command(command: &Command) -> process::Command {
    let mut words = Vec::new();
    if let Some(namespace) = &command.namespace {
        words.push("nsenter".to_owned());
        words.push(format!("--net={}", named_namespace(namespace).display()));
        words.push("--".to_owned());
    }
    words.extend(command.words.iter().cloned());
    let mut system = process::Command::new(words.first().map_or("true", String::as_str));
    system.args(words.iter().skip(1)).envs(&command.environment);
    system
}

/// Runs a command to its end; gives what it printed.
pub(crate) fn run(command: &Command) -> Result<String> {
    let line = command.words.join(" ");
    let failed = |message: String| Error::Command { command: shorten(&line), message };
    let mut child = system_command(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(e.to_string()))?;
    let (stdin, input) = (child.stdin.take(), command.input.clone());
    // A command that fails early closes its input; its message says more than the broken pipe.
    let writer = thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().map_err(|e| failed(e.to_string()))?;
    let _closed_early = writer.join();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = text(&output.stderr);
    Err(failed(if said.is_empty() { output.status.to_string() } else { said }))
}

fn shorten(line: &str) -> String {
    let end = line.char_indices().nth(200).map_or(line.len(), |(at, _)| at);
    line[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_says_what_it_said() {
        let command = Command::new(["sh", "-c", "cat >&2; exit 3"]).input("no such thing");
        let message = run(&command).unwrap_err().to_string();
        assert_eq!(message, "`sh -c cat >&2; exit 3` failed: no such thing");
    }
}
