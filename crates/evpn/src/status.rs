//! What is exposed on this node, what is not, and why: a value for people and for programs.

use std::net::IpAddr;

use causeway_types::{Cidr, Mac};
use serde::Serialize;

use crate::annotation::{RouteTarget, Vni};

/// The whole picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Why nothing is planned at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// What is exposed here.
    pub vnis: Vec<VniStatus>,
    /// What is annotated and not exposed, though it could be here.
    pub refused: Vec<Refused>,
}

/// One exposed VNI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VniStatus {
    /// The number.
    pub vni: Vni,
    /// The AS number of its BGP instance.
    #[serde(rename = "as")]
    pub asn: u32,
    /// Its VRF.
    pub vrf: String,
    /// What tells its routes apart.
    pub rd: String,
    /// Whose routes are taken.
    pub import: Vec<RouteTarget>,
    /// What its routes are marked with.
    pub export: Vec<RouteTarget>,
    /// The provider's bridge.
    pub bridge: String,
    /// The VLAN there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<u16>,
    /// Those that live on this node and have a MAC address that can be read.
    pub gateways: Vec<GatewayStatus>,
    /// The tenants' subnets behind them.
    pub subnets: Vec<SubnetStatus>,
    /// What is still missing, by itself to come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<String>,
}

/// A gateway that lives here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatewayStatus {
    /// The annotated port.
    pub port: String,
    /// Its MAC address.
    pub mac: Mac,
    /// From its Port_Binding, without link-local ones.
    pub addresses: Vec<IpAddr>,
}

/// A tenant's subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubnetStatus {
    /// The annotated port.
    pub port: String,
    /// Its range.
    pub cidr: Cidr,
    /// The machines that others are told of.
    pub machines: Vec<IpAddr>,
}

/// Something that is annotated and cannot be exposed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refused {
    /// The annotated port.
    pub port: String,
    /// Why.
    pub reason: String,
}
