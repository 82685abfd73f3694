//! Watches and writes against a real API server: what its answers mean.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

use std::time::Duration;

use causeway_record::Event;
use causeway_record::{Action, Ended, Kind, Outcome, Part, Priority, Request, Target};
use causeway_record::{Namespace, Udn};
use causeway_runtime::watch::{Lists, Selection, everywhere, watch};
use causeway_runtime::write::Writer;
use causeway_testing::ApiServer;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn client(server: &ApiServer) -> Client {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{}", server.port()).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info = serde_json::from_value(json!({"token": server.token()})).unwrap();
    Client::try_from(config).unwrap()
}

async fn next<T>(receiver: &mut mpsc::Receiver<T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), receiver.recv()).await.unwrap().unwrap()
}

/// One server for all: starting one costs seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_real_server_answers() {
    let server = ApiServer::start();
    let client = client(&server);
    for lists in [Lists::Latest, Lists::Streamed] {
        a_watch_says_everything_then_what_changes(&server, &client, lists).await;
    }
    a_kind_that_is_not_installed_is_no_empty_list(&client).await;
    every_answer_has_its_meaning(&server, &client).await;
}

async fn a_watch_says_everything_then_what_changes(server: &ApiServer, client: &Client, lists: Lists) {
    let (sender, mut events) = mpsc::channel(16);
    let selection = Selection { lists, ..Selection::default() };
    let task =
        tokio::spawn(watch::<Namespace, _>(everywhere::<Namespace>(client), selection, sender, |event| {
            event
        }));
    let mut listed = Vec::new();
    loop {
        match next(&mut events).await {
            Event::Applied(namespace) => listed.push(namespace.name.to_string()),
            Event::Synced => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(listed.contains(&"default".to_owned()), "{listed:?}");
    let name = format!("{lists:?}").to_lowercase();
    server.kubectl(&["create", "namespace", &name]).text();
    match next(&mut events).await {
        Event::Applied(namespace) => assert_eq!(namespace.name.as_str(), name),
        other => panic!("{other:?}"),
    }
    drop(events);
    server.kubectl(&["label", "namespace", &name, "a=b"]).text();
    tokio::time::timeout(Duration::from_secs(30), task).await.unwrap().unwrap();
}

async fn a_kind_that_is_not_installed_is_no_empty_list(client: &Client) {
    let (sender, mut events) = mpsc::channel(16);
    let api = everywhere::<Udn>(client);
    let task = tokio::spawn(watch::<Udn, _>(api, Selection::default(), sender, |event| event));
    for _ in 0..2 {
        let Event::Unsynced(problem) = next(&mut events).await else { panic!("nothing was listed") };
        assert!(problem.starts_with("userdefinednetworks are not installed in this cluster"), "{problem}");
    }
    task.abort();
}

async fn every_answer_has_its_meaning(server: &ApiServer, client: &Client) {
    server.kubectl(&["create", "configmap", "there", "--from-literal=a=b"]).text();
    let text = server.kubectl(&["get", "configmap", "there", "-o", "json"]).text();
    let uid = serde_json::from_str::<Value>(&text).unwrap()["metadata"]["uid"].clone();
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "c"}});
    let merge = |body: Value| Action::Merge { subresource: None, body };
    let table = [
        ("there", merge(json!({"metadata": {"uid": uid}, "data": {"a": "1"}})), "done"),
        ("there", merge(json!({"metadata": {"uid": "another"}, "data": {"a": "2"}})), "conflict"),
        ("there", merge(json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}})), "conflict"),
        ("there", Action::Create(map("there")), "conflict"),
        ("there", Action::Delete { uid: "another".into() }, "conflict"),
        ("missing", merge(json!({"data": {"a": "2"}})), "not found"),
        ("missing", Action::Delete { uid: "another".into() }, "not found"),
        ("new", Action::Apply { subresource: None, manager: "test", body: map("new") }, "done"),
        ("Bad_Name", merge(json!({"data": {"a": "2"}})), "not found"),
        ("created", Action::Create(map("created")), "done"),
        (
            "broken",
            Action::Create(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "broken"}, "data": 7}),
            ),
            "failed",
        ),
    ];
    let (sender, mut outcomes) = mpsc::channel::<Outcome>(16);
    let writer = Writer::start(client.clone(), sender, |outcome| outcome);
    for (token, (name, action, expected)) in (1..).zip(table) {
        let target = Target { kind: Kind::ConfigMap, namespace: Some("default".into()), name: name.into() };
        let text = format!("{name}: {action:?}");
        writer.send(Request { target, part: Part::Data, priority: Priority::Status, action, token });
        let outcome = loop {
            let outcome = next(&mut outcomes).await;
            if outcome.token == token {
                break outcome.result;
            }
        };
        let said = match &outcome {
            Ended::Done => "done",
            Ended::NotFound => "not found",
            Ended::Conflict(_) => "conflict",
            Ended::Failed(_) => "failed",
        };
        assert_eq!(said, expected, "{text}: {outcome:?}");
    }
    let value = server.kubectl(&["get", "configmap", "there", "-o", "jsonpath={.data.a}"]).text();
    assert_eq!(value, "1", "only the first one was written");
}
