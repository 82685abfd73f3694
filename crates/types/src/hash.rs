//! Names that are hashes: of port groups and address sets, since OVN takes no free text there, and of sets of networks.

use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

use crate::Error;

/// `a` and the decimal FNV-1a-64 of an object's identity text.
pub fn hashed_name(identity: &str) -> String {
    format!("a{}", hash(identity))
}

fn hash(text: &str) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// Stands for the selector that primary networks of the same namespaces have in common. It is the same for all of them, whichever comes
/// or goes. It names, and decides nothing.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct NetworkSet(u64);

impl NetworkSet {
    /// The set of networks with a selector, of which this is the one text.
    pub fn of(selector: &str) -> Self {
        Self(hash(selector))
    }
}

impl fmt::Display for NetworkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for NetworkSet {
    type Err = Error;

    /// Only as it is written: equal values have equal texts.
    fn from_str(text: &str) -> Result<Self, Error> {
        let set = u64::from_str_radix(text, 16).map(Self).ok();
        set.filter(|set| set.to_string() == text).ok_or_else(|| Error::NetworkSet(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_they_are_written() {
        let set = NetworkSet::of("{\"team\" in {\"x\"}}");
        assert_eq!(set.to_string().parse(), Ok(set));
        assert_ne!(set, NetworkSet::of("{\"team\" in {\"y\"}}"));
        assert_eq!("00000000000000ff".parse(), Ok(NetworkSet(255)));
        for text in ["", "ff", "00000000000000FF", "+0000000000000ff", "00000000000000ff0", "x"] {
            assert_eq!(text.parse::<NetworkSet>(), Err(Error::NetworkSet(text.to_owned())));
        }
    }

    /// udn-ovn-cases A19, A20, J02 and the vectors printed in the layer2 specification.
    #[test]
    fn a19_a20_j02_hashed_names() {
        let table = [
            ("udn-enabled-svc:UDNEnabledService:udn-enabled-svc-cluster-ips:v4", "a3613486944346402462"),
            ("udn-enabled-svc:UDNEnabledService:udn-enabled-svc-cluster-ips:v6", "a3613484745323146040"),
            ("default-network-controller:UDNIsolation:SecondaryPods", "a8747502060113802905"),
            ("cluster_udn_blue-network-controller:Cluster:clusterPortGroup", "a11995131262919241784"),
            ("cluster_udn_blue-network-controller:NetpolNamespace:ns1:Ingress", "a5012631053833599744"),
            ("cluster_udn_blue-network-controller:NetworkPolicy:ns1:allow-web", "a3585760500498221456"),
            (
                "cluster_udn_blue-network-controller:PodSelector:ns1_LS{ML:{app: web,},}:v4",
                "a5633788312442309836",
            ),
        ];
        for (identity, name) in table {
            assert_eq!(hashed_name(identity), name, "{identity}");
        }
    }
}
