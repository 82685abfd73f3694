//! What ADD answers, in the version that was asked for.

use crate::version::CniVersion;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The interfaces that a pod got.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct AddResult {
    /// Both ends of each cable.
    pub interfaces: Vec<Interface>,
    /// The pod's addresses.
    pub ips: Vec<IpConfig>,
    /// The pod's routes.
    pub routes: Vec<Route>,
}

/// An end of a cable.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Interface {
    /// In the pod `eth0`, say; on the host the beginning of the sandbox's id.
    pub name: String,
    /// Its MAC address.
    pub mac: String,
    /// Its MTU.
    pub mtu: u32,
    /// The path of the pod's network namespace; empty on the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
}

/// An address of an interface.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct IpConfig {
    /// The address with the prefix length of its subnet.
    pub address: String,
    /// The gateway of its family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Where its interface stands among the interfaces.
    pub interface: usize,
}

/// A route in the pod.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Route {
    /// Where to.
    pub dst: String,
    /// Through whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
}

impl AddResult {
    /// The JSON text in a version of CNI.
    pub fn text(&self, version: CniVersion) -> String {
        let ip = |ip: &IpConfig| {
            let mut value = json!(ip);
            if !version.at_least("1.0.0") {
                let family = if ip.address.contains(':') { "6" } else { "4" };
                value["version"] = family.into();
            }
            value
        };
        let interface = |interface: &Interface| {
            let mut value = json!(interface);
            if !version.at_least("1.1.0")
                && let Some(fields) = value.as_object_mut()
            {
                fields.remove("mtu");
            }
            value
        };
        json!({
            "cniVersion": version.as_str(),
            "interfaces": self.interfaces.iter().map(interface).collect::<Vec<Value>>(),
            "ips": self.ips.iter().map(ip).collect::<Vec<Value>>(),
            "routes": self.routes,
            "dns": {},
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> AddResult {
        let end = |name: &str, sandbox: &str| Interface {
            name: name.into(),
            mac: "0a:58:0a:f4:00:05".into(),
            mtu: 1400,
            sandbox: sandbox.into(),
        };
        AddResult {
            interfaces: vec![end("abcdef012345678", ""), end("eth0", "/run/netns/x")],
            ips: vec![IpConfig {
                address: "10.244.0.5/24".into(),
                gateway: Some("10.244.0.1".parse().unwrap()),
                interface: 1,
            }],
            routes: vec![Route { dst: "0.0.0.0/0".into(), gw: Some("10.244.0.1".parse().unwrap()) }],
        }
    }

    #[test]
    fn the_newest_version_has_the_mtu() {
        let got: Value = serde_json::from_str(&result().text(CniVersion::new("1.1.0").unwrap())).unwrap();
        let want = json!({
            "cniVersion": "1.1.0",
            "interfaces": [
                {"name": "abcdef012345678", "mac": "0a:58:0a:f4:00:05", "mtu": 1400},
                {"name": "eth0", "mac": "0a:58:0a:f4:00:05", "mtu": 1400, "sandbox": "/run/netns/x"},
            ],
            "ips": [{"address": "10.244.0.5/24", "gateway": "10.244.0.1", "interface": 1}],
            "routes": [{"dst": "0.0.0.0/0", "gw": "10.244.0.1"}],
            "dns": {},
        });
        assert_eq!(got, want);
    }

    #[test]
    fn old_versions_tell_the_family_of_an_address() {
        for version in ["0.3.1", "0.4.0"] {
            let got: Value = serde_json::from_str(&result().text(CniVersion::new(version).unwrap())).unwrap();
            assert_eq!(got["cniVersion"], version);
            assert_eq!(got["ips"][0]["version"], "4");
            assert_eq!(got["interfaces"][1].get("mtu"), None);
        }
        let got: Value = serde_json::from_str(&result().text(CniVersion::new("1.0.0").unwrap())).unwrap();
        assert_eq!((got["ips"][0].get("version"), got["interfaces"][1].get("mtu")), (None, None));
    }
}
