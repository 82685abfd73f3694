//! Boots a kernel that is a program, with this test as its first process.

use causeway_testing::program;
use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run takes about a minute; on a machine that does much else, several.
const PATIENCE: Duration = Duration::from_secs(900);
/// The same for each round of faults more.
const EACH_ROUND: Duration = Duration::from_secs(240);
/// What the guest says at its end.
pub(crate) const PASSED: &str = "GUEST: passed";
/// The kernel's process has a root of its own with its C library; ours is in `host` there, and everything ends with the namespace of processes.
const START: &str = r#"cd "$0" && mount --rbind / host && mount --rbind /dev dev && mount -t proc proc proc &&
  mount -t tmpfs -o size=3g tmpfs tmp && exec chroot . "$@""#;

/// Whether it is a kernel of our own (`scripts/setup kernel`), which carries packets for OVN and has tables of nftables.
pub(crate) fn own_kernel() -> bool {
    env::var("CAUSEWAY_KERNEL").is_ok_and(|kernel| kernel == "own")
}

/// Runs a test of this program inside, and fails as it does.
pub(crate) fn boot(test: &str) {
    let cell = fs::canonicalize(program("linux.uml")).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    // Whoever ends this test ends the kernel with it.
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        "sh",
        "-c",
        START,
    ]);
    let own = || format!("/host{}", fs::canonicalize(program("linux.own")).unwrap().display());
    let kernel = if own_kernel() { own() } else { "/linux.uml".into() };
    command
        .arg(cell.parent().unwrap())
        .arg(kernel)
        .args(arguments(test))
        .env("HOME", "/tmp")
        .env("TMPDIR", "/tmp");
    command.stdin(Stdio::null()).stdout(log.reopen().unwrap()).stderr(log.reopen().unwrap());
    let mut kernel = command.spawn().expect("setpriv is there");
    let begin = Instant::now();
    let rounds = env::var("CAUSEWAY_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let patience = PATIENCE + EACH_ROUND * rounds;
    while kernel.try_wait().unwrap().is_none() {
        let panics = || String::from_utf8_lossy(&fs::read(log.path()).unwrap()).contains("Kernel panic");
        if begin.elapsed() > patience || panics() {
            let _gone = kernel.kill();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = String::from_utf8_lossy(&fs::read(log.path()).unwrap()).into_owned();
    assert!(said.contains(PASSED), "{said}\nafter {} s", begin.elapsed().as_secs());
    println!("{said}");
}

/// What the kernel does not know goes to its first process: pairs as its environment, words behind `--` as its arguments.
fn arguments(test: &str) -> Vec<String> {
    let this = env::current_exe().unwrap();
    let folder = program("vtysh").parent().unwrap().display().to_string();
    let path = env::var("PATH").unwrap();
    let words = ["mem=2G", "rootfstype=hostfs", "rootflags=/host", "ro", "seccomp=on", "quiet", "con=null"];
    let more = ["con0=null,fd:1", "uml_dir=/tmp", "--", "--exact", test, "--nocapture", "--test-threads=1"];
    let told = [
        format!("init={}", this.display()),
        format!("PATH={folder}:{path}"),
        format!("CAUSEWAY_PROGRAMS={folder}"),
        format!(
            "CAUSEWAY_UML={}",
            fs::canonicalize(program("linux.uml")).unwrap().ancestors().nth(2).unwrap().display()
        ),
    ];
    let passed = ["CAUSEWAY_ROUNDS", "CAUSEWAY_KERNEL"];
    let passed = passed.iter().filter_map(|name| env::var(name).ok().map(|value| format!("{name}={value}")));
    let told = told.into_iter().chain(passed);
    words.map(str::to_owned).into_iter().chain(told).chain(more.map(str::to_owned)).collect()
}
