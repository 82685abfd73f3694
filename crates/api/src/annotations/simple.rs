//! Numbers, and values that come once for each IP family.

use std::net::IpAddr;

use causeway_types::{Cidr, ConnectTopology, DatapathKey, Family, NetworkId, NetworkSet, NodeId};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Annotation, from_json, keys, malformed, to_json};
use crate::Error;

/// Annotations whose text is the value's own.
macro_rules! plain {
    ($($type:ty: $key:expr),* $(,)?) => {$(
        impl Annotation for $type {
            const KEY: &'static str = $key;

            fn parse(text: &str) -> Result<Self, Error> {
                text.parse().map_err(malformed::<Self>)
            }

            fn text(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

plain! {
    NetworkId: keys::NETWORK_ID,
    NetworkSet: keys::NETWORK_SET,
    NodeId: keys::NODE_ID,
    ConnectTopology: keys::CONNECT_TOPOLOGY,
}

/// When the object of a primary network was created, in seconds since 1970.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NetworkCreated(pub i64);

impl Annotation for NetworkCreated {
    const KEY: &'static str = keys::NETWORK_CREATED;

    fn parse(text: &str) -> Result<Self, Error> {
        text.parse().map(Self).map_err(malformed::<Self>)
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// Tunnel keys of a network: none, or those of a primary layer2 network's switch and transit router.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TunnelKeys(pub Option<[DatapathKey; 2]>);

impl Annotation for TunnelKeys {
    const KEY: &'static str = keys::TUNNEL_KEYS;

    fn parse(text: &str) -> Result<Self, Error> {
        match from_json::<Self, Vec<DatapathKey>>(text)?[..] {
            [] => Ok(Self(None)),
            [switch, router] => Ok(Self(Some([switch, router]))),
            ref other => {
                Err(malformed::<Self>(format!("it has {} keys instead of none or two", other.len())))
            }
        }
    }

    fn text(&self) -> String {
        self.0.map_or_else(|| "[]".into(), |keys| to_json(&keys))
    }
}

/// A value for IPv4, one for IPv6, or both: `{"ipv4":…,"ipv6":…}`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(bound(deserialize = "T: OfFamily + Deserialize<'de>"), try_from = "Both<T>")]
pub struct PerFamily<T> {
    /// The IPv4 value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<T>,
    /// The IPv6 value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<T>,
}

#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>", deny_unknown_fields)]
struct Both<T> {
    #[serde(default = "Option::default")]
    ipv4: Option<T>,
    #[serde(default = "Option::default")]
    ipv6: Option<T>,
}

/// Something that belongs to one IP family.
pub trait OfFamily: std::fmt::Display {
    fn family(&self) -> Family;
}

impl OfFamily for Cidr {
    fn family(&self) -> Family {
        Self::family(self)
    }
}

impl OfFamily for IpNet {
    fn family(&self) -> Family {
        Family::of(&self.addr())
    }
}

impl OfFamily for IpAddr {
    fn family(&self) -> Family {
        Family::of(self)
    }
}

impl<T: OfFamily> TryFrom<Both<T>> for PerFamily<T> {
    type Error = String;

    fn try_from(both: Both<T>) -> Result<Self, String> {
        for (value, family) in [(&both.ipv4, Family::Ipv4), (&both.ipv6, Family::Ipv6)] {
            if let Some(value) = value.as_ref().filter(|value| value.family() != family) {
                return Err(format!("{value} is not {family}"));
            }
        }
        if both.ipv4.is_none() && both.ipv6.is_none() {
            return Err("neither ipv4 nor ipv6 is there".into());
        }
        Ok(Self { ipv4: both.ipv4, ipv6: both.ipv6 })
    }
}

impl<T: OfFamily> PerFamily<T> {
    /// Sorts values by family; of several in one family the last counts.
    pub fn collect(values: impl IntoIterator<Item = T>) -> Self {
        values.into_iter().fold(Self { ipv4: None, ipv6: None }, |all, value| match value.family() {
            Family::Ipv4 => Self { ipv4: Some(value), ..all },
            Family::Ipv6 => Self { ipv6: Some(value), ..all },
        })
    }

    /// The values, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.ipv4.iter().chain(&self.ipv6)
    }
}
