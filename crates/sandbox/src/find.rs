//! Finds what belongs to a sandbox on the machine, without any memory: processes by the mark in their environment,
//! by PID namespace and by cgroup; cgroups by path. So it works after every kind of crash.

use crate::error::{Error, Result};
use crate::machine::{MARK, NODE_MARK};
use crate::wanted::Owner;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A process as this PID namespace sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Whether it is the first of its PID namespace, seen from outside of that.
    pub(crate) first: bool,
    /// The node whose component it is.
    pub(crate) node: Option<String>,
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// All processes that carry the mark of the sandbox in this folder.
pub(crate) fn marked(folder: &Path) -> Vec<Process> {
    let mark = [MARK.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat();
    pids().filter_map(|pid| read_marked(pid, &mark)).collect()
}

fn read_marked(pid: i32, mark: &[u8]) -> Option<Process> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut words = environment.split(|b| *b == 0);
    words.clone().find(|word| *word == mark)?;
    let prefix = format!("{NODE_MARK}=");
    let node = words.find_map(|word| word.strip_prefix(prefix.as_bytes()));
    let node = node.map(|name| String::from_utf8_lossy(name).into_owned());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Process { pid, first: is_first(&status), node })
}

/// `NSpid` has one number for each PID namespace; the first process of an inner one is 1 there.
fn is_first(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    let numbers: Vec<&str> = numbers.split_whitespace().collect();
    numbers.len() > 1 && numbers.last() == Some(&"1")
}

/// The first process of a running sandbox.
pub(crate) fn init(folder: &Path) -> Option<i32> {
    marked(folder).into_iter().find(|process| process.first).map(|process| process.pid)
}

/// A process as an owner, if it is there.
pub(crate) fn owner(pid: u32) -> Option<Owner> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last bracket may hold anything; 19 fields behind the state is the time of the start.
    let started = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    Some(Owner { pid, started })
}

/// Memory of a sandbox in KiB (proportional set size), by node; the control plane is under the empty name.
pub(crate) fn memory(folder: &Path, cgroup: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    let Some(init) = init(folder) else { return sums };
    let space = fs::read_link(format!("/proc/{init}/ns/pid")).ok();
    let marked: BTreeMap<i32, Process> = marked(folder).into_iter().map(|p| (p.pid, p)).collect();
    let inside = |pid: &i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok() == space;
    for pid in pids().filter(|pid| inside(pid) || marked.contains_key(pid)) {
        let own = marked.get(&pid).and_then(|process| process.node.clone());
        let node = own.or_else(|| node_of_cgroup(pid, cgroup)).unwrap_or_default();
        *sums.entry(node).or_default() += proportional(pid);
    }
    sums
}

