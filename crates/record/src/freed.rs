//! The record of freed numbers, which the cluster manager keeps in a ConfigMap.

use causeway_alloc::Reuse;
use causeway_api::install::FREED_NUMBERS_KEY;
use k8s_openapi::api::core::v1 as core;
use serde::{Deserialize, Serialize};

use crate::meta::object_key;
use crate::{ObjectKey, Read, Watched};

/// The record of freed numbers.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FreedNumbers {
    /// What the ConfigMap is called.
    pub key: ObjectKey,
    /// The numbers; nothing if none was ever freed.
    pub numbers: Read<Reuse>,
}

impl Watched for FreedNumbers {
    type Object = core::ConfigMap;
    type Key = ObjectKey;
    const KIND: &'static str = "configmaps";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        object_key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let text = object.data.unwrap_or_default().remove(FREED_NUMBERS_KEY);
        let numbers = text.map(|text| serde_json::from_str(&text)).transpose();
        Self { key, numbers: numbers.map_err(|error| error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use causeway_alloc::Epoch;
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    #[test]
    fn what_is_recorded_is_read_or_said_to_be_unreadable() {
        let of = |data: serde_json::Value| -> FreedNumbers {
            trimmed(json!({"metadata": {"name": "freed", "namespace": "causeway"}, "data": data}))
        };
        assert_eq!(of(json!({})).numbers, Ok(None));
        let recorded = of(json!({"reuse": r#"{"epoch":3}"#}));
        assert_eq!(recorded.numbers, Ok(Some(Reuse { epoch: Epoch(3), ..Reuse::default() })));
        assert_eq!(replayed(&recorded), recorded);
        assert!(of(json!({"reuse": "{"})).numbers.is_err());
    }
}
