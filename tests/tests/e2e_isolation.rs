//! Whoever is on a node without rights does not get at the pods of tenants: their locked default addresses are the kubelet's alone,
//! and what owners open.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::kill_and_wait;
use serde_json::{Value, json};

const MANIFESTS: &str = include_str!("manifests/isolation.yaml");
/// A user without any rights.
const NOBODY: &str =
    "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs";

/// The addresses of a pod on the default network.
fn locked(sandbox: &Sandbox, pod: &str) -> [String; 2] {
    let object = sandbox.pod(pod).object().unwrap();
    let text = object["metadata"]["annotations"]["k8s.ovn.org/pod-networks"].as_str().unwrap();
    let all: Value = serde_json::from_str(text).unwrap();
    [0, 1].map(|place| {
        let net = all["default"]["ip_addresses"][place].as_str().unwrap();
        net.split('/').next().unwrap().to_owned()
    })
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
enum Who {
    Root,
    Nobody,
    /// A pod of another tenant in the node's network, without rights.
    HostPod,
}

/// What somebody on n1 gets through to addresses. A datagram that the firewall drops is refused to its sender. Nodes have no
/// program for echoes; the pod has.
fn reached(sandbox: &Sandbox, who: Who, addresses: &[String]) -> BTreeSet<String> {
    let user = if matches!(who, Who::Nobody) { NOBODY } else { "" };
    let asked = addresses.iter().map(|address| {
        let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
        format!(
            "({user} curl -sg -m3 http://{host}:8080/hostname >/dev/null && echo tcp {address}) &\n\
             ({user} bash -c 'echo x >/dev/udp/{address}/8081' 2>/dev/null && echo udp {address}) &\n\
             ({user} ping -c2 -i0.3 -W2 {address} >/dev/null 2>&1 && echo icmp {address}) &\n"
        )
    });
    let script = format!("{}wait", asked.collect::<String>());
    let said = match who {
        Who::Root | Who::Nobody => sandbox.exec("n1", &["bash", "-c", &script]).unwrap(),
        Who::HostPod => sandbox.pod("open/on-host").exec(&["bash", "-c", &script]).unwrap(),
    };
    println!("{who:?} on n1: {addresses:?}: {said:?}");
    said.lines().map(str::to_owned).collect()
}

fn each(ways: &[&str], addresses: &[String]) -> BTreeSet<String> {
    let of = |address: &String| ways.iter().map(|way| format!("{way} {address}")).collect::<Vec<_>>();
    addresses.iter().flat_map(of).collect()
}

fn table(sandbox: &Sandbox) -> String {
    sandbox.exec("n1", &["nft", "-a", "list", "table", "inet", "causeway-isolation"]).unwrap()
}

fn wait_listed(sandbox: &Sandbox, addresses: &[String], there: bool) {
    let listed = || {
        let table = table(sandbox);
        Ok(addresses.iter().all(|address| table.contains(address.as_str()) == there).then_some(()))
    };
    sandbox.wait_for(&format!("{addresses:?} to be locked: {there}"), listed).unwrap();
}

/// udn-ovn-cases E10, E13.

#[test]
fn nobody_on_a_node_gets_at_locked_pods() {
    let sandbox = Sandbox::new(2).unwrap();
    sandbox.apply(MANIFESTS).unwrap();
    sandbox.start_pods(&[("safe/a", "n1"), ("safe/far", "n2"), ("plain/p", "n1")]).unwrap();
    start_open(&sandbox);
    start_host_pod(&sandbox);
    // Echoes without rights.
    let echo = "echo 0 65534 >/proc/sys/net/ipv4/ping_group_range";
    sandbox.exec("n1", &["sh", "-c", echo]).unwrap();
    let [safe, far, plain, open] =
        ["safe/a", "safe/far", "plain/p", "open/o"].map(|pod| locked(&sandbox, pod));
    wait_listed(&sandbox, &safe, true);

    who_gets_through(&sandbox, &safe, &far, &plain, &open);
    more_ports_than_allowed_change_nothing(&sandbox, &plain, &open);
    an_unchanged_restart_writes_nothing(&sandbox);
    what_somebody_flushes_comes_back(&sandbox, &safe);

    // Its probes went on all the time.
    let object = sandbox.pod("safe/a").object().unwrap();
    assert_eq!(object["status"]["containerStatuses"][0]["ready"], true, "{object:#}");
    sandbox.kubectl(&["delete", "pod", "--namespace=safe", "a", "--now"]).unwrap();
    wait_listed(&sandbox, &safe, false);
    wait_listed(&sandbox, &open, true);
    sandbox.kubectl(&["delete", "pod", "--namespace=open", "o", "--now"]).unwrap();
    wait_listed(&sandbox, &open, false);
    assert!(!table(&sandbox).contains("elements"), "{}", table(&sandbox));
}

/// A pod whose owner opens a port and echoes.
fn start_open(sandbox: &Sandbox) {
    let ports = r#"[{"protocol":"tcp","port":8080},{"protocol":"icmp"},{"protocol":"icmpv6"}]"#;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "open", "name": "o", "annotations": {"k8s.ovn.org/open-default-ports": ports}},
        "spec": {
            "nodeName": "n1",
            "containers": [{
                "name": "tools", "image": IMAGE,
                "readinessProbe": {"httpGet": {"path": "/hostname", "port": 8080}, "periodSeconds": 1},
            }],
        },
    });
    sandbox.wait_for("the pod to be accepted", || sandbox.apply(&pod.to_string()).map(Some)).unwrap();
    sandbox.pod("open/o").wait_ready().unwrap();
}

