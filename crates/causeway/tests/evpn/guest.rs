//! The first process of the kernel: mounts, modules, the test, and the end.

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::kernel::PASSED;

/// In the order in which one needs another.
const MODULES: [&str; 10] =
    ["llc", "stp", "bridge", "veth", "dummy", "tun", "vrf", "udp_tunnel", "ip6_udp_tunnel", "vxlan"];
/// On a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(180);
/// Places that are written to.
const WRITABLE: [&str; 3] = ["/tmp", "/run", "/var/lib"];

/// Runs the scenario, says how it ended, and ends the kernel.
pub(crate) fn run(scenario: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        prepare();
        scenario();
    }));
    println!("{}", if outcome.is_ok() { PASSED } else { "GUEST: failed" });
    let _unwritable = fs::write("/proc/sysrq-trigger", "o");
    std::thread::sleep(Duration::from_secs(60));
}

fn prepare() {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys")] {
        sh(&format!("mount -t {kind} {kind} {place}"));
    }
    let kept = keep();
    for place in WRITABLE {
        sh(&format!("mount -t tmpfs tmpfs {place}"));
    }
    for (aside, folder) in kept {
        sh(&format!("mkdir -p {folder} && mount --move {aside} {folder}"));
    }
    sh("mkdir -p /run/netns /run/openvswitch /run/ovn /dev/net /dev/shm");
    sh("[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd");
    let prefix = PathBuf::from(env::var("CAUSEWAY_UML").unwrap());
    // A kernel of our own has everything built in.
    for name in MODULES.iter().filter(|_| PathBuf::from("/proc/modules").exists()) {
        let module = prefix.join(format!("modules/{name}.ko"));
        if module.exists() {
            sh(&format!("{} {}", prefix.join("bin/insmod").display(), module.display()));
        }
    }
    sh("[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200");
    sh("ip link set lo up");
}

/// Folders of programs that are in a place that is about to be written to are put aside: where, and what they are.
fn keep() -> Vec<(String, String)> {
    let this = env::current_exe().unwrap();
    let programs = ["CAUSEWAY_PROGRAMS", "CAUSEWAY_UML"].map(|name| PathBuf::from(env::var(name).unwrap()));
    let built = this.ancestors().nth(2).unwrap().to_path_buf();
    let covered = |folder: &PathBuf| WRITABLE.iter().any(|place| folder.starts_with(place));
    let folders = programs.into_iter().chain([built]).filter(covered);
    let mut kept = Vec::new();
    for (folder, aside) in folders.zip(["/mnt", "/media", "/srv"]) {
        let folder = folder.display().to_string();
        sh(&format!("mount --bind {folder} {aside}"));
        kept.push((aside.to_owned(), folder));
    }
    kept
}

/// Runs a command that must succeed; what it printed.
pub(crate) fn sh(command: &str) -> String {
    let out = Command::new("sh").args(["-c", command]).output().expect("there is a shell");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command}: {said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The same inside a namespace.
pub(crate) fn within(namespace: &str, command: &str) -> String {
    sh(&format!("ip netns exec {namespace} {command}"))
}

/// Waits until something is so, and says how long it took.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not after {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{:6.2} s  {what}", begin.elapsed().as_secs_f32());
    begin.elapsed()
}

/// The same for what must not take longer than this.
pub(crate) fn soon(bound: Duration, what: &str, is_so: impl FnMut() -> bool) {
    let took = wait(what, is_so);
    assert!(took <= bound, "{what}: it took {:.1} s", took.as_secs_f32());
}
