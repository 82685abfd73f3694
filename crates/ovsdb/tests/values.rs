//! Values on the wire: what is written comes back, and what has the wrong type says so.
#![allow(clippy::unwrap_used)]

use causeway_ovsdb::{
    Atom, AtomicType, BaseType, ColumnType, Datum, Interner, Layout, LayoutColumn, RowUpdate, Uuid,
    decode_datum, decode_row_update, encode_datum,
};
use proptest::prelude::*;

fn base(ty: AtomicType) -> BaseType {
    BaseType { ty, allowed: Vec::new(), refers_to: None }
}

fn scalar(ty: AtomicType) -> ColumnType {
    ColumnType { key: base(ty), value: None, min: 1, max: 1 }
}

fn set(ty: AtomicType) -> ColumnType {
    ColumnType { key: base(ty), value: None, min: 0, max: u32::MAX }
}

fn map(key: AtomicType, value: AtomicType) -> ColumnType {
    ColumnType { key: base(key), value: Some(base(value)), min: 0, max: u32::MAX }
}

fn any_type() -> impl Strategy<Value = AtomicType> {
    use AtomicType::*;
    prop::sample::select(vec![Integer, Real, Boolean, String, Uuid])
}

fn any_atom(ty: AtomicType) -> BoxedStrategy<Atom> {
    match ty {
        AtomicType::Integer => any::<i64>().prop_map(Atom::Integer).boxed(),
        AtomicType::Real => {
            any::<f64>().prop_filter("JSON has no infinity", |r| r.is_finite()).prop_map(Atom::Real).boxed()
        }
        AtomicType::Boolean => any::<bool>().prop_map(Atom::Boolean).boxed(),
        AtomicType::String => any::<String>().prop_map(|s| Atom::String(s.into())).boxed(),
        AtomicType::Uuid => any::<u128>().prop_map(|n| Atom::Uuid(Uuid::from_u128(n))).boxed(),
    }
}

fn any_column() -> impl Strategy<Value = (ColumnType, Datum)> {
    let scalars = any_type().prop_flat_map(|t| (Just(scalar(t)), any_atom(t).prop_map(Datum::One)));
    let sets = any_type()
        .prop_flat_map(|t| (Just(set(t)), prop::collection::vec(any_atom(t), 0..6).prop_map(Datum::set)));
    let maps = (any_type(), any_type()).prop_flat_map(|(k, v)| {
        let empty = map(k, v).default_datum();
        let pairs = prop::collection::vec((any_atom(k), any_atom(v)), 0..6);
        (Just(map(k, v)), pairs.prop_map(move |p| if p.is_empty() { empty.clone() } else { Datum::map(p) }))
    });
    prop_oneof![scalars, sets, maps]
}

fn json(datum: &Datum) -> Vec<u8> {
    let mut out = Vec::new();
    encode_datum(&mut out, datum);
    out
}

fn layout(ty: ColumnType) -> Layout {
    Layout::new("T".into(), vec![LayoutColumn { name: "c".into(), ty }])
}

fn row_update(json: &str, ty: ColumnType) -> Result<RowUpdate, String> {
    decode_row_update(json.as_bytes(), &layout(ty), &Interner::default()).map_err(|e| e.to_string())
}

