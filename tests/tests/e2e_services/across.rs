//! Services of a network that a road leads to: whatever holds inside holds for who comes by the road.

use super::{addresses, answer};
use causeway_sandbox::harness::Sandbox;
use causeway_tests::ask::{Ask, asked_from_pods, url};
use causeway_tests::talk::{ask_udp, ask_udp_without_a_pause, namespace};
use causeway_tests::{nothing_wrong, road};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pods behind the services, on n1 and n3.
const BEHIND: [&str; 2] = ["a", "c"];
/// Who asks: by the road on n1 and n2, and from inside on n3.
const CLIENTS: [&str; 3] = ["blue/a", "blue/b", "green/c"];
/// How long others go on asking while endpoints come and go.
const LOAD_SECONDS: u64 = 8;
/// Nobody else asks from here.
const PORT: u16 = 41818;
/// How often somebody comes anew.
const BEAT: Duration = Duration::from_millis(20);
/// How often the pod that serves a client of UDP leaves the service, at each of its addresses.
const TRIES: usize = 6;
/// How long it may take from the label of a pod, by way of Kubernetes' own controller, until a client of UDP has left it: mostly, and on a
/// machine that has much else to do. Who is left behind stays for ever. Behind clients that have just come it is never longer, but where
/// these take longer themselves.
const LEAVES: Duration = Duration::from_secs(2);
const LEAVES_AT_LAST: Duration = Duration::from_secs(15);

const SERVICES: [(&str, &str, u16); 5] = [
    ("moving", "selector: {role: back}", 8080),
    ("local", "selector: {role: back}\n  internalTrafficPolicy: Local", 8080),
    ("sticky", "selector: {role: back}\n  sessionAffinity: ClientIP", 8080),
    ("nobody", "selector: {role: nobody}", 8080),
    ("hosted", "selector: {role: hosted}", 8099),
];

const HOSTED: &str = "---
apiVersion: v1
kind: Pod
metadata: {name: hosted, namespace: green, labels: {role: hosted}}
spec:
  nodeName: n2
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers:
  - {name: tools, image: localhost/causeway-tools:1, command: [/agnhost, netexec, --http-port=8099, --udp-port=8098]}
";

fn manifests() -> String {
    let one = |(name, rest, port): &(&str, &str, u16)| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: green}}\nspec:\n  {rest}\n  \
             ipFamilyPolicy: RequireDualStack\n  ports:\n  - {{name: http, port: 80, targetPort: {port}}}\n  \
             - {{name: udp, port: 81, targetPort: 8081, protocol: UDP}}\n"
        )
    };
    SERVICES.iter().map(one).collect::<String>() + HOSTED
}

fn label(sandbox: &Sandbox, pod: &str, word: &str) {
    sandbox.kubectl(&["label", "pod", "--overwrite", "--namespace=green", pod, word]).unwrap();
}

/// Everything below, by whatever road there is.
pub(crate) fn as_inside(sandbox: &Sandbox) {
    BEHIND.iter().for_each(|pod| label(sandbox, pod, "role=back"));
    sandbox.apply(&manifests()).unwrap();
    sandbox
        .kubectl(&["wait", "--for=condition=Ready", "pod/hosted", "--namespace=green", "--timeout=60s"])
        .unwrap();
    wait_answers(sandbox, "moving", |_| vec!["a", "c"]);
    wait_answers(sandbox, "local", |client| match client {
        "blue/a" => vec!["a"],
        "green/c" => vec!["c"],
        _ => Vec::new(),
    });
    wait_one_each(sandbox);
    for (service, client) in [("nobody", "blue/b"), ("nobody", "green/c"), ("local", "blue/b")] {
        addresses(sandbox, "green", service)
            .iter()
            .for_each(|address| wait_refused(sandbox, client, address));
    }
    wait_hosted(sandbox);
    endpoints_come_and_go(sandbox);
    for address in addresses(sandbox, "green", "moving") {
        udp_leaves_with_its_pod(sandbox, address.parse().unwrap());
    }
    sandbox.kubectl(&["delete", "pod", "hosted", "--namespace=green", "--timeout=60s"]).unwrap();
    for (service, ..) in SERVICES {
        sandbox.kubectl(&["delete", "service", "--namespace=green", service]).unwrap();
    }
}

