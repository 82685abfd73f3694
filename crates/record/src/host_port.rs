//! Ports of a node that a pod asks for (`hostPort`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Protocol;
use crate::service::{port, protocol};

/// More of them one pod does not get: each is a few rows and flows of its node.
const MOST: usize = 256;

/// A port of its node that leads to a pod.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct HostPort {
    /// The node's address; none is all of them, as is an address without a value (`0.0.0.0`, `::`) for its family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// What is spoken there.
    pub protocol: Protocol,
    /// The node's port.
    pub port: u16,
    /// The pod's.
    pub target: u16,
}

/// The ports of its node that a pod asks for, or a sentence about what cannot be read.
pub type HostPorts = Result<Vec<HostPort>, String>;

pub(crate) fn none() -> HostPorts {
    Ok(Vec::new())
}

pub(crate) fn is_none(ports: &HostPorts) -> bool {
    ports.as_ref().is_ok_and(Vec::is_empty)
}

/// What is read of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) ports: Vec<ContainerPort>,
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    pub(crate) name: Option<String>,
    pub(crate) container_port: i32,
    host_port: i32,
    #[serde(rename = "hostIP")]
    host_ip: String,
    pub(crate) protocol: Option<String>,
}

impl Container {
    /// Whether a container that starts before the others stays, and has ports of its own.
    pub(crate) fn stays(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// The ports of its node that a pod asks for by its containers, each once.
pub(crate) fn read<'a>(containers: impl Iterator<Item = &'a Container>) -> HostPorts {
    let asked = containers.flat_map(|container| &container.ports).filter(|port| port.host_port != 0);
    let mut all = BTreeSet::new();
    for one in asked {
        all.insert(one.read()?);
        if all.len() > MOST {
            return Err(format!("the pod asks for more than {MOST} host ports, and gets none"));
        }
    }
    Ok(all.into_iter().collect())
}

impl ContainerPort {
    fn read(&self) -> Result<HostPort, String> {
        let bad = |what: &str| format!("host port {}: {what}", self.host_port);
        let text = self.host_ip.as_str();
        let address = (!text.is_empty()).then(|| text.parse::<IpAddr>()).transpose();
        Ok(HostPort {
            address: address.map_err(|_| bad(&format!("hostIP {text:?} is no address")))?,
            protocol: protocol(self.protocol.as_deref()).ok_or_else(|| bad("of an unknown protocol"))?,
            port: port(self.host_port).ok_or_else(|| bad("is no port"))?,
            target: port(self.container_port).ok_or_else(|| bad("leads to no port"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(containers: &serde_json::Value) -> HostPorts {
        let containers: Vec<Container> = serde_json::from_value(containers.clone()).unwrap();
        read(containers.iter())
    }

    #[test]
    fn host_ports_are_read() {
        let read = of(&json!([
            {"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80, "hostPort": 8080}]},
            {"name": "b", "ports": [
                {"containerPort": 53, "hostPort": 53, "hostIP": "::", "protocol": "UDP"},
                {"containerPort": 80, "hostPort": 8080},
            ]},
        ]));
        let any = HostPort { address: None, protocol: Protocol::Tcp, port: 8080, target: 80 };
        let six =
            HostPort { address: Some("::".parse().unwrap()), protocol: Protocol::Udp, port: 53, target: 53 };
        assert_eq!(read, Ok(vec![any, six]));
        assert_eq!(of(&json!([{"ports": [{"containerPort": 80}]}])), none());
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let one = |port: serde_json::Value| of(&json!([{"ports": [port]}]));
        let bad = one(json!({"containerPort": 80, "hostPort": 8080, "hostIP": "no"}));
        assert_eq!(bad, Err("host port 8080: hostIP \"no\" is no address".to_owned()));
        assert!(one(json!({"containerPort": 80, "hostPort": 70000})).is_err());
        let many: Vec<_> = (1..=257).map(|port| json!({"containerPort": 80, "hostPort": port})).collect();
        assert!(of(&json!([{"ports": many}])).unwrap_err().contains("more than 256"));
    }
}
