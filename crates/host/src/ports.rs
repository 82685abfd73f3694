//! Ports of bridges of Open vSwitch as an output, by the program `ovs-vsctl`.
//!
//! A key in the port's `external_ids` says that it is ours, and for whom. All changes go in one transaction. Whether the switch has
//! opened a port is not asked here: a device may come later.

use crate::error::{Error, Result};
use crate::output::{Actual, Op, Output, Seen, Wanted, Whose};
use crate::program::run;
use causeway_types::host::{BridgePort, Item, Key, Owner, Planned};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The ports of one switch that carry a mark.
#[derive(Debug)]
pub struct BridgePorts {
    program: PathBuf,
    /// As in `unix:/run/openvswitch/db.sock`.
    database: String,
    mark: &'static str,
}

impl BridgePorts {
    /// The mark of the EVPN agent.
    pub const EVPN: &'static str = "causeway-evpn";

    /// The ports with this key in their `external_ids`, of the switch with this database.
    pub fn new(program: impl Into<PathBuf>, database: impl Into<String>, mark: &'static str) -> BridgePorts {
        BridgePorts { program: program.into(), database: database.into(), mark }
    }

    fn ask(&self, words: &[String]) -> Result<String> {
        let head = [format!("--db={}", self.database), "--timeout=10".to_owned(), "--no-wait".to_owned()];
        run(&self.program, &[head.as_slice(), words].concat(), "")
    }

    /// The rows of the tables, as far as they count here.
    fn tables(&self) -> Result<[Vec<Row>; 3]> {
        let list = |table: &str, columns: &str| {
            ["--".to_owned(), format!("--columns={columns}"), "list".to_owned(), table.to_owned()]
        };
        let words = [
            vec!["--format=json".to_owned()],
            list("Bridge", "_uuid,name,ports").to_vec(),
            list("Port", "_uuid,name,tag,external_ids,interfaces").to_vec(),
            list("Interface", "_uuid,name,type").to_vec(),
        ];
        let said = self.ask(&words.concat())?;
        let mut lines = said.lines().map(rows);
        let mut next = || lines.next().flatten().ok_or_else(|| self.unreadable(&said));
        Ok([next()?, next()?, next()?])
    }

    fn unreadable(&self, said: &str) -> Error {
        Error::Program { program: self.program.display().to_string(), said: said.to_owned() }
    }

    fn words(&self, op: &Op) -> Vec<String> {
        let gone = |name: &str| ["--", "--if-exists", "del-port", name].map(str::to_owned).to_vec();
        match op {
            Op::Create(planned) => self.addition(planned),
            Op::Change { to, .. } => [gone(&name_of(&op.key())), self.addition(to)].concat(),
            Op::Delete(_) => gone(&name_of(&op.key())),
        }
    }

    fn addition(&self, planned: &Planned) -> Vec<String> {
        let Item::BridgePort(port) = &planned.item else { return Vec::new() };
        let owner = Value::from(planned.owner.as_str());
        let mut words = ["--", "add-port", &port.bridge, &port.name].map(str::to_owned).to_vec();
        words.push(format!("external_ids:{}={owner}", self.mark));
        words.extend(port.tag.map(|tag| format!("tag={tag}")));
        if port.internal {
            words.extend(["--", "set", "Interface", &port.name, "type=internal"].map(str::to_owned));
        }
        words
    }
}

impl Output for BridgePorts {
    fn name(&self) -> &'static str {
        "ports"
    }

    fn takes(&self, key: &Key) -> bool {
        matches!(key, Key::BridgePort(_))
    }

    fn read(&mut self, wanted: &Wanted) -> Result<Actual> {
        let [bridges, ports, interfaces] = self.tables()?;
        let mut bridge_of = BTreeMap::new();
        for bridge in &bridges {
            bridge
                .set("ports")
                .iter()
                .for_each(|port| drop(bridge_of.insert(port.clone(), bridge.text("name"))));
        }
        let internal: BTreeMap<String, bool> =
            interfaces.iter().map(|row| (row.text("_uuid"), row.text("type") == "internal")).collect();
        let mut actual = Actual::new();
        for row in &ports {
            let item = Item::BridgePort(BridgePort {
                name: row.text("name"),
                bridge: bridge_of.get(&row.text("_uuid")).cloned().unwrap_or_default(),
                internal: row.set("interfaces").iter().any(|one| internal.get(one) == Some(&true)),
                tag: row.set("tag").first().and_then(|tag| tag.parse().ok()),
            });
            let whose = match row.pair("external_ids", self.mark) {
                Some(owner) => Whose::Owner(Owner::new(owner)),
                None => Whose::Foreign,
            };
            if whose != Whose::Foreign || wanted.contains_key(&item.key()) {
                actual.insert(item.key(), Seen { item, whose });
            }
        }
        Ok(actual)
    }

    fn apply_together(&mut self, ops: &[Op]) -> Option<Result<()>> {
        let words: Vec<String> = ops.iter().flat_map(|op| self.words(op)).collect();
        Some(self.ask(&words).map(drop))
    }

    fn apply(&mut self, op: &Op) -> Result<()> {
        self.ask(&self.words(op)).map(drop)
    }
}

fn name_of(key: &Key) -> String {
    match key {
        Key::BridgePort(name) => name.clone(),
        _ => String::new(),
    }
}

/// A row by column.
struct Row(BTreeMap<String, Value>);

/// A table as the program prints it.
fn rows(line: &str) -> Option<Vec<Row>> {
    let table: Value = serde_json::from_str(line).ok()?;
    let names: Vec<&str> = table["headings"].as_array()?.iter().filter_map(Value::as_str).collect();
    let row = |cells: &Value| {
        let cells = cells.as_array().cloned().unwrap_or_default();
        Row(names.iter().map(|name| (*name).to_owned()).zip(cells).collect())
    };
    Some(table["data"].as_array()?.iter().map(row).collect())
}

impl Row {
    fn text(&self, column: &str) -> String {
        self.set(column).into_iter().next().unwrap_or_default()
    }

    /// The members of a column, which may be one value without a set around it.
    fn set(&self, column: &str) -> Vec<String> {
        let cell = self.0.get(column).unwrap_or(&Value::Null);
        match (cell[0].as_str(), cell[1].as_array()) {
            (Some("set"), Some(members)) => members.iter().filter_map(atom).collect(),
            _ => atom(cell).into_iter().collect(),
        }
    }

    fn pair(&self, column: &str, key: &str) -> Option<String> {
        let pairs = self.0.get(column)?[1].as_array()?;
        pairs.iter().find(|pair| pair[0] == key).and_then(|pair| atom(&pair[1]))
    }
}

/// A string, a number or `["uuid", …]`.
fn atom(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(pair) => pair.get(1).and_then(Value::as_str).map(str::to_owned),
        _ => None,
    }
}
