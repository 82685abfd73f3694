//! Finds the programs by the one rule that `scripts/setup` documents.

use std::env;
use std::path::PathBuf;

fn programs_folder() -> PathBuf {
    if let Some(folder) = env::var_os("CAUSEWAY_PROGRAMS") {
        return folder.into();
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    cache.unwrap_or_else(home).join("causeway/bin")
}

fn must_exist(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is missing: run scripts/setup", path.display());
    path
}

/// The path of a program such as `ovsdb-server`.
pub fn program(name: &str) -> PathBuf {
    must_exist(programs_folder().join(name))
}

/// The path of a schema such as `ovn-nb`.
pub fn schema_file(name: &str) -> PathBuf {
    let folder = programs_folder();
    let share = folder.parent().map(|p| p.join("share")).unwrap_or_default();
    must_exist(share.join(format!("{name}.ovsschema")))
}
