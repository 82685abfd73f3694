//! The host: links, addresses, routes, namespaces, settings of the kernel.
//!
//! [`Host`] is what a node's tasks ask; [`Kernel`] does it by netlink, [`FakeHost`] only remembers it. All calls block
//! for as long as the kernel takes, so they belong on a thread that may: never on a worker of an async runtime. Nothing
//! here decides what shall be there, and nothing is remembered: what is there is read back.

mod error;
mod fake;
mod filter;
mod host;
mod kernel;
mod messages;
mod namespace;
mod netlink;
mod settings;

pub use error::{Error, Result};
pub use fake::{FakeHost, FakePod};
pub use host::{Applied, Host, LinkState, PodInterface, Route};
pub use kernel::{Kernel, ROUTE_PROTOCOL};
pub use namespace::{in_namespace, new_namespace};
