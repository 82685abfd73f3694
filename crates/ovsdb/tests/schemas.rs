//! The schemas of OVN and Open vSwitch as they are installed, and schemas that contradict themselves.
#![allow(clippy::unwrap_used)]

use causeway_ovsdb::{Atom, AtomicType, ColumnType, DatabaseSchema, Datum, RefType};
use causeway_testing::schema_file;
use std::fs;

fn real(file: &str) -> DatabaseSchema {
    DatabaseSchema::parse(&fs::read(schema_file(file)).unwrap()).unwrap()
}

fn column(schema: &DatabaseSchema, table: &str, column: &str) -> ColumnType {
    schema.tables[table].columns[column].ty.clone()
}

#[test]
fn the_three_real_schemas_are_understood() {
    let databases = [("ovn-nb", "OVN_Northbound"), ("ovn-sb", "OVN_Southbound"), ("vswitch", "Open_vSwitch")];
    for (file, name) in databases {
        let schema = real(file);
        assert_eq!(schema.name, name);
        assert_eq!(schema.version.split('.').count(), 3);
        assert!(schema.tables.len() > 15, "{name}");
        for (table, t) in &schema.tables {
            for index in &t.indexes {
                assert!(index.iter().all(|c| t.columns.contains_key(c)), "{table}");
            }
            for (column, c) in &t.columns {
                for base in std::iter::once(&c.ty.key).chain(&c.ty.value) {
                    let refers_to = base.refers_to.as_ref().map(|r| &r.0);
                    assert!(refers_to.is_none_or(|t| schema.tables.contains_key(t)), "{table}.{column}");
                }
            }
        }
    }
}

#[test]
fn types_references_and_limits_are_read() {
    let nb = real("ovn-nb");
    assert!(nb.tables["Logical_Switch"].is_root && !nb.tables["Logical_Switch_Port"].is_root);
    assert_eq!(nb.tables["NB_Global"].max_rows, Some(1));
    assert_eq!(nb.tables["Logical_Switch_Port"].indexes, [["name"]]);
    let ports = column(&nb, "Logical_Switch", "ports");
    assert_eq!(ports.key.refers_to, Some(("Logical_Switch_Port".into(), RefType::Strong)));
    assert_eq!((ports.min, ports.max, ports.is_composite()), (0, u32::MAX, true));
    let group = column(&nb, "Port_Group", "ports");
    assert_eq!(group.key.refers_to, Some(("Logical_Switch_Port".into(), RefType::Weak)));
    let direction = column(&nb, "ACL", "direction");
    assert_eq!(direction.key.allowed, [Atom::from("from-lport"), Atom::from("to-lport")]);
    let tag = column(&nb, "Logical_Switch_Port", "tag");
    assert_eq!((tag.key.ty, tag.min, tag.max), (AtomicType::Integer, 0, 1));
    assert!(column(&nb, "NB_Global", "options").is_str_map());
    let vswitch = real("vswitch");
    let queues = column(&vswitch, "QoS", "queues");
    assert!(queues.is_map() && !queues.is_str_map());
    assert_eq!(queues.default_datum(), Datum::Map(Box::new([])));
    assert!(vswitch.tables["Interface"].columns["statistics"].ephemeral);
    assert!(!vswitch.tables["Bridge"].columns["name"].mutable);
}

fn one_column(ty: &str) -> Result<DatabaseSchema, String> {
    let text =
        format!(r#"{{"name":"D","version":"1.0.0","tables":{{"T":{{"columns":{{"c":{{"type":{ty}}}}}}}}}}}"#);
    DatabaseSchema::parse(text.as_bytes()).map_err(|e| e.to_string())
}

#[test]
fn defaults_are_those_of_the_rfc() {
    let cases = [
        (r#""integer""#, Datum::from(Atom::Integer(0))),
        (r#""real""#, Atom::Real(0.0).into()),
        (r#""boolean""#, Atom::Boolean(false).into()),
        (r#""string""#, "".into()),
        (r#""uuid""#, Atom::Uuid(causeway_ovsdb::Uuid::nil()).into()),
        (r#"{"key":"string","min":0}"#, Datum::empty()),
        (r#"{"key":"string","value":"string","min":0,"max":"unlimited"}"#, Datum::StrMap(Box::new([]))),
        (r#"{"key":"integer","value":"string","min":0,"max":5}"#, Datum::Map(Box::new([]))),
        (r#"{"key":{"type":"real","enum":["set",[1,2.5]]}}"#, Atom::Real(0.0).into()),
        (r#"{"key":{"type":"string","enum":"only"}}"#, "".into()),
    ];
    for (ty, want) in cases {
        let schema = one_column(ty).unwrap();
        assert_eq!(schema.tables["T"].columns["c"].ty.default_datum(), want, "{ty}");
        assert!(schema.tables["T"].is_root, "no table is marked, so all are roots");
    }
}

#[test]
fn a_schema_that_makes_no_sense_is_refused_with_the_column() {
    let cases = [
        (r#"{"key":"integer","min":2,"max":3}"#, "bad schema: T.c: min 2 and max 3 make no sense"),
        (r#"{"key":"integer","min":1,"max":0}"#, "bad schema: T.c: min 1 and max 0 make no sense"),
        (r#"{"key":"integer","max":"many"}"#, "bad schema: T.c: max is \"many\""),
        (r#"{"key":{"type":"string","enum":["list",[]]}}"#, "bad schema: T.c: enum is not a set"),
        (r#"{"key":{"type":"boolean","enum":["set",[[1]]]}}"#, "bad schema: T.c: enum value [1] is neither"),
        (r#""text""#, "malformed database schema"),
        ("7", "malformed database schema"),
    ];
    for (ty, words) in cases {
        let error = one_column(ty).unwrap_err();
        assert!(error.starts_with(words), "{error} for {ty}");
    }
    assert!(DatabaseSchema::parse(b"{}").unwrap_err().to_string().contains("missing field `name`"));
}
