use std::collections::VecDeque;
use std::time::Duration;

use causeway_record::{Broken, Namespace};
use causeway_types::NamespaceName;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::fake::{self, Answer, Asked, Lines};

type Said = Event<Namespace, NamespaceName>;

struct Bench {
    _tasks: Tasks,
    health: Health,
    asked: Asked,
    events: mpsc::Receiver<Said>,
}

/// A watch whose requests get these answers, then silence.
fn bench(selection: Selection, answers: Vec<Answer>) -> Bench {
    let mut answers = VecDeque::from(answers);
    let (client, asked) = fake::client(move |_, _| answers.pop_front().unwrap_or(Answer::Silence));
    let health = Health::waiting("test");
    health.set(Ok(()));
    let mut tasks = Tasks::new(&health, &mut Registry::default());
    let (sender, events) = mpsc::channel(16);
    Watches { tasks: &mut tasks, health: &health, sender }.everywhere::<Namespace>(
        &client,
        selection,
        |event| event,
    );
    Bench { _tasks: tasks, health, asked, events }
}

fn object(name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "resourceVersion": version}})
}

fn list(names: &[&str], next: &str, version: &str) -> Answer {
    let items: Vec<Value> = names.iter().map(|name| object(name, "1")).collect();
    Answer::Object(json!({"apiVersion": "v1", "kind": "NamespaceList", "items": items,
        "metadata": {"continue": next, "resourceVersion": version}}))
}

fn bookmark(version: &str, ends: bool) -> Value {
    let annotations = if ends { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"resourceVersion": version, "annotations": annotations}})
}

