//! Prebuilt bytes into the socket of an ovsdb-server, and nothing done with what comes back.

use causeway_ovn::Planned;
use causeway_ovn::declare::NORTHBOUND;
use causeway_ovsdb_client::ovsdb::{
    Atom, Condition, Datum, Frames, Mutation, Mutator, Name, Op, Piece, Transaction, Uuid,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

/// A request for the same monitor that the engine has.
pub fn monitor() -> String {
    let tables: BTreeMap<String, Value> = NORTHBOUND
        .monitor_tables()
        .into_iter()
        .map(|t| {
            (
                t.name.to_string(),
                json!([{"columns": t.columns.iter().map(|c| c.as_str()).collect::<Vec<_>>()}]),
            )
        })
        .collect();
    json!({"id": 0, "method": "monitor_cond_since",
           "params": ["OVN_Northbound", "limit", tables, Uuid::nil().to_string()]})
    .to_string()
}

/// A request that inserts rows and puts them into their sets.
pub fn request(id: usize, rows: &[Planned]) -> Vec<u8> {
    let mut sets: BTreeMap<(&str, Uuid, &str), Vec<Atom>> = BTreeMap::new();
    let mut ops = Vec::new();
    for row in rows {
        if let (Some(edge), Some((_, one))) = (row.member_of, row.columns.first()) {
            let members = sets.entry((edge.parent.meta.name, edge.parent.uuid, edge.column)).or_default();
            members.extend(one.atoms().iter().cloned());
            continue;
        }
        let columns =
            row.columns.iter().map(|(at, d)| (Name::from(row.meta.columns[usize::from(*at)]), d.clone()));
        ops.push(Op::Insert {
            table: row.meta.name.into(),
            uuid: Some(row.uuid),
            name: None,
            row: columns.collect(),
        });
        for edge in &row.edges {
            sets.entry((edge.parent.meta.name, edge.parent.uuid, edge.column))
                .or_default()
                .push(row.uuid.into());
        }
    }
    ops.extend(mutations(sets, Mutator::Insert));
    transact(id, ops)
}

/// A request that takes rows away: out of the sets that stay, or, where no set holds them, themselves. What a row that goes
/// holds goes with it.
#[allow(dead_code, reason = "not every benchmark takes rows away")]
pub fn removal(id: usize, gone: &[Planned], rows: &[Planned]) -> Vec<u8> {
    let going: BTreeSet<Uuid> = gone.iter().map(|row| row.uuid).collect();
    let mut sets: BTreeMap<(&str, Uuid, &str), Vec<Atom>> = BTreeMap::new();
    let mut ops = Vec::new();
    for row in rows {
        if let (Some(edge), Some((_, one))) = (row.member_of, row.columns.first()) {
            if !going.contains(&edge.parent.uuid) {
                let members = sets.entry((edge.parent.meta.name, edge.parent.uuid, edge.column)).or_default();
                members.extend(one.atoms().iter().cloned());
            }
            continue;
        }
        if row.edges.is_empty() {
            let (table, conditions) = (row.meta.name.into(), vec![Condition::uuid(row.uuid)]);
            ops.push(Op::Delete { table, conditions });
        }
        for edge in row.edges.iter().filter(|edge| !going.contains(&edge.parent.uuid)) {
            let set = sets.entry((edge.parent.meta.name, edge.parent.uuid, edge.column)).or_default();
            set.push(row.uuid.into());
        }
    }
    ops.extend(mutations(sets, Mutator::Delete));
    transact(id, ops)
}

/// One mutation for each set.
fn mutations(sets: BTreeMap<(&str, Uuid, &str), Vec<Atom>>, mutator: Mutator) -> impl Iterator<Item = Op> {
    sets.into_iter().map(move |((table, parent, column), members)| Op::Mutate {
        table: Name::from(table.to_owned()),
        conditions: vec![Condition::uuid(parent)],
        mutations: vec![Mutation {
            column: Name::from(column.to_owned()),
            mutator,
            value: Datum::set(members),
        }],
    })
}

/// A request with these operations.
pub fn transact(id: usize, ops: Vec<Op>) -> Vec<u8> {
    let mut out = format!("{{\"id\":{id},\"method\":\"transact\",\"params\":").into_bytes();
    Transaction::new(ops).encode(&mut out, "OVN_Northbound");
    out.push(b'}');
    out
}

/// Sends everything at once from one thread, while this one reads until every reply is there.
pub fn exchange(stream: &UnixStream, requests: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let wanted = requests.len();
    let mut writer = stream.try_clone().unwrap();
    let sender = thread::spawn(move || requests.iter().for_each(|r| writer.write_all(r).unwrap()));
    let mut reader = stream;
    let mut frames = Frames::new(1 << 30);
    let (mut replies, mut buffer) = (Vec::new(), vec![0; 256 << 10]);
    while replies.len() < wanted {
        let read = reader.read(&mut buffer).unwrap();
        assert!(read > 0, "the server closed the connection");
        frames
            .push(&buffer[..read], &mut |piece| {
                if let Piece::Frame(frame) = piece
                    && !frame.windows(9).any(|w| w == b"\"method\":")
                {
                    replies.push(frame.to_vec());
                }
                Ok(())
            })
            .unwrap();
    }
    sender.join().unwrap();
    replies
}

/// No reply tells of an error.
pub fn assert_done(replies: &[Vec<u8>]) {
    let failed = replies.iter().find(|r| r.windows(9).any(|w| w == b"\"details\""));
    assert!(failed.is_none(), "{}", String::from_utf8_lossy(failed.unwrap()));
}
