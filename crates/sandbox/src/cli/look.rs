//! `kubeconfig`, `logs`, `env`: what people need to look around.

use super::{Which, say};
use crate::boot::own_program;
use crate::error::{Error, Result};
use crate::programs::Programs;
use clap::Args;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Print the path of the administrator's kubeconfig
#[derive(Args)]
pub(super) struct Kubeconfig {
    #[command(flatten)]
    which: Which,
    /// Print the kubeconfig itself
    #[arg(long)]
    content: bool,
}

impl Kubeconfig {
    pub(super) fn run(self) -> Result<()> {
        let folder = self.which.folder()?;
        folder.wanted()?;
        let path = folder.kubeconfig();
        if self.content {
            say(fs::read_to_string(&path).map_err(Error::file(&path))?.trim_end());
        } else {
            say(path.display());
        }
        Ok(())
    }
}

/// Print what a shell needs: eval "$(causeway sandbox env)"
#[derive(Args)]
pub(super) struct Env {
    #[command(flatten)]
    which: Which,
}

impl Env {
    pub(super) fn run(self) -> Result<()> {
        let folder = self.which.folder()?;
        folder.wanted()?;
        say(format!("export KUBECONFIG={}", quoted(&folder.kubeconfig())));
        let (own, programs) = (own_program()?, Programs::find());
        for folder in [Some(programs.folder()), own.parent()].into_iter().flatten() {
            say(format!("export PATH=\"$PATH:\"{}", quoted(folder)));
        }
        say(format!("export CAUSEWAY_SANDBOX_NAME={}", self.which.name));
        Ok(())
    }
}

pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Print the log of a part such as `n1/kubelet`; without one, of the sandbox itself and the names of all parts
#[derive(Args)]
pub(super) struct Logs {
    #[command(flatten)]
    which: Which,
    /// Whose log, as `causeway sandbox logs` lists them
    part: Option<String>,
    /// Go on as the log grows
    #[arg(long, short)]
    follow: bool,
    /// How many lines from the end
    #[arg(long, short = 'n', default_value_t = 50)]
    lines: usize,
}

impl Logs {
    pub(super) fn run(self) -> Result<()> {
        let folder = self.which.folder()?;
        folder.wanted()?;
        let part = self.part.as_deref().unwrap_or("sandbox");
        let path = folder.log(part);
        if !path.exists() {
            return Err(Error::Request(format!(
                "there is no log of {part}; the parts: {}",
                parts(&folder.path("logs"))
            )));
        }
        let text = fs::read(&path).map_err(Error::file(&path))?;
        say(last_lines(&String::from_utf8_lossy(&text), self.lines));
        if self.part.is_none() && !self.follow {
            say(format!("\nParts: {}", parts(&folder.path("logs"))));
        }
        if self.follow { follow(&path, text.len() as u64) } else { Ok(()) }
    }
}

fn parts(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut parts: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".log")?.replacen('.', "/", 1))).collect();
    parts.sort();
    parts.join(" ")
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Prints what comes until somebody stops it.
fn follow(path: &Path, mut at: u64) -> Result<()> {
    loop {
        sleep(Duration::from_millis(200));
        let mut file = File::open(path).map_err(Error::file(path))?;
        let length = file.metadata().map_err(Error::file(path))?.len();
        // A log that became shorter was started anew.
        at = if length < at { 0 } else { at };
        let mut more = Vec::new();
        file.seek(SeekFrom::Start(at)).map_err(Error::file(path))?;
        file.read_to_end(&mut more).map_err(Error::file(path))?;
        at += more.len() as u64;
        if std::io::stdout().lock().write_all(&more).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_shown() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a\n", 9), "a");
    }

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
