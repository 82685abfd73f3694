//! VTEPs: ranges of the nodes' ends of tunnels on the fabric.

use causeway_api::crd::{VTEP, VtepMode, VtepStatus};
use causeway_types::{Cidr, ObjectName};
use serde::{Deserialize, Serialize};

use crate::Watched;
use crate::meta::uid;

/// A VTEP.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Vtep {
    /// What it is called.
    pub name: ObjectName,
    /// Tells it from another one of the same name.
    pub uid: String,
    /// Counts the changes of its spec.
    pub generation: Option<i64>,
    /// Its ranges, or which of them is none.
    pub cidrs: Result<Vec<Cidr>, String>,
    /// Whether the cluster is to give nodes their addresses.
    pub managed: bool,
    /// The status that it has.
    pub status: VtepStatus,
}

impl Watched for Vtep {
    type Object = VTEP;
    type Key = ObjectName;
    const KIND: &'static str = "vteps";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ObjectName> {
        ObjectName::new(object.metadata.name.clone()?).ok()
    }

    fn trim(object: Self::Object, name: ObjectName) -> Self {
        let read = |text: &String| text.parse::<Cidr>().map_err(|error| error.to_string());
        Self {
            name,
            uid: uid(&object.metadata),
            generation: object.metadata.generation,
            cidrs: object.spec.cidrs.iter().map(read).collect(),
            managed: object.spec.mode != Some(VtepMode::Unmanaged),
            status: object.status.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    #[test]
    fn ranges_are_read_once() {
        let vtep = |spec: serde_json::Value| -> Vtep {
            trimmed(
                json!({"apiVersion": "k8s.ovn.org/v1", "kind": "VTEP", "metadata": {"name": "fabric"}, "spec": spec}),
            )
        };
        let plain = vtep(json!({"cidrs": ["10.255.0.0/16"], "mode": "Unmanaged"}));
        assert_eq!((plain.cidrs.clone(), plain.managed), (Ok(vec!["10.255.0.0/16".parse().unwrap()]), false));
        assert!(vtep(json!({"cidrs": ["10.255.0.0/16"]})).managed, "the cluster would give addresses");
        let broken = vtep(json!({"cidrs": ["10.255.0.1/16"], "mode": "Managed"}));
        assert!(broken.cidrs.is_err() && broken.managed);
        assert_eq!(replayed(&broken), broken);
    }
}
