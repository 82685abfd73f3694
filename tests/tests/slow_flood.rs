//! One pod floods what only ovn-controller can answer: few packets of it get there, its CPU time stays bounded, other networks are
//! answered, and a new pod on that node is ready in the usual time.
//!
//! What is compared holds on a busy machine, too: packets are counted, not timed; CPU time is summed up, since one flood costs no more than
//! a few ticks of the clock; and of things that take their time the best of several counts.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::net::IpAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use causeway_sandbox::harness::Sandbox;
use causeway_tests::{Flood, flood, namespace, wait_reach};

const MANIFESTS: &str = include_str!("manifests/flood.yaml");
const DEVICE: &str = "ovn-udn1";
/// Packets a second of each flood.
const RATE: u32 = 5000;
/// How long a flood is measured.
const MEASURED: Duration = Duration::from_secs(6);
/// How often a pod is started without and with the floods.
const ROUNDS: usize = 3;
/// Without limits at least so many times as many packets arrive.
const MORE_PACKETS: u64 = 4;
/// And all floods together cost at least so many times as much.
const MORE_TIME: u32 = 2;
/// How often others ask before they count as not answered: a busy switch may lose a packet.
const TRIES: usize = 3;

/// The CPU time that ovn-controller of the node has used.
fn used(sandbox: &Sandbox) -> Duration {
    let status = sandbox.status().unwrap();
    let pid = status.units.iter().find(|unit| unit.id == "n1/ovn-controller").unwrap().pid.unwrap();
    let stat = sandbox.exec("control", &["cat", &format!("/proc/{pid}/stat")]).unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    // A tick is a hundredth of a second on every Linux.
    Duration::from_millis(10 * ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
}

/// How many packets have come to ovn-controller of the node.
fn arrived(sandbox: &Sandbox) -> u64 {
    let words = ["ovn-appctl", "-t", "ovn-controller", "coverage/read-counter", "pinctrl_total_pin_pkts"];
    sandbox.exec("n1", &words).unwrap().trim().parse().unwrap()
}

/// What ovn-controller has of a flood.
#[derive(Clone, Copy, Debug)]
struct Cost {
    packets: u64,
    time: Duration,
    /// How long it was looked at.
    elapsed: Duration,
}

fn cost(sandbox: &Sandbox, from: &Path, what: Flood) -> Cost {
    let running = flood(from, DEVICE, what, RATE);
    sleep(Duration::from_secs(1));
    let (begin, time, packets, sent) = (Instant::now(), used(sandbox), arrived(sandbox), running.sent());
    sleep(MEASURED);
    let cost =
        Cost { packets: arrived(sandbox) - packets, time: used(sandbox) - time, elapsed: begin.elapsed() };
    let sent = running.sent() - sent;
    assert!(sent > RATE, "{what:?}: {sent} packets");
    println!("{what:?}: {sent} packets, {cost:?}");
    cost
}

/// The packets a second that a network has of such a flood (docs/limits.md).
fn limit(what: Flood) -> u64 {
    match what {
        Flood::Neighbour { .. } => 100,
        Flood::Syn { .. } | Flood::Igmp { .. } => 25,
    }
}

/// Few packets arrive: what the network has, what fits into a moment at once, and what the machine itself asks now and then.
fn is_limited(what: Flood, limited: Cost, unlimited: Cost) {
    let rate = limit(what);
    let most = 2 * rate * (limited.elapsed.as_secs() + 2);
    assert!(limited.packets <= most, "{what:?}: {limited:?} with limits, {most} packets at most");
    assert!(
        limited.packets * MORE_PACKETS < unlimited.packets,
        "{what:?}: {limited:?} with limits, {unlimited:?} without"
    );
}

/// Takes the limits away by hand, while the role that would put them back is stopped.
fn without_limits<T>(sandbox: &Sandbox, work: impl FnOnce() -> T) -> T {
    sandbox.signal("n1/causeway", "STOP").unwrap();
    for table in ["Logical_Switch", "Logical_Router"] {
        let script = format!(
            "for row in $(ovn-nbctl --no-leader-only --bare --columns=_uuid list {table}); do \
             ovn-nbctl --no-leader-only clear {table} $row copp; done"
        );
        sandbox.exec("n1", &["sh", "-ec", &script]).unwrap();
    }
    sandbox.exec("n1", &["ovn-nbctl", "--no-leader-only", "--wait=hv", "sync"]).unwrap();
    let done = work();
    sandbox.signal("n1/causeway", "CONT").unwrap();
    sandbox
        .wait_for("the limits to be back", || {
            let without = [
                "ovn-nbctl",
                "--no-leader-only",
                "--bare",
                "--columns=name",
                "find",
                "Logical_Switch",
                "copp=[]",
            ];
            Ok(sandbox.exec("n1", &without)?.is_empty().then_some(()))
        })
        .unwrap();
    done
}

/// How long a pod of another network takes to be ready on the node.
fn pod_takes(sandbox: &Sandbox, name: &str) -> Duration {
    let begin = Instant::now();
    sandbox.start_pods(&[(name, "n1")]).unwrap();
    begin.elapsed()
}

/// Somebody on another network is answered: a neighbour whom he has not met is found, and what nobody serves is refused at
/// once.
fn others_are_answered(sandbox: &Sandbox, neighbour: &str, refused: &str) {
    let reached = (0..TRIES).any(|_| sandbox.can_reach("calm/a", neighbour).unwrap());
    assert!(reached, "{neighbour}");
    let asked = format!("curl -s -m 5 http://{refused}:80/ ; echo $?");
    let said = || sandbox.pod("calm/a").exec(&["sh", "-c", &asked]).unwrap();
    let all: Vec<String> = (0..TRIES).map(|_| said()).take_while(|said| said.trim() != "7").collect();
    assert!(all.len() < TRIES, "never refused (7); 28 is silence: {all:?}");
}

fn address(sandbox: &Sandbox, pod: &str, ipv6: bool) -> IpAddr {
    let all = sandbox.pod(pod).addresses().unwrap();
    all.iter().map(|text| text.parse().unwrap()).find(|address: &IpAddr| address.is_ipv6() == ipv6).unwrap()
}

#[test]
fn a_flood_costs_others_nothing() {
    let sandbox = Sandbox::new(1).unwrap();
    sandbox.apply(MANIFESTS).unwrap();
    let pods = [("wild/attacker", "n1"), ("wild/neighbour", "n1"), ("calm/a", "n1"), ("calm/b", "n1")];
    sandbox.start_pods(&pods).unwrap();
    wait_reach(&sandbox, "wild/attacker", "wild/neighbour");
    let cluster_ip = |namespace: &str| {
        let service = sandbox.get(&["service", "-n", namespace, "idle"]).unwrap();
        service["spec"]["clusterIP"].as_str().unwrap().to_owned()
    };
    let (idle, calm_idle) = (cluster_ip("wild"), cluster_ip("calm"));
    let from = namespace(&sandbox, "wild/attacker");
    let (IpAddr::V4(v4), IpAddr::V6(v6)) =
        (address(&sandbox, "wild/attacker", false), address(&sandbox, "wild/attacker", true))
    else {
        unreachable!("one of each")
    };
    let IpAddr::V6(neighbour) = address(&sandbox, "wild/neighbour", true) else { unreachable!("asked for") };
    let floods = [
        Flood::Syn { from: v4, to: idle.parse().unwrap() },
        Flood::Igmp { from: v4 },
        Flood::Neighbour { from: v6, to: neighbour },
    ];

    others_are_answered(&sandbox, "calm/b", &calm_idle);
    let limited = floods.map(|what| cost(&sandbox, &from, what));
    let unlimited = without_limits(&sandbox, || floods.map(|what| cost(&sandbox, &from, what)));
    for (what, (limited, unlimited)) in floods.into_iter().zip(limited.into_iter().zip(unlimited)) {
        is_limited(what, limited, unlimited);
    }
    let time = |all: [Cost; 3]| all.iter().map(|cost| cost.time).sum::<Duration>();
    let (limited, unlimited) = (time(limited), time(unlimited));
    assert!(limited * MORE_TIME < unlimited, "{limited:?} of CPU time with limits, {unlimited:?} without");

    // In turn, and the best of each: other things happen on the machine, too.
    let (mut usual, mut flooded) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let neighbour = format!("calm/usual-{round}");
        usual.push(pod_takes(&sandbox, &neighbour));
        let running = floods.map(|what| flood(&from, DEVICE, what, RATE));
        sleep(Duration::from_secs(1));
        others_are_answered(&sandbox, &neighbour, &calm_idle);
        flooded.push(pod_takes(&sandbox, &format!("calm/flooded-{round}")));
        assert!(running.iter().all(|flood| flood.sent() > RATE));
    }
    println!("pods take {usual:?}, and {flooded:?} while packets are sent");
    let (usual, flooded) = (usual.into_iter().min().unwrap(), flooded.into_iter().min().unwrap());
    assert!(flooded < usual * 2 + Duration::from_secs(3), "{flooded:?}, usually {usual:?}");
}
