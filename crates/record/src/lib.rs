//! What passes between Kubernetes and the two brains: trimmed objects in, writes and events out.
//!
//! Everything here is a value that serialises, so that a recording of what came in can be played again. Reading an object
//! is done here once, for both roles: annotations, labels and manifests become typed fields, and what somebody wrote badly
//! becomes a value that says so ([`Read`]), never an error of the stream. Nothing here talks to anybody; that is
//! `causeway-runtime`.

mod cluster_policy;
mod connect;
mod endpoints;
mod error;
mod freed;
mod host_port;
mod meta;
mod nad;
mod node;
mod node_addresses;
mod note;
mod owner;
mod pod;
mod policy;
mod read;
pub mod recording;
mod report;
mod service;
mod vtep;
mod watch;
mod write;

pub use causeway_types::Protocol;
pub use cluster_policy::{ClusterPolicy, OfKind, PolicyObject};
pub use connect::{Connect, ConnectSpec};
pub use endpoints::{Endpoint, EndpointPort, EndpointSlice, Reference};
pub use error::Error;
pub use freed::FreedNumbers;
pub use host_port::{HostPort, HostPorts};
pub use meta::{Logging, Namespace, ObjectKey, Severity, Texts};
pub use nad::{Controller, Nad};
pub use node::Node;
pub use node_addresses::NodeAddresses;
pub use note::{EventNote, Regarding};
pub use owner::{Cudn, Defined, Udn};
pub use pod::{NamedPort, Pod};
pub use policy::{MOST_SUBNETS, NetworkPolicy, PolicyPeer, PolicyPort, PolicyRule};
pub use read::Read;
pub use report::{OwnReport, RenderedHash, ZoneReport, cleared};
pub use service::{Service, ServicePort};
pub use vtep::Vtep;
pub use watch::{Broken, Cause, Event, Watched};
pub use write::{Action, Ended, Kind, Outcome, Part, Priority, Request, Target};
