//! What the fuzz targets share: bytes of the fuzzer to text that looks like OVSDB, so that no corpus is needed to get
//! past the first brace.

use causeway_ovsdb::{AtomicType, BaseType, ColumnType, Layout, LayoutColumn};

/// Words of the protocol; an input byte below their count stands for one of them.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    " ",
    "\n",
    "0",
    "1",
    "-1",
    "1.5",
    "1e300",
    "true",
    "false",
    "null",
    "\"id\":",
    "\"method\":",
    "\"params\":",
    "\"result\":",
    "\"error\":",
    "\"error\":null",
    "\"details\":",
    "\"initial\":",
    "\"insert\":",
    "\"modify\":",
    "\"delete\":null",
    "\"old\":",
    "\"new\":",
    "[\"set\",[",
    "[\"map\",[",
    "]]",
    "[\"uuid\",\"",
    "[\"named-uuid\",\"x\"]",
    "\"72c4a754-35f4-5265-9a62-cdfa5ae3e3f3\":",
    "\"72c4a754-35f4-5265-9a62-cdfa5ae3e3f4\":",
    "[\"uuid\",\"72c4a754-35f4-5265-9a62-cdfa5ae3e3f3\"]",
    "\"T\":",
    "\"Database\":",
    "\"i\":",
    "\"r\":",
    "\"b\":",
    "\"s\":",
    "\"u\":",
    "\"is\":",
    "\"ss\":",
    "\"sm\":",
    "\"im\":",
    "\"update\"",
    "\"update2\"",
    "\"update3\"",
    "\"echo\"",
    "\"locked\"",
    "\"stolen\"",
    "\"monitor_canceled\"",
    "\"replica\"",
    "\"server\"",
    "\"unknown method\"",
    "{\"id\":3,\"result\":[",
    "{\"id\":4,\"result\":[",
    "{\"method\":\"update3\",\"id\":null,\"params\":[\"replica\",\"0\",{\"T\":{",
    "{\"method\":\"update2\",\"id\":null,\"params\":[\"replica\",{\"T\":{",
    "}}]}",
    "\u{e9}",
    "\\u00e9",
    "\\ud800",
];

/// Text made of words, and of single bytes where no word stands.
pub fn text(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() * 4);
    for byte in data {
        match TOKENS.get(usize::from(*byte)) {
            Some(token) => out.extend_from_slice(token.as_bytes()),
            None => out.push(*byte),
        }
    }
    out
}

fn base(ty: AtomicType) -> BaseType {
    BaseType { ty, allowed: Vec::new(), refers_to: None }
}

fn column(key: AtomicType, value: Option<AtomicType>, max: u32) -> ColumnType {
    ColumnType { key: base(key), value: value.map(base), min: u32::from(max == 1), max }
}

/// A column of every kind.
pub fn layout() -> Layout {
    use AtomicType::*;
    let columns = [
        ("i", column(Integer, None, 1)),
        ("r", column(Real, None, 1)),
        ("b", column(Boolean, None, 1)),
        ("s", column(String, None, 1)),
        ("u", column(Uuid, None, 1)),
        ("is", column(Integer, None, u32::MAX)),
        ("ss", column(String, None, u32::MAX)),
        ("sm", column(String, Some(String), u32::MAX)),
        ("im", column(Integer, Some(Real), u32::MAX)),
    ];
    let columns = columns.map(|(name, ty)| LayoutColumn { name: name.into(), ty });
    Layout::new("T".into(), columns.to_vec())
}

/// The same as the schema that a server would send.
pub const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{
    "i":{"type":"integer"},"r":{"type":"real"},"b":{"type":"boolean"},"s":{"type":"string"},"u":{"type":"uuid"},
    "is":{"type":{"key":"integer","min":0,"max":"unlimited"}},
    "ss":{"type":{"key":"string","min":0,"max":"unlimited"}},
    "sm":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
    "im":{"type":{"key":"integer","value":"real","min":0,"max":"unlimited"}}}}}}"#;

/// Splits a text into parts of the given sizes, over and over.
pub fn parts<'a>(text: &'a [u8], sizes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = text;
    let mut sizes = sizes.iter().cycle();
    std::iter::from_fn(move || {
        let size = sizes.next().map_or(1, |s| 1 + usize::from(*s)).min(rest.len());
        let (head, tail) = rest.split_at(size);
        rest = tail;
        (!head.is_empty()).then_some(head)
    })
}
