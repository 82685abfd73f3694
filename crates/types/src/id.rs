//! Ids of networks and nodes. Almost every number and address on a node is a function of these two.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The id of a network: 0 is the cluster default network, 1..=4095 are user-defined ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct NetworkId(u16);

impl NetworkId {
    /// The cluster default network.
    pub const DEFAULT: Self = Self(0);
    /// The first id of a user-defined network.
    pub const FIRST: Self = Self(1);
    /// The last id. Tunnel keys 16711683..=16715778 are set aside for exactly these ids.
    pub const LAST: Self = Self(4095);

    /// Checks that the number is an id.
    pub fn new(value: u32) -> Result<Self> {
        checked("network id", value, 0, u32::from(Self::LAST.0)).map(Self)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }

    /// Whether this is the cluster default network.
    pub const fn is_default(self) -> bool {
        self.0 == 0
    }
}

/// The id of a node, from 2: number 0 would be a subnet's own address and 1 is the router's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct NodeId(u16);

impl NodeId {
    /// The first id.
    pub const FIRST: Self = Self(2);
    /// The last id whose port on a transit router (10 + id) still has a valid port key.
    pub const LAST: Self = Self(32_757);

    /// Checks that the number is an id.
    pub fn new(value: u32) -> Result<Self> {
        checked("node id", value, u32::from(Self::FIRST.0), u32::from(Self::LAST.0)).map(Self)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }

    /// The position among nodes, from 0: which host subnet of a network is this node's.
    pub const fn position(self) -> u32 {
        self.get() - 2
    }
}

fn checked(kind: &'static str, value: u32, min: u32, max: u32) -> Result<u16> {
    match u16::try_from(value) {
        Ok(small) if (min..=max).contains(&value) => Ok(small),
        _ => Err(Error::Range { kind, value: value.into(), min: min.into(), max: max.into() }),
    }
}

/// Annotations hold ids as decimal text; "+5" and "05" are somebody else's spelling, not ours.
pub(crate) fn decimal(kind: &'static str, text: &str) -> Result<u32> {
    let canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
    match text.parse() {
        Ok(value) if canonical => Ok(value),
        _ => Err(Error::Number { kind, value: text.to_owned() }),
    }
}

/// Text and numbers of a newtype that has `new` and `get`.
macro_rules! number {
    ($type:ident, $kind:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::new(decimal($kind, text)?)
            }
        }

        impl TryFrom<u32> for $type {
            type Error = Error;

            fn try_from(value: u32) -> Result<Self> {
                Self::new(value)
            }
        }

        impl From<$type> for u32 {
            fn from(number: $type) -> Self {
                number.get()
            }
        }
    };
}

pub(crate) use number;

number!(NetworkId, "network id");
number!(NodeId, "node id");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_to_their_ranges() {
        assert_eq!(NetworkId::new(0), Ok(NetworkId::DEFAULT));
        assert_eq!(NetworkId::new(4095), Ok(NetworkId::LAST));
        assert_eq!(
            NetworkId::new(4096).unwrap_err().to_string(),
            "network id 4096 is out of range: it must be within 0 and 4095"
        );
        assert_eq!(NodeId::new(2), Ok(NodeId::FIRST));
        assert!(NodeId::new(1).is_err());
        assert!(NodeId::new(32_758).is_err());
        assert!(NodeId::new(65_538).is_err());
    }

    #[test]
    fn text_is_canonical_decimal() {
        assert_eq!("54".parse(), NetworkId::new(54));
        for bad in ["abc", "", "+5", "05", "-1", "5 ", "99999999999"] {
            assert!(bad.parse::<NetworkId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ids_travel_as_numbers() {
        assert_eq!(serde_json::to_string(&NodeId::FIRST).unwrap(), "2");
        assert_eq!(serde_json::from_str::<NetworkId>("7").unwrap(), NetworkId::new(7).unwrap());
        assert!(serde_json::from_str::<NetworkId>("4096").is_err());
    }
}
