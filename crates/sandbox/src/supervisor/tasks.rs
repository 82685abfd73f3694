//! What each task does. Doing one again changes nothing.

use super::world::own_mark;
use crate::certificates::{ensure, kubeconfig};
use crate::chassis;
use crate::error::{Error, Result};
use crate::find;
use crate::folder::{Folder, private_folder, write_file};
use crate::images;
use crate::machine::run;
use crate::network;
use crate::plan::unit::{Command, Kubeconfig, Task};
use causeway_api::install::{Installation, policies, roles};
use causeway_api::print;
use causeway_api::schema::{CrdSet, definitions};
use causeway_host::delete_namespace;
use nix::mount::{MntFlags, umount2};
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Does a task.
pub(super) fn perform(task: &Task, folder: &Folder) -> Result<()> {
    match task {
        Task::Network(network) => network::apply(network),
        Task::Certificates { identities, kubeconfigs } => {
            let certificates = folder.path("certificates");
            ensure(&certificates, identities)?;
            kubeconfigs.iter().try_for_each(|config| write_kubeconfig(&certificates, config))
        }
        Task::Node { cgroup, folder, links } => make_node(cgroup, folder, links),
        Task::Databases { files, tool } => {
            files.iter().try_for_each(|(path, schema)| make_database(path, schema, tool))
        }
        Task::Run(commands) => commands.iter().try_for_each(|command| run(command).map(drop)),
        Task::Install { apply, definitions } => install(apply, definitions),
        Task::Chassis { socket, others } => chassis::ensure(socket, others),
        Task::Off { node, cgroup, folder: volatile } => switch_off(node, cgroup, volatile, folder),
    }
}

fn write_kubeconfig(certificates: &Path, wanted: &Kubeconfig) -> Result<()> {
    let text = kubeconfig(certificates, &wanted.server, &wanted.identity, &wanted.context)?;
    write_file(&wanted.path, text.as_bytes(), 0o600)
}

fn make_node(cgroup: &str, folder: &Path, links: &[(String, PathBuf)]) -> Result<()> {
    for place in find::cgroup_folders(cgroup) {
        // A hierarchy without a place for us (version 2 beside version 1) is none that the kubelet asks for.
        let _not_here = fs::create_dir_all(&place);
        find::delegate(&place)?;
    }
    for (name, target) in links {
        let link = folder.join(name);
        private_folder(link.parent().unwrap_or(folder))?;
        match symlink(target, &link) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(Error::file(&link)(e)),
            _ => {}
        }
    }
    Ok(())
}

fn make_database(path: &Path, schema: &Path, tool: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    private_folder(path.parent().unwrap_or(path))?;
    // Made under another name, so that a half-made one never counts.
    let fresh = path.with_added_extension("new");
    let _none = fs::remove_file(&fresh);
    run(&Command::new([tool, Path::new("create"), &fresh, schema].map(|word| word.display().to_string())))?;
    fs::rename(&fresh, path).map_err(Error::file(path))
}

fn install(apply: &Command, present: &Command) -> Result<()> {
    let installation = Installation::default();
    let unprintable =
        |e: &dyn std::fmt::Display| Error::Request(format!("cannot print our own manifests: {e}"));
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": installation.namespace},
    })];
    objects.extend(definitions(CrdSet::Causeway).map_err(|e| unprintable(&e))?);
    let others = [CrdSet::Shared, CrdSet::Policy].map(definitions).into_iter();
    let others = others.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| unprintable(&e))?.concat();
    objects.extend(absent(others, &run(present)?));
    objects.extend(roles(&installation));
    objects.extend(policies(&installation));
    objects.extend(images::objects());
    let text = print::json(&objects).map_err(|e| unprintable(&e))?;
    run(&apply.clone().input(text)).map(drop)
}

/// Those definitions that are not there. They belong to other projects: one that is there stays as it is.
fn absent(definitions: Vec<Value>, present: &str) -> impl Iterator<Item = Value> {
    definitions.into_iter().filter(move |definition| {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        !present.lines().any(|line| line.split_once('/').is_some_and(|(_, there)| there == name))
    })
}

/// As if the plug was pulled: processes first, then what they held. The disk stays.
fn switch_off(node: &str, cgroup: &str, volatile: &Path, folder: &Folder) -> Result<()> {
    let mark = own_mark();
    if !find::kill_all(|| find::of_node(&mark, cgroup, node), Duration::from_secs(10)) {
        return Err(Error::Request(format!("processes of {node} do not end")));
    }
    for place in [volatile.to_owned(), folder.path("nodes").join(node)] {
        unmount_below(&place);
    }
    delete_namespace(node).map_err(Error::Host)?;
    find::remove_cgroup(&format!("{cgroup}/{node}"));
    match fs::remove_dir_all(volatile) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::file(volatile)(e)),
        _ => Ok(()),
    }
}

/// Unmounts everything below a folder, the innermost first.
fn unmount_below(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    let mut places: Vec<PathBuf> =
        places.filter(|place| place.starts_with(folder) && place != folder).collect();
    places.sort();
    for place in places.iter().rev() {
        // One that is busy would be found by removing the folder.
        let _busy = umount2(place, MntFlags::MNT_DETACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_others_are_installed_only_where_they_are_absent() {
        let named = |name: &str| json!({"metadata": {"name": name}});
        let all = vec![named("as.example"), named("bas.example")];
        let there = "customresourcedefinition.apiextensions.k8s.io/bas.example\n";
        assert_eq!(absent(all, there).collect::<Vec<_>>(), [named("as.example")]);
    }
}
