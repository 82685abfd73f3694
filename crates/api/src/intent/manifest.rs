//! Manifests as users write them, in YAML or JSON.

use serde::Deserialize;
use serde_json::Value;

use crate::Error;
use crate::crd::{
    CNI_GROUP, ClusterNetworkConnect, ClusterUserDefinedNetwork, GROUP, NetworkAttachmentDefinition,
    UserDefinedNetwork,
};

/// One of the objects that this crate knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Manifest {
    /// Read from `k8s.ovn.org/v1` or `v1alpha1`.
    UserDefinedNetwork(Box<UserDefinedNetwork>),
    /// Read from `k8s.ovn.org/v1` or `v1alpha1`.
    ClusterUserDefinedNetwork(Box<ClusterUserDefinedNetwork>),
    /// Read from `k8s.ovn.org/v1` alone.
    ClusterNetworkConnect(Box<ClusterNetworkConnect>),
    /// Read from `k8s.cni.cncf.io/v1` alone.
    NetworkAttachmentDefinition(Box<NetworkAttachmentDefinition>),
}

impl Manifest {
    /// Reads one document. `apiVersion` may be left out, as in published examples.
    ///
    /// # Errors
    /// [`Error::Manifest`] with what cannot be read.
    pub fn read(text: &str) -> Result<Self, Error> {
        let mut value: Value = serde_yaml::from_str(text).map_err(|e| Error::Manifest(e.to_string()))?;
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (group, versions): (&str, &[&str]) = match kind.as_str() {
            "UserDefinedNetwork" | "ClusterUserDefinedNetwork" => (GROUP, &["v1", "v1alpha1"]),
            "ClusterNetworkConnect" => (GROUP, &["v1"]),
            "NetworkAttachmentDefinition" => (CNI_GROUP, &["v1"]),
            _ => return Err(Error::Manifest(format!("kind {kind:?} is not one of ours"))),
        };
        let accepted: Vec<String> = versions.iter().map(|version| format!("{group}/{version}")).collect();
        match value.get("apiVersion").and_then(Value::as_str) {
            Some(written) if !accepted.iter().any(|version| version == written) => {
                return Err(Error::Manifest(format!(
                    "apiVersion {written:?} of {kind} is none of {accepted:?}"
                )));
            }
            Some(_) => {}
            None => value["apiVersion"] = accepted[0].as_str().into(),
        }
        match kind.as_str() {
            "UserDefinedNetwork" => decode(value).map(Self::UserDefinedNetwork),
            "ClusterUserDefinedNetwork" => decode(value).map(Self::ClusterUserDefinedNetwork),
            "ClusterNetworkConnect" => decode(value).map(Self::ClusterNetworkConnect),
            _ => decode(value).map(Self::NetworkAttachmentDefinition),
        }
    }

    /// Reads one document from bytes.
    ///
    /// # Errors
    /// [`Error::Manifest`] with what cannot be read.
    pub fn read_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let text = std::str::from_utf8(bytes).map_err(|e| Error::Manifest(e.to_string()))?;
        Self::read(text)
    }
}

fn decode<T: for<'de> Deserialize<'de>>(value: Value) -> Result<Box<T>, Error> {
    serde_json::from_value(value).map(Box::new).map_err(|e| Error::Manifest(e.to_string()))
}