fn who_gets_through(
    sandbox: &Sandbox,
    safe: &[String; 2],
    far: &[String; 2],
    plain: &[String; 2],
    open: &[String; 2],
) {
    let asked = |who, addresses| reached(sandbox, who, addresses);
    for who in [Who::Nobody, Who::HostPod] {
        let echo: &[&str] = if matches!(who, Who::HostPod) { &["icmp"] } else { &[] };
        assert_eq!(asked(who, safe), each(&[], safe), "{who:?}: locked");
        assert_eq!(asked(who, plain), each(&[&["tcp", "udp"], echo].concat(), plain), "{who:?}: not locked");
        assert_eq!(asked(who, open), each(&[&["tcp"], echo].concat(), open), "{who:?}: what the owner opens");
    }
    // The kubelet's user, where there is nothing better to know it by.
    assert_eq!(asked(Who::Root, safe), each(&["tcp", "udp"], safe), "the kubelet's user");
    // Another node's pods are guarded there: what is sent does not arrive.
    assert_eq!(asked(Who::Root, far), each(&["udp"], far));
    // By another device, and so from another address of the node.
    let other = format!("{NOBODY} curl -sg -m2 --interface br-ex http://{}:8080/hostname", safe[0]);
    sandbox.exec("n1", &["sh", "-c", &other]).unwrap_err();
}

/// What a pod of the default network gets through to addresses, and an answer from there.
fn answered(sandbox: &Sandbox, addresses: &[String]) -> BTreeSet<String> {
    let asked = addresses.iter().map(|address| {
        let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
        format!(
            "(curl -sg -m3 http://{host}:8080/hostname >/dev/null && echo tcp {address}) &\n\
             (exec 3<>/dev/udp/{address}/8081; echo hostname >&3; [ -n \"$(timeout 2 head -c1 <&3)\" ] && echo udp {address}) &\n"
        )
    });
    let script = format!("{}wait", asked.collect::<String>());
    let said = sandbox.pod("plain/p").exec(&["bash", "-c", &script]).unwrap();
    println!("plain/p: {addresses:?}: {said:?}");
    said.lines().map(str::to_owned).collect()
}

/// The rules that switches of n1 have, in an order of their own.
fn acls(sandbox: &Sandbox) -> BTreeSet<String> {
    let columns = "--columns=_uuid,priority,direction,match,action";
    let words = ["ovn-nbctl", "--no-leader-only", "--bare", columns, "list", "acl"];
    sandbox.exec("n1", &words).unwrap().split("\n\n").map(str::to_owned).collect()
}

