//! Watches and writes against a real API server: what its answers mean.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

use std::time::Duration;

use causeway_record::{
    Action, Cause, Ended, Event, EventNote, Kind, Namespace, Outcome, Part, Priority, Regarding, Request,
    Target, Udn,
};
use causeway_runtime::watch::{Lists, Selection, Watches};
use causeway_runtime::write::Writer;
use causeway_runtime::{Health, Permit, Recorder, Tasks};
use causeway_testing::ApiServer;
use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn client(server: &ApiServer) -> Client {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{}", server.port()).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info = serde_json::from_value(json!({"token": server.token()})).unwrap();
    Client::try_from(config).unwrap()
}

fn tasks() -> (Tasks, Health) {
    let health = Health::waiting("a test");
    (Tasks::new(&health, &mut Registry::default()), health)
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
    the_same_event_is_counted(&server, &client).await;
}

async fn a_watch_says_everything_then_what_changes(server: &ApiServer, client: &Client, lists: Lists) {
    let (sender, mut events) = mpsc::channel(16);
    let selection = Selection { lists, ..Selection::default() };
    let (mut tasks, health) = tasks();
    Watches { tasks: &mut tasks, health: &health, sender }.everywhere::<Namespace>(
        client,
        selection,
        |event| event,
    );
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
    server.kubectl(&["label", "namespace", &name, "a=b"]).text();
    match next(&mut events).await {
        Event::Applied(namespace) => assert_eq!(namespace.labels["a"], "b"),
        other => panic!("{other:?}"),
    }
}

async fn a_kind_that_is_not_installed_is_no_empty_list(client: &Client) {
    let (sender, mut events) = mpsc::channel(16);
    let (mut tasks, health) = tasks();
    Watches { tasks: &mut tasks, health: &health, sender }.everywhere::<Udn>(
        client,
        Selection::default(),
        |event| event,
    );
    for _ in 0..2 {
        let Event::Unsynced(broken) = next(&mut events).await else { panic!("nothing was listed") };
        assert_eq!(broken.cause, Cause::NotInstalled);
        let begin = "userdefinednetworks are not installed in this cluster";
        assert!(broken.message.starts_with(begin), "{}", broken.message);
    }
}

fn quota(message: &str) -> EventNote {
    let regarding = Regarding {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: Some("default".into()),
        name: "there".into(),
        uid: "1".into(),
    };
    EventNote { regarding, warning: true, reason: "Full".into(), message: message.into() }
}

/// Old and new readers see the same: when it was first, when last, how often.
async fn the_same_event_is_counted(server: &ApiServer, client: &Client) {
    let (mut tasks, _) = tasks();
    let recorder = Recorder::new(&mut Registry::default());
    recorder.start(&mut tasks, client.clone(), Permit::always(), "causeway-test", "here");
    recorder.say(quota("nothing is left"));
    let fields = "{.items[*].message} {.items[*].count} {.items[*].reportingComponent}";
    let said = || server.kubectl(&["get", "events", "-o", &format!("jsonpath={fields}")]).text();
    while !said().contains("nothing is left") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(said(), "nothing is left 1 causeway-test");
    let text = server.kubectl(&["get", "events", "-o", "json"]).text();
    let event = serde_json::from_str::<Value>(&text).unwrap()["items"][0].clone();
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("Full")));
    assert_eq!(event["firstTimestamp"], event["lastTimestamp"]);
    let second = |field: &str| event[field].as_str().unwrap()[..19].to_owned();
    assert_eq!(second("eventTime"), second("firstTimestamp"));
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
    let (mut tasks, _) = tasks();
    let writer = Writer::new(&mut Registry::default());
    writer.start(&mut tasks, client.clone(), Permit::always(), sender, |outcome| outcome);
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
