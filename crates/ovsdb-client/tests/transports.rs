//! tcp and ssl remotes of a real server, and signs of life in both directions.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::{Client, ClientConfig, ClientEvent, TlsFiles};
use causeway_testing::{Authority, OvsdbServer, PemFiles, loopback, schema_file};
use std::fs;
use std::time::Duration;
use support::*;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

async fn works(client: &mut Client) {
    done(client, vec![insert("Thing", 1, [("name", "a".into())])]).await;
    assert_eq!(image(client.replica()), database(client).await);
}

#[tokio::test]
async fn tcp_over_ipv4() {
    let address = loopback();
    let _server = OvsdbServer::start_with(&lab(), &[&format!("--remote=ptcp:6640:{address}")]);
    works(&mut start(config(&format!("tcp:{address}:6640"))).await).await;
}

#[tokio::test]
async fn tcp_over_ipv6() {
    let server = OvsdbServer::start_with(&lab(), &["--remote=ptcp:0:[::1]"]);
    let port = eventually(|| {
        let log = fs::read_to_string(server.folder().join("log")).ok()?;
        let (port, _) = log.split("listening on port ").nth(1)?.split_once('\n')?;
        Some(port.to_owned())
    })
    .await;
    works(&mut start(config(&format!("tcp:[::1]:{port}"))).await).await;
}

#[tokio::test]
async fn a_remote_that_is_not_there_is_named_and_the_next_one_is_tried() {
    let server = server();
    let remotes = format!("unix:/nonexistent/sock,tcp:{}:1,{}", loopback(), server.remote());
    let mut client = Client::new(config(&remotes));
    let first = disconnected(&mut client).await;
    assert!(first.contains("No such file"), "{first}");
    let second = disconnected(&mut client).await;
    assert!(second.contains("refused"), "{second}");
    synced(&mut client).await;
    works(&mut client).await;
}

fn tls(files: PemFiles) -> TlsFiles {
    TlsFiles { ca: files.ca, certificate: files.certificate, key: files.key }
}

async fn tls_server(files: &PemFiles) -> (OvsdbServer, String) {
    let (server, remote) = OvsdbServer::start_tls(&lab(), files);
    let address = remote.trim_start_matches("ssl:").to_owned();
    eventually(|| std::net::TcpStream::connect(&address).ok()).await;
    (server, remote)
}

fn tls_config(remote: &str, tls: Option<TlsFiles>) -> ClientConfig {
    let mut config = config(remote);
    config.tls = tls;
    config
}

#[tokio::test]
async fn ssl_with_certificates_of_one_private_ca() {
    let authority = Authority::new("ours");
    let (mut server, remote) = tls_server(&authority.files("server")).await;
    let mut client = start(tls_config(&remote, Some(tls(authority.files("client"))))).await;
    works(&mut client).await;
    server.kill();
    disconnected(&mut client).await;
    server.serve();
    assert_eq!(synced(&mut client).await.changes, []);
}

#[tokio::test]
async fn ssl_refuses_strangers_on_both_sides_and_says_why() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (_server, remote) = tls_server(&ours.files("server")).await;
    let wrong_ca =
        disconnected(&mut Client::new(tls_config(&remote, Some(tls(theirs.files("client")))))).await;
    assert!(wrong_ca.contains("UnknownIssuer") && wrong_ca.contains("ca.pem"), "{wrong_ca}");
    let stranger = TlsFiles { ca: ours.path("ca.pem"), ..tls(theirs.files("stranger")) };
    let refused = disconnected(&mut Client::new(tls_config(&remote, Some(stranger)))).await;
    assert!(refused.contains("alert"), "{refused}");
    let none = disconnected(&mut Client::new(tls_config(&remote, None))).await;
    assert!(none.contains("needs a key, a certificate and a CA"), "{none}");
    let mut missing = tls(ours.files("client"));
    missing.certificate = ours.path("not-there.pem");
    let missing = disconnected(&mut Client::new(tls_config(&remote, Some(missing)))).await;
    assert!(missing.contains("not-there.pem"), "{missing}");
    let mut mixed = tls(ours.files("client"));
    mixed.key = ours.files("other").key;
    let mixed = disconnected(&mut Client::new(tls_config(&remote, Some(mixed)))).await;
    assert!(mixed.contains("don't fit together"), "{mixed}");
}

