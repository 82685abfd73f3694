//! `pod-add`: how long the container runtime waits for ADD, from starting the shim to its answer, on a real switch and in
//! real namespaces, for pods with two interfaces. Beside it the same cables and the same transaction by hand: what the
//! kernel and the switch need, whoever asks. In the place of ovn-controller a stand-in answers at once, in both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/switch/mod.rs"]
mod switch;

use causeway_host::{Host as _, Kernel, PodInterface, Route};
use causeway_ovsdb_client::ovsdb::{
    Atom, Condition, Datum, MonitorTable, Mutation, Mutator, Op, SessionConfig, Transaction, Uuid,
};
use causeway_ovsdb_client::{Client, ClientConfig, Remote};
use serde_json::{Value, json};
use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use switch::{Node, Sandbox, blue, network, on_own_node, pod};

/// Pods one after the other.
const ROUNDS: usize = 200;
/// Pods at once.
const BURST: usize = 100;

fn main() {
    let shim = build_shim();
    on_own_node(async || {
        let node = Node::start();
        node.ready().await;
        node.pods.apply_network(&network("ns1/blue", "cluster_udn_blue", "10.20.0.0/16", "primary"));
        let mut hand = Hand::new(&node).await;
        let (mut by_hand, mut through) = (Vec::new(), Vec::new());
        // In turn, so that whoever else has the processor slows both down.
        for round in 0..ROUNDS {
            by_hand.push(hand.add_and_remove(&sandbox(round)).await);
            through.push(add_and_remove(&node, &shim, &sandbox(round)).await);
        }
        let burst = at_once(&node, &shim).await;
        for (name, part) in [("pod-add-p50", 50), ("pod-add-p99", 99)] {
            print(name, 1, percentile(&through, part), Some(percentile(&by_hand, part)));
        }
        for (name, part) in [("pod-add-burst-p50", 50), ("pod-add-burst-p99", 99)] {
            print(name, BURST, percentile(&burst, part), None);
        }
    });
}

fn print(name: &str, at_once: usize, wall: Duration, limit: Option<Duration>) {
    let seconds = |duration: Duration| duration.as_secs_f64();
    println!(
        "{}",
        json!({"name": name, "n": at_once, "m": null, "rows": 2, "wall_s": seconds(wall),
            "limit_wall_s": limit.map(seconds), "ratio": limit.map(|limit| seconds(wall) / seconds(limit))})
    );
}

fn percentile(times: &[Duration], part: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * part / 100).min(sorted.len() - 1)]
}

/// The program as it is shipped, but for its libc.
fn build_shim() -> PathBuf {
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "--package", "causeway-cni"])
        .status();
    assert!(status.expect("cargo runs").success());
    // target/release/deps/<this benchmark>
    let bench = env::current_exe().unwrap();
    bench.ancestors().nth(2).unwrap().join("causeway-cni")
}

fn sandbox(number: usize) -> Sandbox {
    Sandbox::new(&format!("{number:06}cdef0123456789abcdef"))
}

