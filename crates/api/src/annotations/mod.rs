//! Annotations: their keys, and codecs from and to text.
//!
//! Owns the texts that travel between cluster manager, nodes and other people's tools. Equal values have equal
//! texts, byte for byte. Never fills in what a text lacks: a text that cannot be read is an error that says why.

mod bounded;
mod connect;
pub mod keys;
mod node;
mod open_ports;
mod pod;
mod request;
mod simple;

pub use connect::{ConnectBlocks, ConnectRouterKey, ConnectSlots};
pub use node::{
    ChassisId, ChassisRecord, EncapIps, GatewayConfig, GatewayMode, GatewayMtuSupport, HostCidrs,
    Layer2TopologyVersion, ManagementMacs, MasqueradeSubnets, NodeSubnets, PrimaryAddresses,
    TransitPeerPorts, TransitSwitchPort, TunnelMtu, VtepIps, Vteps,
};
pub use open_ports::{MOST_OPEN_PORTS, OpenPort, OpenPorts, Protocol};
pub use pod::{Attachment, Dns, InterfaceStatus, NetworkStatus, PodNetwork, PodNetworks, PodRole, PodRoute};
pub use request::{
    DefaultNetworkRequest, MOST_NETWORKS, NetworkSelection, RequestedIp, RequestedNetworks, RequestedPrimary,
};
pub use simple::{NetworkCreated, PerFamily, TunnelKeys};

use crate::Error;

/// Something that is written as the text of one annotation.
pub trait Annotation: Sized {
    /// The annotation's key.
    const KEY: &'static str;

    /// Reads the text.
    ///
    /// # Errors
    /// [`Error::Annotation`] with what is wrong in the text.
    fn parse(text: &str) -> Result<Self, Error>;

    /// Writes the text.
    fn text(&self) -> String;
}

fn malformed<A: Annotation>(problem: impl ToString) -> Error {
    Error::Annotation { key: A::KEY, problem: problem.to_string() }
}

/// Reads JSON and nothing after it.
fn from_json<A: Annotation, T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(malformed::<A>)
}

/// Values of ours have text keys and finite numbers, which JSON can always write.
fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
