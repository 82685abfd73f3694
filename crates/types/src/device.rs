//! Names of a network's devices in a node's kernel.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, NetworkId, ObjectName, Result};

/// The longest name of a device in Linux.
const LONGEST: usize = 15;
const RULE: &str = "it must be 1 to 15 letters, digits, '-', '_' or '.', beginning with a letter or digit";
/// Beginnings of names that belong to somebody else on a node; the EVPN agent has its own of each VNI.
const RESERVED: [&str; 9] = ["vrf-", "br-", "lo-", "vxlan-", "veth-", "vv-", "vo-", "vlan-", "ovn-k8s-"];
/// `all` and `default` are what sysctl calls its templates; a device of that name cannot be tuned.
const RESERVED_WHOLE: [&str; 3] = ["lo", "all", "default"];

/// The name of a network's VRF device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VrfName(String);

impl VrfName {
    /// Checks a name that a user has chosen.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let value = text.into();
        if !is_device(&value) {
            return Err(Error::Name { kind: "VRF", value, rule: RULE });
        }
        match reserved(&value) {
            Some(beginning) => Err(Error::ReservedVrf { name: value, beginning }),
            None => Ok(Self(value)),
        }
    }

    /// The VRF of a network: the name given in `vrf`, else the CUDN's own name where a device can
    /// have it, else one made from the id. A CUDN whose name is reserved must say `vrf`.
    pub fn of(vrf: Option<&str>, cluster_udn: Option<&ObjectName>, id: NetworkId) -> Result<Self> {
        match (vrf, cluster_udn) {
            (Some(vrf), _) => Self::new(vrf),
            (None, Some(name)) if name.as_str().len() <= LONGEST && name.as_str() != "default" => {
                Self::new(name.as_str())
            }
            _ => Ok(Self(format!("udn-{id}-vrf"))),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_device(text: &str) -> bool {
    text.len() <= LONGEST
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Whether the name is reserved, and the beginning that makes it so, if it is not the name as a whole.
fn reserved(name: &str) -> Option<Option<&'static str>> {
    let card =
        name.strip_prefix("eth").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let beginning = RESERVED.into_iter().find(|reserved| name.starts_with(reserved));
    let whole = RESERVED_WHOLE.contains(&name);
    if card || whole { Some(None) } else { beginning.map(Some) }
}

/// The name of a network's management port device.
pub fn management_port_device(id: NetworkId) -> String {
    format!("ovn-k8s-mp{id}")
}

impl fmt::Display for VrfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for VrfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for VrfName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<String> for VrfName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl From<VrfName> for String {
    fn from(name: VrfName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vrf(vrf: Option<&str>, cudn: Option<&str>, id: u32) -> Result<String> {
        let cudn = cudn.map(|name| ObjectName::new(name).unwrap());
        VrfName::of(vrf, cudn.as_ref(), NetworkId::new(id).unwrap()).map(String::from)
    }

    /// udn-ovn-cases A22, A23, udn-cases C035: generated names are udn-<id>-vrf here.
    #[test]
    fn a22_a23_c035_vrf_names() {
        let table = [
            (None, Some("blue"), 7, "blue"),
            (None, Some("averyveryverylongname"), 7, "udn-7-vrf"),
            (None, Some("sixteen-chars-xx"), 7, "udn-7-vrf"),
            (None, Some("fifteen-chars-x"), 7, "fifteen-chars-x"),
            (None, None, 9, "udn-9-vrf"),
            (None, Some("default"), 3, "udn-3-vrf"),
            (Some("db-network"), Some("blue"), 7, "db-network"),
            (None, None, 4095, "udn-4095-vrf"),
        ];
        for (field, cudn, id, name) in table {
            assert_eq!(vrf(field, cudn, id), Ok(name.to_owned()));
        }
    }

    /// udn-cases C038, B014.
    #[test]
    fn c038_b014_names_that_a_device_must_not_have() {
        let agents = ["vrf-1001", "br-1001", "lo-1001", "vxlan-1001", "vv-1001", "vo-1001", "vlan-1001"];
        let others = ["br-int", "vrf-blue", "veth-a", "ovn-k8s-mp3", "eth0", "lo", "all"];
        for name in agents.into_iter().chain(others) {
            assert!(matches!(vrf(Some(name), None, 7), Err(Error::ReservedVrf { .. })), "{name}");
            assert!(matches!(vrf(None, Some(name), 7), Err(Error::ReservedVrf { .. })), "{name}");
        }
        for name in ["", "sixteen-chars-xx", "a b", "a/b", "..", "-a", "a:b"] {
            assert!(matches!(vrf(Some(name), None, 7), Err(Error::Name { .. })), "{name}");
        }
        assert_eq!(
            vrf(None, Some("br-int"), 7).unwrap_err().to_string(),
            "VRF name \"br-int\" is reserved on nodes, as are all names that begin with \"br-\": write another name into the field vrf"
        );
        assert_eq!(
            vrf(None, Some("all"), 7).unwrap_err().to_string(),
            "VRF name \"all\" is reserved on nodes: write another name into the field vrf"
        );
        assert_eq!(vrf(None, Some("ethernet"), 7), Ok("ethernet".to_owned()));
    }

    #[test]
    fn the_management_port_fits_a_device_name() {
        assert_eq!(management_port_device(NetworkId::new(7).unwrap()), "ovn-k8s-mp7");
        assert!(management_port_device(NetworkId::LAST).len() <= LONGEST);
    }
}
