//! What the cluster manager writes on a ClusterNetworkConnect.

use std::collections::BTreeMap;

use causeway_types::{Cidr, ConnectOwner, DatapathKey, PortKey};

use super::{Annotation, PerFamily, from_json, keys, malformed, to_json};
use crate::Error;

/// Block of each connected layer3 network and slice of each layer2 network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ConnectBlocks(pub BTreeMap<ConnectOwner, PerFamily<Cidr>>);

impl Annotation for ConnectBlocks {
    const KEY: &'static str = keys::NETWORK_SUBNETS;

    fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() { Ok(Self::default()) } else { from_json::<Self, _>(text).map(Self) }
    }

    fn text(&self) -> String {
        to_json(&self.0)
    }
}

/// Tunnel key of the connect router.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectRouterKey(pub DatapathKey);

impl Annotation for ConnectRouterKey {
    const KEY: &'static str = keys::CONNECT_ROUTER_TUNNEL_KEY;

    fn parse(text: &str) -> Result<Self, Error> {
        let number = number::<Self>(text)?;
        DatapathKey::dynamic(number).map(Self).map_err(malformed::<Self>)
    }

    fn text(&self) -> String {
        self.0.get().to_string()
    }
}

/// How many links of a block have port keys on the connect router.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectSlots(u32);

impl ConnectSlots {
    /// Checks that so many links of one block can have keys.
    pub fn new(slots: u32) -> Option<Self> {
        (1..=PortKey::LAST).contains(&slots).then_some(Self(slots))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Annotation for ConnectSlots {
    const KEY: &'static str = keys::CONNECT_ROUTER_SLOTS;

    fn parse(text: &str) -> Result<Self, Error> {
        let number = number::<Self>(text)?;
        let problem = || malformed::<Self>(format!("{number} is not within 1 and {}", PortKey::LAST));
        Self::new(number).ok_or_else(problem)
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// A decimal number without sign or leading zero, so that each number has one text.
fn number<A: Annotation>(text: &str) -> Result<u32, Error> {
    let problem = || malformed::<A>(format!("{text:?} is not a decimal number"));
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().map_err(|_| problem()) } else { Err(problem()) }
}
