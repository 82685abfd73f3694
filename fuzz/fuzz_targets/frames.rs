//! However a stream is split, the same pieces come out of it, or the same refusal.
#![no_main]

use causeway_fuzz::{parts, text};
use causeway_ovsdb::{Frames, Piece};
use libfuzzer_sys::fuzz_target;

fn cut<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let mut frames = Frames::new(4096);
    let mut pieces = Vec::new();
    for part in parts {
        let result = frames.push(part, &mut |piece| {
            pieces.push(match piece {
                Piece::Row { table, uuid, json } => format!("{table} {uuid} {json:?}"),
                Piece::Frame(json) => format!("{json:?}"),
            });
            Ok(())
        });
        if result.is_err() {
            return (pieces, true);
        }
    }
    (pieces, false)
}

fuzz_target!(|data: (&[u8], [u8; 3])| {
    let (data, sizes) = data;
    let text = text(data);
    assert_eq!(cut(std::iter::once(&text[..])), cut(parts(&text, &sizes)));
});
