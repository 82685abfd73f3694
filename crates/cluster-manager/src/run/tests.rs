//! The lease against a real API server that stops answering, and steps that take too long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use causeway_api::intent::{ClusterConfig, PodSubnet};
use causeway_cluster::Features;
use causeway_record::{Action, Kind, Part, Priority, Request, Target};
use causeway_testing::ApiServer;
use causeway_types::NodeId;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;

const TIMES: Times = Times {
    lease: Duration::from_secs(5),
    renew_deadline: Duration::from_secs(3),
    retry: Duration::from_millis(300),
    time_out: Duration::from_secs(1),
};

fn client_config(server: &ApiServer) -> kube::Config {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{}", server.port()).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info = serde_json::from_value(json!({"token": server.token()})).unwrap();
    config
}

fn config() -> Config {
    let cluster = vec!["10.244.0.0/16".parse().unwrap()];
    let subnet = PodSubnet { cidr: cluster[0], host_prefix: Some(24) };
    Config {
        cluster: ClusterConfig::new(cluster, Vec::new(), NodeId::new(1001).unwrap()),
        default_subnets: vec![subnet],
        max_nodes: 1000,
        fence_after_ms: 600_000,
        namespace: "default".into(),
        connect_topology: causeway_types::ConnectTopology::Transit,
        no_overlay: false,
        features: Features { network_connect: true, ..Features::default() },
    }
}

/// Writes a number that grows with each tick.
fn count(number: u64) -> Output {
    let body = json!({"data": {"number": number.to_string()}});
    Output::Write(Request {
        target: Target { kind: Kind::ConfigMap, namespace: Some("default".into()), name: "counted".into() },
        part: Part::Data,
        priority: Priority::Status,
        action: Action::Merge { subresource: None, body },
        token: number,
    })
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// What a manager does all the time: it writes.
fn counting(_: &mut Manager, input: Input) -> Vec<Output> {
    match input {
        Input::Tick(_) => vec![count(NUMBER.fetch_add(1, Ordering::SeqCst) + 1)],
        Input::Written(_) => vec![count(NUMBER.load(Ordering::SeqCst))],
        _ => Vec::new(),
    }
}

/// Whether the slow step is under way, and whether it may end.
static SLOW: AtomicBool = AtomicBool::new(false);
static ENOUGH: AtomicBool = AtomicBool::new(false);
const AFTER: u64 = 1_000_000;

/// The second tick takes until it is enough, and then writes.
fn slow(_: &mut Manager, input: Input) -> Vec<Output> {
    if !matches!(input, Input::Tick(_)) || SLOW.swap(true, Ordering::SeqCst) {
        return Vec::new();
    }
    while !ENOUGH.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(10));
    }
    vec![count(AFTER)]
}

/// A test that fails lets the step end: its thread is waited for.
struct LetGo;

impl Drop for LetGo {
    fn drop(&mut self) {
        ENOUGH.store(true, Ordering::SeqCst);
    }
}

struct Running {
    task: tokio::task::JoinHandle<Result<(), Error>>,
    _end: oneshot::Sender<()>,
}

fn start(server: &ApiServer, step: fn(&mut Manager, Input) -> Vec<Output>) -> Running {
    let (end, ended) = oneshot::channel::<()>();
    let options = Options { identity: "me".into(), leader_elect: true, metrics: None, record: None };
    let (pace, reach) = (Pace { times: TIMES, step }, client_config(server));
    // One thread, as the command has.
    let task = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = runtime.block_on(async {
            let client = Client::try_from(reach).unwrap();
            run_at(pace, config(), client, options, async { drop(ended.await) }).await
        });
        runtime.shutdown_background();
        ended
    });
    Running { task, _end: end }
}

fn get(server: &ApiServer, kind: &str, name: &str) -> Value {
    serde_json::from_str(&server.kubectl(&["get", kind, name, "-o", "json"]).text()).unwrap()
}

fn number(server: &ApiServer) -> u64 {
    get(server, "configmap", "counted")["data"]["number"].as_str().unwrap_or("0").parse().unwrap()
}

async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn lost(running: Running) -> String {
    let ended = timeout(Duration::from_secs(60), running.task).await.unwrap().unwrap();
    ended.unwrap_err().to_string()
}

/// One server for all: starting one costs seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_after_the_lease_has_run_out() {
    let server = ApiServer::start();
    server.kubectl(&["create", "configmap", "counted"]).text();
    a_server_that_stops(&server).await;
    a_step_that_takes_long(&server).await;
}

/// Whoever leads next must be the only one who writes.
async fn a_server_that_stops(server: &ApiServer) {
    let running = start(server, counting);
    until("numbers are written", || number(server) >= 2).await;
    server.freeze();
    let frozen = Instant::now();
    let ended = lost(running).await;
    let took = frozen.elapsed();
    assert!(ended.starts_with("leadership is lost: the lease"), "{ended}");
    assert!(took < TIMES.renew_deadline + Duration::from_secs(1), "it went on for {took:?}");
    server.thaw();
    until("the server answers", || server.kubectl(&["get", "--raw", "/readyz"]).ok).await;
    // What was on its way when the server stopped is through by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mine = json!({"data": {"number": "0"}}).to_string();
    server.kubectl(&["patch", "configmap", "counted", "--type=merge", "-p", &mine]).text();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(number(server), 0, "nobody else has written");
}

/// The lease is renewed while the step runs. If that fails, what the step wants comes too late.
async fn a_step_that_takes_long(server: &ApiServer) {
    server.kubectl(&["delete", "lease", LEASE_NAME]).text();
    let renewed = || get(server, "lease", LEASE_NAME)["spec"]["renewTime"].as_str().unwrap().to_owned();
    let let_go = LetGo;
    let running = start(server, slow);
    until("the step has begun", || SLOW.load(Ordering::SeqCst)).await;
    let begun = (Instant::now(), renewed());
    tokio::time::sleep(TIMES.renew_deadline * 2).await;
    assert!(!running.task.is_finished(), "it leads after {:?}", begun.0.elapsed());
    assert_ne!(renewed(), begun.1);
    server.freeze();
    let ended = lost(running).await;
    assert!(ended.starts_with("leadership is lost: the lease"), "{ended}");
    server.thaw();
    drop(let_go);
    until("the server answers", || server.kubectl(&["get", "--raw", "/readyz"]).ok).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_ne!(number(server), AFTER);
}
