//! Network attachment definitions: which network each is of, and the numbers that it carries.

use causeway_api::annotations::{Annotation, NetworkCreated, TunnelKeys, keys};
use causeway_api::crd::NetworkAttachmentDefinition;
use causeway_api::nad::{self, Attachment};
use causeway_types::{NetworkId, NetworkName, NetworkSet};
use serde::{Deserialize, Serialize};

use crate::meta::{created, object_key, uid};
use crate::read::read;
use crate::{ObjectKey, Read, Texts, Watched};

/// A network attachment definition.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "Plain")]
pub struct Nad {
    /// What it is called.
    pub key: ObjectKey,
    /// Tells it from another one of the same name.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Whether it is going.
    pub deleting: bool,
    /// All of them: the cluster manager adds those that the network's object has.
    pub labels: Texts,
    /// All its annotations: those of a network are copied from the network's object.
    pub annotations: Texts,
    /// Who wants to be asked before it goes.
    pub finalizers: Vec<String>,
    /// Who controls it, if anybody.
    pub controller: Option<Controller>,
    config: String,
    /// What its configuration means.
    #[serde(skip_serializing)]
    pub attachment: Attachment,
    /// The name of the network that the cluster manager has given it.
    #[serde(skip_serializing)]
    pub network: Option<NetworkName>,
    /// The number of its network.
    #[serde(skip_serializing)]
    pub id: Read<NetworkId>,
    /// Which networks serve the same namespaces.
    #[serde(skip_serializing)]
    pub set: Read<NetworkSet>,
    /// When the object of its network was created, in seconds since 1970.
    #[serde(skip_serializing)]
    pub network_created: Option<i64>,
    /// The tunnel keys of its network.
    #[serde(skip_serializing)]
    pub tunnel_keys: Read<TunnelKeys>,
}

/// The controlling owner of an object.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Controller {
    /// `UserDefinedNetwork`, say.
    pub kind: String,
    /// What it is called, in the same namespace or in none.
    pub name: String,
    /// Tells it from another one of the same name.
    pub uid: String,
}

/// A definition as it is written down: the rest follows from the texts.
#[derive(Deserialize)]
struct Plain {
    key: ObjectKey,
    uid: String,
    created: i64,
    deleting: bool,
    labels: Texts,
    annotations: Texts,
    finalizers: Vec<String>,
    controller: Option<Controller>,
    config: String,
}

impl From<Plain> for Nad {
    fn from(plain: Plain) -> Self {
        let mut nad = Self {
            uid: plain.uid,
            created: plain.created,
            deleting: plain.deleting,
            labels: plain.labels,
            finalizers: plain.finalizers,
            controller: plain.controller,
            ..Self::new(plain.key)
        };
        plain.annotations.iter().for_each(|(key, text)| nad.annotate(key, Some(text)));
        nad.configure(plain.config);
        nad
    }
}

impl Nad {
    /// A definition that says nothing.
    pub fn new(key: ObjectKey) -> Self {
        Self {
            key,
            uid: String::new(),
            created: 0,
            deleting: false,
            labels: Texts::new(),
            annotations: Texts::new(),
            finalizers: Vec::new(),
            controller: None,
            config: String::new(),
            attachment: Attachment::Foreign,
            network: None,
            id: Ok(None),
            set: Ok(None),
            network_created: None,
            tunnel_keys: Ok(None),
        }
    }

    /// Takes an annotation in, or out.
    pub fn annotate(&mut self, key: &str, text: Option<&str>) {
        match text {
            Some(text) => drop(self.annotations.insert(key.to_owned(), text.to_owned())),
            None => drop(self.annotations.remove(key)),
        }
        match key {
            keys::NETWORK_NAME => self.network = text.and_then(|name| NetworkName::new(name).ok()),
            NetworkId::KEY => self.id = read(text),
            NetworkSet::KEY => self.set = read(text),
            NetworkCreated::KEY => {
                self.network_created =
                    text.and_then(|text| NetworkCreated::parse(text).ok()).map(|created| created.0);
            }
            TunnelKeys::KEY => self.tunnel_keys = read(text),
            _ => {}
        }
    }

    /// `spec.config`, as it is written; of other plugins' definitions nothing, for it is none of our business and may hold what
    /// nobody else should see.
    pub fn config(&self) -> &str {
        &self.config
    }

    /// Takes a configuration in.
    pub fn configure(&mut self, config: impl Into<String>) {
        self.config = config.into();
        self.attachment = nad::read(&self.key.to_string(), Some(&self.config));
        if self.attachment == Attachment::Foreign {
            self.config = String::new();
        }
    }

    /// Whether it is of our plugin and cannot be read, but wants to be a primary network.
    pub fn wants_primary(&self) -> bool {
        matches!(self.attachment, Attachment::Malformed(_)) && nad::claims_primary(&self.config)
    }

    /// Whether it says which network's it is, readably or not: only the cluster manager may write that.
    pub fn is_named(&self) -> bool {
        self.annotations.contains_key(keys::NETWORK_NAME)
    }

    /// Whether it carries a number, readable or not.
    pub fn is_numbered(&self) -> bool {
        self.annotations.contains_key(keys::NETWORK_ID)
    }
}

impl Watched for Nad {
    type Object = NetworkAttachmentDefinition;
    type Key = ObjectKey;
    const KIND: &'static str = "network-attachment-definitions";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        object_key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let meta = object.metadata;
        let mut owners = meta.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true)).map(|owner| Controller {
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        });
        Self::from(Plain {
            key,
            uid: uid(&meta),
            created: created(&meta),
            deleting: meta.deletion_timestamp.is_some(),
            controller,
            labels: meta.labels.unwrap_or_default(),
            annotations: meta.annotations.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            config: object.spec.config.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    #[test]
    fn a_nad_names_only_its_controller_and_tells_nothing_of_others() {
        let nad: Nad = trimmed(json!({
            "metadata": {"name": "db", "namespace": "demo", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "1"},
                {"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "db", "uid": "2", "controller": true},
            ]},
            "spec": {"config": r#"{"type":"theirs","password":"secret"}"#},
        }));
        let controller = Controller { kind: "UserDefinedNetwork".into(), name: "db".into(), uid: "2".into() };
        assert_eq!((nad.controller, nad.config.as_str()), (Some(controller), ""));
    }

    #[test]
    fn a_nad_is_read_once_and_again_from_a_recording() {
        let config = json!({"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": "demo_db", "role": "primary",
                            "topology": "layer2", "subnets": "10.0.0.0/16", "netAttachDefName": "demo/db"});
        let nad: Nad = trimmed(json!({
            "metadata": {"name": "db", "namespace": "demo", "annotations": {
                "k8s.ovn.org/network-name": "demo_db", "k8s.ovn.org/network-id": "7", "k8s.ovn.org/tunnel-keys": "[1]"}},
            "spec": {"config": config.to_string()},
        }));
        assert!(
            matches!(&nad.attachment, Attachment::Ours(network) if network.name.as_str() == "demo_db"),
            "{nad:?}"
        );
        assert_eq!((&nad.id, nad.tunnel_keys.is_err()), (&Ok(NetworkId::new(7).ok()), true));
        assert_eq!(replayed(&nad), nad);
    }
}