impl Bench {
    async fn said(&mut self, count: usize) -> Vec<String> {
        let mut said = Vec::new();
        for _ in 0..count {
            said.push(match self.events.recv().await.unwrap() {
                Event::Applied(namespace) => format!("+{}", namespace.name),
                Event::Deleted(name) => format!("-{name}"),
                Event::Synced => "synced".to_owned(),
                Event::Unsynced(Broken { cause, message }) => format!("{cause:?} {message}"),
            });
        }
        said
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(_, what)| what.replace("/api/v1/namespaces?&", "")).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn pages_then_changes_then_on_from_where_it_was() {
    let (mut first, stream) = Lines::new();
    let (mut second, again) = Lines::new();
    let answers = vec![list(&["a"], "more", ""), list(&["b"], "", "7"), stream, again];
    let mut bench = bench(Selection::default(), answers);
    assert_eq!(bench.said(3).await, ["+a", "+b", "synced"]);
    first.say("ADDED", object("c", "8")).await;
    first.say("DELETED", object("a", "9")).await;
    first.say("BOOKMARK", bookmark("12", false)).await;
    assert_eq!(bench.said(2).await, ["+c", "-a"]);
    drop(first);
    second.say("MODIFIED", object("c", "13")).await;
    assert_eq!(bench.said(1).await, ["+c"]);
    let asked = bench.asked();
    let versions: Vec<&str> = asked.iter().filter_map(|what| what.split("resourceVersion=").nth(1)).collect();
    assert_eq!(versions, ["7", "12"], "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_the_list_tells_what_is_gone_when_it_is_complete() {
    let streamed = || Selection { lists: Lists::Streamed, ..Selection::default() };
    let (mut first, one) = Lines::new();
    let (mut second, two) = Lines::new();
    let (mut third, three) = Lines::new();
    let mut bench = bench(streamed(), vec![one, two, three]);
    first.say("ADDED", object("a", "1")).await;
    first.say("ADDED", object("b", "2")).await;
    first.say("BOOKMARK", bookmark("2", true)).await;
    assert_eq!(bench.said(3).await, ["+a", "+b", "synced"]);
    first
        .say("ERROR", json!({"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"}))
        .await;
    drop(first);
    // Half a list, then the whole one.
    second.say("ADDED", object("b", "2")).await;
    drop(second);
    third.say("ADDED", object("b", "2")).await;
    third.say("BOOKMARK", bookmark("5", true)).await;
    assert_eq!(bench.said(4).await, ["+b", "+b", "-a", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streams_of_lists_is_asked_for_pages() {
    let (_lines, stream) = Lines::new();
    let selection = Selection { lists: Lists::Streamed, ..Selection::default() };
    let mut bench = bench(selection, vec![Answer::Status(422), list(&["a"], "", "7"), stream]);
    assert_eq!(bench.said(2).await, ["+a", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_has_a_cause() {
    let answers = vec![Answer::Status(404), Answer::Status(403), Answer::Refused];
    let said = bench(Selection::default(), answers).said(4).await;
    let begins = [
        "NotInstalled namespaces are not installed in this cluster: apply",
        "Forbidden namespaces may not be listed: apply the roles",
        "Other namespaces: ",
        "Other namespaces: the API server has said nothing for 30 s",
    ];
    for (said, begin) in said.iter().zip(begins) {
        assert!(said.starts_with(begin), "{said}");
    }
}

/// Nothing has to change for a watch to be well again: that it is connected is enough.
#[tokio::test(start_paused = true)]
async fn a_broken_watch_shows_after_half_a_minute_and_heals_when_it_is_connected() {
    let (first, stream) = Lines::new();
    let (_second, again) = Lines::new();
    let mut answers = vec![list(&["a"], "", "7"), stream];
    answers.extend((0..10).map(|_| Answer::Refused));
    answers.push(again);
    let mut bench = bench(Selection::default(), answers);
    assert_eq!(bench.said(2).await, ["+a", "synced"]);
    drop(first);
    tokio::spawn(async move { while bench.events.recv().await.is_some() {} });
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(bench.health.get(), Ok(()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let problem = bench.health.get().unwrap_err();
    assert!(problem.starts_with("the watch of namespaces has been broken for 30 s"), "{problem}");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(bench.health.get(), Ok(()));
}

/// The connection is there, but nothing comes: not even a bookmark.
#[tokio::test(start_paused = true)]
async fn silence_is_a_broken_connection_since_it_began() {
    let (_lines, stream) = Lines::new();
    let mut bench = bench(Selection::default(), vec![list(&["a"], "", "7"), stream]);
    bench.said(2).await;
    let begun = Instant::now();
    let said = bench.said(1).await;
    assert_eq!(said, ["Other namespaces: the API server has said nothing for 10 s"]);
    assert_eq!(begun.elapsed().as_secs(), 85);
    let problem = bench.health.get().unwrap_err();
    assert!(problem.starts_with("the watch of namespaces has been broken for 85 s"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_cluster_may_do_without_is_no_fault() {
    let selection = Selection { optional: true, ..Selection::default() };
    let bench = bench(selection, (0..20).map(|_| Answer::Status(404)).collect());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.health.get(), Ok(()));
}

/// A child that panics comes back, and still knows what it had seen.
#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_still_finds_out_what_is_gone() {
    fn fragile(event: Said) -> Said {
        assert!(
            !matches!(&event, Event::Applied(namespace) if namespace.name.as_str() == "bad"),
            "a bad object"
        );
        event
    }
    let (_lines, stream) = Lines::new();
    let mut answers = VecDeque::from([list(&["a", "bad"], "", "7"), list(&["b"], "", "8"), stream]);
    let (client, _) = fake::client(move |_, _| answers.pop_front().unwrap_or(Answer::Silence));
    let health = Health::waiting("test");
    health.set(Ok(()));
    let mut tasks = Tasks::new(&health, &mut Registry::default());
    let (sender, events) = mpsc::channel(16);
    Watches { tasks: &mut tasks, health: &health, sender }.everywhere::<Namespace>(
        &client,
        Selection::default(),
        fragile,
    );
    let mut bench = Bench { _tasks: tasks, health, asked: Asked::default(), events };
    assert_eq!(bench.said(5).await, ["+a", "+b", "-a", "-bad", "synced"]);
    let problem = bench.health.get().unwrap_err();
    assert_eq!(problem, "watch of namespaces was started again: it panicked: a bad object");
}
