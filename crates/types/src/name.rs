//! Names of networks, nodes, zones and Kubernetes objects. A name that exists here is one that
//! Kubernetes or CNI would accept; what OVN objects are called is in `object`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, NetworkId, NetworkSet, Result};

const SUBDOMAIN: &str = "it must be 1 to 253 lower-case letters, digits, '-' or '.', with a letter or digit at each end of a part";
const LABEL: &str =
    "it must be 1 to 63 lower-case letters, digits or '-', with a letter or digit at each end";
const NETWORK: &str =
    "it must be 1 to 317 letters, digits, '_', '.', '-' or '/', beginning with a letter or digit";
const NAD_KEY: &str = "it must be namespace/name, or namespace/name/number for a further attachment";
const CLUSTER_PREFIX: &str = "cluster_udn_";

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $check:expr, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Checks that the text is such a name.
            pub fn new(text: impl Into<String>) -> Result<Self> {
                let value = text.into();
                if $check(&value) {
                    Ok(Self(value))
                } else {
                    Err(Error::Name { kind: $kind, value, rule: $rule })
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = Error;

            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// The name of a namespace: a DNS label.
    NamespaceName, "namespace", is_label, LABEL
);
name!(
    /// The name of a UDN, CUDN, NAD, pod or service: a DNS subdomain.
    ObjectName, "object", is_subdomain, SUBDOMAIN
);
name!(
    /// The name of a node: a DNS subdomain.
    NodeName, "node", is_subdomain, SUBDOMAIN
);
name!(
    /// The name of a zone. A zone is one node and is called like it.
    ZoneName, "zone", is_subdomain, SUBDOMAIN
);
name!(
    /// The name of a connection: of a `ClusterNetworkConnect`, or of the primary networks of a namespace, which no object is called like.
    ConnectName, "ClusterNetworkConnect", is_connect, SUBDOMAIN
);
name!(
    /// The name of a network, as a NAD's CNI configuration carries it.
    NetworkName, "network", is_network, NETWORK
);
name!(
    /// How a pod's annotation names one attachment: `namespace/nad`, or `namespace/nad/1` and up
    /// when a pod attaches to the same NAD again.
    NadKey, "attachment", is_nad_key, NAD_KEY
);

impl ConnectName {
    /// The connection between the UserDefinedNetworks of a namespace.
    pub fn of_siblings_in(namespace: &NamespaceName) -> Self {
        Self(format!("_udn.{namespace}"))
    }

    /// The connection between ClusterUserDefinedNetworks that serve the same namespaces, whichever of them are there.
    pub fn of_set(set: NetworkSet) -> Self {
        Self(format!("_cudn.{set}"))
    }

    /// The same, where another connection has that name: the first of the networks has this number.
    pub fn of_siblings(first: NetworkId) -> Self {
        Self(format!("_cudn.{first}"))
    }

    /// Whether it connects the primary networks of a namespace; there is no object of that name.
    pub fn is_of_siblings(&self) -> bool {
        self.0.starts_with('_')
    }
}

/// Who made a network, as far as its name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkOrigin {
    /// The cluster default network.
    Default,
    /// The `ClusterUserDefinedNetwork` of this name.
    Cluster(ObjectName),
    /// A `UserDefinedNetwork`.
    Namespaced(NamespaceName, ObjectName),
    /// A hand-written NAD.
    Bare,
}

impl NetworkName {
    /// The name of the cluster default network.
    pub fn default_network() -> Self {
        Self("default".to_owned())
    }

    /// The network of a `ClusterUserDefinedNetwork`.
    pub fn of_cluster_udn(name: &ObjectName) -> Self {
        Self(format!("{CLUSTER_PREFIX}{name}"))
    }

    /// The network of a `UserDefinedNetwork`.
    pub fn of_udn(namespace: &NamespaceName, name: &ObjectName) -> Self {
        Self(format!("{namespace}_{name}"))
    }

    /// Whether this is the cluster default network.
    pub fn is_default(&self) -> bool {
        self.0 == "default"
    }

    /// Who made the network. Kubernetes names hold no `_`, so the answer is unambiguous.
    pub fn origin(&self) -> NetworkOrigin {
        if self.is_default() {
            return NetworkOrigin::Default;
        }
        if let Some(name) = self.0.strip_prefix(CLUSTER_PREFIX) {
            return ObjectName::new(name).map_or(NetworkOrigin::Bare, NetworkOrigin::Cluster);
        }
        let Some((namespace, name)) = self.0.split_once('_') else {
            return NetworkOrigin::Bare;
        };
        match (NamespaceName::new(namespace), ObjectName::new(name)) {
            (Ok(namespace), Ok(name)) => NetworkOrigin::Namespaced(namespace, name),
            _ => NetworkOrigin::Bare,
        }
    }
}

impl NadKey {
    /// The key of a pod's attachment; `repeat` counts earlier attachments of the pod to the same NAD.
    pub fn of(namespace: &NamespaceName, nad: &ObjectName, repeat: u32) -> Self {
        match repeat {
            0 => Self(format!("{namespace}/{nad}")),
            _ => Self(format!("{namespace}/{nad}/{repeat}")),
        }
    }

    /// The NAD's namespace.
    pub fn namespace(&self) -> &str {
        self.parts().0
    }

