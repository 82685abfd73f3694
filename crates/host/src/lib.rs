//! What is on a node: links, addresses, routes, rules, neighbours, namespaces and settings of the kernel, tables of
//! nftables, flows of bridges, sections of FRR.
//!
//! Everything that is planned has one shape: items by key, read back, compared, applied, ours by a mark. [`Output`] is
//! a place that has such items, [`diff()`] compares, [`bring`] drives. [`Host`] is what a node's tasks ask; [`Kernel`]
//! does it, [`FakeHost`] only remembers it. All calls block for as long as the kernel or a program takes, so they belong
//! on a thread that may: never on a worker of an async runtime. Nothing here decides what shall be there, and nothing is
//! remembered: what is there is read back.

mod connections;
mod diff;
mod drive;
mod error;
mod events;
mod fake;
mod filter;
mod flows;
mod frr;
mod host;
mod kernel;
mod memory;
mod messages;
mod namespace;
mod netlink;
mod nft;
mod output;
mod ports;
mod program;
mod programs;
mod rtnetlink;
mod settings;
mod surroundings;

pub use causeway_types::around::{DefaultRoute, OwnAddress, OwnLink, Surroundings};
pub use connections::Connections;
pub use diff::{Difference, diff};
pub use drive::bring;
pub use error::{Error, Result};
pub use events::{follow_addresses, follow_kernel};
pub use fake::{FakeHost, FakePod};
pub use flows::Flows;
pub use frr::Frr;
pub use host::{Host, LinkState, PodInterface, Route};
pub use kernel::Kernel;
pub use namespace::{delete_namespace, in_namespace, named_namespace, new_namespace};
pub use nft::Nft;
pub use output::{Actual, Applied, Op, Output, Problem, Seen, Wanted, Whose};
pub use ports::BridgePorts;
pub use programs::Programs;
pub use rtnetlink::{KernelOutput, Mark};

#[cfg(test)]
mod properties;
