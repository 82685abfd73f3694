//! Kubernetes objects as texts that kubectl applies. Keys are sorted, so equal objects are equal texts.

use serde_json::{Value, json};

use crate::Error;

/// One YAML text with `---` before each object.
///
/// # Errors
/// [`Error::Schema`] when an object cannot be written: a mistake in this crate.
pub fn yaml(objects: &[Value]) -> Result<String, Error> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_yaml::to_string(object).map_err(|e| Error::Schema(e.to_string()))?);
    }
    Ok(text)
}

/// One `List` object.
///
/// # Errors
/// See [`yaml`].
pub fn json(objects: &[Value]) -> Result<String, Error> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    serde_json::to_string_pretty(&list).map_err(|e| Error::Schema(e.to_string()))
}
