//! The wire types of CNI 1.1, and what the shim `causeway-cni` and the server in `causeway node` say to each other.
//!
//! The shim carries a request from the container runtime to the server and the answer back. It decides nothing:
//! whatever can be decided needs the cluster, and only the server knows it. Nothing here waits on anything but a socket.

mod config;
mod env;
mod error;
mod http;
mod result;
mod shim;
mod version;
mod wire;

pub use config::{Attachment, NetworkConfig};
pub use env::{Command, Invocation, PodIdentity};
pub use error::{ErrorCode, ErrorObject};
pub use http::{Head, MAX_BODY, MAX_HEAD, parse_head, read_message, response};
pub use result::{AddResult, Interface, IpConfig, Route};
pub use shim::{DEFAULT_SOCKET, SOCKET_VARIABLE, Shim};
pub use version::{CniVersion, SUPPORTED_VERSIONS};
pub use wire::Request;
