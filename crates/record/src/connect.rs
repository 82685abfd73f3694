//! ClusterNetworkConnects: what they mean, and what the cluster manager has written on them.

use causeway_api::annotations::{Annotation, ConnectBlocks, ConnectRouterKey, ConnectSlots, keys};
use causeway_api::crd::{ClusterNetworkConnect, ClusterNetworkConnectSpec, ClusterNetworkConnectStatus};
use causeway_api::intent::{self, Problem};
use causeway_types::{ConnectName, ConnectSubnet, ConnectTopology};
use serde::{Deserialize, Serialize};

use crate::meta::{created, only, uid};
use crate::read::{self, read};
use crate::{Read, Texts, Watched};

/// A ClusterNetworkConnect.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Connect {
    /// What it is called.
    pub name: ConnectName,
    /// Tells it from another one of the same name.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Counts the changes of its spec.
    pub generation: Option<i64>,
    /// Changes with every change of the object.
    pub version: Option<String>,
    /// Whether it is going.
    pub deleting: bool,
    /// Who wants to be asked before it goes.
    pub finalizers: Vec<String>,
    /// What the whole spec means, or everything that is wrong with it: for the cluster manager.
    pub meant: Result<intent::Connect, Vec<Problem>>,
    /// What zones read of the spec, or why that cannot be read. Faults of selectors are none here: what is selected stands in
    /// the annotations.
    pub spec: Result<ConnectSpec, String>,
    /// The status that it has.
    pub status: ClusterNetworkConnectStatus,
    /// The texts of the annotations that the cluster manager writes, for comparing.
    pub published: Texts,
    /// How it is laid out.
    #[serde(with = "read")]
    pub topology: Read<ConnectTopology>,
    /// Who has which block or parcel.
    #[serde(with = "read")]
    pub blocks: Read<ConnectBlocks>,
    /// The tunnel key of its router.
    #[serde(with = "read")]
    pub router_key: Read<ConnectRouterKey>,
    /// How many links of a block have keys.
    #[serde(with = "read")]
    pub slots: Read<ConnectSlots>,
}

/// What the cluster manager writes: what zones read, and the copy for other tools.
const PUBLISHED: [&str; 5] = [
    keys::NETWORK_SUBNETS,
    keys::NETWORK_CONNECT_SUBNET,
    keys::CONNECT_ROUTER_TUNNEL_KEY,
    keys::CONNECT_ROUTER_SLOTS,
    keys::CONNECT_TOPOLOGY,
];

/// What a zone reads of the spec of a ClusterNetworkConnect.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ConnectSpec {
    /// Where its links get addresses from.
    pub subnets: Vec<ConnectSubnet>,
    /// Whether pods reach pods.
    pub pods: bool,
    /// Whether pods reach services.
    pub services: bool,
    /// What the zone's report names once all this and the annotations are rendered.
    pub hash: String,
}

impl Connect {
    /// What is kept of an object.
    pub fn of(name: ConnectName, object: ClusterNetworkConnect) -> Self {
        let meta = object.metadata;
        let (uid, created) = (uid(&meta), created(&meta));
        let published = only(meta.annotations, &PUBLISHED);
        let meant = intent::Connect::of(&name, &object.spec);
        let mut connect = Self {
            uid,
            created,
            generation: meta.generation,
            version: meta.resource_version,
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.unwrap_or_default(),
            spec: zones_part(&name, &meant, object.spec, &published),
            meant,
            status: object.status.unwrap_or_default(),
            published: Texts::new(),
            topology: Ok(None),
            blocks: Ok(None),
            router_key: Ok(None),
            slots: Ok(None),
            name,
        };
        published.iter().for_each(|(key, text)| connect.annotate(key, Some(text)));
        connect
    }

    /// Takes an annotation in, or out. The hash of [`ConnectSpec`] stays that of the object as it was.
    pub fn annotate(&mut self, key: &str, text: Option<&str>) {
        if !PUBLISHED.contains(&key) {
            return;
        }
        match text {
            Some(text) => drop(self.published.insert(key.to_owned(), text.to_owned())),
            None => drop(self.published.remove(key)),
        }
        match key {
            ConnectTopology::KEY => self.topology = read(text),
            ConnectBlocks::KEY => self.blocks = read(text),
            ConnectRouterKey::KEY => self.router_key = read(text),
            ConnectSlots::KEY => self.slots = read(text),
            _ => {}
        }
    }
}

/// What zones read of a spec. It is read anew, without its selectors, only if it cannot be read as a whole.
fn zones_part(
    name: &ConnectName,
    meant: &Result<intent::Connect, Vec<Problem>>,
    spec: ClusterNetworkConnectSpec,
    published: &Texts,
) -> Result<ConnectSpec, String> {
    let meant = meant.clone().or_else(|_| {
        let unselective = ClusterNetworkConnectSpec { network_selectors: Vec::new(), ..spec };
        intent::Connect::of(name, &unselective)
    });
    let meant =
        meant.map_err(|problems| format!("the spec is not valid: {}", intent::sentences(&problems)))?;
    Ok(ConnectSpec {
        hash: meant.report_hash(published),
        subnets: meant.subnets,
        pods: meant.pods,
        services: meant.services,
    })
}

impl Watched for Connect {
    type Object = ClusterNetworkConnect;
    type Key = ConnectName;
    const KIND: &'static str = "clusternetworkconnects";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ConnectName> {
        ConnectName::new(object.metadata.name.clone()?).ok()
    }

    fn trim(object: Self::Object, name: ConnectName) -> Self {
        Self::of(name, object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    fn connect(kind: &str, cidr: &str) -> Connect {
        trimmed(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": "road", "creationTimestamp": "1970-01-01T00:00:07Z", "annotations": {
                "k8s.ovn.org/network-subnets": r#"{"layer3_1":{"ipv4":"192.168.0.0/24"}}"#,
                "k8s.ovn.org/connect-router-slots": "many", "k8s.ovn.org/connect-topology": "transit", "a": "b"}},
            "spec": {
                "networkSelectors": [{"networkSelectionType": kind, "clusterUserDefinedNetworkSelector":
                    {"networkSelector": {"matchLabels": {"team": "a"}}}}],
                "connectivity": ["PodNetwork"], "connectSubnets": [{"cidr": cidr, "networkPrefix": 24}]},
        }))
    }

    #[test]
    fn a_connection_is_read_once_for_both_roles() {
        let whole = connect("ClusterUserDefinedNetworks", "192.168.0.0/16");
        assert_eq!((whole.created, whole.published.len(), whole.meant.is_ok()), (7, 3, true));
        assert_eq!(
            (whole.topology.clone(), whole.slots.is_err()),
            (Ok(Some(ConnectTopology::Transit)), true)
        );
        assert_eq!(replayed(&whole), whole);
        // A selector that is no selector is the cluster manager's to complain of; zones read on.
        let odd = connect("DefaultNetwork", "192.168.0.0/16");
        assert_eq!((odd.meant.is_err(), &odd.spec), (true, &whole.spec));
        assert_eq!(replayed(&odd), odd);
        let broken = connect("ClusterUserDefinedNetworks", "192.168.0.1/16");
        assert!(broken.spec.unwrap_err().contains("192.168.0.1/16"));
    }
}
