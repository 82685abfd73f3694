//! A real Kubernetes of several nodes on one machine: for people who try Causeway, and for every end-to-end test.
//!
//! ```text
//!   host                │ PID and mount namespace of the sandbox
//!   causeway sandbox ─► keeper ─► init ─► supervisor ─► etcd, API server, … and per node: OVN, containerd, kubelet
//!     wanted.json ──────────────────────────► plan ─► engine ─► commands
//!     status.json ◄──────────────────────────────────────┘
//! ```
//! The folder of a sandbox is the interface: commands write what is wanted, the supervisor makes it so and writes what
//! is. All its processes share a PID namespace, so the kernel itself ends every one of them with the first; all mounts
//! and network namespaces live in its mount namespace, so nothing of them is left on the machine. Of the machine's own
//! network it uses one port on the loopback address.

pub mod address;
pub mod cli;
pub mod harness;
pub mod network;
pub mod plan;
pub mod wanted;

mod boot;
mod certificates;
mod chassis;
mod cluster_proxy;
mod error;
mod find;
mod folder;
mod forward;
mod images;
mod machine;
mod pool;
mod programs;
mod supervisor;

pub use error::{Error, Result};
pub use folder::Folder;
pub use programs::Programs;