#[tokio::test]
async fn an_attempt_and_a_wait_for_the_replica_have_limits() {
    let authority = Authority::new("ours");
    let (server, remote) = tls_server(&authority.files("server")).await;
    server.signal("STOP");
    let mut config = tls_config(&remote, Some(tls(authority.files("client"))));
    config.connect_limit = Duration::from_millis(100);
    let mut client = Client::new(config);
    let reason = disconnected(&mut client).await;
    assert_eq!(reason, "no connection within 100ms");
    let reason = client.synced(Duration::from_millis(300)).await.unwrap_err();
    assert!(reason.contains(&remote), "{reason}");
    server.signal("CONT");
    client.synced(PATIENCE).await.unwrap();
    works(&mut client).await;
}

#[tokio::test]
async fn a_silent_server_is_given_up_over_tcp_and_left_alone_over_unix() {
    let address = loopback();
    let server = OvsdbServer::start_with(&lab(), &[&format!("--remote=ptcp:6640:{address}")]);
    let with_probe = |remote: &str| {
        let mut config = config(remote);
        config.session.probe_interval = Some(300);
        config
    };
    let mut tcp = start(with_probe(&format!("tcp:{address}:6640"))).await;
    let mut unix = start(with_probe(&server.remote())).await;
    server.signal("STOP");
    // Twice as long as the unix client would have waited.
    for _ in 0..2 {
        let reason = disconnected(&mut tcp).await;
        assert!(reason.contains("no answer to an echo request"), "{reason}");
        let quiet = tokio::time::timeout(Duration::ZERO, unix.next()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }
    server.signal("CONT");
    synced(&mut tcp).await;
    works(&mut tcp).await;
    unix.call("list_dbs", "[]").await.unwrap();
    assert_eq!(image(unix.replica()), image(tcp.replica()));
}

#[tokio::test]
async fn a_server_that_asks_for_a_sign_of_life_gets_one() {
    let address = loopback();
    let server = OvsdbServer::start_with(
        &schema_file("ovn-nb"),
        &["--remote=db:OVN_Northbound,NB_Global,connections"],
    );
    let connection = format!(
        r#"["OVN_Northbound",
            {{"op":"insert","table":"Connection","uuid-name":"c",
              "row":{{"target":"ptcp:6641:{address}","inactivity_probe":1000}}}},
            {{"op":"insert","table":"NB_Global","row":{{"connections":["named-uuid","c"]}}}}]"#
    );
    let nb = |remote: &str| {
        let mut config = config(remote);
        config.session.database = "OVN_Northbound".into();
        config.session.tables.clear();
        config.session.probe_interval = None;
        config
    };
    let mut local = start(nb(&server.remote())).await;
    local.call("transact", &connection).await.unwrap();
    let mut client = start(nb(&format!("tcp:{address}:6641"))).await;
    // A peer that never answers is dropped; it came later than the client, so the client was asked before.
    let mut mute = TcpStream::connect((address, 6641)).await.unwrap();
    let mut said = Vec::new();
    let dropped = async { mute.read_to_end(&mut said).await };
    tokio::select! {
        event = async { loop {
            if let ClientEvent::Disconnected { reason, .. } = client.next().await { break reason }
        } } => panic!("{event}"),
        end = tokio::time::timeout(PATIENCE, dropped) => drop(end.expect("the server drops the mute peer")),
    }
    assert!(String::from_utf8_lossy(&said).contains("echo"));
    client.call("list_dbs", "[]").await.unwrap();
}
