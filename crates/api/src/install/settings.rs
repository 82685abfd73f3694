//! Settings: what an installation switches on that is off where nobody says anything.

use serde_json::{Value, json};

use super::{Installation, SETTINGS};

/// The ConfigMap that the processes of both roles have their environment from (`envFrom`).
pub fn settings(installation: &Installation) -> Vec<Value> {
    vec![json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SETTINGS, "namespace": installation.namespace},
        "data": {"CAUSEWAY_ENABLE_NETWORK_CONNECT": "true"},
    })]
}
