//! Identity: a row's path, and the UUID that follows from it. Paths change only by ADR, since a changed path is
//! another row.

use crate::typed::TableMeta;
use causeway_ovsdb::{Str, Uuid};
use sha1::{Digest, Sha1};
use uuid::Builder;

/// The key in `external_ids` under which a row carries its path.
pub const ID_KEY: &str = "k8s.ovn.org/id";

/// Joins components with `:`, each escaped so that none can pretend to be two.
pub fn join<S: AsRef<str>>(components: impl IntoIterator<Item = S, IntoIter: Clone>) -> Str {
    let components = components.into_iter();
    // Escapes are rare: this is nearly always the exact length.
    let length = components.clone().map(|c| c.as_ref().len() + 1).sum();
    let mut path = Str::with_capacity(length);
    for (i, component) in components.enumerate() {
        if i > 0 {
            path.push(':');
        }
        escape(&mut path, component.as_ref());
    }
    path
}

/// Percent-escapes the separator, the escape itself and control characters.
pub(crate) fn escape(path: &mut Str, component: &str) {
    let special = |b: u8| (b == b':') | (b == b'%') | (b < 0x20) | (b == 0x7f);
    if !component.bytes().fold(false, |found, b| found | special(b)) {
        return path.push_str(component);
    }
    for c in component.chars() {
        match c {
            ':' => path.push_str("%3A"),
            '%' => path.push_str("%25"),
            c if c.is_ascii_control() => path.push_str(&format!("%{:02X}", c as u32)),
            c => path.push(c),
        }
    }
}

/// The components of a path, unescaped.
pub fn split(path: &str) -> Vec<String> {
    path.split(':').map(unescape).collect()
}

pub(crate) fn unescape(component: &str) -> String {
    let mut out = String::with_capacity(component.len());
    let mut rest = component;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let code = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii);
        match code {
            Some(code) => {
                out.push(code as char);
                rest = &after[2..];
            }
            None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The first component.
pub fn root(path: &str) -> &str {
    path.split(':').next().unwrap_or_default()
}

pub(crate) fn table_namespace(database: &str, table: &str) -> Uuid {
    name_uuid(&Uuid::NAMESPACE_URL, format!("causeway/{database}/{table}").as_bytes())
}

/// The UUID of the row with this path.
pub fn row_uuid(meta: &TableMeta, path: &str) -> Uuid {
    name_uuid(meta.namespace(), path.as_bytes())
}

/// A version 5 UUID. Every planned row needs one, so this uses the processor's own SHA-1 where it has it.
fn name_uuid(namespace: &Uuid, name: &[u8]) -> Uuid {
    let digest = Sha1::new().chain_update(namespace.as_bytes()).chain_update(name).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_sha1_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::nb::LogicalRouter;
    use crate::typed::TypedRow;
    use proptest::prelude::*;

    #[test]
    fn the_uuid_of_a_path_never_changes() {
        let uuid = row_uuid(LogicalRouter::meta(), "cnc:blue:router");
        assert_eq!(uuid.to_string(), "72c4a754-35f4-5265-9a62-cdfa5ae3e3f3");
    }

    #[test]
    fn a_component_cannot_pretend_to_be_two() {
        assert_eq!(join(["cnc", "a:b%", "x"]), "cnc:a%3Ab%25:x");
        assert_ne!(join(["a:b", "c"]), join(["a", "b:c"]));
    }

    proptest! {
        #[test]
        fn splitting_undoes_joining(components in prop::collection::vec("\\PC{0,6}|[a-z:%\n]{0,6}", 1..5)) {
            prop_assert_eq!(split(&join(&components)), components);
        }
    }
}
