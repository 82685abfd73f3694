//! The part of OpenAPI validation that our schemas use, with the API server's words.

use serde_json::Value;

/// What is wrong with the shape of a value.
pub(crate) fn errors(schema: &Value, value: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    check(schema, value, "", &mut errors);
    errors
}

fn check(schema: &Value, value: &Value, path: &str, errors: &mut Vec<String>) {
    match value {
        Value::Object(object) => check_object(schema, object, path, errors),
        Value::Array(list) => check_list(schema, list, path, errors),
        Value::String(text) => check_text(schema, text, path, errors),
        Value::Number(number) => check_number(schema, number.as_f64().unwrap(), path, errors),
        Value::Bool(_) | Value::Null => {}
    }
    check_type(schema, value, path, errors);
}

fn check_type(schema: &Value, value: &Value, path: &str, errors: &mut Vec<String>) {
    let wanted = schema["type"].as_str().unwrap_or("");
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        _ => true,
    };
    if !fits {
        errors.push(format!("{path}: Invalid value: must be of type {wanted}"));
    }
}

fn check_object(
    schema: &Value,
    object: &serde_json::Map<String, Value>,
    path: &str,
    errors: &mut Vec<String>,
) {
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if object.get(name).is_none_or(Value::is_null) {
            errors.push(format!("{}: Required value", inside(name)));
        }
    }
    if schema["minProperties"].as_u64().is_some_and(|min| (object.len() as u64) < min) {
        errors.push(format!("{path}: should have at least {} properties", schema["minProperties"]));
    }
    if schema["maxProperties"].as_u64().is_some_and(|max| (object.len() as u64) > max) {
        errors.push(format!("{path}: must have at most {} properties", schema["maxProperties"]));
    }
    for (name, value) in object {
        check(&schema["properties"][name], value, &inside(name), errors);
    }
}

fn check_list(schema: &Value, list: &[Value], path: &str, errors: &mut Vec<String>) {
    if schema["minItems"].as_u64().is_some_and(|min| (list.len() as u64) < min) {
        errors.push(format!("{path}: should have at least {} items", schema["minItems"]));
    }
    if schema["maxItems"].as_u64().is_some_and(|max| list.len() as u64 > max) {
        errors.push(format!(
            "{path}: Too many: {}: must have at most {} items",
            list.len(),
            schema["maxItems"]
        ));
    }
    if schema["x-kubernetes-list-type"] == "map" {
        check_keys(schema, list, path, errors);
    }
    for (index, value) in list.iter().enumerate() {
        check(&schema["items"], value, &format!("{path}[{index}]"), errors);
    }
}

fn check_keys(schema: &Value, list: &[Value], path: &str, errors: &mut Vec<String>) {
    let keys = schema["x-kubernetes-list-map-keys"].as_array().cloned().unwrap_or_default();
    let key = |item: &Value| keys.iter().map(|key| item[key.as_str().unwrap()].clone()).collect::<Vec<_>>();
    for (index, item) in list.iter().enumerate() {
        if list[..index].iter().any(|earlier| key(earlier) == key(item)) {
            errors.push(format!("{path}[{index}]: Duplicate value"));
        }
    }
}

fn check_text(schema: &Value, text: &str, path: &str, errors: &mut Vec<String>) {
    if schema["minLength"].as_u64().is_some_and(|min| (text.len() as u64) < min) {
        errors.push(format!("{path}: should be at least {} chars long", schema["minLength"]));
    }
    if schema["maxLength"].as_u64().is_some_and(|max| text.len() as u64 > max) {
        errors.push(format!("{path}: Too long: may not be more than {} bytes", schema["maxLength"]));
    }
    if schema["enum"].as_array().is_some_and(|values| !values.iter().any(|value| value == text)) {
        errors.push(format!("{path}: Unsupported value: {text:?}: supported values: {}", schema["enum"]));
    }
    // The one pattern we have is a DNS label's.
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if schema["pattern"].is_string() && !text.chars().all(label) {
        errors.push(format!("{path}: should match {}", schema["pattern"]));
    }
}

fn check_number(schema: &Value, number: f64, path: &str, errors: &mut Vec<String>) {
    if schema["minimum"].as_f64().is_some_and(|min| number < min) {
        errors.push(format!("{path}: should be greater than or equal to {}", schema["minimum"]));
    }
    if schema["maximum"].as_f64().is_some_and(|max| number > max) {
        errors.push(format!("{path}: should be less than or equal to {}", schema["maximum"]));
    }
}
