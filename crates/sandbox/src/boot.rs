//! How a sandbox comes to life: the keeper on the machine, the first process inside, and the mounts it makes.
//!
//! The keeper only starts the sandbox again when its first process ends; it never looks inside.

use crate::cli::remove;
use crate::error::{Error, Result};
use crate::find;
use crate::folder::Folder;
use crate::machine::MARK;
use crate::programs::Programs;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where the folder of a sandbox is in its own mount namespace. Short, since the path of a socket has 107 bytes.
pub(crate) const INSIDE: &str = "/run/causeway";
/// What a node has as long as it is switched on; it is gone with the mount namespace.
pub(crate) const VOLATILE: &str = "/run/nodes";

/// Kernel settings that a kubelet changes for the whole machine. Inside, they are plain files.
const KUBELET_SETTINGS: &[&str] = &[
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Starts the keeper of a sandbox, unless it has one. It outlives this process.
pub(crate) fn start_keeper(folder: &Folder, programs: &Programs, own: &Path) -> Result<()> {
    let log = folder.log("keeper");
    let out = OpenOptions::new().create(true).append(true).open(&log).map_err(Error::file(&log))?;
    let err = out.try_clone().map_err(Error::file(&log))?;
    internal(own, "keep", folder.root())
        // Nothing of the user's shell shall make one sandbox differ from another.
        .env_clear()
        .env(MARK, folder.root())
        .env("PATH", programs.search_path())
        .env("HOME", "/root")
        .env("CAUSEWAY_PROGRAMS", programs.folder())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map(drop)
        .map_err(Error::file("the keeper"))
}

/// The program that this process runs.
pub(crate) fn own_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(Error::file("/proc/self/exe"))
}

/// Our program as one of its own inner parts.
fn internal(own: &Path, part: &str, folder: &Path) -> Command {
    let mut command = Command::new(own);
    command.args(["sandbox", "internal", part]).arg(folder);
    command
}

/// The keeper: as long as a sandbox is wanted, it runs.
pub(crate) fn keep(folder: &Folder) -> Result<()> {
    let Some(_lock) = folder.try_lock("keeper.lock")? else { return Ok(()) };
    // A shell that ends must not take the sandbox with it; fails only if that is so already.
    let _own_session = setsid();
    let mut pause = Duration::from_millis(500);
    while folder.exists() {
        let born = Instant::now();
        if find::init(folder.root()).is_none() {
            boot(folder)?;
        }
        watch(folder)?;
        pause = if born.elapsed() > Duration::from_secs(60) { Duration::from_millis(500) } else { pause * 2 };
        sleep(pause.min(Duration::from_secs(30)));
    }
    Ok(())
}

/// Waits until the sandbox ends: one of our own, or that of a keeper that was killed. With its owner it is removed.
fn watch(folder: &Folder) -> Result<()> {
    while find::init(folder.root()).is_some() {
        let wanted = folder.wanted().ok();
        if let Some(owner) = wanted.and_then(|wanted| wanted.owner)
            && find::owner(owner.pid) != Some(owner)
        {
            let name = folder.root().file_name().unwrap_or_default().to_string_lossy().into_owned();
            return remove(folder, &name).map(drop);
        }
        sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Starts the sandbox in fresh PID and mount namespaces.
fn boot(folder: &Folder) -> Result<()> {
    // What the last life said of itself is not true any more.
    let _none = fs::remove_file(folder.path("status.json"));
    let init = internal(&own_program()?, "init", folder.root());
    let words: Vec<&OsStr> = std::iter::once(init.get_program()).chain(init.get_args()).collect();
    let mut child = Command::new("unshare")
        .args(["--pid", "--mount", "--fork", "--kill-child", "--"])
        .args(words)
        .stdin(Stdio::null())
        .spawn()
        .map_err(Error::file("unshare"))?;
    // Buried by a thread, so that this one can watch more than one thing.
    std::thread::spawn(move || child.wait());
    let end = Instant::now() + Duration::from_secs(10);
    while find::init(folder.root()).is_none() && Instant::now() < end {
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The first process inside: makes the mounts, starts the supervisor, and buries orphans. With it everything ends.
pub(crate) fn init(folder: &Folder) -> Result<()> {
    make_mounts(folder.root())?;
    let supervisor = internal(&own_program()?, "supervise", Path::new(INSIDE))
        .stdin(Stdio::null())
        .spawn()
        .map_err(Error::file("the supervisor"))?;
    let supervisor = Pid::from_raw(supervisor.id() as i32);
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) if pid == supervisor => {
                return Ok(());
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(Error::system("cannot wait for processes")(e)),
        }
    }
}

fn make_mounts(folder: &Path) -> Result<()> {
    // Held open, because the folder may lie under one of the places that are covered now.
    let held = File::open(folder).map_err(Error::file(folder))?;
    change("/", MsFlags::MS_PRIVATE)?;
    fresh("proc", "/proc", "")?;
    let source = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    fresh("tmpfs", "/run", "mode=755")?;
    for place in [INSIDE, VOLATILE, "/run/netns"] {
        fs::create_dir_all(place).map_err(Error::file(place))?;
    }
    bind(&source, Path::new(INSIDE))?;
    for place in ["/var/lib", "/var/log"] {
        cover(place)?;
    }
    for setting in KUBELET_SETTINGS {
        copy_setting(setting)?;
    }
    // Volumes with bidirectional propagation need shared mounts; they reach no further than this namespace.
    change("/", MsFlags::MS_SHARED)
}

fn mounting(what: &str) -> String {
    format!("cannot mount {what} for the sandbox")
}

fn change(place: &str, flag: MsFlags) -> Result<()> {
    mount(None::<&str>, place, None::<&str>, MsFlags::MS_REC | flag, None::<&str>)
        .map_err(Error::system(mounting(place)))
}

fn fresh(kind: &str, place: &str, options: &str) -> Result<()> {
    mount(Some(kind), place, Some(kind), MsFlags::empty(), Some(options))
        .map_err(Error::system(mounting(place)))
}

fn bind(source: &Path, place: &Path) -> Result<()> {
    mount(Some(source), place, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .map_err(Error::system(mounting(&place.display().to_string())))
}

/// What programs write below this place stays in the sandbox; what is there can still be read.
fn cover(place: &str) -> Result<()> {
    if !Path::new(place).exists() {
        return Ok(());
    }
    let name = place.replace('/', "-");
    let (upper, work) = (format!("/run/cover/{name}"), format!("/run/cover/{name}.work"));
    for folder in [&upper, &work] {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    fresh("overlay", place, &format!("lowerdir={place},upperdir={upper},workdir={work}"))
}

fn copy_setting(name: &str) -> Result<()> {
    let place = Path::new("/proc/sys").join(name);
    let Ok(value) = fs::read(&place) else { return Ok(()) };
    let copy = Path::new("/run/settings").join(name.replace('/', "."));
    fs::create_dir_all("/run/settings").map_err(Error::file("/run/settings"))?;
    fs::write(&copy, value).map_err(Error::file(&copy))?;
    bind(&copy, &place)
}
