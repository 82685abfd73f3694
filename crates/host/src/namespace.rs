//! Network namespaces: work inside one, and make new ones.

use crate::error::{Error, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

/// Where namespaces with names are.
const NAMED: &str = "/run/netns";

/// Does work inside a namespace, on a thread of its own: a thread that entered a namespace is lost for everything else.
/// What the work starts (processes, threads, sockets) stays in the namespace.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn in_namespace<T: Send>(path: &Path, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    inside(&open(path)?, path, work)
}

/// The same for one that is open already.
pub(crate) fn inside<T: Send>(
    namespace: &File,
    path: &Path,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    on_own_thread(|| {
        setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|e| refused(path, e.into()))?;
        work()
    })
}

pub(crate) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| refused(path, source))
}

/// Makes a namespace that lives for as long as the file is open.
///
/// # Errors
/// If the process may not.
pub fn new_namespace() -> Result<File> {
    let own = Path::new("/proc/thread-self/ns/net");
    on_own_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|e| refused(own, e.into()))?;
        open(own)
    })
}

/// The file that stands for a namespace with a name, as `ip netns` has it.
pub fn named_namespace(name: &str) -> PathBuf {
    Path::new(NAMED).join(name)
}

/// The namespaces that have names.
pub(crate) fn named() -> Result<BTreeSet<String>> {
    let listed = match fs::read_dir(NAMED) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        listed => listed.map_err(|source| refused(Path::new(NAMED), source))?,
    };
    Ok(listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

/// Makes a namespace that has a name and stays until it is deleted.
pub(crate) fn create_named(name: &str) -> Result<()> {
    let path = named_namespace(name);
    let fail = |source| refused(&path, source);
    fs::create_dir_all(NAMED).map_err(fail)?;
    File::create_new(&path).map_err(fail)?;
    let made = on_own_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let own = Path::new("/proc/thread-self/ns/net");
        mount(Some(own), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
    });
    made.map_err(|error| {
        // A file without a namespace behind it would be taken for one.
        let _unremovable = fs::remove_file(&path);
        fail(error.into())
    })
}

/// Takes the name from a namespace, which ends with the last process in it. What is gone is gone.
///
/// # Errors
/// If the process may not.
pub fn delete_namespace(name: &str) -> Result<()> {
    let path = named_namespace(name);
    // What is not mounted is only a file.
    let _plain = umount2(&path, MntFlags::MNT_DETACH);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refused(&path, error)),
        _ => Ok(()),
    }
}

pub(crate) fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

fn refused(path: &Path, source: io::Error) -> Error {
    Error::Namespace { path: path.to_owned(), source }
}
