//! `node …` and `load`: changes to a running sandbox, and commands on its nodes.

use super::{Which, say, wait_settled};
use crate::error::{Error, Result};
use crate::find;
use crate::folder::Folder;
use crate::machine::{MARK, run};
use crate::plan::unit::Command;
use crate::plan::{CONTROL, FAR, OUTSIDE, Places, node_environment};
use crate::programs::Programs;
use crate::wanted::Wanted;
use causeway_host::named_namespace;
use clap::{Args, Subcommand};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(180);

/// Work with the nodes of a sandbox
#[derive(Subcommand)]
pub(super) enum Node {
    /// Run a command on a node, on `control`, on `outside` or on `far`, a host behind it
    Exec {
        #[command(flatten)]
        which: Which,
        /// Where, such as `n1`
        node: String,
        /// What to run, after `--`
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Pull the plug of a node
    Stop(One),
    /// Switch a node on again
    Start(One),
    /// Cut a node off from all others, or join it again
    Partition {
        #[command(flatten)]
        one: One,
        /// Join it again
        #[arg(long)]
        heal: bool,
    },
    /// Add a node
    Add(Add),
    /// Remove a node with its disk and its object
    Remove(One),
}

/// One node.
#[derive(Args)]
pub(super) struct One {
    #[command(flatten)]
    which: Which,
    /// Its name, such as `n1`
    node: String,
}

/// A new node.
#[derive(Args)]
pub(super) struct Add {
    #[command(flatten)]
    which: Which,
}

impl Node {
    pub(super) fn run(self) -> Result<()> {
        match self {
            Node::Exec { which, node, command } => Err(exec(&which.folder()?, &node, &command)),
            Node::Stop(one) => one.change("is off", |node| node.running = false),
            Node::Start(one) => one.change("is on", |node| node.running = true),
            Node::Partition { one, heal } => {
                let what = if heal { "is joined again" } else { "is cut off" };
                one.change(what, |node| node.partitioned = !heal)
            }
            Node::Add(add) => {
                let mut name = String::new();
                let folder = add.which.folder()?;
                settle(&folder, |wanted| wanted.add_node().map(|new| name = new))?;
                say(format!("{name} is there"));
                Ok(())
            }
            Node::Remove(one) => {
                remove_node(&one.which.folder()?, &one.node)?;
                say(format!("{} is gone", one.node));
                Ok(())
            }
        }
    }
}

impl One {
    fn change(self, what: &str, how: impl FnOnce(&mut crate::wanted::Node)) -> Result<()> {
        settle(&self.which.folder()?, |wanted| wanted.node_mut(&self.node).map(how))?;
        say(format!("{} {what}", self.node));
        Ok(())
    }
}

/// Changes what is wanted and waits until it is so.
pub(crate) fn settle(folder: &Folder, how: impl FnOnce(&mut Wanted) -> Result<()>) -> Result<()> {
    let wanted = folder.change(how)?;
    wait_settled(folder, wanted.generation, PATIENCE, |_| {})
}

/// Switches a node off, then removes its object, its disk and its name.
pub(crate) fn remove_node(folder: &Folder, name: &str) -> Result<()> {
    settle(folder, |wanted| wanted.node_mut(name).map(|node| node.running = false))?;
    let kubectl = Programs::find().program("kubectl").display().to_string();
    let config = format!("--kubeconfig={}", folder.kubeconfig().display());
    run(&Command::new([&kubectl, &config, "delete", "node", name, "--ignore-not-found"]))?;
    settle(folder, |wanted| {
        wanted.nodes.remove(name);
        Ok(())
    })?;
    let disk = folder.path("nodes").join(name);
    fs::remove_dir_all(&disk).map_err(Error::file(disk))
}

/// The command that runs others on a node: in its network, and with the processes and mounts of the sandbox.
pub(crate) fn on_node(folder: &Folder, node: &str) -> Result<process::Command> {
    let wanted = folder.wanted()?;
    let names: Vec<&str> = wanted.running().map(|(name, _)| name).chain([CONTROL, OUTSIDE, FAR]).collect();
    if !names.contains(&node) {
        return Err(Error::Request(format!("{node} does not run; choose from: {}", names.join(", "))));
    }
    let init = find::init(folder.root()).ok_or_else(|| {
        Error::Request(format!("sandbox {} does not run; `causeway sandbox up` starts it", wanted.name))
    })?;
    let places = Places::inside(Programs::find(), PathBuf::new());
    let mut command = process::Command::new("nsenter");
    command
        .args([format!("--target={init}").as_str(), "--mount", "--pid", "--", "nsenter"])
        .arg(format!("--net={}", named_namespace(node).display()))
        .arg("--")
        .envs(node_environment(node, &places))
        .env(MARK, folder.root());
    Ok(command)
}

/// Becomes the command; comes back only with an error.
fn exec(folder: &Folder, node: &str, words: &[String]) -> Error {
    match on_node(folder, node) {
        Ok(mut command) => Error::file("nsenter")(command.args(words).exec()),
        Err(e) => e,
    }
}

/// Load an image archive into every node
#[derive(Args)]
pub(super) struct Load {
    #[command(flatten)]
    which: Which,
    /// The archive, as `docker save` or `ctr images export` write it
    archive: PathBuf,
}

impl Load {
    pub(super) fn run(self) -> Result<()> {
        let name = load(&self.which.folder()?, &self.archive)?;
        say(format!("{name} is on every node"));
        Ok(())
    }
}

/// Copies an archive into the folder, so that nodes which come later have it too.
pub(crate) fn load(folder: &Folder, archive: &std::path::Path) -> Result<String> {
    let name = archive.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    folder.wanted()?;
    let place = folder.path("images").join(&name);
    fs::copy(archive, &place).map_err(Error::file(archive))?;
    settle(folder, |wanted| {
        if !wanted.images.contains(&name) {
            wanted.images.push(name.clone());
        }
        Ok(())
    })?;
    Ok(name)
}
