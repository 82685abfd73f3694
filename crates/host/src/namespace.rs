//! Network namespaces: work inside one, and make new ones.

use crate::error::{Error, Result};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

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

fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

fn refused(path: &Path, source: io::Error) -> Error {
    Error::Namespace { path: path.to_owned(), source }
}
