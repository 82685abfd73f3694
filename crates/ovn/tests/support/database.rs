//! Two tables of the northbound database as values, with as much of RFC 7047 as the engine uses. The real server is met
//! in the tests of the node.

use causeway_ovn::Uuid;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A row as its columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub name: String,
    pub external_ids: BTreeMap<String, String>,
    /// Of an address set.
    pub addresses: BTreeSet<String>,
    /// Of a load balancer.
    pub vips: BTreeMap<String, String>,
}

/// Rows by table and identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Database {
    pub rows: BTreeMap<(String, Uuid), Row>,
}

const SETS: &str = "Address_Set";
const BALANCERS: &str = "Load_Balancer";

pub fn schema() -> Value {
    let map = json!({"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}});
    let set = json!({"type": {"key": "string", "min": 0, "max": "unlimited"}});
    json!({"name": "OVN_Northbound", "version": "7.11.0", "tables": {
        SETS: {"isRoot": true, "indexes": [["name"]], "columns": {
            "name": {"type": "string"}, "external_ids": map, "addresses": set}},
        BALANCERS: {"isRoot": true, "columns": {
            "name": {"type": "string"}, "external_ids": map, "vips": map}},
    }})
}

impl Row {
    fn json(&self, table: &str) -> Value {
        let map = |map: &BTreeMap<String, String>| json!(["map", map.iter().collect::<Vec<_>>()]);
        let mut row = json!({"name": self.name, "external_ids": map(&self.external_ids)});
        match table {
            SETS => row["addresses"] = json!(["set", self.addresses]),
            _ => row["vips"] = map(&self.vips),
        }
        row
    }

    fn map(&mut self, column: &str) -> &mut BTreeMap<String, String> {
        match column {
            "external_ids" => &mut self.external_ids,
            "vips" => &mut self.vips,
            other => panic!("{other} is no map"),
        }
    }

    fn put(&mut self, column: &str, value: &Value) {
        match column {
            "name" => self.name = value.as_str().unwrap().to_owned(),
            "addresses" => self.addresses = elements(value).into_iter().collect(),
            _ => *self.map(column) = pairs(value),
        }
    }

    fn mutate(&mut self, column: &str, mutator: &str, value: &Value) {
        match (column, mutator) {
            ("addresses", "insert") => self.addresses.extend(elements(value)),
            ("addresses", "delete") => {
                let gone = elements(value);
                self.addresses.retain(|one| !gone.contains(one));
            }
            (_, "insert") => {
                for (key, value) in pairs(value) {
                    self.map(column).entry(key).or_insert(value);
                }
            }
            (_, "delete") => elements(value).iter().for_each(|key| drop(self.map(column).remove(key))),
            other => panic!("{other:?}"),
        }
    }
}

fn elements(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        many => many[1].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect(),
    }
}

fn pairs(value: &Value) -> BTreeMap<String, String> {
    let pair = |pair: &Value| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned());
    value[1].as_array().unwrap().iter().map(pair).collect()
}

impl Database {
    /// Everything, as the answer to a monitor.
    pub fn image(&self) -> Value {
        self.update_since(&Database::default())
    }

    /// What an `update` tells of the changes since an earlier state.
    pub fn update_since(&self, before: &Database) -> Value {
        let mut tables = Map::new();
        let keys: BTreeSet<_> = before.rows.keys().chain(self.rows.keys()).collect();
        for key @ (table, uuid) in keys {
            let (old, new) = (before.rows.get(key), self.rows.get(key));
            if old == new {
                continue;
            }
            let mut row = Map::new();
            old.map(|old| row.insert("old".into(), old.json(table)));
            new.map(|new| row.insert("new".into(), new.json(table)));
            let rows = tables.entry(table).or_insert_with(|| json!({}));
            rows[uuid.to_string()] = row.into();
        }
        tables.into()
    }

    /// Executes operations; says what they changed and what the reply is.
    pub fn transact(&mut self, operations: &[Value]) -> (Value, Value) {
        let before = self.clone();
        let mut results = Vec::new();
        for operation in operations {
            match self.execute(operation) {
                Ok(result) => results.push(result),
                Err(error) => {
                    *self = before.clone();
                    results.push(json!({"error": error, "details": operation.to_string()}));
                    results.resize(operations.len(), Value::Null);
                    break;
                }
            }
        }
        (self.update_since(&before), results.into())
    }

    fn execute(&mut self, operation: &Value) -> Result<Value, &'static str> {
        let table = operation["table"].as_str().unwrap().to_owned();
        if operation["op"] == "insert" {
            let uuid: Uuid = operation["uuid"].as_str().unwrap().parse().unwrap();
            let mut row = Row::default();
            operation["row"].as_object().unwrap().iter().for_each(|(column, value)| row.put(column, value));
            let twice = self.rows.insert((table, uuid), row);
            return if twice.is_none() { Ok(json!({"uuid": ["uuid", uuid]})) } else { Err("duplicate uuid") };
        }
        let uuid: Uuid = operation["where"][0][2][1].as_str().unwrap().parse().unwrap();
        let row = self.rows.get_mut(&(table.clone(), uuid));
        match (operation["op"].as_str().unwrap(), row) {
            ("wait", Some(_)) => Ok(json!({})),
            ("wait", None) => Err("timed out"),
            ("delete", row) => {
                let count = u8::from(row.is_some());
                self.rows.remove(&(table, uuid));
                Ok(json!({"count": count}))
            }
            (_, None) => Ok(json!({"count": 0})),
            ("update", Some(row)) => {
                operation["row"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .for_each(|(column, value)| row.put(column, value));
                Ok(json!({"count": 1}))
            }
            ("mutate", Some(row)) => {
                for mutation in operation["mutations"].as_array().unwrap() {
                    row.mutate(mutation[0].as_str().unwrap(), mutation[1].as_str().unwrap(), &mutation[2]);
                }
                Ok(json!({"count": 1}))
            }
            (other, _) => panic!("{other}"),
        }
    }
}
