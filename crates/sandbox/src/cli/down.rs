//! `down`: removes a sandbox, whatever state it is in. It needs no memory: all is found by mark, name and path.

use super::{Which, say};
use crate::error::{Error, Result};
use crate::find;
use crate::folder::{Folder, all, names};
use crate::plan::cgroup;
use clap::Args;
use std::fs;
use std::io::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Remove a sandbox and everything that belongs to it
#[derive(Args)]
pub(super) struct Down {
    #[command(flatten)]
    which: Which,
    /// Remove all sandboxes
    #[arg(long)]
    all: bool,
}

impl Down {
    pub(super) fn run(self) -> Result<()> {
        let names = if self.all { names() } else { vec![self.which.name] };
        for name in names {
            let start = Instant::now();
            let folder = Folder::named(&name)?;
            if remove(&folder, &name)? {
                say(format!("Sandbox {name} is gone ({:.1} s)", start.elapsed().as_secs_f64()));
            } else {
                say(format!("There is no sandbox {name}"));
            }
        }
        Ok(())
    }
}

/// Removes everything of a sandbox; says whether there was something.
pub(crate) fn remove(folder: &Folder, name: &str) -> Result<bool> {
    let existed = folder.root().exists();
    // Nothing must start it again from here on.
    forget(folder)?;
    let me = std::process::id() as i32;
    let marked = || {
        let processes = find::marked(folder.root()).into_iter().map(|process| process.pid);
        processes.filter(|pid| *pid != me).collect::<Vec<_>>()
    };
    let ran = !marked().is_empty();
    if !find::kill_all(marked, PATIENCE) {
        return Err(Error::Request(format!(
            "processes of sandbox {name} do not end; try `causeway sandbox down` again"
        )));
    }
    remove_cgroups(name)?;
    remove_folder(folder)?;
    Ok(existed || ran)
}

fn forget(folder: &Folder) -> Result<()> {
    let path = folder.path("wanted.json");
    match fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::file(&path)(e)),
        _ => Ok(()),
    }
}

/// The kernel ends what is left in the PID namespace; a cgroup can go when its last process has.
fn remove_cgroups(name: &str) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let left = find::remove_cgroup(&cgroup(name));
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            let places: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
            return Err(Error::Request(format!("processes are left in {}", places.join(", "))));
        }
        sleep(Duration::from_millis(50));
    }
}

fn remove_folder(folder: &Folder) -> Result<()> {
    match fs::remove_dir_all(folder.root()) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::file(folder.root())(e)),
        _ => {}
    }
    // The folders above go with the last sandbox, unless others use them.
    for above in all().ancestors().take(3) {
        let _others = fs::remove_dir(above);
    }
    Ok(())
}
