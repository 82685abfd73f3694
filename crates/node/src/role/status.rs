//! The network status of a pod: which interfaces it has, with which addresses. It is written once, when they are there.

use causeway_api::annotations::{
    Annotation as _, Attachment, Dns, InterfaceStatus, NetworkStatus, PodRole, keys,
};
use causeway_plan::wiring::{Attached, Verdict, Wiring};
use causeway_record::{Action, Kind, ObjectKey, Part, Priority, Request, Target};
use serde_json::json;

use super::wiring::DEFAULT_NETWORK;
use crate::cni::PRIMARY_INTERFACE;

/// What the kubelet calls a pod's first interface.
const FIRST_INTERFACE: &str = "eth0";

/// The write that says what a pod has; none if it has been said, or if the pod is not connected after all.
pub(super) fn request(key: &ObjectKey, wiring: &Wiring) -> Option<Request> {
    let Verdict::Connect(attached) = &wiring.verdict else { return None };
    if wiring.pod.has_status {
        return None;
    }
    let annotations = json!({keys::NETWORK_STATUS: status(attached).text()});
    let body = json!({"metadata": {"uid": wiring.pod.uid, "annotations": annotations}});
    Some(Request {
        target: Target {
            kind: Kind::Pod,
            namespace: Some(key.namespace.to_string()),
            name: key.name.clone(),
        },
        part: Part::Annotations,
        priority: Priority::Status,
        action: Action::Merge { subresource: Some("status"), body },
        token: 0,
    })
}

fn status(attached: &[Attached]) -> NetworkStatus {
    let locked = |one: &Attached| one.address.role == Some(PodRole::InfrastructureLocked);
    let names = [FIRST_INTERFACE, PRIMARY_INTERFACE];
    let interface = |(one, name): (&Attached, &str)| InterfaceStatus {
        name: match &one.attachment {
            Attachment::Default => DEFAULT_NETWORK.to_owned(),
            Attachment::Nad(nad) => nad.to_string(),
        },
        interface: name.to_owned(),
        ips: one.address.ip_addresses.iter().map(|ip| ip.addr()).collect(),
        mac: one.address.mac_address,
        default: !locked(one),
        dns: Dns::default(),
    };
    NetworkStatus(attached.iter().zip(names).map(interface).collect())
}
