use std::sync::atomic::{AtomicU32, Ordering};

use causeway_record::{Action, Kind, Priority};
use serde_json::json;

use super::*;
use crate::Health;

fn request(name: &str, token: u64) -> Request {
    Request {
        target: Target { kind: Kind::Pod, namespace: Some("a".into()), name: name.into() },
        part: Part::Networks,
        priority: Priority::Pod,
        action: Action::Merge { subresource: None, body: json!({}) },
        token,
    }
}

struct Bench {
    tasks: Tasks,
    registry: Registry,
    writer: Writer,
    outcomes: mpsc::Receiver<Outcome>,
}

type Flying = BoxFuture<'static, Ended>;

fn bench(permit: Permit, post: impl Fn(Request) -> Flying + Send + Sync + 'static) -> Bench {
    let mut registry = Registry::default();
    let mut tasks = Tasks::new(&Health::waiting("test"), &mut registry);
    let (sender, outcomes) = mpsc::channel(16);
    let writer = Writer::new(&mut registry);
    writer.start_with(&mut tasks, Box::new(post), permit, sender, |outcome| outcome);
    Bench { tasks, registry, writer, outcomes }
}

#[tokio::test(start_paused = true)]
async fn a_flight_that_panics_is_a_failed_write_and_is_tried_again() {
    let sent = AtomicU32::new(0);
    let mut bench = bench(Permit::always(), move |_| {
        let first = sent.fetch_add(1, Ordering::Relaxed) == 0;
        async move { if first { panic!("no paper") } else { Ended::Done } }.boxed()
    });
    bench.writer.send(request("p", 1));
    let ended =
        [bench.outcomes.recv().await, bench.outcomes.recv().await].map(|outcome| outcome.unwrap().result);
    assert_eq!(ended, [Ended::Failed("it panicked: no paper".into()), Ended::Done]);
}

/// Requests in flight are cut when the permit ends, and none is begun after it.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_the_permit_has_ended() {
    let start = Instant::now();
    let (grant, permit) = Permit::until(start + Duration::from_secs(10));
    let begun = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&begun);
    let mut bench = bench(permit, move |request| {
        let seen = Arc::clone(&seen);
        async move {
            seen.lock().unwrap().push((request.token, start.elapsed().as_secs()));
            std::future::pending().await
        }
        .boxed()
    });
    bench.writer.send(request("p", 1));
    tokio::time::sleep(Duration::from_secs(9)).await;
    bench.writer.send(request("q", 2));
    let ended = bench.tasks.ended().await.to_string();
    assert_eq!(ended, "the task writes has ended: the lease has run out; nothing is written any more");
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    bench.writer.send(request("r", 3));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(*begun.lock().unwrap(), [(1, 0), (2, 9)]);
    drop(grant);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_counted_and_can_be_withdrawn() {
    let bench = bench(Permit::always(), |_| std::future::pending().boxed());
    bench.writer.send(request("p", 1));
    tokio::time::sleep(Duration::from_secs(5)).await;
    bench.writer.send(request("p", 2));
    let metrics = |registry: &Registry| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text.lines().filter(|line| line.starts_with("causeway_writes")).collect::<Vec<_>>().join(" ")
    };
    let expected = "causeway_writes_waiting 2.0 causeway_writes_oldest_seconds 5.0";
    assert_eq!(metrics(&bench.registry), expected);
    let target = request("p", 0).target;
    assert!(bench.writer.withdraw(&target, Part::Networks));
    assert!(metrics(&bench.registry).starts_with("causeway_writes_waiting 1.0"));
}
