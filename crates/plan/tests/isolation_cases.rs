//! Who of the node reaches locked pods, and what pods in the node's own network reach: as texts, and on the real kernel.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use causeway_plan::host::host;
use causeway_plan::northbound;
use causeway_types::host::{HostPlan, Item, Key, NftFamily, Owner};
use causeway_zone::{Cgroup, Kubelet, Processes, Zone};
use support::{Ip, On as _, blue, cluster, config, host_pod, key, namespace, service, two_nodes, vm, web};

fn body(plan: &HostPlan, name: &str) -> Option<String> {
    let key = Key::Table { family: NftFamily::Inet, name: format!("causeway-{name}") };
    match plan.get(&key) {
        Some(Item::Table(table)) => Some(table.body.clone()),
        Some(other) => panic!("{other:?}"),
        None => None,
    }
}

fn isolation(zone: &Zone) -> String {
    body(&host(zone), "isolation").unwrap()
}

/// The elements of a set.
fn elements(text: &str, set: &str) -> BTreeSet<String> {
    let of_set = text.split(&format!("\tset {set} {{")).nth(1).unwrap().split('}').next().unwrap();
    let list = of_set.split("elements = {").nth(1).unwrap_or_default();
    list.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
}

fn texts<const N: usize>(all: [&str; N]) -> BTreeSet<String> {
    all.map(str::to_owned).into()
}

fn known(kubelet: Kubelet, pods: &[(&str, Option<&str>)]) -> Processes {
    let cgroup = |path: &str| Cgroup { path: path.into(), id: 7 };
    let pods = pods.iter().map(|(uid, path)| ((*uid).to_owned(), path.map(cgroup))).collect();
    Processes { kubelet, pods }
}

fn root() -> Processes {
    known(Kubelet::User(0), &[])
}

/// Until somebody has looked, what is there stays: a role that starts anew changes nothing.
#[test]
fn nothing_is_said_before_somebody_has_looked() {
    let mut zone = cluster(Ip::Dual, None);
    let plan = host(&zone);
    assert!(plan.hold_of(&Owner::node("isolation")).unwrap().contains("kubelet"));
    assert_eq!(body(&plan, "isolation"), None);
    assert!(zone.set_processes(root()).on(&zone).host.any());
    assert!(zone.set_processes(root()).is_empty());
    assert_eq!(host(&zone).hold_of(&Owner::node("isolation")), None);
}

/// udn-ovn-cases E10.

#[test]
fn locked_addresses_follow_pods() {
    let mut zone = cluster(Ip::Dual, None);
    zone.set_processes(root());
    let text = isolation(&zone);
    assert_eq!(elements(&text, "locked4"), texts(["10.244.0.4", "10.244.0.8"]), "{text}");
    assert_eq!(elements(&text, "locked6"), texts(["fd00:10:244::4", "fd00:10:244::8"]));
    assert!(zone.delete_pod(&key("ns2", "vm")).on(&zone).host.any());
    assert_eq!(elements(&isolation(&zone), "locked4"), texts(["10.244.0.4"]));
    // Those of other nodes are other nodes' to guard.
    assert!(!zone.apply_pod(&vm("away", "n2", 12, Ip::Dual)).on(&zone).host.any());
    assert!(zone.delete_pod(&web(Ip::Dual).key).on(&zone).host.any());
    assert!(!isolation(&zone).contains("elements"));
}

#[test]
fn ports_that_the_owner_opens_are_open_to_all() {
    let mut zone = cluster(Ip::Dual, None);
    zone.set_processes(root());
    let mut open = web(Ip::Dual);
    let ports = r#"[{"protocol":"tcp","port":8080},{"protocol":"udp","port":53},{"protocol":"icmp"},{"protocol":"icmpv6"}]"#;
    open.annotate("k8s.ovn.org/open-default-ports", Some(ports));
    assert!(zone.apply_pod(&open).on(&zone).host.any());
    let text = isolation(&zone);
    assert_eq!(elements(&text, "open4"), texts(["10.244.0.4 . tcp . 8080", "10.244.0.4 . udp . 53"]));
    assert_eq!(elements(&text, "open6"), texts(["fd00:10:244::4 . tcp . 8080", "fd00:10:244::4 . udp . 53"]));
    assert_eq!(
        (elements(&text, "echo4"), elements(&text, "echo6")),
        (texts(["10.244.0.4"]), texts(["fd00:10:244::4"]))
    );
}

#[test]
fn the_kubelet_is_known_by_its_cgroup_or_its_user() {
    let mut zone = cluster(Ip::V4, None);
    let mut first_rule = |kubelet| {
        zone.set_processes(known(kubelet, &[]));
        let text = isolation(&zone);
        text.split("chain from-node {\n\t\t").nth(1).unwrap().lines().next().unwrap().to_owned()
    };
    assert_eq!(first_rule(Kubelet::User(7)), "meta skuid 7 accept");
    assert_eq!(first_rule(Kubelet::Away), "jump opened");
    let cgroup = |id| Kubelet::Cgroup(Cgroup { path: "system.slice/kubelet.service".into(), id });
    let rule = r#"socket cgroupv2 level 2 "system.slice/kubelet.service" accept comment "cgroup 9""#;
    assert_eq!(first_rule(cgroup(9)), rule);
    // The same path and another number: the text must differ, or the rule would go on meaning the old one.
    assert_eq!(first_rule(cgroup(10)), rule.replace("cgroup 9", "cgroup 10"));
}

