//! Rows as ovsdb-server writes them: one kind of update, no blanks, values of the expected type. Nearly all that a client reads is
//! that, and reading it straight takes a fraction of what a general reader of JSON takes.
//!
//! Anything else is no row here, and left to the general reader ([`crate::decode`]), which also says what is wrong with it.

use crate::datum::{Atom, Datum, Str};
use crate::decode::{Interner, RowUpdate};
use crate::replica::Layout;
use crate::schema::{AtomicType, ColumnType};
use memchr::memchr2;
use uuid::Uuid;

/// The row update, if it is written as the server writes it.
pub(crate) fn read(text: &str, layout: &Layout, interner: &Interner) -> Option<RowUpdate> {
    // Not allowed in JSON, and looked for here, so that texts need not be looked at byte by byte.
    if text.bytes().fold(false, |found, byte| found | (byte < 0x20)) {
        return None;
    }
    let mut reader = Reader { text, at: 0, interner };
    reader.eat("{")?;
    let update = match reader.name()? {
        "initial" | "insert" => {
            let mut row = layout.default_row();
            reader.columns(layout, |column, datum| row[column] = datum)?;
            RowUpdate::Whole(row)
        }
        "modify" => {
            let mut columns = Vec::new();
            reader.columns(layout, |column, datum| columns.push((column, datum)))?;
            RowUpdate::Modify(columns)
        }
        "delete" => {
            reader.eat("null")?;
            RowUpdate::Delete
        }
        _ => return None,
    };
    reader.eat("}")?;
    (reader.at == text.len()).then_some(update)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    interner: &'a Interner,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, expected: &str) -> Option<()> {
        self.rest().as_bytes().starts_with(expected.as_bytes()).then(|| self.at += expected.len())
    }

    fn eat_byte(&mut self, expected: u8) -> bool {
        let there = self.peek() == Some(expected);
        self.at += usize::from(there);
        there
    }

    /// A text that nothing in it has to be changed of.
    fn plain(&mut self) -> Option<&'a str> {
        self.eat("\"")?;
        let length = memchr2(b'"', b'\\', self.rest().as_bytes())?;
        let text = self.rest().get(..length)?;
        self.at += length;
        self.eat_byte(b'"').then_some(text)
    }

    /// The key of a member, and the colon behind it.
    fn name(&mut self) -> Option<&'a str> {
        let name = self.plain()?;
        self.eat_byte(b':').then_some(name)
    }

    /// A text, handed to `make`.
    fn string<T>(&mut self, make: impl FnOnce(&str) -> T) -> Option<T> {
        let start = self.at;
        if let Some(text) = self.plain() {
            return Some(make(text));
        }
        self.at = start;
        self.eat("\"")?;
        let mut whole = self.interner.scratch();
        loop {
            let length = memchr2(b'"', b'\\', self.rest().as_bytes())?;
            whole.push_str(self.rest().get(..length)?);
            self.at += length;
            if self.eat_byte(b'"') {
                return Some(make(&whole));
            }
            whole.push(self.escaped()?);
        }
    }

    /// A character behind a backslash; the rare ones are for others to read.
    fn escaped(&mut self) -> Option<char> {
        self.at += 1;
        let character = match self.peek()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            _ => return None,
        };
        self.at += 1;
        Some(character)
    }

    /// Members of an array up to its end, behind its bracket.
    fn each(&mut self, mut one: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.eat_byte(b']') {
            return Some(());
        }
        loop {
            one(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    fn columns(&mut self, layout: &Layout, mut put: impl FnMut(usize, Datum)) -> Option<()> {
        self.eat("{")?;
        if self.eat_byte(b'}') {
            return Some(());
        }
        loop {
            let at = layout.position(self.name()?)?;
            let datum = self.datum(&layout.columns()[at].ty)?;
            put(at, datum);
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    fn datum(&mut self, ty: &ColumnType) -> Option<Datum> {
        if ty.is_map() {
            return if ty.is_str_map() { self.str_map() } else { None };
        }
        if self.eat("[\"set\",[").is_none() {
            return self.atom(ty.key.ty).map(Datum::One);
        }
        let mut atoms = Vec::new();
        self.each(|reader| {
            atoms.push(reader.atom(ty.key.ty)?);
            Some(())
        })?;
        self.eat("]")?;
        Some(Datum::from_atoms(atoms))
    }

    fn str_map(&mut self) -> Option<Datum> {
        self.eat("[\"map\",[")?;
        let interner = self.interner;
        let map = interner.str_map(|pairs| {
            self.each(|reader| {
                reader.eat("[")?;
                let key = reader.string(|text| interner.share(text))?;
                reader.eat(",")?;
                let value = reader.string(|text| interner.share(text))?;
                reader.eat("]")?;
                pairs.push((key, value));
                Some(())
            })
        })?;
        self.eat("]")?;
        Some(map)
    }

    fn atom(&mut self, ty: AtomicType) -> Option<Atom> {
        match ty {
            AtomicType::String => self.string(|text| Str::from(text)).map(Atom::String),
            AtomicType::Integer => self.integer().map(Atom::Integer),
            AtomicType::Boolean if self.eat("true").is_some() => Some(Atom::Boolean(true)),
            AtomicType::Boolean => self.eat("false").map(|()| Atom::Boolean(false)),
            AtomicType::Uuid => {
                self.eat("[\"uuid\",")?;
                let uuid = Uuid::try_parse(self.plain()?).ok()?;
                self.eat("]")?;
                Some(Atom::Uuid(uuid))
            }
            AtomicType::Real => None,
        }
    }

    fn integer(&mut self) -> Option<i64> {
        let digits = self.rest();
        let length = digits.bytes().position(|byte| !(byte.is_ascii_digit() || byte == b'-'))?;
        let text = &digits[..length];
        // What has a leading zero, a fraction or an exponent is not the server's.
        let odd = (text.len() > 1 && text.starts_with('0')) || text.starts_with("-0");
        let ends = matches!(digits.as_bytes()[length], b',' | b']' | b'}');
        self.at += length;
        text.parse().ok().filter(|_| ends && !odd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode_generally;
    use crate::encode::encode_datum;
    use crate::replica::LayoutColumn;
    use crate::schema::BaseType;
    use proptest::prelude::*;

    fn layout() -> Layout {
        let base = |ty| BaseType { ty, allowed: Vec::new(), refers_to: None };
        let column = |name: &str, ty, value: Option<AtomicType>, max| LayoutColumn {
            name: name.into(),
            ty: ColumnType { key: base(ty), value: value.map(base), min: u32::from(max == 1), max },
        };
        let columns = vec![
            column("name", AtomicType::String, None, 1),
            column("priority", AtomicType::Integer, None, 1),
            column("enabled", AtomicType::Boolean, None, 2),
            column("ports", AtomicType::Uuid, None, u32::MAX),
            column("ids", AtomicType::String, Some(AtomicType::String), u32::MAX),
            column("load", AtomicType::Real, None, 2),
            column("numbers", AtomicType::Integer, Some(AtomicType::String), u32::MAX),
        ];
        Layout::new("T".into(), columns)
    }

    fn any_columns() -> impl Strategy<Value = String> {
        let text = "[a-z\"\\\\/\n\t\u{e9}\u{1F600}{}\\[\\],:]{0,20}";
        let json = |datum: Datum| {
            let mut out = Vec::new();
            encode_datum(&mut out, &datum);
            String::from_utf8(out).unwrap()
        };
        let one = |name: &'static str, value: BoxedStrategy<Datum>| {
            value.prop_map(move |datum| format!("\"{name}\":{}", json(datum))).boxed()
        };
        let uuid = any::<u128>().prop_map(|n| Atom::Uuid(Uuid::from_u128(n)));
        let column = prop_oneof![
            one("name", text.prop_map(|s| Datum::from(s.as_str())).boxed()),
            one("priority", any::<i64>().prop_map(|n| Datum::One(Atom::Integer(n))).boxed()),
            one(
                "enabled",
                prop::collection::vec(any::<bool>(), 0..3)
                    .prop_map(|b| Datum::set(b.into_iter().map(Atom::Boolean)))
                    .boxed()
            ),
            one("ports", prop::collection::vec(uuid, 0..4).prop_map(Datum::set).boxed()),
            one("ids", prop::collection::vec((text, text), 0..4).prop_map(Datum::str_map).boxed()),
            one("load", (0_i64..9).prop_map(|n| Datum::One(Atom::Real(n as f64 / 2.0))).boxed()),
            one(
                "numbers",
                (0_i64..9, text)
                    .prop_map(|(n, s)| Datum::map([(Atom::Integer(n), Atom::String(s.into()))]))
                    .boxed()
            ),
            Just("\"_version\":[\"uuid\",\"72c4a754-35f4-5265-9a62-cdfa5ae3e3f3\"]".to_owned()),
        ];
        prop::collection::vec(column, 0..6).prop_map(|columns| columns.join(","))
    }

    proptest! {
        /// What is read here is what the general reader reads, also when the text is damaged.
        #[test]
        fn both_readers_read_the_same(
            kind in prop::sample::select(vec!["insert", "initial", "modify", "new", "delete"]),
            columns in any_columns(),
            damage in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(b" \"\\{}[],:0-1.en\n".to_vec()))),
        ) {
            let mut bytes = format!("{{\"{kind}\":{{{columns}}}}}").into_bytes();
            if let Some((at, byte)) = damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
            let interner = Interner::default();
            if let Some(read) = read(&text, &layout(), &interner) {
                prop_assert_eq!(read, decode_generally(&text, &layout(), &interner).unwrap(), "{}", text);
            }
        }
    }

    /// What the server usually writes is not left to the other reader.
    #[test]
    fn usual_rows_are_read_here() {
        let port = "[\"uuid\",\"72c4a754-35f4-5265-9a62-cdfa5ae3e3f3\"]";
        for text in [
            format!(
                r#"{{"insert":{{"name":"a \"b\" \\ c","priority":-9001,"enabled":true,"ports":{port},"ids":["map",[["k","v"],["a","b"]]]}}}}"#
            ),
            format!(
                r#"{{"modify":{{"ports":["set",[{port},{port}]],"enabled":["set",[]],"ids":["map",[]]}}}}"#
            ),
            r#"{"initial":{}}"#.to_owned(),
            r#"{"delete":null}"#.to_owned(),
        ] {
            let interner = Interner::default();
            let read = read(&text, &layout(), &interner).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(read, decode_generally(&text, &layout(), &interner).unwrap());
        }
    }
}