proptest! {
    #[test]
    fn what_is_written_is_read((ty, datum) in any_column()) {
        let json = json(&datum);
        prop_assert_eq!(decode_datum(&json, &ty).unwrap(), datum.clone());
        let row = format!(r#"{{"insert":{{"c":{}}}}}"#, String::from_utf8(json).unwrap());
        prop_assert_eq!(row_update(&row, ty).unwrap(), RowUpdate::Whole([datum].into()));
    }

    #[test]
    fn a_value_of_another_type_is_read_as_an_equal_one_or_refused((ty, _) in any_column(), (_, datum) in any_column()) {
        if let Ok(read) = decode_datum(&json(&datum), &ty) {
            let again = decode_datum(&json(&read), &ty).unwrap();
            prop_assert_eq!(again, read);
        }
    }
}

#[test]
fn the_forms_of_the_rfc_are_read() {
    use AtomicType::*;
    let id = causeway_ovsdb::Uuid::from_u128(0x72c4a754_35f4_5265_9a62_cdfa5ae3e3f3);
    let reals = Datum::set([Atom::Real(-2.0), Atom::Real(1.5)]);
    let cases = [
        (scalar(Integer), "-9223372036854775808", Atom::Integer(i64::MIN).into()),
        (scalar(Real), "3", Atom::Real(3.0).into()),
        (scalar(Real), "-0.0", Atom::Real(0.0).into()),
        (scalar(Real), "-0", Atom::Real(0.0).into()),
        (scalar(Real), "1e-3", Atom::Real(0.001).into()),
        (scalar(Boolean), "true", Atom::Boolean(true).into()),
        (scalar(String), r#""\u00fc\n""#, "ü\n".into()),
        (scalar(Uuid), r#"["uuid","72c4a754-35f4-5265-9a62-cdfa5ae3e3f3"]"#, Atom::Uuid(id).into()),
        (scalar(Uuid), r#"["named-uuid","x"]"#, Atom::Named("x".into()).into()),
        (set(String), r#""one""#, "one".into()),
        (set(String), r#"["set",["one"]]"#, "one".into()),
        (set(String), r#"["set",[]]"#, Datum::empty()),
        (set(Real), r#"["set",[1.5,-2,1.5]]"#, reals),
        (map(String, String), r#"["map",[["b","2"],["a","1"]]]"#, Datum::str_map([("a", "1"), ("b", "2")])),
        (map(Integer, Boolean), r#"["map",[[1,true]]]"#, Datum::map([(1.into(), true.into())])),
        (map(Integer, Boolean), r#"["map",[[1,true],[1,false]]]"#, Datum::map([(1.into(), false.into())])),
    ];
    for (ty, json, want) in cases {
        assert_eq!(decode_datum(json.as_bytes(), &ty).unwrap(), want, "{json}");
    }
}

#[test]
fn a_wrong_type_says_what_came_and_what_belongs_there() {
    use AtomicType::*;
    let cases = [
        (scalar(Integer), "\"x\"", "a string where Integer belongs"),
        (scalar(Integer), "1.5", "a fraction where Integer belongs"),
        (scalar(Integer), "9223372036854775808", "a number beyond 2^63 where Integer belongs"),
        (scalar(Integer), "true", "a Boolean where Integer belongs"),
        (scalar(Real), "\"x\"", "a string where Real belongs"),
        (scalar(Boolean), "1", "a number where Boolean belongs"),
        (scalar(Boolean), "-1", "a number where Boolean belongs"),
        (scalar(String), "1", "a number where String belongs"),
        (scalar(String), "false", "a Boolean where String belongs"),
        (scalar(String), r#"["uuid","x"]"#, "\"uuid\" value where String belongs"),
        (scalar(Uuid), "\"x\"", "a string where Uuid belongs"),
        (scalar(Uuid), r#"["uuid","x"]"#, "bad UUID \"x\""),
        (scalar(Uuid), r#"["uuid"]"#, "\"uuid\" value where Uuid belongs"),
        (scalar(Uuid), r#"["id","x"]"#, "\"id\" value where Uuid belongs"),
        (scalar(String), "null", "invalid type: null"),
        (scalar(String), "{}", "invalid type: map"),
        (scalar(String), "[]", "an empty array"),
        (scalar(String), r#"["set",[],1]"#, "more than two elements"),
        (set(Integer), r#"["set"]"#, "\"set\" without its elements"),
        (set(Integer), r#"["set",[1,"x"]]"#, "a string where Integer belongs"),
        (set(Integer), r#"["set",[["set",[]]]]"#, "\"set\" value where Integer belongs"),
        (set(Integer), r#"["set",1]"#, "an array"),
        (set(Integer), r#"["map",[]]"#, "a map where a set belongs"),
        (map(String, String), r#"["set",[]]"#, "a set where a map belongs"),
        (map(String, String), "\"x\"", "a single value where a map belongs"),
        (map(String, String), r#"["uuid","x"]"#, "a single value where a map belongs"),
        (map(String, String), r#"["map"]"#, "\"map\" without its pairs"),
        (map(String, String), r#"["map",[["x"]]]"#, "invalid length 1"),
        (map(String, String), r#"["map",[["x",1]]]"#, "invalid type: integer"),
        (map(String, Integer), r#"["map",[["x"]]]"#, "a pair with fewer than two elements"),
        (map(String, Integer), r#"["map",[["x","y"]]]"#, "a string where Integer belongs"),
        (map(String, Integer), r#"["map",[["x",1,2]]]"#, "trailing"),
        (scalar(Integer), "1 2", "trailing characters"),
        (scalar(Integer), "", "EOF"),
    ];
    for (ty, json, words) in cases {
        let error = decode_datum(json.as_bytes(), &ty).unwrap_err().to_string();
        assert!(error.contains(words), "{error:?} for {json}");
    }
}

#[test]
fn a_row_update_is_exactly_one_thing() {
    let integer = || scalar(AtomicType::Integer);
    let seven = || Datum::from(Atom::Integer(7));
    let cases = [
        (r#"{"initial":{"c":7}}"#, RowUpdate::Whole([seven()].into())),
        (r#"{"insert":{}}"#, RowUpdate::Whole([Atom::Integer(0).into()].into())),
        (r#"{"new":{"c":7,"_version":["uuid","x"],"other":{}}}"#, RowUpdate::Whole([seven()].into())),
        (r#"{"old":{"c":6},"new":{"c":7}}"#, RowUpdate::Replace([seven()].into())),
        (r#"{"new":{"c":7},"old":{}}"#, RowUpdate::Replace([seven()].into())),
        (r#"{"modify":{"c":7}}"#, RowUpdate::Modify(vec![(0, seven())])),
        (r#"{"modify":{"other":7}}"#, RowUpdate::Modify(vec![])),
        (r#"{"delete":null}"#, RowUpdate::Delete),
        (r#"{"old":{"c":6}}"#, RowUpdate::Delete),
    ];
    for (json, want) in cases {
        assert_eq!(row_update(json, integer()).unwrap(), want, "{json}");
    }
    let wrong = [
        (r#"{}"#, "want exactly one of"),
        (r#"{"insert":{},"delete":null}"#, "want exactly one of"),
        (r#"{"modify":{},"old":{}}"#, "want exactly one of"),
        (r#"{"updated":{}}"#, "unknown kind of row update \"updated\""),
        (r#"{"insert":[]}"#, "an object of columns"),
        (r#"{"insert":{"c":"x"}}"#, "column c: a string where Integer belongs"),
        (r#"[]"#, "a row update"),
        (r#"{"insert":{}} x"#, "trailing characters"),
    ];
    for (json, words) in wrong {
        let error = row_update(json, integer()).unwrap_err();
        assert!(error.starts_with("malformed row update") && error.contains(words), "{error:?} for {json}");
    }
}