/// n1 with services in `ns1` (blue), `ns2` (green) and `default`.
fn serving() -> Zone {
    let mut zone = cluster(Ip::Dual, None);
    for (name, last) in [("default/kubernetes", 1), ("ns1/web", 11), ("ns2/vms", 12)] {
        let (four, six) = (format!("10.96.0.{last}"), format!("fd00:10:96::{last}"));
        zone.apply_service(&service(name, &[four.as_str(), six.as_str()]));
    }
    zone
}

#[test]
fn a_host_network_pod_reaches_services_of_its_network_and_of_the_default_one() {
    let mut zone = serving();
    zone.set_processes(root());
    assert_eq!(body(&host(&zone), "host-pods"), None);
    assert!(zone.apply_pod(&host_pod("ns1/agent", "n1")).on(&zone).host.any());
    let held = host(&zone);
    assert!(held.hold_of(&Owner::node("host-pods")).unwrap().contains("ns1/agent"));
    // Nobody can tell it from others.
    zone.set_processes(known(Kubelet::User(0), &[("uid-agent", None)]));
    let plan = host(&zone);
    assert_eq!((body(&plan, "host-pods"), plan.hold_of(&Owner::node("host-pods"))), (None, None));
    zone.set_processes(known(Kubelet::User(0), &[("uid-agent", Some("kubepods/burstable/poduid-agent"))]));
    let text = body(&host(&zone), "host-pods").unwrap();
    let jump =
        r#"socket cgroupv2 level 3 "kubepods/burstable/poduid-agent" jump confined0 comment "cgroup 7""#;
    assert!(text.contains(jump), "{text}");
    assert_eq!(elements(&text, "default4"), texts(["10.96.0.1"]));
    assert_eq!(elements(&text, "own0_4"), texts(["10.96.0.11"]));
    assert_eq!(elements(&text, "own0_6"), texts(["fd00:10:96::11"]));
    for inner in
        ["ip daddr 10.96.0.0/16 drop", "ip daddr 10.244.0.0/16 drop", "ip6 daddr fd00:10:244::/48 drop"]
    {
        assert!(text.contains(inner), "{text}");
    }
    assert!(zone.delete_service(&key("ns1", "web")).on(&zone).host.any());
    assert_eq!(elements(&body(&host(&zone), "host-pods").unwrap(), "own0_4"), texts([]));
    assert!(zone.delete_pod(&key("ns1", "agent")).on(&zone).host.any());
    assert_eq!(body(&host(&zone), "host-pods"), None);
}

/// Whose namespace has no primary network is nobody's tenant; one that must have one is confined before it has it.
#[test]
fn who_is_confined() {
    let confined = |zone: &Zone| zone.confined().map(|one| one.pod.to_string()).collect::<Vec<_>>();
    let mut free = config(Ip::V4);
    free.all_services = [("ns1").parse().unwrap()].into();
    let mut zone = Zone::new(free);
    zone.apply_nad(&blue(Ip::V4));
    zone.apply_pod(&host_pod("ns1/ingress", "n1"));
    assert!(confined(&zone).is_empty(), "administrators trust its namespace");

    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_pod(&host_pod("ns1/agent", "n1"));
    zone.apply_pod(&host_pod("ns1/far", "n2"));
    zone.apply_pod(&host_pod("kube-system/proxy", "n1"));
    assert!(confined(&zone).is_empty());
    assert!(zone.apply_namespace(&namespace("ns1", true)).on(&zone).host.any());
    assert_eq!(confined(&zone), ["ns1/agent"]);
    zone.delete_namespace(&"ns1".parse().unwrap());
    assert!(zone.apply_nad(&blue(Ip::V4)).on(&zone).host.any());
    assert_eq!(confined(&zone), ["ns1/agent"]);
    let mut ended = host_pod("ns1/agent", "n1");
    ended.finished = true;
    assert!(zone.apply_pod(&ended).on(&zone).host.any());
    assert!(confined(&zone).is_empty());
}

/// Runs a script in namespaces of its own, where cgroups of version 2 are mounted as on a node that has nothing else.
fn on_own_node(script: &str) -> Vec<String> {
    let words = ["--mount", "--net", "--propagation=private", "bash", "-c", script];
    let out = Command::new("unshare").args(words).output().unwrap();
    let (said, failed) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{script}\n{said}\n{failed}");
    said.lines().map(str::to_owned).collect()
}

