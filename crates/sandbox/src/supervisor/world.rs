//! The processes and threads of the supervisor: does what it is told, and says what happened.

use super::engine::Event;
use super::tasks;
use crate::error::{Error, Result};
use crate::folder::{Folder, write_file};
use crate::machine::{MARK, NODE_MARK, run, system_command};
use crate::plan::unit::{Body, Probe, Process, Unit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// A log that is longer than this starts anew when its process does; the last one is kept beside it.
const LOG_LIMIT: u64 = 32 << 20;

pub(super) struct World {
    folder: Folder,
    children: BTreeMap<String, Child>,
    sender: Sender<Event>,
    receiver: Receiver<Event>,
}

impl World {
    pub(super) fn new(folder: Folder) -> World {
        let (sender, receiver) = channel();
        World { folder, children: BTreeMap::new(), sender, receiver }
    }

    pub(super) fn pid(&self, id: &str) -> Option<u32> {
        self.children.get(id).map(Child::id)
    }

    /// What happened since the last time.
    pub(super) fn events(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = self.receiver.try_iter().collect();
        self.children.retain(|id, child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                events.push(Event::Ended { id: id.clone(), how: describe(status) });
                false
            }
            Err(e) => {
                events.push(Event::Ended { id: id.clone(), how: e.to_string() });
                false
            }
        });
        events
    }

    /// Starts a process with its files written.
    pub(super) fn start(&mut self, unit: &Unit) {
        let Body::Process(process) = &unit.body else { return };
        match self.spawn(unit, process) {
            Ok(child) => drop(self.children.insert(unit.id.clone(), child)),
            Err(e) => self.report(Event::Ended { id: unit.id.clone(), how: e.to_string() }),
        }
    }

    fn spawn(&self, unit: &Unit, process: &Process) -> Result<Child> {
        for file in &process.files {
            write_file(&file.path, file.content.as_bytes(), 0o600)?;
        }
        let log = self.open_log(&unit.id)?;
        let also = log.try_clone().map_err(Error::file(self.folder.log(&unit.id)))?;
        let mut command = system_command(&process.command);
        if let Some(node) = &unit.node {
            command.env(NODE_MARK, node);
        }
        command
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(also)
            .spawn()
            .map_err(Error::file(process.command.words.first().map_or("", String::as_str)))
    }

    fn open_log(&self, id: &str) -> Result<File> {
        let path = self.folder.log(id);
        if fs::metadata(&path).is_ok_and(|data| data.len() > LOG_LIMIT) {
            fs::rename(&path, path.with_added_extension("old")).map_err(Error::file(&path))?;
        }
        let open = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        open.map_err(Error::file(&path))
    }

    /// Does a task on a thread of its own.
    pub(super) fn task(&self, unit: &Unit) {
        let Body::Task(task) = unit.body.clone() else { return };
        let (id, sender, folder) = (unit.id.clone(), self.sender.clone(), self.folder.clone());
        thread::spawn(move || {
            let result = tasks::perform(&task, &folder).map_err(|e| e.to_string());
            // Nobody listens when the sandbox goes.
            let _gone = sender.send(Event::Done { id, result });
        });
    }

    /// Asks whether a process serves, on a thread of its own.
    pub(super) fn probe(&self, unit: &Unit) {
        let Body::Process(process) = &unit.body else { return };
        let (probe, id, sender) = (process.probe.clone(), unit.id.clone(), self.sender.clone());
        thread::spawn(move || {
            let _gone = sender.send(Event::Probed { id, serves: serves(&probe) });
        });
    }

    /// Signals a process, and those that it started in its group.
    pub(super) fn stop(&mut self, id: &str, hard: bool) {
        let Some(child) = self.children.get(id) else { return };
        let signal = if hard { Signal::SIGKILL } else { Signal::SIGTERM };
        // A process that is gone already is reported by the next look at the children.
        let _gone = kill(Pid::from_raw(child.id() as i32), signal);
    }

    /// Writes a line into the log of the sandbox.
    pub(super) fn tell(&self, text: &str) {
        let line = format!("{} {text}\n", time_of_day());
        // The log is for people; a full disk must not stop the sandbox.
        let _unwritten = self.open_log("sandbox").map(|mut file| file.write_all(line.as_bytes()));
    }

    fn report(&self, event: Event) {
        let _gone = self.sender.send(event);
    }
}

/// Whether a process serves.
fn serves(probe: &Probe) -> bool {
    match probe {
        Probe::Runs => true,
        Probe::Socket(path) => UnixStream::connect(path).is_ok(),
        Probe::Command(command) => run(command).is_ok(),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        _ => "unknown".into(),
    }
}

/// `HH:MM:SS`, UTC.
fn time_of_day() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()) % 86_400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The mark that all processes of this sandbox carry.
pub(super) fn own_mark() -> std::path::PathBuf {
    std::env::var_os(MARK).map_or_else(|| Path::new("/").to_owned(), Into::into)
}
