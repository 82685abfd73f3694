//! A row update that is understood names only columns of the layout, with values that can be written and read again.
#![no_main]

use causeway_fuzz::{layout, text};
use causeway_ovsdb::{Datum, Interner, Layout, RowUpdate, decode_datum, decode_row_update, encode_datum};
use libfuzzer_sys::fuzz_target;

fn check(layout: &Layout, at: usize, datum: &Datum) {
    let mut json = Vec::new();
    encode_datum(&mut json, datum);
    assert_eq!(decode_datum(&json, &layout.columns()[at].ty).expect("our own words can be read"), *datum);
}

fuzz_target!(|data: &[u8]| {
    let layout = layout();
    match decode_row_update(&text(data), &layout, &Interner::default()) {
        Ok(RowUpdate::Whole(row) | RowUpdate::Replace(row)) => {
            assert_eq!(row.len(), layout.columns().len());
            row.iter().enumerate().for_each(|(at, datum)| check(&layout, at, datum));
        }
        Ok(RowUpdate::Modify(columns)) => columns.iter().for_each(|(at, datum)| check(&layout, *at, datum)),
        Ok(RowUpdate::Delete) | Err(_) => {}
    }
});
