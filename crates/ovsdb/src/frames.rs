//! Cuts a byte stream into messages, and large messages into rows, without ever looking at a byte twice.
//!
//! OVSDB has no length prefix: a message ends where its outermost brace closes. A first dump can be hundreds of
//! megabytes in one message, so the rows of table updates are handed out one by one as they complete; what is left
//! of the message is handed out at its end with those rows taken out. Nothing here checks JSON beyond its brackets
//! and strings: the decoder does.

use crate::error::Error;
use memchr::memchr2;
use uuid::Uuid;

/// How large one message (without its rows) or one row may be, unless told otherwise.
pub const DEFAULT_MAX_FRAME: usize = 256 << 20;

/// Deeper nesting than any OVSDB message has; the JSON parser stops there too.
const MAX_DEPTH: usize = 120;

/// Containers whose kind and key are kept: message, params, tables, rows.
const SHALLOW: usize = 5;

/// What comes out of the stream.
#[derive(Debug, PartialEq)]
pub enum Piece<'a> {
    /// One member of a table update, still in JSON: `{"insert":{…}}`.
    Row {
        /// The table's name.
        table: &'a str,
        /// The row.
        uuid: Uuid,
        /// Its row update.
        json: &'a [u8],
    },
    /// The end of a message: its JSON, with an empty object for each table whose rows were handed out.
    Frame(&'a [u8]),
}

/// The cutter. Feed it whatever arrives, in pieces of any size.
#[derive(Debug)]
pub struct Frames {
    max: usize,
    depth: usize,
    text: Text,
    frame: Vec<u8>,
    row: Vec<u8>,
    /// Depth around the row that is being collected, and its UUID.
    in_row: Option<(usize, Uuid)>,
    /// The comma after a row that was taken out goes too.
    skip_comma: bool,
    is_object: [bool; SHALLOW],
    /// Position of the key last seen in each open object: the offsets of its quotes in `frame`.
    keys: [(usize, usize); SHALLOW],
    /// Offsets of the quotes of the last string seen.
    string: (usize, usize),
}

#[derive(Debug, PartialEq)]
enum Text {
    Outside,
    Inside,
    Escaped,
}

impl Default for Frames {
    fn default() -> Self {
        Frames::new(DEFAULT_MAX_FRAME)
    }
}

impl Frames {
    /// A cutter that refuses messages and rows beyond `max` bytes.
    pub fn new(max: usize) -> Frames {
        Frames {
            max,
            depth: 0,
            text: Text::Outside,
            frame: Vec::new(),
            row: Vec::new(),
            in_row: None,
            skip_comma: false,
            is_object: [false; SHALLOW],
            keys: [(0, 0); SHALLOW],
            string: (0, 0),
        }
    }

