//! The network configuration that the runtime sends on standard input.

use crate::error::{ErrorCode, ErrorObject};
use crate::version::{CniVersion, SUPPORTED_VERSIONS};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is read of the configuration; the rest is for others.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfig {
    /// The version in which the runtime asks and wants its answer.
    pub cni_version: CniVersion,
    /// The name of the configuration.
    #[serde(default)]
    pub name: String,
    /// The name of the program.
    #[serde(default, rename = "type")]
    pub program: String,
    /// The NAD that is asked for, `namespace/name`; empty for the interfaces that every pod has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub net_attach_def_name: String,
    /// Where the server listens, if elsewhere than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// GC: what is still in use.
    #[serde(default, rename = "cni.dev/valid-attachments", skip_serializing_if = "Option::is_none")]
    pub valid_attachments: Option<Vec<Attachment>>,
}

/// An interface of a container.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Attachment {
    /// The container, which is the pod's sandbox.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// The name of the interface in it.
    pub ifname: String,
}

impl NetworkConfig {
    /// Reads the JSON text.
    ///
    /// # Errors
    /// With the code that CNI has for it: not JSON, a version that is not spoken, a field of the wrong kind.
    pub fn parse(text: &[u8]) -> Result<NetworkConfig, ErrorObject> {
        let value: Value = serde_json::from_slice(text).map_err(|e| {
            ErrorObject::new(ErrorCode::Decoding, format!("the network configuration is not JSON: {e}"))
        })?;
        // A configuration without a version is one from before there were several.
        let version = value.get("cniVersion").and_then(Value::as_str).unwrap_or("0.1.0");
        if CniVersion::new(version).is_none() {
            let supported = SUPPORTED_VERSIONS.join(", ");
            let msg = format!("the network configuration asks for CNI {version}, which is not spoken here");
            return Err(ErrorObject::new(ErrorCode::IncompatibleVersion, msg)
                .advise(format!("set cniVersion to one of {supported}")));
        }
        serde_json::from_value(value).map_err(|e| {
            ErrorObject::new(ErrorCode::InvalidConfig, format!("the network configuration: {e}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_knows_and_leaves_the_rest() {
        let text = br#"{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","ipam":{},"dns":{},
            "socket":"/tmp/s","cni.dev/valid-attachments":[{"containerID":"abc","ifname":"eth0"}]}"#;
        let want = NetworkConfig {
            cni_version: CniVersion::new("1.1.0").unwrap(),
            name: "ovn-kubernetes".into(),
            program: "ovn-k8s-cni-overlay".into(),
            net_attach_def_name: String::new(),
            socket: Some("/tmp/s".into()),
            valid_attachments: Some(vec![Attachment { container_id: "abc".into(), ifname: "eth0".into() }]),
        };
        assert_eq!(NetworkConfig::parse(text), Ok(want));
    }

    #[test]
    fn says_what_is_wrong_by_code() {
        let table = [
            ("nonsense", ErrorCode::Decoding),
            ("{}", ErrorCode::IncompatibleVersion),
            (r#"{"cniVersion":"9.0.0"}"#, ErrorCode::IncompatibleVersion),
            (r#"{"cniVersion":"1.0.0","socket":7}"#, ErrorCode::InvalidConfig),
        ];
        for (text, code) in table {
            assert_eq!(NetworkConfig::parse(text.as_bytes()).unwrap_err().code, code, "{text}");
        }
    }
}
