//! What the supervisor tells commands.

use serde::{Deserialize, Serialize};

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The generation of what is wanted that this is about.
    pub generation: u64,
    /// Whether everything is as wanted.
    pub settled: bool,
    /// Milliseconds since the sandbox came to life.
    pub age: u64,
    /// The parts of the sandbox.
    pub units: Vec<UnitStatus>,
}

/// What is there of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStatus {
    /// `kube-apiserver`, `n1/kubelet`.
    pub id: String,
    /// The step of `up` that shows it.
    pub step: String,
    pub node: Option<String>,
    /// Whether it is a process.
    pub process: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Its process, in the sandbox.
    pub pid: Option<u32>,
    /// How often it ended on its own.
    pub deaths: u32,
    /// What went wrong last, until it is ready again.
    pub trouble: Option<String>,
    /// Milliseconds after the start of the sandbox when it came to be as it is.
    pub since: u64,
}