/// Starts the shim as the runtime does and waits for its answer.
fn call(program: &Path, shim: &causeway_cni::Shim) -> Duration {
    let begun = Instant::now();
    let mut child = Command::new(program)
        .envs(&shim.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the shim starts");
    child.stdin.take().unwrap().write_all(&shim.input).unwrap();
    let out = child.wait_with_output().unwrap();
    let took = begun.elapsed();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    took
}

async fn add_and_remove(node: &Node, program: &Path, sandbox: &Sandbox) -> Duration {
    let web = pod("web", Some(blue(5)));
    node.pods.apply_pod(&web);
    let mut times = Vec::new();
    for command in ["ADD", "DEL"] {
        let (program, shim) = (program.to_owned(), node.shim(command, sandbox, &web, json!({})));
        times.push(tokio::task::spawn_blocking(move || call(&program, &shim)).await.unwrap());
    }
    times[0]
}

async fn at_once(node: &Node, program: &Path) -> Vec<Duration> {
    let sandboxes: Vec<Sandbox> = (0..BURST).map(sandbox).collect();
    let mut calls = tokio::task::JoinSet::new();
    for (number, sandbox) in sandboxes.iter().enumerate() {
        let web = pod(&format!("web-{number}"), Some(blue(number as u8 + 2)));
        node.pods.apply_pod(&web);
        let (program, shim) = (program.to_owned(), node.shim("ADD", sandbox, &web, json!({})));
        calls.spawn_blocking(move || call(&program, &shim));
    }
    calls.join_all().await
}

/// The same cables, the same rows, and the same wait for the same word.
struct Hand {
    client: Client,
}

impl Hand {
    async fn new(node: &Node) -> Hand {
        let mut session = SessionConfig::new("Open_vSwitch");
        session.tables = vec![
            MonitorTable { columns: vec!["external_ids".into()], ..MonitorTable::whole("Interface") },
            MonitorTable { columns: vec!["name".into()], ..MonitorTable::whole("Bridge") },
        ];
        let remotes = Remote::list(&node.switch.database.remote()).unwrap();
        let mut client = Client::new(ClientConfig::new(session, remotes));
        client.synced(Duration::from_secs(10)).await.unwrap();
        Hand { client }
    }

    async fn add_and_remove(&mut self, sandbox: &Sandbox) -> Duration {
        let links = links(sandbox);
        // What the server did since the last time is not part of this.
        while installed(&self.client) > 0 {
            self.client.next().await;
        }
        while self.client.poll_event().is_some() {}
        let begun = Instant::now();
        let (netns, cables) = (sandbox.netns.clone(), links.clone());
        tokio::task::spawn_blocking(move || Kernel.attach(&netns, &cables).unwrap()).await.unwrap();
        let ports = insert(&mut self.client, &links, &sandbox.id).await;
        while installed(&self.client) < links.len() {
            self.client.next().await;
        }
        let took = begun.elapsed();
        remove(&mut self.client, ports).await;
        let names: Vec<String> = links.into_iter().map(|link| link.host_name).collect();
        tokio::task::spawn_blocking(move || Kernel.detach(&names).unwrap()).await.unwrap();
        took
    }
}

fn links(sandbox: &Sandbox) -> Vec<PodInterface> {
    let networks: Value = blue(5);
    let entries = [("default", "eth0", 0, 1400), ("ns1/blue", "ovn-udn1", 1, 1300)];
    let link = |(key, name, number, mtu): (&str, &str, u32, u32)| {
        let entry = &networks[key];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let route = |route: &Value| Route {
            dest: text(&route["dest"]).parse().unwrap(),
            via: Some(text(&route["nextHop"]).parse().unwrap()),
        };
        let gateway = entry["gateway_ips"][0]
            .as_str()
            .map(|gateway| Route { dest: "0.0.0.0/0".parse().unwrap(), via: Some(gateway.parse().unwrap()) });
        PodInterface {
            host_name: causeway_node::cni::host_link_name(&sandbox.id, number),
            name: name.to_owned(),
            mac: text(&entry["mac_address"]).parse().unwrap(),
            mtu,
            addresses: vec![text(&entry["ip_addresses"][0]).parse().unwrap()],
            routes: entry["routes"].as_array().unwrap().iter().map(route).chain(gateway).collect(),
            router: None,
            cut: false,
        }
    };
    entries.map(link).into()
}

fn bridge(client: &Client) -> Uuid {
    let replica = client.replica();
    replica.rows(replica.table("Bridge").unwrap()).next().unwrap().uuid
}

fn change_ports(client: &Client, mutator: Mutator, ports: Vec<Atom>) -> Op {
    Op::Mutate {
        table: "Bridge".into(),
        conditions: vec![Condition::uuid(bridge(client))],
        mutations: vec![Mutation { column: "ports".into(), mutator, value: Datum::set(ports) }],
    }
}

async fn insert(client: &mut Client, links: &[PodInterface], sandbox: &str) -> Vec<Atom> {
    let mut ops = Vec::new();
    let mut ports = Vec::new();
    for (number, link) in links.iter().enumerate() {
        let ids = [
            ("attached_mac", link.mac.to_string()),
            ("iface-id", format!("ns1_web-{number}")),
            ("iface-id-ver", "uid-of-web".to_owned()),
            ("sandbox", sandbox.to_owned()),
            ("pod-if-name", link.name.clone()),
            ("ip_addresses", link.addresses[0].to_string()),
        ];
        let (interface, port) = (format!("interface{number}"), format!("port{number}"));
        let name = link.host_name.as_str();
        ops.push(Op::Insert {
            table: "Interface".into(),
            uuid: None,
            name: Some(interface.as_str().into()),
            row: vec![("name".into(), name.into()), ("external_ids".into(), Datum::str_map(ids))],
        });
        ops.push(Op::Insert {
            table: "Port".into(),
            uuid: None,
            name: Some(port.as_str().into()),
            row: vec![
                ("name".into(), name.into()),
                ("interfaces".into(), Atom::Named(interface.into()).into()),
                ("other_config".into(), Datum::str_map([("transient", "true")])),
            ],
        });
        ports.push(Atom::Named(port.into()));
    }
    ops.push(change_ports(client, Mutator::Insert, ports));
    let causeway_ovsdb_client::ovsdb::TransactOutcome::Done(results) =
        client.transact(&Transaction::new(ops)).await
    else {
        panic!("the database refused")
    };
    results.iter().skip(1).step_by(2).filter_map(|result| result.uuid.map(Atom::Uuid)).collect()
}

async fn remove(client: &mut Client, ports: Vec<Atom>) {
    let op = change_ports(client, Mutator::Delete, ports);
    client.transact(&Transaction::new(vec![op])).await;
}

fn installed(client: &Client) -> usize {
    let replica = client.replica();
    let ids = |row: causeway_ovsdb_client::ovsdb::RowRef<'_>| {
        row.get("external_ids").is_some_and(|ids| ids.get("ovn-installed").is_some())
    };
    replica.rows(replica.table("Interface").unwrap()).filter(|row| ids(*row)).count()
}
