//! What users ask for in annotations of their pods.

use std::fmt;
use std::net::IpAddr;

use causeway_types::{Mac, NamespaceName, ObjectName};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};

use super::bounded::{bounded, list, too_many};
use super::{Annotation, keys, malformed, to_json};
use crate::Error;

/// The most networks that a pod can ask for. Whoever asks for more is told so, before anything is looked up.
pub const MOST_NETWORKS: usize = 32;
/// The most addresses that a pod can ask for on one network.
const MOST_ADDRESSES: usize = 16;

/// The networks that a pod asks for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RequestedNetworks(pub Vec<NetworkSelection>);

/// One network that a pod asks for, by the network plumbing working group's standard.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NetworkSelection {
    /// Name of the NAD.
    pub name: ObjectName,
    /// Namespace of the NAD; the pod's own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceName>,
    /// Addresses wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "few_addresses")]
    pub ips: Vec<RequestedIp>,
    /// MAC address wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// Name wanted for the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The IPAMClaim whose addresses are wanted.
    #[serde(default, rename = "ipam-claim-reference", skip_serializing_if = "Option::is_none")]
    pub ipam_claim_reference: Option<ObjectName>,
}

/// An address wanted, with or without prefix length.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RequestedIp {
    /// With prefix length.
    Net(IpNet),
    /// Without.
    Address(IpAddr),
}

impl RequestedIp {
    /// The address itself.
    pub fn address(&self) -> IpAddr {
        match self {
            Self::Net(net) => net.addr(),
            Self::Address(address) => *address,
        }
    }
}

impl Annotation for RequestedNetworks {
    const KEY: &'static str = keys::NETWORKS;

    /// JSON, or `namespace/name@interface` separated by commas.
    fn parse(text: &str) -> Result<Self, Error> {
        selections::<Self>(text).map(Self)
    }

    fn text(&self) -> String {
        to_json(&self.0)
    }
}

fn selections<A: Annotation>(text: &str) -> Result<Vec<NetworkSelection>, Error> {
    let json = text.trim_start();
    if json.starts_with('[') {
        return list(text, MOST_NETWORKS, "networks").map_err(malformed::<A>);
    }
    if json.starts_with(['{', '"']) {
        return Err(malformed::<A>("JSON must be a list of networks: write [ in front and ] at the end"));
    }
    let names = || text.split(',').map(str::trim).filter(|name| !name.is_empty());
    if names().nth(MOST_NETWORKS).is_some() {
        return Err(malformed::<A>(too_many("networks", MOST_NETWORKS)));
    }
    names().map(short_form).collect::<Result<_, _>>().map_err(malformed::<A>)
}

fn few_addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RequestedIp>, D::Error> {
    bounded(from, MOST_ADDRESSES, "ips")
}

/// What a pod asks for on its primary network: addresses or a MAC. By the same standard, as the only item of a list;
/// the network is called `default`, whichever it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DefaultNetworkRequest(pub NetworkSelection);

impl Annotation for DefaultNetworkRequest {
    const KEY: &'static str = keys::DEFAULT_NETWORK;

    fn parse(text: &str) -> Result<Self, Error> {
        let all = selections::<Self>(text)?;
        let [selection]: [NetworkSelection; 1] = all.try_into().map_err(|others: Vec<_>| {
            malformed::<Self>(format!("it has {} networks instead of one", others.len()))
        })?;
        if selection.name.as_str() != "default" {
            let problem = format!("the network is called \"default\", not \"{}\"", selection.name);
            return Err(malformed::<Self>(problem));
        }
        Ok(Self(selection))
    }

    fn text(&self) -> String {
        to_json(&[&self.0])
    }
}

fn short_form(text: &str) -> Result<NetworkSelection, causeway_types::Error> {
    let (path, interface) = match text.split_once('@') {
        Some((path, interface)) => (path, Some(interface.to_owned())),
        None => (text, None),
    };
    let (namespace, name) = match path.split_once('/') {
        Some((namespace, name)) => (Some(NamespaceName::new(namespace)?), name),
        None => (None, path),
    };
    let name = ObjectName::new(name)?;
    Ok(NetworkSelection {
        name,
        namespace,
        ips: Vec::new(),
        mac: None,
        interface,
        ipam_claim_reference: None,
    })
}

/// The primary network that a pod asks for: its name, perhaps with the namespace in front.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestedPrimary {
    /// The namespace, where it is written.
    pub namespace: Option<NamespaceName>,
    /// The name of the UserDefinedNetwork or ClusterUserDefinedNetwork.
    pub name: ObjectName,
}

impl fmt::Display for RequestedPrimary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => self.name.fmt(f),
        }
    }
}

impl Annotation for RequestedPrimary {
    const KEY: &'static str = keys::REQUESTED_PRIMARY;

    fn parse(text: &str) -> Result<Self, Error> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => {
                (Some(NamespaceName::new(namespace).map_err(malformed::<Self>)?), name)
            }
            None => (None, text),
        };
        Ok(Self { namespace, name: ObjectName::new(name).map_err(malformed::<Self>)? })
    }

    fn text(&self) -> String {
        self.to_string()
    }
}
