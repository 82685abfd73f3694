//! Images that were loaded into the nodes are used as they are, whatever their tag.
//!
//! For `:latest` Kubernetes asks a registry first unless the pod says otherwise, and nobody is one for `localhost/`.

use serde_json::{Value, json};

const NAME: &str = "sandbox-loaded-images";
/// A container whose image nobody could be asked for.
const LOADED: &str = r#"c.image.startsWith("localhost/") && c.imagePullPolicy == "Always""#;

/// The policy that makes it so, and its binding.
pub(crate) fn objects() -> [Value; 2] {
    let group = "admissionregistration.k8s.io/v1";
    let lists = ["containers", "initContainers"];
    let matching = lists.map(|list| format!("object.spec.?{list}.orValue([]).exists(c, {LOADED})"));
    let policy = json!({
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]},
            "matchConditions": [{"name": "loaded-image", "expression": matching.join(" || ")}],
            // A pod that cannot be judged is as it would be without us.
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "Never",
            "mutations": lists.map(|list| {
                json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": present(list)}})
            }),
        },
    });
    let binding = json!({
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME},
    });
    [policy, binding]
}

/// Containers of a list, with the images that are there.
fn present(list: &str) -> String {
    let container = format!(r#"Object.spec.{list}{{name: c.name, imagePullPolicy: "IfNotPresent"}}"#);
    let loaded = format!("object.spec.?{list}.orValue([]).filter(c, {LOADED}).map(c, {container})");
    format!("Object{{spec: Object.spec{{{list}: {loaded}}}}}")
}