fn proportional(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The node in whose cgroup a process is: containers carry no mark.
fn node_of_cgroup(pid: i32, cgroup: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    node_in(&text, cgroup)
}

fn node_in(cgroups: &str, cgroup: &str) -> Option<String> {
    let start = format!(":/{cgroup}/");
    let rest = cgroups.lines().find_map(|line| line.split_once(&start))?.1;
    rest.split('/').next().map(str::to_owned)
}

/// Kills processes until none is found and all that were have ended; says whether that was so in time.
pub(crate) fn kill_all(find: impl Fn() -> Vec<i32>, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    let mut seen = BTreeSet::new();
    loop {
        let found = find();
        if found.is_empty() && seen.iter().all(|pid| has_ended(*pid)) {
            return true;
        }
        for pid in &found {
            // Already gone is as good as killed.
            let _gone = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        seen.extend(found);
        if Instant::now() > end {
            return false;
        }
        sleep(Duration::from_millis(20));
    }
}

/// A process on its way out shows no environment any more, but still holds what it has.
fn has_ended(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// All processes of a node: components by their mark, containers by their cgroup.
pub(crate) fn of_node(folder: &Path, cgroup: &str, node: &str) -> Vec<i32> {
    let components = marked(folder).into_iter().filter(|p| p.node.as_deref() == Some(node)).map(|p| p.pid);
    let containers = pids().filter(|pid| node_of_cgroup(*pid, cgroup).as_deref() == Some(node));
    components.chain(containers).collect()
}

/// The folders that stand for a cgroup: one for each hierarchy of version 1, one for version 2.
pub(crate) fn cgroup_folders(cgroup: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").exists() {
        return vec![root.join(cgroup)];
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    // cpu,cpuacct and the like are links to one hierarchy under another name.
    let hierarchies = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    hierarchies.map(|entry| entry.path().join(cgroup)).collect()
}

/// Hands the controllers of version 2 down to a cgroup: to each folder above it, from the top. On version 1 every
/// hierarchy is a controller of its own and there is nothing to hand down.
pub(crate) fn delegate(folder: &Path) -> Result<()> {
    delegate_below(Path::new("/sys/fs/cgroup"), folder)
}

fn delegate_below(root: &Path, folder: &Path) -> Result<()> {
    let mut chain: Vec<&Path> = folder.ancestors().take_while(|place| place.starts_with(root)).collect();
    chain.reverse();
    for place in chain {
        let Ok(offered) = fs::read_to_string(place.join("cgroup.controllers")) else { return Ok(()) };
        let wanted: Vec<String> = offered.split_whitespace().map(|name| format!("+{name}")).collect();
        let file = place.join("cgroup.subtree_control");
        fs::write(&file, wanted.join(" ")).map_err(Error::file(&file))?;
    }
    Ok(())
}

/// Removes a cgroup with all below it; says what could not be removed.
pub(crate) fn remove_cgroup(cgroup: &str) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for folder in cgroup_folders(cgroup) {
        remove_empty(&folder);
        if folder.exists() {
            left.push(folder);
        }
    }
    left
}

fn remove_empty(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_empty(&entry.path());
    }
    // A process that is still going away keeps it; the caller looks again.
    let _busy = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_of_a_namespace_is_known_from_outside() {
        assert!(is_first("Name:\tx\nNSpid:\t4711\t1\n"));
        assert!(!is_first("NSpid:\t4711\t12\n"));
        assert!(!is_first("NSpid:\t1\n"));
    }

    #[test]
    fn controllers_are_handed_down_from_the_top() {
        let root = tempfile::tempdir().unwrap();
        let node = root.path().join("causeway-x/n1");
        fs::create_dir_all(&node).unwrap();
        for place in [root.path(), node.parent().unwrap(), &node] {
            fs::write(place.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        }
        delegate_below(root.path(), &node).unwrap();
        for place in [root.path(), node.parent().unwrap(), &node] {
            assert_eq!(
                fs::read_to_string(place.join("cgroup.subtree_control")).unwrap(),
                "+cpu +memory +pids"
            );
        }
    }

    #[test]
    fn an_owner_is_known_as_long_as_it_lives() {
        let me = owner(std::process::id()).unwrap();
        assert_eq!(owner(me.pid), Some(me));
        assert_eq!(owner(u32::MAX), None);
    }

    #[test]
    fn a_container_belongs_to_the_node_of_its_cgroup() {
        let text = "3:memory:/causeway-a/n2/kubepods/pod1\n0::/\n";
        assert_eq!(node_in(text, "causeway-a"), Some("n2".into()));
        assert_eq!(node_in(text, "causeway"), None);
    }

    #[test]
    fn processes_are_found_by_their_mark() {
        let folder = Path::new("/nonexistent/find-test");
        let mut child = std::process::Command::new("sleep").arg("30").env(MARK, folder).spawn().unwrap();
        let pid = child.id() as i32;
        let seen = || marked(folder).into_iter().map(|p| p.pid).collect::<Vec<i32>>();
        // The kernel shows the environment a moment after the program was started.
        let end = Instant::now() + Duration::from_secs(10);
        while seen().is_empty() && Instant::now() < end {
            sleep(Duration::from_millis(5));
        }
        assert_eq!(seen(), [pid]);
        let _dead = child.kill();
        child.wait().unwrap();
        assert_eq!(marked(folder), []);
    }
}
