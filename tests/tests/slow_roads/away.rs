//! A node that was away while one road went and another one came.

use super::{NETWORKS, PODS, mesh, wait};
use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::forged::{self, Watcher};
use causeway_tests::{joined, namespace, network, road};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DEVICE: &str = "ovn-udn1";
/// What a stranger sends from and to.
const PORTS: [u16; 2] = [9201, 9202];
/// How long he waits between two rounds.
const PAUSE: Duration = Duration::from_millis(200);
/// The networks of the new road; nobody of the first one is on it.
const LATE: [(&str, &str); 3] = [("yellow", "rose"), ("yellow", "lime"), ("rose", "lime")];
/// The networks of the first road.
const EARLY: [&str; 5] = ["blue", "orange", "violet", "red", "green"];
/// Of the first road, on the node that is away.
const GUEST: (&str, &str) = ("blue/c", "n3");
/// By the first road they hear each other. Who hears does not send himself, since errors about his own packets have what he sent in them.
const EARLIER: [(&str, &str); 2] = [("blue/c", "green/a"), ("blue/c", "red/b")];
/// One of the first road and one of the new one, from the node that is away and to it.
const STRANGERS: [(&str, &str); 3] = [("blue/c", "lime/b"), ("yellow/c", "blue/a"), ("orange/b", "rose/c")];

/// What says which networks the new road has.
const LATECOMERS: [(&str, &str); 3] = [("cudn", "yellow"), ("namespace", "rose"), ("namespace", "lime")];

/// Two strangers, and what is sent from the first one to the second one.
struct Stranger {
    from: PathBuf,
    to: PathBuf,
    sockets: Vec<(SocketAddr, SocketAddr)>,
}

impl Stranger {
    fn all(sandbox: &Sandbox, pairs: &[(&str, &str)]) -> Vec<Self> {
        let addresses = |pod: &str| -> Vec<IpAddr> {
            sandbox.pod(pod).addresses().unwrap().iter().map(|text| text.parse().unwrap()).collect()
        };
        let one = |(from, to): &(&str, &str)| {
            let pairs = addresses(from).into_iter().zip(addresses(to));
            let sockets = pairs.map(|(from, to)| ((from, PORTS[0]).into(), (to, PORTS[1]).into())).collect();
            Self { from: namespace(sandbox, from), to: namespace(sandbox, to), sockets }
        };
        pairs.iter().map(one).collect()
    }

    /// Packets that want no answer.
    fn send(&self) {
        self.sockets.iter().for_each(|(from, to)| forged::send(&self.from, DEVICE, *from, *to));
    }
}

/// A node is cut off while one connection goes and another one comes, with the same links and other networks: when it is back no packet goes
/// from anybody of the one to anybody of the other. By what it still has of the first road single packets arrive inside of that until the node
/// hears, which is told here and in docs/limits.md; after that none does.
pub(crate) fn a_node_that_was_away(sandbox: &Sandbox, topology: &str) {
    for (kind, name) in LATECOMERS {
        sandbox.kubectl(&["label", kind, name, "late=yes", "all-"]).unwrap();
    }
    sandbox.start_pods(&[GUEST]).unwrap();
    wait(sandbox, &mesh(&EARLY));
    let (earlier, strangers) = (Stranger::all(sandbox, &EARLIER), Stranger::all(sandbox, &STRANGERS));
    assert!(heard(&earlier).iter().all(|heard| !heard.is_empty()), "by the first road they hear each other");
    sandbox.partition("n3", true).unwrap();
    sandbox.kubectl(&["delete", "cnc", "all", "--timeout=60s"]).unwrap();
    sandbox.apply(&road("late", "late", 168, "PodNetwork")).unwrap();
    let pods = ["blue/a", "red/b", "lime/b", "green/a"];
    let alone = || {
        let matrix = sandbox.matrix_with(&pods, &[Probe::ALL[0]])?;
        Ok(matrix.wrong(|from, to| from == to).is_empty().then_some(()))
    };
    sandbox.wait_for("everybody on the other nodes to be alone", alone).unwrap();
    let watch = |all: &[Stranger]| -> Vec<Watcher> {
        all.iter().map(|stranger| Watcher::begin(&stranger.to, DEVICE)).collect()
    };
    let (inside, across) = (watch(&earlier), watch(&strangers));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                earlier.iter().chain(&strangers).for_each(Stranger::send);
                std::thread::sleep(PAUSE);
            }
        });
        sandbox.partition("n3", false).unwrap();
        wait_for_the_new_road(sandbox);
        wait(sandbox, &LATE);
    });
    let across: Vec<_> = across.into_iter().map(Watcher::end).zip(STRANGERS).collect();
    assert!(
        across.iter().all(|(heard, _)| heard.is_empty()),
        "{topology}, between the two roads: {across:?}"
    );
    let inside: Vec<_> = inside.into_iter().map(Watcher::end).zip(EARLIER).collect();
    println!("{topology}, by the first road, from a node that was away: {inside:?}");
    assert!(heard(&earlier).iter().all(BTreeSet::is_empty), "{topology}: the first road is over everywhere");
    sandbox.kubectl(&["delete", "cnc", "late", "--timeout=60s"]).unwrap();
    sandbox.kubectl(&["delete", "pod", "c", "-n", "blue", "--wait"]).unwrap();
    for (kind, name) in LATECOMERS {
        sandbox.kubectl(&["label", kind, name, "late-", "all=yes"]).unwrap();
    }
}

/// What each of them hears of one round.
fn heard(strangers: &[Stranger]) -> Vec<BTreeSet<String>> {
    let one = |stranger: &Stranger| {
        let watcher = Watcher::begin(&stranger.to, DEVICE);
        stranger.send();
        watcher.end()
    };
    strangers.iter().map(one).collect()
}

/// Ends whoever sends all the time, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// From the first answer on.
fn wait_for_the_new_road(sandbox: &Sandbox) {
    let strangers = || {
        let all = PODS.map(|(pod, _)| pod);
        let matrix = sandbox.matrix_with(&all, &[Probe::ALL[0]])?;
        let wrong = matrix.wrong(|from, to| joined(&LATE, network(from), network(to)));
        for (one, other) in mesh(&NETWORKS).into_iter().filter(|pair| !LATE.contains(pair)) {
            let pod = |name: &str| all.into_iter().find(|pod| network(pod) == name).unwrap();
            let (one, other) = (pod(one), pod(other));
            assert!(!matrix.leaks(one, other) && !matrix.leaks(other, one), "{one} and {other}:\n{matrix}");
        }
        Ok(wrong.is_empty().then_some(()))
    };
    sandbox.wait_for("the new road and no other", strangers).unwrap();
}
