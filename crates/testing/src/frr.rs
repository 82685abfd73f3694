//! A real FRR.

use crate::programs::program;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DAEMONS: [&str; 3] = ["mgmtd", "zebra", "bgpd"];
/// Daemons ask for a group that only FRR's package makes, and mgmtd has places that no flag changes, where two of them are in each other's
/// way. They get their own in a mount namespace.
const APART: &str = r#"mkdir -p /run/frr /var/lib/frr && mount --bind "$0/group" /etc/group &&
  mount --bind "$0/run" /run/frr && mount --bind "$0/lib" /var/lib/frr && exec "$@""#;
const PATIENCE: Duration = Duration::from_secs(30);

/// mgmtd, zebra and bgpd in the namespace of the calling thread, without any configuration.
pub struct Frr {
    folder: TempDir,
    /// Where bgpd listens; 0 is nowhere.
    port: u16,
    daemons: BTreeMap<&'static str, Child>,
}

impl Frr {
    /// Starts one that listens to nobody.
    pub fn start() -> Frr {
        Self::start_at(0)
    }

    /// Starts one whose bgpd listens at this port.
    pub fn start_at(port: u16) -> Frr {
        let folder = TempDir::with_prefix("causeway-frr-").expect("a folder can be made");
        let group = fs::read_to_string("/etc/group").unwrap_or_default();
        fs::write(folder.path().join("group"), format!("{group}\nfrrvty:x:6081:root\n"))
            .expect("a file can be written");
        fs::write(folder.path().join("vtysh.conf"), "username root nopassword\n")
            .expect("a file can be written");
        ["run", "lib"]
            .iter()
            .for_each(|name| fs::create_dir(folder.path().join(name)).expect("a folder can be made"));
        let mut frr = Frr { folder, port, daemons: BTreeMap::new() };
        DAEMONS.into_iter().for_each(|name| frr.start_daemon(name));
        frr
    }

    /// Where its sockets are, and the configuration of `vtysh`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a daemon that was stopped, and waits until it answers.
    pub fn start_daemon(&mut self, name: &'static str) {
        let folder = self.folder.path();
        let log = fs::File::create(folder.join(format!("{name}.log"))).expect("a file can be written");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", APART]).arg(folder).arg(program(name));
        command.args(["-u", "root", "-g", "root", "--vty_socket"]).arg(folder);
        command.arg("-i").arg(folder.join(format!("{name}.pid")));
        command.arg("-z").arg(folder.join("zserv.api"));
        if name == "bgpd" {
            command.args(["-p", &self.port.to_string()]);
        }
        let errors = log.try_clone().expect("a file has two handles");
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        self.daemons.insert(name, child.expect("unshare is there"));
        let begin = Instant::now();
        while !self.vtysh(&["-c", "show daemons"]).split_whitespace().any(|word| word == name) {
            let log = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
            assert!(begin.elapsed() < PATIENCE, "{name} does not answer: {log}");
            sleep(Duration::from_millis(50));
        }
    }

    /// The daemons that have ended by themselves.
    pub fn ended(&mut self) -> Vec<&'static str> {
        let has_ended = |daemon: &mut Child| daemon.try_wait().is_ok_and(|status| status.is_some());
        self.daemons.iter_mut().filter_map(|(name, daemon)| has_ended(daemon).then_some(*name)).collect()
    }

    /// Ends a daemon without a goodbye.
    pub fn kill_daemon(&mut self, name: &'static str) {
        if let Some(mut daemon) = self.daemons.remove(name) {
            let _gone = daemon.kill();
            let _ended = daemon.wait();
        }
    }

    /// What `vtysh` prints.
    pub fn vtysh(&self, words: &[&str]) -> String {
        let folder = self.folder.path();
        let mut command = Command::new(program("vtysh"));
        command.arg("--vty_socket").arg(folder).arg("--config_dir").arg(folder).args(words);
        let out = command.stdin(Stdio::null()).output().expect("vtysh runs");
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
    }

    /// The running configuration from the first section on that somebody has written.
    pub fn running(&self) -> String {
        let all = self.vtysh(&["-c", "show running-config"]);
        let written = all.split_once("username root nopassword\n!\n").map_or("", |(_, written)| written);
        written.trim_end_matches("end\n").to_owned()
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        DAEMONS.into_iter().rev().for_each(|name| self.kill_daemon(name));
    }
}
