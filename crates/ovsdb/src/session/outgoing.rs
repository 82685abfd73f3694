//! The sending half of a session: requests to bytes.

use super::{MONITOR, MonitorMethod, MonitorTable, Pending, RequestId, Session};
use crate::datum::Str;
use crate::encode::{encode_json, encode_str, separated};
use crate::message;
use crate::replica::{Layout, LayoutColumn, TableSpec};
use crate::schema::DatabaseSchema;
use crate::txn::{Condition, encode_conditions};
use uuid::Uuid;

impl Session {
    pub(super) fn request(
        &mut self,
        method: &str,
        pending: Pending,
        params: impl FnOnce(&mut Vec<u8>),
    ) -> RequestId {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, pending);
        message::begin(&mut self.out, id, method);
        params(&mut self.out);
        message::finish(&mut self.out);
        RequestId(id)
    }

    pub(super) fn notify(&mut self, method: &str, params: impl FnOnce(&mut Vec<u8>)) {
        message::begin_notification(&mut self.out, method);
        params(&mut self.out);
        message::finish(&mut self.out);
    }

    pub(super) fn request_unlock(&mut self, name: &str) {
        self.request("unlock", Pending::Unlock, |out| encode_json(out, &[name]));
    }

    pub(super) fn request_conditions(&mut self, table: &str, conditions: &[Condition]) {
        self.request("monitor_cond_change", Pending::Conditions, |out| {
            out.push(b'[');
            separated(out, &[MONITOR, MONITOR], |out, name| encode_str(out, name));
            out.extend_from_slice(b",{");
            encode_str(out, table);
            out.extend_from_slice(b":[{\"where\":");
            encode_where(out, conditions);
            out.extend_from_slice(b"}]}]");
        });
    }

    pub(super) fn request_lock(&mut self, name: Str, steal: bool) {
        let method = if steal { "steal" } else { "lock" };
        let params = name.clone();
        self.request(method, Pending::Lock(name), |out| encode_json(out, &[params.as_str()]));
    }

    pub(super) fn request_monitor(&mut self, method: MonitorMethod) {
        let mut params = Vec::new();
        params.push(b'[');
        separated(&mut params, &[self.config.database.as_str(), MONITOR], |out, name| encode_str(out, name));
        params.extend_from_slice(b",{");
        self.method_in_use = method;
        let replica = &self.replica;
        let held =
            self.config.tables.iter().filter_map(|t| Some((t, replica.layout(replica.table(&t.name)?))));
        for (i, (table, layout)) in held.enumerate() {
            if i > 0 {
                params.push(b',');
            }
            encode_monitor(&mut params, table, layout, method);
        }
        params.push(b'}');
        if method == MonitorMethod::Since {
            let nil = Uuid::nil().to_string();
            params.push(b',');
            encode_str(&mut params, self.last_txn.as_deref().unwrap_or(&nil));
        }
        params.push(b']');
        self.request(method.name(), Pending::Monitor(method), |out| out.extend_from_slice(&params));
    }

    /// What of the configured tables the schema has, and what it lacks.
    pub(super) fn specs(&self, schema: &DatabaseSchema) -> (Vec<TableSpec>, Vec<String>) {
        let (mut specs, mut missing) = (Vec::new(), Vec::new());
        for wanted in &self.config.tables {
            let Some(table) = schema.tables.get(&wanted.name) else {
                missing.push(wanted.name.to_string());
                // Keeps its number, so that the numbers of the others never change.
                let layout = Layout::new(wanted.name.clone(), Vec::new());
                specs.push(TableSpec { layout, index: None, backrefs: Vec::new() });
                continue;
            };
            let all: Vec<Str> = table.columns.keys().cloned().collect();
            let names = if wanted.columns.is_empty() { &all } else { &wanted.columns };
            let mut columns = Vec::new();
            for name in names {
                match table.columns.get(name) {
                    Some(column) => columns.push(LayoutColumn { name: name.clone(), ty: column.ty.clone() }),
                    None => missing.push(format!("{}.{name}", wanted.name)),
                }
            }
            let layout = Layout::new(wanted.name.clone(), columns);
            let backrefs = wanted.backrefs.iter().filter_map(|c| layout.position(c)).collect();
            specs.push(TableSpec { layout, index: wanted.index, backrefs });
        }
        (specs, missing)
    }
}

fn encode_monitor(out: &mut Vec<u8>, table: &MonitorTable, layout: &Layout, method: MonitorMethod) {
    encode_str(out, &table.name);
    out.extend_from_slice(b":[{\"columns\":[");
    separated(out, layout.columns(), |out, c| encode_str(out, &c.name));
    out.push(b']');
    if method != MonitorMethod::Plain && !table.conditions.is_empty() {
        out.extend_from_slice(b",\"where\":");
        encode_where(out, &table.conditions);
    }
    out.extend_from_slice(b"}]");
}

/// In a monitor several conditions are alternatives; none at all means every row.
fn encode_where(out: &mut Vec<u8>, conditions: &[Condition]) {
    if conditions.is_empty() {
        out.extend_from_slice(b"[true]");
    } else {
        encode_conditions(out, conditions);
    }
}