/// An owner who opens one port too many is told so; what he has opened before stays open, and nothing else is.
fn more_ports_than_allowed_change_nothing(sandbox: &Sandbox, plain: &[String; 2], open: &[String; 2]) {
    let annotate = |ports: &str| {
        let ports = format!("k8s.ovn.org/open-default-ports=[{ports}]");
        sandbox.kubectl(&["annotate", "--overwrite", "pod", "--namespace=open", "o", &ports]).unwrap();
    };
    assert_eq!(answered(sandbox, plain), each(&["tcp", "udp"], plain), "not locked");
    assert_eq!(answered(sandbox, open), each(&["tcp"], open), "what the owner opens");
    let before = (table(sandbox), acls(sandbox));

    let many: String = (9001..=9064).map(|port| format!(",{{protocol: tcp, port: {port}}}")).collect();
    annotate(&format!("{{protocol: udp, port: 8081}}{many}"));
    let told = || {
        let about = "--field-selector=involvedObject.name=o,reason=ErrorUpdatingResource";
        let events = sandbox.get(&["events", "--namespace=open", about])?;
        Ok(events["items"][0]["message"].as_str().map(str::to_owned))
    };
    let said = sandbox.wait_for("the owner to be told", told).unwrap();
    println!("{said}");
    assert!(
        said.contains("open-default-ports is malformed") && said.contains("more than 64 ports"),
        "{said}"
    );
    // The node has read it too, so that what it makes of it is made.
    let read = || {
        let report = sandbox.get(&["zonereport", "n1"])?["spec"]["failures"].clone();
        let failures = report.as_array().cloned().unwrap_or_default();
        let of_pod = |failure: &Value| failure["message"].as_str().unwrap().starts_with("pod open/o: ");
        Ok(failures.into_iter().find(of_pod))
    };
    println!("{}", sandbox.wait_for("n1 to report it", read).unwrap());
    assert_eq!((table(sandbox), acls(sandbox)), before);
    assert_eq!(answered(sandbox, open), each(&["tcp"], open), "the old ports stay open, and no other is");
    for (who, ways) in [(Who::Nobody, &["tcp"][..]), (Who::HostPod, &["tcp", "icmp"])] {
        assert_eq!(reached(sandbox, who, open), each(ways, open), "{who:?}");
    }

    annotate(
        "{protocol: tcp, port: 8080}, {protocol: udp, port: 8081}, {protocol: icmp}, {protocol: icmpv6}",
    );
    let wanted = each(&["tcp", "udp"], open);
    let opened = || Ok((answered(sandbox, open) == wanted).then_some(()));
    sandbox.wait_for("a list that can be read to open the port", opened).unwrap();
}

/// It has the node's network and no rights in it.
fn start_host_pod(sandbox: &Sandbox) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "open", "name": "on-host"},
        "spec": {
            "nodeName": "n1", "hostNetwork": true,
            "containers": [{
                "name": "tools", "image": IMAGE, "command": ["sleep", "infinity"],
                "securityContext": {
                    "runAsUser": 65534, "runAsGroup": 65534, "capabilities": {"drop": ["ALL"]},
                    "allowPrivilegeEscalation": false,
                },
            }],
        },
    });
    sandbox.apply(&pod.to_string()).unwrap();
    sandbox.pod("open/on-host").wait_ready().unwrap();
}

/// A table that is replaced has another handle.
fn an_unchanged_restart_writes_nothing(sandbox: &Sandbox) {
    let before = table(sandbox);
    kill_and_wait(sandbox, "n1/causeway");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(table(sandbox), before);
}

fn what_somebody_flushes_comes_back(sandbox: &Sandbox, safe: &[String; 2]) {
    for words in ["flush table inet causeway-isolation", "delete table inet causeway-isolation"] {
        sandbox.exec("n1", &["sh", "-c", &format!("nft {words}")]).unwrap();
        let begun = Instant::now();
        // The role looks when the kernel tells of a change.
        sandbox.exec("n1", &["sh", "-c", "ip tuntap add flush0 mode tap; ip link del flush0"]).unwrap();
        let shut = || Ok(reached(sandbox, Who::Nobody, safe).is_empty().then_some(()));
        sandbox.wait_for("locked pods to be shut again", shut).unwrap();
        println!("{words}: healed within {:?}", begun.elapsed());
    }
}
