//! What a plan is made of: processes that shall run and tasks that shall be done, as plain values.

use crate::certificates::Identity;
use crate::network::Network;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// What is added to the environment.
    pub environment: BTreeMap<String, String>,
    /// The network namespace in which it runs, if not the machine's own.
    pub namespace: Option<String>,
    /// What it reads.
    pub input: String,
}

impl Command {
    /// A command with nothing special about it.
    pub fn new<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Command {
        Command { words: words.into_iter().map(Into::into).collect(), ..Command::default() }
    }

    /// Runs in a network namespace.
    pub fn within(mut self, namespace: &str) -> Command {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Adds to the environment.
    pub fn environment(mut self, more: &BTreeMap<String, String>) -> Command {
        self.environment.extend(more.clone());
        self
    }

    /// Gives it something to read.
    pub fn input(mut self, text: impl Into<String>) -> Command {
        self.input = text.into();
        self
    }
}

/// A file with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where.
    pub path: PathBuf,
    /// The whole text; another one starts the process anew.
    pub content: String,
}

/// How to tell that a process serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It has started: nothing more is asked.
    Runs,
    /// It accepts connections here.
    Socket(PathBuf),
    /// This command succeeds.
    Command(Command),
}

/// A process that shall run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// How it is started.
    pub command: Command,
    /// Its configuration, written before it starts. Another content starts it anew.
    pub files: Vec<File>,
    /// How to tell that it serves.
    pub probe: Probe,
}

/// Something that shall be done. Doing it again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// This is in the network namespaces.
    Network(Network),
    /// There are certificates and kubeconfigs.
    Certificates {
        /// Whose.
        identities: Vec<Identity>,
        /// For whom, beside their certificates.
        kubeconfigs: Vec<Kubeconfig>,
    },
    /// There is a cgroup, and a folder for what goes when the node is switched off.
    Node {
        /// The cgroup, relative to each hierarchy.
        cgroup: String,
        /// Holds the node's sockets, containerd's state, and the plugins and configuration of CNI.
        folder: PathBuf,
        /// Links in the folder: the plugins under the names that containerd looks for.
        links: Vec<(String, PathBuf)>,
    },
    /// These databases exist.
    Databases {
        /// Their files, each with its schema.
        files: Vec<(PathBuf, PathBuf)>,
        /// The tool that makes them.
        tool: PathBuf,
    },
    /// The API server has our custom resource definitions, roles and policies.
    Install {
        /// kubectl, ready to read manifests.
        apply: Command,
        /// kubectl, which prints the names of the definitions that are there.
        definitions: Command,
    },
    /// These commands succeeded, one after the other.
    Run(Vec<Command>),
    /// The southbound database knows the chassis of the other zones.
    Chassis {
        /// The database's socket.
        socket: PathBuf,
        /// The other zones.
        others: Vec<Chassis>,
    },
    /// Nothing is left of a node that is switched off but its disk.
    Off {
        /// Its name; also the name of its network namespace.
        node: String,
        /// The cgroup of the sandbox.
        cgroup: String,
        /// What goes.
        folder: PathBuf,
    },
}

/// The chassis of another zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chassis {
    /// Its name; the host's name too.
    pub name: String,
    /// Where its tunnels end.
    pub address: String,
}

/// A kubeconfig to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// Where.
    pub path: PathBuf,
    /// Whose certificate it carries.
    pub identity: String,
    /// The API server.
    pub server: String,
    /// The name of its context.
    pub context: String,
}

/// What a unit does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Runs.
    Process(Process),
    /// Is done once, and again when something before it started anew.
    Task(Task),
}

/// One part of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// `kube-apiserver`, `n1/kubelet`.
    pub id: String,
    /// The step of `up` that shows it.
    pub step: String,
    /// The node that it belongs to.
    pub node: Option<String>,
    /// Units that must be ready before it starts.
    pub after: Vec<String>,
    /// What it does.
    pub body: Body,
}

impl Unit {
    /// A unit.
    pub fn new(id: impl Into<String>, step: impl Into<String>, body: Body) -> Unit {
        Unit { id: id.into(), step: step.into(), node: None, after: Vec::new(), body }
    }

    /// Starts after these.
    pub fn after<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Unit {
        self.after.extend(ids.into_iter().map(Into::into));
        self
    }
}