/// Who answers at each address of a service when it is asked many times.
fn answers(
    sandbox: &Sandbox,
    service: &str,
) -> causeway_sandbox::Result<Vec<(&'static str, BTreeSet<String>)>> {
    let mut asks = Vec::new();
    for address in addresses(sandbox, "green", service) {
        asks.extend((0..12).map(|n| Ask::http(&url(&address, 80, "/hostname"), &format!("{address} {n}"))));
    }
    let said = asked_from_pods(sandbox, &CLIENTS, &asks)?;
    Ok(said.into_iter().map(|(pod, said)| (pod, said.into_values().collect())).collect())
}

/// Waits until exactly these pods answer each client.
fn wait_answers(sandbox: &Sandbox, service: &str, wanted: impl Fn(&str) -> Vec<&'static str>) {
    let as_wanted = || {
        let answers = answers(sandbox, service)?.into_iter();
        let wrong = answers.filter(|(client, said)| !said.iter().eq(wanted(client).iter().copied()));
        let wrong: Vec<String> = wrong.map(|(client, said)| format!("{client} heard {said:?}")).collect();
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for(&format!("the right pods behind {service} to answer"), as_wanted).unwrap();
}

/// With affinity each client has one pod, at each address.
fn wait_one_each(sandbox: &Sandbox) {
    let one_each = || {
        let mut wrong = Vec::new();
        for address in addresses(sandbox, "green", "sticky") {
            for client in CLIENTS {
                let said: BTreeSet<Option<String>> =
                    (0..6).map(|_| answer(sandbox, client, &address)).collect();
                if said.len() != 1 || said.contains(&None) {
                    wrong.push(format!("{client} heard {said:?} at {address}"));
                }
            }
        }
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for("each client to have one pod", one_each).unwrap();
}

/// Told at once, instead of being kept waiting.
fn wait_refused(sandbox: &Sandbox, client: &str, address: &str) {
    let url = url(address, 80, "/hostname");
    let refused = || {
        let said = sandbox.pod(client).exec(&["curl", "-sS", "--max-time", "3", &url]);
        Ok(said.err().filter(|error| error.to_string().contains("Could not connect")))
    };
    sandbox.wait_for(&format!("{client} to be refused at {address}"), refused).unwrap();
}

/// A pod in its node's own network answers whoever comes by the road as it answers those inside.
fn wait_hosted(sandbox: &Sandbox) {
    let hosted = || {
        let answers = answers(sandbox, "hosted")?;
        let wrong = answers.iter().filter(|(_, said)| said.len() != 1);
        let wrong: Vec<String> = wrong.map(|(client, said)| format!("{client} heard {said:?}")).collect();
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for("the pod in its node's network to answer everybody", hosted).unwrap();
}

/// While others ask all the time, each pod leaves the service and comes back: no question fails.
fn endpoints_come_and_go(sandbox: &Sandbox) {
    let urls: Vec<String> =
        addresses(sandbox, "green", "moving").iter().map(|address| url(address, 80, "/hostname")).collect();
    let failed: Vec<(u32, u32)> = std::thread::scope(|scope| {
        let asking =
            ["blue/a", "blue/b"].map(|client| scope.spawn(|| ask_all_the_time(sandbox, client, &urls)));
        for pod in BEHIND {
            label(sandbox, pod, "role-");
            std::thread::sleep(std::time::Duration::from_secs(1));
            label(sandbox, pod, "role=back");
        }
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    println!("questions and failures while endpoints came and went: {failed:?}");
    assert!(failed.iter().all(|(asked, failed)| *asked > 10 && *failed == 0), "{failed:?}");
}

/// How often a pod asked, and how often in vain.
fn ask_all_the_time(sandbox: &Sandbox, client: &str, urls: &[String]) -> (u32, u32) {
    let each: Vec<String> = urls
        .iter()
        .map(|url| format!("n=$((n+1)); curl -sf --max-time 3 '{url}' >/dev/null || f=$((f+1))"))
        .collect();
    let script = format!(
        "n=0; f=0; end=$(($(date +%s) + {LOAD_SECONDS})); while [ $(date +%s) -lt $end ]; do {}; done; echo $n $f",
        each.join("; ")
    );
    let said = sandbox.pod(client).exec(&["sh", "-c", &script]).unwrap();
    let numbers: Vec<u32> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    (numbers[0], numbers[1])
}

/// Whom clients of UDP hear: one that keeps its port, and those that come anew all the time.
#[derive(Default)]
struct Heard {
    kept: Mutex<Option<String>>,
    /// When somebody asked whom this one answered, for the last time.
    fresh: Mutex<BTreeMap<String, Instant>>,
    over: AtomicBool,
}

impl Heard {
    fn kept(&self) -> Option<String> {
        self.kept.lock().unwrap().clone()
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn hear(&self, answer: Option<String>) -> bool {
        if answer.is_some() {
            *self.kept.lock().unwrap() = answer;
        }
        self.goes_on()
    }

    fn ask_anew(&self, client: &Path, server: SocketAddr) {
        while self.goes_on() {
            let asked = Instant::now();
            if let Some(answer) = ask_udp(client, 0, server, "hostname") {
                self.fresh.lock().unwrap().insert(answer, asked);
            }
            std::thread::sleep(BEAT);
        }
    }
}

/// A client of UDP that keeps its port and never pauses leaves a pod with its place in the service, each time.
fn udp_leaves_with_its_pod(sandbox: &Sandbox, address: IpAddr) {
    let (client, server) = (namespace(sandbox, "blue/a"), SocketAddr::new(address, 81));
    let heard = Heard::default();
    let took: Vec<(Duration, Duration)> = std::thread::scope(|scope| {
        // Whoever fails here must not leave the clients behind, for which the test would wait.
        let _over = Over(&heard.over);
        scope.spawn(|| {
            ask_udp_without_a_pause(&client, PORT, server, "hostname", |answer| heard.hear(answer))
        });
        scope.spawn(|| heard.ask_anew(&client, server));
        let first = sandbox.wait_for("an answer by UDP", || Ok(heard.kept())).unwrap();
        (0..TRIES)
            .fold((first, Vec::new()), |(first, mut took), _| {
                let (next, time, new) = leave(sandbox, &first, &heard);
                took.push((time, new));
                (next, took)
            })
            .1
    });
    println!("a client of UDP at {address} left after so long, and new ones after so long: {took:.1?}");
    let late = took.iter().filter(|(took, _)| *took > LEAVES).count();
    let in_time =
        |(took, new): &(Duration, Duration)| *took < LEAVES_AT_LAST && *took <= *new + LEAVES.max(*new);
    assert!(late <= TRIES / 2 && took.iter().all(in_time), "{took:?}");
}

/// Ends whoever asks all the time.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes a pod out of the service, and says whom its client has then, after how long, and after how long nobody who came anew was led to it
/// any more. It comes back when both are as they were.
fn leave(sandbox: &Sandbox, first: &str, heard: &Heard) -> (String, Duration, Duration) {
    let began = Instant::now();
    label(sandbox, first, "role-");
    let left = || Ok(heard.kept().filter(|now| now != first));
    let next = sandbox.wait_for(&format!("a client of UDP to leave {first}"), left).unwrap();
    let took = began.elapsed();
    let last = heard.fresh.lock().unwrap().get(first).copied();
    let new = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(began));
    label(sandbox, first, "role=back");
    let back = || {
        let slices = ["get", "endpointslices", "-n=green", "-l=kubernetes.io/service-name=moving"];
        let names = "-o=jsonpath={.items[*].endpoints[*].targetRef.name}";
        let names = sandbox.kubectl(&[&slices[..], &[names]].concat())?;
        Ok(names.split_whitespace().any(|name| name == first).then_some(()))
    };
    sandbox.wait_for(&format!("{first} to be back"), back).unwrap();
    (next, took, new)
}

/// A road of IPv4 alone between networks of both families: IPv4 addresses of services answer, IPv6 ones refuse at once, and one's own
/// answer by both.
pub(crate) fn a_family_that_the_road_has_not(sandbox: &Sandbox) {
    let both = road("four", "main", 178, "PodNetwork, ClusterIPServiceNetwork");
    let four: Vec<&str> = both.lines().filter(|line| !line.contains("fd01:")).collect();
    sandbox.apply(&four.join("\n")).unwrap();
    sandbox.kubectl(&["wait", "--for=condition=Ready", "cnc/four", "--timeout=60s"]).unwrap();
    for address in addresses(sandbox, "green", "all") {
        match address.contains(':') {
            true => wait_refused(sandbox, "blue/b", &address),
            false => {
                let served = || Ok(answer(sandbox, "blue/b", &address));
                sandbox.wait_for("the service to answer by IPv4", served).unwrap();
            }
        }
        assert!(answer(sandbox, "green/c", &address).is_some(), "one's own service at {address}");
    }
    sandbox.kubectl(&["delete", "cnc", "four", "--timeout=60s"]).unwrap();
}