    /// The NAD's name.
    pub fn nad(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        let (namespace, rest) = self.0.split_once('/').unwrap_or((&self.0, ""));
        (namespace, rest.split_once('/').map_or(rest, |(nad, _)| nad))
    }
}

impl From<NodeName> for ZoneName {
    fn from(node: NodeName) -> Self {
        Self(node.0)
    }
}

impl From<ZoneName> for NodeName {
    fn from(zone: ZoneName) -> Self {
        Self(zone.0)
    }
}

fn is_dns_part(bytes: &[u8]) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text.as_bytes())
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| is_dns_part(part.as_bytes()))
}

fn is_connect(text: &str) -> bool {
    is_subdomain(text.strip_prefix('_').unwrap_or(text))
}

/// 317 = 63 (namespace) + 1 + 253 (name). '/' comes with NADs that are named after their key.
fn is_network(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/');
    text.len() <= 317
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && text.bytes().all(allowed)
}

fn is_nad_key(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let repeat = |text: &str| crate::id::decimal("attachment", text).is_ok_and(|number| number > 0);
    match parts[..] {
        [namespace, nad] => is_label(namespace) && is_subdomain(nad),
        [namespace, nad, number] => is_label(namespace) && is_subdomain(nad) && repeat(number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> ObjectName {
        ObjectName::new(text).unwrap()
    }

    /// No ClusterNetworkConnect can be called like a connection of siblings, and that is read back from paths.
    #[test]
    fn names_of_siblings() {
        let udns = ConnectName::of_siblings_in(&NamespaceName::new("blue").unwrap());
        let cudns = ConnectName::of_set(NetworkSet::of(""));
        let others = ConnectName::of_siblings(NetworkId::FIRST);
        for (name, text) in [(udns, "_udn.blue"), (cudns, "_cudn.cbf29ce484222325"), (others, "_cudn.1")] {
            assert_eq!(ConnectName::new(text), Ok(name.clone()));
            assert!(name.is_of_siblings() && ObjectName::new(text).is_err());
        }
        assert!(!ConnectName::new("udn.blue").unwrap().is_of_siblings());
        assert!(ConnectName::new("__a").is_err() && ConnectName::new("_").is_err());
    }

    fn namespace(text: &str) -> NamespaceName {
        NamespaceName::new(text).unwrap()
    }

    #[test]
    fn names_that_kubernetes_would_refuse_cannot_be_built() {
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a b", "a/b", &"a".repeat(254)] {
            assert!(ObjectName::new(bad).is_err(), "{bad:?}");
            assert!(NodeName::new(bad).is_err(), "{bad:?}");
        }
        assert!(NamespaceName::new("a.b").is_err());
        assert!(NamespaceName::new("a".repeat(64)).is_err());
        assert!(NodeName::new("ip-10-0-0-1.eu-west-1.compute.internal").is_ok());
        for bad in ["", "_x", "a b", "a\nb", "a:b", "\"", &"a".repeat(318)] {
            assert!(NetworkName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_error_names_the_object_and_the_rule() {
        assert_eq!(
            NamespaceName::new("Team").unwrap_err().to_string(),
            "namespace name \"Team\" is not valid: it must be 1 to 63 lower-case letters, digits or '-', \
             with a letter or digit at each end"
        );
    }

    /// udn-cases C034.
    #[test]
    fn c034_the_origin_of_a_network_is_read_from_its_name() {
        let table = [
            ("cluster_udn_foo", NetworkOrigin::Cluster(object("foo"))),
            ("a_b", NetworkOrigin::Namespaced(namespace("a"), object("b"))),
            ("a_b_c", NetworkOrigin::Bare),
            ("plain", NetworkOrigin::Bare),
            ("cluster_udn", NetworkOrigin::Namespaced(namespace("cluster"), object("udn"))),
            ("cluster_udn_a_b", NetworkOrigin::Bare),
            ("default", NetworkOrigin::Default),
        ];
        for (name, origin) in table {
            assert_eq!(NetworkName::new(name).unwrap().origin(), origin, "{name}");
        }
    }

    /// udn-cases C032: the separator cannot be forged from inside either name.
    #[test]
    fn c032_two_udns_never_share_a_network_name() {
        let first = NetworkName::of_udn(&namespace("t"), &object("tenant-blue"));
        let second = NetworkName::of_udn(&namespace("t-tenant"), &object("blue"));
        assert_eq!((first.as_str(), second.as_str()), ("t_tenant-blue", "t-tenant_blue"));
    }

    /// udn-ovn-cases A05, udn-cases H029.
    #[test]
    fn a05_h029_a_repeated_attachment_has_a_numbered_key() {
        let (ns, nad) = (namespace("ns1"), object("sec"));
        assert_eq!(NadKey::of(&ns, &nad, 0).as_str(), "ns1/sec");
        assert_eq!(NadKey::of(&ns, &nad, 1), NadKey::new("ns1/sec/1").unwrap());
        let key = NadKey::new("ns1/sec/12").unwrap();
        assert_eq!((key.namespace(), key.nad()), ("ns1", "sec"));
        for bad in ["ns1", "ns1/", "/sec", "ns1/sec/0", "ns1/sec/x", "ns1/sec/1/2"] {
            assert!(NadKey::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_travel_as_checked_text() {
        assert_eq!(serde_json::to_string(&object("blue")).unwrap(), "\"blue\"");
        assert!(serde_json::from_str::<NodeName>("\"Bad Name\"").is_err());
    }
}
