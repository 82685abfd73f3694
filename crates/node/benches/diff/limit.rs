//! The limit: prebuilt bytes into the socket, with the same monitor, and nothing done with what comes back.

use crate::Server;
use crate::measure::Meter;
use crate::raw::{assert_done, exchange, monitor, request};
use crate::shape::Connect;
use causeway_ovn::{Plan, Planner};
use serde_json::Value;
use std::os::unix::net::UnixStream;

/// The size of the engine's own transactions.
const ROWS: usize = 250;

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
    assert_done(&replies);
    row
}

/// How long the server takes to dump what we monitor, with nothing done with it.
pub fn dump(server: &Server) -> Value {
    let meter = Meter::start(server.pid);
    let stream = open(server);
    exchange(&stream, vec![monitor().into_bytes()]);
    meter.row("dump")
}
