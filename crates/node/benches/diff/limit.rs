//! The limit: prebuilt bytes into the socket, with the same monitor, and nothing done with what comes back.

use crate::Server;
use crate::measure::Meter;
use crate::shape::Connect;
use causeway_ovn::declare::NORTHBOUND;
use causeway_ovn::{Plan, Planned, Planner};
use causeway_ovsdb_client::ovsdb::{
    Atom, Condition, Datum, Frames, Mutation, Mutator, Name, Op, Piece, Transaction, Uuid,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

/// The size of the engine's own transactions.
const ROWS: usize = 250;

fn monitor() -> String {
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

fn request(id: usize, rows: &[Planned]) -> Vec<u8> {
    let mut sets: BTreeMap<(&str, Uuid, &str), Vec<Atom>> = BTreeMap::new();
    let mut ops = Vec::new();
    for row in rows {
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
    for ((table, parent, column), children) in sets {
        let mutation = Mutation {
            column: Name::from(column.to_owned()),
            mutator: Mutator::Insert,
            value: Datum::set(children),
        };
        ops.push(Op::Mutate {
            table: Name::from(table.to_owned()),
            conditions: vec![Condition::uuid(parent)],
            mutations: vec![mutation],
        });
    }
    let mut out = format!("{{\"id\":{id},\"method\":\"transact\",\"params\":").into_bytes();
    Transaction::new(ops).encode(&mut out, "OVN_Northbound");
    out.push(b'}');
    out
}

/// The requests for all rows of a plan under a prefix.
fn requests(connect: &Connect, prefix: &str, first: usize) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    let mut slices = connect.slices(prefix);
    // The connect router comes before what it holds.
    slices.sort_by_key(|s| !s.ends_with(":router"));
    for slice in slices {
        if let Plan::Rows(planned) = connect.plan(&slice) {
            rows.extend(planned);
        }
    }
    rows.chunks(ROWS).enumerate().map(|(i, chunk)| request(first + i, chunk)).collect()
}

/// Sends everything at once from one thread, while this one reads until every reply is there.
fn exchange(stream: &UnixStream, requests: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
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

fn open(server: &Server) -> UnixStream {
    UnixStream::connect(&server.socket).unwrap()
}

pub fn create(connect: &Connect, server: &Server) -> Value {
    let stream = open(server);
    exchange(&stream, vec![monitor().into_bytes()]);
    exchange(&stream, requests(connect, "net:", 1));
    let prebuilt = requests(connect, "cnc:", 1_000);
    let meter = Meter::start(server.pid);
    let replies = exchange(&stream, prebuilt);
    let row = meter.row("limit");
    let failed = replies.iter().find(|r| r.windows(9).any(|w| w == b"\"details\""));
    assert!(failed.is_none(), "{}", String::from_utf8_lossy(failed.unwrap()));
    row
}

/// How long the server takes to dump what we monitor, with nothing done with it.
pub fn dump(server: &Server) -> Value {
    let meter = Meter::start(server.pid);
    let stream = open(server);
    exchange(&stream, vec![monitor().into_bytes()]);
    meter.row("dump")
}
