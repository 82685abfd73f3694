//! Makes facts hold.

use super::observe::{names, observe};
use super::{Fact, missing};
use crate::error::{Error, Result};
use crate::machine::{in_namespace, run};
use crate::plan::unit::Command;
use std::collections::BTreeSet;
use std::path::Path;

/// Makes the facts hold; what is there beside them stays.
pub(crate) fn apply(facts: &BTreeSet<Fact>) -> Result<()> {
    let seen = observe(facts.iter().map(Fact::namespace))?;
    for fact in missing(facts, &seen) {
        match &fact {
            Fact::Setting { namespace, key, value } => set(namespace, key, value)?,
            other => drop(run(&Command::new(std::iter::once("ip".to_owned()).chain(other.words())))?),
        }
    }
    Ok(())
}

/// The settings below `/proc/sys/net` are those of the namespace of the thread that opens them.
fn set(namespace: &str, key: &str, value: &str) -> Result<()> {
    let (path, value) = (Path::new("/proc/sys/net").join(key), value.to_owned());
    in_namespace(namespace, move || std::fs::write(&path, value).map_err(Error::file(&path)))
}

/// Deletes a namespace, if it is there.
pub(crate) fn delete_namespace(name: &str) -> Result<()> {
    if names()?.contains(name) {
        run(&Command::new(["ip", "netns", "delete", name]))?;
    }
    Ok(())
}