    /// Takes the next bytes and hands out everything that they complete. After an error the stream is lost.
    pub fn push(
        &mut self,
        input: &[u8],
        sink: &mut dyn FnMut(Piece<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Bytes from `kept` on belong to the frame or row at hand but are not copied there yet.
        let (mut at, mut kept) = (0, 0);
        while at < input.len() {
            if self.text != Text::Outside {
                at = self.skip_text(input, at, kept);
                continue;
            }
            if let Some((around, _)) = self.in_row {
                at = self.skip_in_row(input, at, around)?;
                if at == input.len() || self.text != Text::Outside {
                    continue;
                }
            }
            let byte = input[at];
            at += 1;
            if self.depth == 0 && !self.begins(byte)? {
                kept = at;
                continue;
            }
            match byte {
                b'"' => self.open_string(at - 1 - kept),
                b':' => self.note_key(),
                b',' if self.skip_comma => {
                    self.take(&input[kept..at - 1])?;
                    kept = at;
                    self.skip_comma = false;
                }
                b'{' | b'[' => {
                    self.take(&input[kept..at - 1])?;
                    kept = at - 1;
                    self.open(byte)?;
                }
                b'}' | b']' => {
                    self.take(&input[kept..at])?;
                    kept = at;
                    self.close(sink)?;
                }
                _ => {}
            }
        }
        self.take(&input[kept..])
    }

    /// Whether nothing of a message has arrived yet.
    pub fn is_empty(&self) -> bool {
        self.depth == 0
    }

    /// Between messages: whether one begins here.
    fn begins(&self, byte: u8) -> Result<bool, Error> {
        match byte {
            b'{' => Ok(true),
            b' ' | b'\n' | b'\r' | b'\t' => Ok(false),
            other => Err(Error::Frame(format!("a message begins with byte 0x{other:02x}, want '{{'"))),
        }
    }

    fn skip_text(&mut self, input: &[u8], at: usize, kept: usize) -> usize {
        if self.text == Text::Escaped {
            self.text = Text::Inside;
            return at + 1;
        }
        let Some(found) = memchr2(b'"', b'\\', &input[at..]) else { return input.len() };
        let found = at + found;
        if input[found] == b'\\' {
            self.text = Text::Escaped;
        } else {
            self.text = Text::Outside;
            if self.in_row.is_none() {
                self.string.1 = self.frame.len() + found - kept;
            }
        }
        found + 1
    }

    fn open_string(&mut self, offset: usize) {
        self.text = Text::Inside;
        if self.in_row.is_none() {
            self.string.0 = self.frame.len() + offset;
        }
    }

    fn note_key(&mut self) {
        if self.in_row.is_none() && (1..=SHALLOW).contains(&self.depth) {
            self.keys[self.depth - 1] = self.string;
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let target = if self.in_row.is_some() { &mut self.row } else { &mut self.frame };
        if target.len() + bytes.len() > self.max {
            return Err(Error::Oversized { limit: self.max });
        }
        target.extend_from_slice(bytes);
        Ok(())
    }

    /// In a row nothing matters but where it ends: texts are skipped, brackets counted. Stops at the bracket that ends the
    /// row, or inside a text that goes on.
    fn skip_in_row(&mut self, input: &[u8], mut at: usize, around: usize) -> Result<usize, Error> {
        while let Some(byte) = input.get(at) {
            match byte {
                b'"' => match memchr2(b'"', b'\\', &input[at + 1..]) {
                    Some(length) if input[at + 1 + length] == b'"' => at += 1 + length,
                    _ => {
                        self.text = Text::Inside;
                        return Ok(at + 1);
                    }
                },
                b'{' | b'[' => self.go_deeper()?,
                b'}' | b']' if self.depth == around + 1 => return Ok(at),
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            at += 1;
        }
        Ok(at)
    }

    fn go_deeper(&mut self) -> Result<(), Error> {
        if self.depth == MAX_DEPTH {
            return Err(Error::Frame(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        Ok(())
    }

    fn open(&mut self, byte: u8) -> Result<(), Error> {
        if byte == b'{'
            && let Some(uuid) = self.row_begins()
        {
            self.frame.truncate(self.keys[self.depth - 1].0);
            self.in_row = Some((self.depth, uuid));
        } else if self.depth < SHALLOW {
            self.is_object[self.depth] = byte == b'{';
            // A stale key of an earlier container at this depth must not name a member of this one.
            self.keys[self.depth] = (0, 0);
        }
        self.go_deeper()
    }

    /// A member of an object in an object, below `result` or `params`, whose key is a UUID: only table updates
    /// look like that.
    fn row_begins(&self) -> Option<Uuid> {
        let depth = self.depth;
        if !(3..=SHALLOW).contains(&depth) || !self.is_object[depth - 1] || !self.is_object[depth - 2] {
            return None;
        }
        if !matches!(self.key(0), b"result" | b"params") {
            return None;
        }
        let key = self.key(depth - 1);
        if key.len() == 36 { Uuid::try_parse_ascii(key).ok() } else { None }
    }

    fn key(&self, level: usize) -> &[u8] {
        let (start, end) = self.keys[level];
        self.frame.get(start + 1..end).unwrap_or_default()
    }

    fn close(&mut self, sink: &mut dyn FnMut(Piece<'_>) -> Result<(), Error>) -> Result<(), Error> {
        self.depth -= 1;
        if let Some((around, uuid)) = self.in_row.take() {
            let table = std::str::from_utf8(self.key(around - 2))
                .map_err(|_| Error::Frame("a table name is not UTF-8".into()))?;
            sink(Piece::Row { table, uuid, json: &self.row })?;
            self.row.clear();
            self.skip_comma = true;
            return Ok(());
        }
        self.skip_comma = false;
        if self.depth == 0 {
            let result = sink(Piece::Frame(&self.frame));
            self.frame.clear();
            self.give_back();
            return result;
        }
        Ok(())
    }

    /// A connection that once carried something large must not hold that memory for ever.
    fn give_back(&mut self) {
        const KEEP: usize = 64 << 10;
        self.frame.shrink_to(KEEP);
        self.row.shrink_to(KEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const U: &str = "72c4a754-35f4-5265-9a62-cdfa5ae3e3f3";

    fn cut(stream: &[u8], sizes: &[usize], max: usize) -> Result<Vec<String>, Error> {
        let mut frames = Frames::new(max);
        let mut out = Vec::new();
        let mut rest = stream;
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() {
            let size = (*sizes.next().unwrap()).clamp(1, rest.len());
            let (head, tail) = rest.split_at(size);
            frames.push(head, &mut |piece| {
                out.push(match piece {
                    Piece::Row { table, uuid, json } => {
                        format!("{table} {uuid} {}", String::from_utf8_lossy(json))
                    }
                    Piece::Frame(json) => String::from_utf8_lossy(json).into_owned(),
                });
                Ok(())
            })?;
            rest = tail;
        }
        Ok(out)
    }

    fn stream() -> String {
        format!(
            concat!(
                r#"{{"id":1,"result":[false,"0",{{"T":{{"{u}":{{"initial":{{"a":"}}\"{{"}}}},"{u}":{{"delete":null}}}},"S":{{}}}}],"error":null}}"#,
                "\n",
                r#"{{"method":"update2","params":["m",{{"T":{{"{u}":{{"modify":{{}}}}}}}}],"id":null}}"#,
                r#"{{"id":2,"result":{{"T":{{"{u}":{{"new":{{}}}}}}}}}} {{"id":3,"result":[{{"rows":[{{"x":{{"{u}":{{}}}}}}]}}]}}"#
            ),
            u = U
        )
    }

    fn expected() -> Vec<String> {
        vec![
            format!(r#"T {U} {{"initial":{{"a":"}}\"{{"}}}}"#),
            format!(r#"T {U} {{"delete":null}}"#),
            r#"{"id":1,"result":[false,"0",{"T":{},"S":{}}],"error":null}"#.into(),
            format!(r#"T {U} {{"modify":{{}}}}"#),
            r#"{"method":"update2","params":["m",{"T":{}}],"id":null}"#.into(),
            format!(r#"T {U} {{"new":{{}}}}"#),
            r#"{"id":2,"result":{"T":{}}}"#.into(),
            format!(r#"{{"id":3,"result":[{{"rows":[{{"x":{{"{U}":{{}}}}}}]}}]}}"#),
        ]
    }

    #[test]
    fn rows_come_out_one_by_one_and_leave_a_valid_message() {
        assert_eq!(cut(stream().as_bytes(), &[usize::MAX], 1000).unwrap(), expected());
    }

    proptest! {
        #[test]
        fn how_the_stream_is_split_makes_no_difference(sizes in prop::collection::vec(1usize..40, 1..20)) {
            prop_assert_eq!(cut(stream().as_bytes(), &sizes, 1000).unwrap(), expected());
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u a1\n".to_vec()), 0..200)) {
            let _ = cut(&bytes, &[7], 1000);
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bad in ["GET / HTTP/1.1", "[1]", "}", "\"x\"", ": {}", "\"\" {}", "{},{}", "\u{16}\u{3}\u{1}"] {
            for size in [1, 100] {
                assert!(matches!(cut(bad.as_bytes(), &[size], 1000), Err(Error::Frame(_))), "{bad}");
            }
        }
        assert!(matches!(cut("{\"a\":[".repeat(200).as_bytes(), &[9], 10_000), Err(Error::Frame(_))));
    }

    #[test]
    fn a_message_or_row_beyond_the_limit_is_refused_before_it_is_complete() {
        let text = format!("{{\"id\":\"{}", "x".repeat(100));
        assert!(matches!(cut(text.as_bytes(), &[10], 64), Err(Error::Oversized { limit: 64 })));
        let row =
            format!("{{\"id\":1,\"result\":{{\"T\":{{\"{U}\":{{\"initial\":{{\"a\":\"{}", "x".repeat(200));
        assert!(matches!(cut(row.as_bytes(), &[10], 128), Err(Error::Oversized { limit: 128 })));
    }
}
