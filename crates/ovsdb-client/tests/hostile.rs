//! Peers that are no OVSDB server, or a broken one: a clear reason, no panic, and no write is lost.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::ovsdb::{Event, TransactOutcome, Transaction};
use causeway_ovsdb_client::{Client, ClientEvent};
use std::collections::BTreeSet;
use std::path::PathBuf;
use support::*;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

const ROW: &str = "72c4a754-35f4-5265-9a62-cdfa5ae3e3f3";

/// A peer that sends these bytes to its first client and nothing to others.
fn fake_peer(folder: &TempDir, bytes: Vec<u8>) -> String {
    let path = folder.path().join("fake");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // Whoever stops in the middle still closes in order: what was sent must be heard.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    });
    format!("unix:{}", path.display())
}

fn schema() -> String {
    std::fs::read_to_string(lab()).unwrap()
}

/// A good greeting, then this.
fn greeted(rest: &str) -> Vec<u8> {
    let no_server_database = r#"{"id":1,"result":null,"error":"unknown database"}"#;
    format!(r#"{no_server_database}{{"id":2,"result":{},"error":null}}{rest}"#, schema()).into_bytes()
}

/// A good greeting and an empty image, then this.
fn loaded(rest: &str) -> Vec<u8> {
    greeted(&format!(r#"{{"id":3,"result":[false,"0",{{}}],"error":null}}{rest}"#))
}

fn image_of(row: &str) -> Vec<u8> {
    greeted(&format!(r#"{{"id":3,"result":[false,"0",{{"Thing":{{"{ROW}":{row}}}}}],"error":null}}"#))
}

fn cases() -> Vec<(Vec<u8>, &'static str)> {
    let text = |s: &str| s.as_bytes().to_vec();
    let update = |s: &str| loaded(&format!(r#"{{"method":"update3","id":null,"params":{s}}}"#));
    vec![
        (text("HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak OVSDB"),
        (text("\u{16}\u{3}\u{1}"), "does not speak OVSDB"),
        (text(""), "closed the connection"),
        (text(r#"{"id":1,"resu"#), "closed the connection"),
        (text(r#"{"id":1,"result":}"#), "malformed message"),
        (text(r#"{"id":1,"result":{]}"#), "malformed message"),
        (text(&format!(r#"{{"id":"{}"#, "x".repeat(3 << 20))), "exceeds 2097152 bytes"),
        (text(&format!(r#"{{"id":{}"#, "[".repeat(500))), "nested deeper"),
        (b"{\"method\":\"\xff\xfe\",\"params\":[],\"id\":null}".to_vec(), "malformed message"),
        (text(r#"{"id":99,"result":[],"error":null}"#), "reply to nothing"),
        (text(r#"{"id":"x","result":[],"error":null}"#), "reply to nothing"),
        (text("{}"), "reply to nothing"),
        (text(r#"{"id":1,"result":{},"error":null}"#), "no database Lab"),
        (text(r#"{"id":2,"result":null,"error":"no"}"#), "refused the schema of Lab: no"),
        (text(r#"{"id":2,"result":{"name":1},"error":null}"#), "malformed database schema"),
        (greeted(r#"{"id":3,"error":{"error":"not allowed","details":"go away"}}"#), "not allowed: go away"),
        (greeted(r#"{"id":3,"result":{"Thing":{}},"error":null}"#), "malformed monitor_cond_since"),
        (image_of(r#"{"initial":{"number":"x"}}"#), "column number: a string where Integer belongs"),
        (image_of(r#"{"initial":{"labels":["set",["x"]]}}"#), "a set where a map belongs"),
        (image_of(r#"{"wrong":{}}"#), "unknown kind of row update"),
        (image_of(r#"{"modify":{"number":1}}"#), "modify of unknown row"),
        (image_of(r#"{"initial":{"number":1]}"#), "malformed row update"),
        (
            update(&format!(r#"["replica","1",{{"Thing":{{"{ROW}":{{"modify":{{}}}}}}}}]"#)),
            "modify of unknown row",
        ),
        (
            update(&format!(r#"["replica","1",{{"Nope":{{"{ROW}":{{"delete":null}}}}}}]"#)),
            "table Nope, which nobody",
        ),
        (
            update(&format!(r#"["other","1",{{"Thing":{{"{ROW}":{{"delete":null}}}}}}]"#)),
            "belongs to no monitor",
        ),
        (
            update(&format!(r#"["server","1",{{"Thing":{{"{ROW}":{{"delete":null}}}}}}]"#)),
            "belongs to no monitor",
        ),
        (update(r#"["replica"]"#), "malformed update3"),
        (loaded(r#"{"method":"locked","id":null,"params":{}}"#), "malformed locked"),
        (loaded(r#"{"method":"monitor_canceled","id":null,"params":["replica"]}"#), "cancelled the monitor"),
    ]
}

#[tokio::test]
async fn nonsense_has_a_reason_and_the_next_server_is_used() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let mut writer = client(&server).await;
    done(&mut writer, (1..=3).map(thing).collect()).await;
    let want = database(&mut writer).await;
    for (bytes, words) in cases() {
        let sent = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(150)..]).into_owned();
        let mut config = config(&format!("{},{}", fake_peer(&folder, bytes), server.remote()));
        config.session.max_frame = 2 << 20;
        let mut client = Client::new(config);
        let reason = disconnected(&mut client).await;
        assert!(reason.contains(words), "{reason:?} for {sent:?}");
        synced(&mut client).await;
        assert_eq!(image(client.replica()), want, "after {sent:?}");
    }
}

fn thing(n: u128) -> causeway_ovsdb_client::ovsdb::Op {
    insert("Thing", n, [("name", n.to_string().as_str().into())])
}

async fn outcome_of(client: &mut Client, id: causeway_ovsdb_client::ovsdb::RequestId) -> TransactOutcome {
    until(client, |event| match event {
        ClientEvent::Session(Event::Transacted(done, outcome)) if done == id => Some(outcome),
        _ => None,
    })
    .await
}

/// Stands between a client and the server; each connection ends after `cuts` bytes from the server, with `last`
/// words that the server never said.
async fn proxy(listener: UnixListener, real: PathBuf, cuts: Vec<usize>, last: &'static [u8]) {
    for cut in cuts {
        let (client, _) = listener.accept().await.unwrap();
        let server = UnixStream::connect(&real).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (from_server, mut to_server) = server.into_split();
        let up = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        });
        let _ = tokio::io::copy(&mut from_server.take(cut as u64), &mut to_client).await;
        let _ = to_client.write_all(last).await;
        drop(to_client);
        up.abort();
    }
}

/// Writes rows 1 to 40 through whatever happens. A lost write is sent again; that it was there already is fine.
async fn write_through(client: &mut Client) -> BTreeSet<u128> {
    let (mut open, mut acknowledged): (BTreeSet<u128>, _) = ((1..=40).collect(), BTreeSet::new());
    while !open.is_empty() {
        if !client.session().is_synced() {
            synced(client).await;
        }
        let sent: Vec<_> = open
            .iter()
            .filter_map(|n| Some((client.session().transact(&Transaction::new(vec![thing(*n)])).ok()?, *n)))
            .collect();
        for (request, n) in sent {
            match outcome_of(client, request).await {
                TransactOutcome::Done(_) => {
                    open.remove(&n);
                    acknowledged.insert(n);
                }
                TransactOutcome::Failed(error) => {
                    assert_eq!(error.error, "duplicate uuid");
                    open.remove(&n);
                }
                TransactOutcome::Lost => {}
            }
        }
    }
    acknowledged
}

#[tokio::test]
async fn a_connection_cut_at_any_byte_loses_no_write() {
    let folder = tempfile::tempdir().unwrap();
    for (round, last) in [&b""[..], b"\xff", b"{\"id\":7777,\"result\":[]}", b"}}}}"].into_iter().enumerate()
    {
        let server = server();
        let mut dice = Dice::new(round as u64 + 1);
        let mut cuts: Vec<usize> = (0..30).map(|_| 1 + dice.below(9000) as usize).collect();
        cuts.push(usize::MAX >> 1);
        let socket = folder.path().join(format!("proxy{round}"));
        let between = proxy(UnixListener::bind(&socket).unwrap(), server.socket(), cuts, last);
        let between = tokio::spawn(between);
        let mut through = Client::new(config(&format!("unix:{}", socket.display())));
        let acknowledged = write_through(&mut through).await;
        assert!(!acknowledged.is_empty());
        let rows = database(&mut client(&server).await).await;
        assert_eq!(rows.len(), 40, "the last words were {last:?}");
        assert_eq!(image(through.replica()), rows);
        between.abort();
    }
}
