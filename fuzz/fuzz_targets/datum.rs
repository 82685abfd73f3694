//! What is read as a value of a column can be written and read again.
#![no_main]

use causeway_fuzz::{layout, text};
use causeway_ovsdb::{decode_datum, encode_datum};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, &[u8])| {
    let layout = layout();
    let ty = &layout.columns()[usize::from(data.0) % layout.columns().len()].ty;
    let Ok(datum) = decode_datum(&text(data.1), ty) else { return };
    let mut json = Vec::new();
    encode_datum(&mut json, &datum);
    let again = decode_datum(&json, ty).expect("our own words can be read");
    assert_eq!(again, datum);
    let mut toggled = datum.clone();
    toggled.toggle(&datum.difference(&again));
    assert_eq!(toggled, again);
});