/// The planned tables on the real kernel: who sends a datagram, and whether the kernel refuses it to him.
/// udn-ovn-cases E13.
#[test]
fn the_kernel_tells_processes_apart() {
    let mut zone = serving();
    let mut open = web(Ip::Dual);
    open.annotate("k8s.ovn.org/open-default-ports", Some(r#"[{"protocol":"udp","port":53}]"#));
    zone.apply_pod(&open);
    zone.apply_pod(&host_pod("ns1/agent", "n1"));
    let top = format!("causeway-test-isolation-{}", std::process::id());
    let (kubelet, pod) = (format!("{top}/kubelet.service"), format!("{top}/kubepods/poduid-agent"));
    let by_cgroup = Kubelet::Cgroup(Cgroup { path: kubelet.clone(), id: 1 });
    zone.set_processes(known(by_cgroup, &[("uid-agent", Some(pod.as_str()))]));
    let tables: String = ["isolation", "host-pods"]
        .map(|name| format!("table inet causeway-{name} {{\n{}\n}}\n", body(&host(&zone), name).unwrap()))
        .concat();
    let script = format!(
        r#"set -e
        mount -t cgroup2 none /sys/fs/cgroup
        mkdir -p /sys/fs/cgroup/{kubelet} /sys/fs/cgroup/{pod}/container
        trap 'rmdir /sys/fs/cgroup/{kubelet} /sys/fs/cgroup/{pod}/container /sys/fs/cgroup/{pod} /sys/fs/cgroup/{top}/kubepods /sys/fs/cgroup/{top}' EXIT
        ip link set lo up; ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up
        ip address add 192.0.2.1/24 dev v0; ip address add 2001:db8::1/64 dev v0 nodad
        ip route add default dev v0; ip -6 route add default dev v0
        nft -f - <<'TABLES'
{tables}
TABLES
        send() {{ bash -c "[ -z '$1' ] || echo \$\$ >/sys/fs/cgroup/$1/cgroup.procs
            echo x | setpriv --reuid=$2 --clear-groups bash -c 'cat >/dev/udp/$3/$4' 2>/dev/null && echo sent || echo refused"; }}
        for to in 10.244.0.4 fd00:10:244::4; do
            echo kubelet $(send {kubelet} 0 $to 80) $(send {kubelet} 1000 $to 80)
            echo others $(send '' 0 $to 80) $(send '' 65534 $to 80) $(send {pod}/container 0 $to 80)
            echo open $(send '' 65534 $to 53)
        done
        echo unlocked $(send '' 65534 10.244.0.3 80) $(send {pod}/container 0 10.244.0.3 80)
        for to in 10.96.0.1 fd00:10:96::1 10.96.0.11 fd00:10:96::11 192.0.2.9; do echo allowed $(send {pod}/container 0 $to 80); done
        for to in 10.96.0.12 fd00:10:96::12 10.96.0.99; do echo other $(send {pod}/container 0 $to 80) $(send '' 65534 $to 80); done
        "#
    );
    let locked = ["kubelet sent sent", "others refused refused refused"];
    let mut expected: Vec<&str> = locked.to_vec();
    // What is open to all is not open to him: he reaches pods by services alone.
    expected.push("open sent");
    expected.extend(expected.clone());
    expected.push("unlocked sent refused");
    expected.extend(["allowed sent"; 5]);
    expected.extend(["other refused sent"; 3]);
    assert_eq!(on_own_node(&script), expected);
}

/// A pod of such a namespace with an interface of its own goes to services of other networks by its node.
#[test]
fn trusted_pods_go_to_services_by_their_node() {
    let mut free = config(Ip::Dual);
    free.all_services = [("ns0").parse().unwrap(), ("ns1").parse().unwrap()].into();
    let mut zone = Zone::new(free);
    zone.apply_node(&support::with_gateway(support::node("n1", 2), Ip::Dual, "shared"));
    zone.apply_nad(&blue(Ip::Dual));
    let ways = |zone: &Zone| {
        let columns = ["priority", "match", "action", "nexthops"];
        support::table(&northbound(zone), "all-services:", "Logical_Router_Policy", &columns)
    };
    let dirty = zone.apply_pod(&support::plain(Ip::Dual)).on(&zone);
    assert!(dirty.northbound.iter().any(|slice| slice.starts_with("all-services:ns0:plain")), "{dirty:?}");
    // A pod with a network of its own is in that network alone.
    zone.apply_pod(&support::web(Ip::Dual));
    assert_eq!(
        ways(&zone),
        [
            "1003 | inport == \"rtos-n1\" && ip4.src == 10.244.0.3 && ip4.dst == 10.96.0.0/16 | reroute | 10.244.0.2",
            "1003 | inport == \"rtos-n1\" && ip6.src == fd00:10:244::3 && ip6.dst == fd00:10:96::/112 | reroute | fd00:10:244::2",
        ]
    );
    zone.delete_pod(&key("ns0", "plain"));
    assert_eq!(ways(&zone), [""; 0]);
}
