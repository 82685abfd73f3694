//! The folder of a sandbox: the only thing that commands and the supervisor share. It is closed to everybody else.

use crate::error::{Error, Result};
use crate::supervisor::status::Status;
use crate::wanted::{Wanted, check_name};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Where a sandbox keeps everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder of the sandbox with this name; it need not be there.
    pub fn named(name: &str) -> Result<Folder> {
        check_name(name)?;
        Ok(Folder::at(all().join(name)))
    }

    /// A sandbox in a given folder.
    pub fn at(root: impl Into<PathBuf>) -> Folder {
        Folder { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A place in it.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// The administrator's kubeconfig, for use on the machine.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// The log of a unit such as `n1/kubelet`.
    pub fn log(&self, unit: &str) -> PathBuf {
        self.path("logs").join(format!("{}.log", unit.replace('/', ".")))
    }

    /// Whether there is a sandbox.
    pub fn exists(&self) -> bool {
        self.path("wanted.json").exists()
    }

    /// Makes the folder.
    pub fn create(&self) -> Result<()> {
        private_folder(&self.root)?;
        private_folder(&self.path("logs"))?;
        private_folder(&self.path("images"))
    }

    /// Reads `wanted.json`; it is an error if there is no sandbox here.
    pub fn wanted(&self) -> Result<Wanted> {
        let path = self.path("wanted.json");
        read_json(&path)?.ok_or_else(|| {
            Error::Request(format!(
                "there is no sandbox in {}; `causeway sandbox up` makes one",
                self.root.display()
            ))
        })
    }

    /// What is there, as the supervisor last wrote it.
    pub fn status(&self) -> Result<Option<Status>> {
        read_json(&self.path("status.json"))
    }

    /// Replaces what is wanted.
    pub fn write_wanted(&self, wanted: &Wanted) -> Result<()> {
        self.write_json("wanted.json", wanted)
    }

    /// Replaces what is there.
    pub(crate) fn write_status(&self, status: &Status) -> Result<()> {
        self.write_json("status.json", status)
    }

    /// Changes what is wanted, one command at a time; gives the new value, of a new generation.
    pub fn change(&self, how: impl FnOnce(&mut Wanted) -> Result<()>) -> Result<Wanted> {
        let _one_at_a_time = self.lock("change.lock")?;
        let mut wanted = self.wanted()?;
        let before = wanted.clone();
        how(&mut wanted)?;
        if wanted != before {
            wanted.generation += 1;
            self.write_wanted(&wanted)?;
        }
        Ok(wanted)
    }

    /// Waits for a lock and holds it as long as the file is open. A killed process never leaves it behind.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        let (path, file) = self.lock_file(name)?;
        file.lock().map_err(Error::file(path))?;
        Ok(file)
    }

    /// The lock, unless somebody has it.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Option<File>> {
        let (path, file) = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(source)) => Err(Error::File { path, source }),
        }
    }

    fn lock_file(&self, name: &str) -> Result<(PathBuf, File)> {
        let path = self.path(name);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        Ok((path.clone(), file.map_err(Error::file(path))?))
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.path(name);
        let bytes = serde_json::to_vec_pretty(value)
            .map_err(|source| Error::Damaged { path: path.clone(), source })?;
        write_file(&path, &bytes, 0o600)
    }
}

/// The folder of all sandboxes of this user.
pub(crate) fn all() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".local/state");
    env::var_os("XDG_STATE_HOME").map_or_else(home, PathBuf::from).join("causeway/sandbox")
}

/// Whoever holds it is the only one who gives a sandbox of this user what no other one may have. It is beside the folder of all
/// sandboxes, where everything is a sandbox.
pub(crate) fn lock_all() -> Result<File> {
    Folder { root: all().parent().map_or_else(all, Path::to_path_buf) }.lock("sandbox.lock")
}

/// The names of all sandboxes of this user.
pub(crate) fn names() -> Vec<String> {
    let entries = fs::read_dir(all()).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Makes a folder that only its owner may enter.
pub(crate) fn private_folder(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::file(path))
}

/// Writes a file in one step: a reader sees the old or the new content. An equal file is left alone.
pub(crate) fn write_file(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    if fs::read(path).is_ok_and(|now| now == content) {
        return fs::set_permissions(path, Permissions::from_mode(mode)).map_err(Error::file(path));
    }
    if let Some(parent) = path.parent() {
        private_folder(parent)?;
    }
    let fresh = path.with_added_extension("new");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&fresh)?;
        file.write_all(content)?;
        fs::rename(&fresh, path)
    };
    write().map_err(Error::file(path))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => {
            let damaged = |source| Error::Damaged { path: path.to_owned(), source };
            serde_json::from_slice(&bytes).map(Some).map_err(damaged)
        }
        Err(missing) if missing.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Family;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::at(place.path().join("one"));
        folder.create().unwrap();
        folder.write_wanted(&Wanted::new("one", 1, vec![Family::Ipv4], 1).unwrap()).unwrap();
        (place, folder)
    }

    #[test]
    fn only_a_real_change_makes_a_new_generation() {
        let (_place, folder) = folder();
        let same = folder.change(|_| Ok(())).unwrap();
        let more = folder.change(|wanted| wanted.add_node().map(drop)).unwrap();
        assert_eq!((same.generation, more.generation), (1, 2));
        assert_eq!(folder.wanted().unwrap(), more);
    }

    #[test]
    fn files_are_closed_to_others() {
        let (_place, folder) = folder();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.root()), 0o700);
        assert_eq!(mode(&folder.path("wanted.json")), 0o600);
    }

    #[test]
    fn a_lock_is_held_once() {
        let (_place, folder) = folder();
        let held = folder.try_lock("x.lock").unwrap();
        assert!(held.is_some() && folder.try_lock("x.lock").unwrap().is_none());
        drop(held);
        assert!(folder.try_lock("x.lock").unwrap().is_some());
    }
}
