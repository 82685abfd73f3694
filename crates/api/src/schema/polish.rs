//! Turns what the derive generates into what the API server and its readers want.

use serde_json::{Map, Value, json};

/// The schema at a path such as `spec.layer3.subnets[]`.
pub(super) fn at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut here = schema;
    for step in path.split('.').flat_map(|part| part.split_inclusive("[]")) {
        let (name, items) = match step.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (step, false),
        };
        if !name.is_empty() {
            here = here.get_mut("properties")?.get_mut(name)?;
        }
        if items {
            here = here.get_mut("items")?;
        }
    }
    here.as_object_mut()
}

pub(super) fn polish(schema: &mut Value) {
    simplify(schema);
    for (path, key) in MAP_LISTS {
        set(schema, path, "x-kubernetes-list-type", json!("map"));
        set(schema, path, "x-kubernetes-list-map-keys", json!([key]));
    }
    for path in ATOMIC_LISTS {
        set(schema, path, "x-kubernetes-list-type", json!("atomic"));
    }
    for path in NOT_EMPTY {
        not_empty(schema, path);
    }
}

/// Objects of which exactly one field is set. A field that the server does not know counts too, so whoever reads an object
/// without any field knows that it said more.
pub(super) fn exactly_one(schema: &mut Value, path: &str) {
    set(schema, path, "minProperties", json!(1));
    set(schema, path, "maxProperties", json!(1));
}

/// A list without order in which nothing is twice.
pub(super) fn unique_items(schema: &mut Value, path: &str) {
    set(schema, path, "x-kubernetes-list-type", json!("set"));
}

/// An object that says something.
pub(super) fn not_empty(schema: &mut Value, path: &str) {
    set(schema, path, "minProperties", json!(1));
}

// Paths that a schema lacks are passed over: the tables serve all kinds.

/// Lists whose items are told apart by a key.
const MAP_LISTS: [(&str, &str); 3] = [
    ("status.conditions", "type"),
    ("spec.networkSelectors", "networkSelectionType"),
    ("spec.connects", "name"),
];
/// Lists that are one value.
const ATOMIC_LISTS: [&str; 6] = [
    "spec.connectSubnets",
    "spec.connectivity",
    "spec.connectivityEnabled",
    "spec.layer3.subnets",
    "spec.network.layer3.subnets",
    "status.networks",
];
/// Objects that must say something. The derive has no word for it.
const NOT_EMPTY: [&str; 3] = ["spec.layer2.ipam", "spec.network.layer2.ipam", "spec.network.localnet.ipam"];

fn set(schema: &mut Value, path: &str, key: &str, value: Value) {
    if let Some(target) = at(schema, path) {
        target.insert(key.to_owned(), value);
    }
}

/// Drops what the API server does not need: nullable (absent is the only way to leave a field out), formats it
/// does not know, empty defaults; and writes enums as plain lists of values.
fn simplify(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("nullable");
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        object.remove("format");
    }
    flatten_enum(object);
    mark_selector(object);
    for (_, property) in object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        simplify(property);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            simplify(inner);
        }
    }
}

/// An enum whose values have documentation arrives as one alternative for each value.
fn flatten_enum(object: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = object.get("oneOf") else { return };
    let values: Option<Vec<Value>> = alternatives
        .iter()
        .map(|one| one.get("const").cloned().or_else(|| one.get("enum")?.get(0).cloned()))
        .collect();
    if let Some(values) = values {
        object.remove("oneOf");
        object.insert("type".into(), "string".into());
        object.insert("enum".into(), Value::Array(values));
    }
}

/// A label selector is one value: half of one manager's and half of another's would select something that
/// nobody meant.
fn mark_selector(object: &mut Map<String, Value>) {
    let is_selector = object.get("properties").is_some_and(|p| p.get("matchLabels").is_some());
    if is_selector {
        object.insert("x-kubernetes-map-type".into(), json!("atomic"));
        let operator = object.get_mut("properties").and_then(|all| {
            all.get_mut("matchExpressions")?.get_mut("items")?.get_mut("properties")?.get_mut("operator")
        });
        if let Some(Value::Object(operator)) = operator {
            operator.insert("enum".into(), json!(["In", "NotIn", "Exists", "DoesNotExist"]));
        }
    }
}
