//! Is the database what the plan says? Written without the differ, so that it can disagree with it.

use super::World;
use causeway_ovn::declare::{Keys, NORTHBOUND};
use causeway_ovn::{Plan, Planned, Planner, Uuid, together};
use causeway_ovsdb_client::ovsdb::{Datum, Replica};
use causeway_testing::OvsdbServer;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// All planned rows by UUID, with their members in them.
pub fn planned(world: &World) -> BTreeMap<Uuid, Planned> {
    let mut rows = Vec::new();
    for slice in world.slices("") {
        if let Plan::Rows(planned) = world.plan(&slice) {
            rows.extend(planned);
        }
    }
    together(rows).into_iter().map(|row| (row.uuid, row)).collect()
}

/// Every planned row is there with its values and memberships, and nothing else of ours is.
pub fn assert_as_planned(replica: &Replica, world: &World) {
    let planned = planned(world);
    for row in planned.values() {
        let table = replica.table(row.meta.name).unwrap();
        let actual = replica.row(table, row.uuid).unwrap_or_else(|| panic!("{} is missing", row.path));
        let decl = NORTHBOUND.tables.iter().find(|d| (d.meta)() == row.meta).unwrap();
        for column in replica.layout(table).columns() {
            let name = column.name.as_str();
            if decl.edges.contains(&name) || decl.ignored.contains(&name) {
                continue;
            }
            let want = row.column(name).cloned().unwrap_or_else(|| column.ty.default_datum());
            let have = actual.get(name).unwrap();
            let keys = decl.maps.iter().find(|(n, _)| *n == name).map(|(_, keys)| *keys);
            assert_eq!(ours(have, keys), want, "{} {name}", row.path);
        }
    }
    for table in replica.tables() {
        for row in replica.rows(table) {
            let id = row
                .get("external_ids")
                .and_then(|d| d.get("k8s.ovn.org/id"))
                .filter(|id| id.starts_with("t:"));
            if let Some(id) = id {
                assert!(planned.contains_key(&row.uuid), "{id} should not be in {}", row.layout.table());
            }
        }
    }
    assert_members(replica, &planned);
}

fn ours(datum: &Datum, keys: Option<Keys>) -> Datum {
    match keys {
        Some(keys) => Datum::str_map(datum.pairs().iter().filter(|(k, _)| keys.owns(k)).cloned()),
        None => datum.clone(),
    }
}

/// In the sets of our rows, our members are exactly the planned ones.
fn assert_members(replica: &Replica, planned: &BTreeMap<Uuid, Planned>) {
    let mut want: BTreeMap<(Uuid, &str), BTreeSet<Uuid>> = BTreeMap::new();
    for row in planned.values() {
        for edge in &row.edges {
            want.entry((edge.parent.uuid, edge.column)).or_default().insert(row.uuid);
        }
    }
    for decl in NORTHBOUND.tables {
        let table = replica.table((decl.meta)().name).unwrap();
        for row in replica.rows(table).filter(|row| planned.contains_key(&row.uuid)) {
            for column in decl.edges {
                let members = row.get(column).unwrap().atoms().iter().filter_map(|a| a.as_uuid());
                let have: BTreeSet<Uuid> = members.filter(|m| planned.contains_key(m)).collect();
                let want = want.get(&(row.uuid, *column)).cloned().unwrap_or_default();
                assert_eq!(have, want, "{column} of {}", planned[&row.uuid].path);
            }
        }
    }
}

/// Replays the transaction log: at no moment was a dependant there without the guards that one of the plans names.
pub fn assert_always_guarded(server: &OvsdbServer, worlds: &[&World]) {
    let mut guards: BTreeMap<Uuid, Vec<Vec<Uuid>>> = BTreeMap::new();
    for world in worlds {
        for row in planned(world).values() {
            guards.entry(row.uuid).or_default().push(row.guards.iter().map(|g| g.uuid).collect());
        }
    }
    let mut there: BTreeSet<Uuid> = BTreeSet::new();
    for (n, transaction) in server.transactions().transactions.iter().enumerate() {
        for (_, rows) in transaction.as_object().unwrap().iter().filter(|(table, _)| !table.starts_with('_'))
        {
            for (uuid, row) in rows.as_object().unwrap() {
                let uuid: Uuid = uuid.parse().unwrap();
                if *row == Value::Null {
                    there.remove(&uuid)
                } else {
                    there.insert(uuid)
                };
            }
        }
        for (dependant, alternatives) in guards.iter().filter(|(row, _)| there.contains(row)) {
            let guarded = alternatives.iter().any(|guards| guards.iter().all(|g| there.contains(g)));
            assert!(guarded, "after transaction {n} {dependant} is there without its guards");
        }
    }
}
