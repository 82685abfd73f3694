//! The way out and in over time: ports, bridges, links, neighbours and addresses that change under it, restarts, and deletion by
//! listing.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::ask::{Ask, asked_from, asked_from_pods, node_addresses, source, url};
use causeway_tests::dial::Dialler;
use causeway_tests::outside::{FAR, OUTSIDE};
use causeway_tests::{
    inventory, kill_and_wait, lost_of, namespace, nothing_wrong, shared, transactions, way_out,
};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

const ISLANDS: &str = include_str!("manifests/gateway.yaml");
const PODS: [(&str, &str); 4] = [("blue/a", "n1"), ("red/a", "n1"), ("green/a", "n1"), ("plain/a", "n1")];
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// A node port of blue.
const PORT: u16 = 30123;
const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: blue}
spec:
  type: NodePort
  ipFamilyPolicy: RequireDualStack
  selector: {app: tools}
  ports: [{port: 80, targetPort: 8080, nodePort: 30123}]
";

fn islands() -> &'static Sandbox {
    static READY: std::sync::OnceLock<()> = std::sync::OnceLock::new();
    let sandbox = shared();
    READY.get_or_init(|| {
        sandbox.apply(ISLANDS).unwrap();
        sandbox.start_pods(&PODS).unwrap();
        sandbox.apply(SERVICE).unwrap();
        wait_whole(sandbox, "the start", &node_addresses("n1"));
    });
    sandbox
}

/// Waits until all pods of n1 reach outside with these sources, and blue's node port is reached from there.
fn wait_whole(sandbox: &Sandbox, after: &str, own: &[String; 2]) {
    let began = Instant::now();
    let out: Vec<Ask> = OUTSIDE.iter().map(|to| Ask::http(&url(to, 8080, "/clientip"), to)).collect();
    let into: Vec<Ask> = own.iter().map(|at| Ask::http(&url(at, PORT, "/hostname"), at)).collect();
    let as_wanted = || {
        let mut wrong = Vec::new();
        for (pod, said) in asked_from_pods(sandbox, &PODS.map(|(pod, _)| pod), &out)? {
            for (to, own) in OUTSIDE.iter().zip(own) {
                let answer = said.get(*to);
                if answer.is_none_or(|answer| source(answer) != own) {
                    wrong.push(format!("{pod} to {to}: {answer:?}"));
                }
            }
        }
        let said = asked_from(sandbox, "outside", &into);
        wrong.extend(
            into.iter().filter(|ask| !said.contains_key(&ask.label)).map(|ask| format!("into {}", ask.label)),
        );
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for(&format!("the way out and in after {after}"), as_wanted).unwrap();
    println!("after {after}: whole in {:.1} s", began.elapsed().as_secs_f64());
}

/// What is followed by events is whole in a second. A busy machine needs longer, and whoever looks now and then longer still.
const IN_A_MOMENT: Duration = Duration::from_secs(8);

/// Somebody of an island and somebody of the default network dial a host outside all the time, in both families, while something
/// happens; soon afterwards both are answered.
fn heals_soon(sandbox: &Sandbox, after: &str, what: impl FnOnce()) {
    let begin = |pod: &str, to: &str| {
        let server = SocketAddr::new(to.parse::<IpAddr>().unwrap(), 8080);
        (format!("{pod} to {to}"), Dialler::begin(&namespace(sandbox, pod), server))
    };
    let all: Vec<(String, Dialler)> =
        ["blue/a", "plain/a"].iter().flat_map(|pod| OUTSIDE.map(|to| begin(pod, to))).collect();
    for (who, dialler) in &all {
        let dials = || Ok((dialler.answered() > 0).then_some(()));
        sandbox.wait_for(&format!("{who} to be answered"), dials).unwrap();
    }
    what();
    let over = Instant::now();
    for (who, dialler) in &all {
        let answered = || Ok(dialler.last().filter(|last| *last > over).map(|last| last - over));
        let healed = sandbox.wait_for(&format!("{who} after {after}"), answered).unwrap();
        println!("{who}, after {after}: {:.2} s", healed.as_secs_f64());
        assert!(healed < IN_A_MOMENT, "{who} waited {healed:?} after {after}");
    }
    for (_, dialler) in all {
        dialler.end();
    }
}

fn on(sandbox: &Sandbox, place: &str, script: &str) -> String {
    sandbox.exec(place, &["sh", "-ec", script]).unwrap()
}

fn number(sandbox: &Sandbox, port: &str) -> String {
    on(sandbox, "n1", &format!("ovs-vsctl get interface {port} ofport"))
}

/// The card is taken out of the bridge and put back: it has another number.
#[test]
fn a1_the_number_of_a_port() {
    let sandbox = islands();
    let before = number(sandbox, "eth0");
    heals_soon(sandbox, "another number of the uplink", || {
        on(sandbox, "n1", "ovs-vsctl del-port br-ex eth0; ovs-vsctl add-port br-ex eth0");
    });
    wait_whole(sandbox, "another number of the uplink", &node_addresses("n1"));
    assert_ne!(number(sandbox, "eth0"), before);
}

/// With all that docs/gateway.md says of a bridge, as whoever configures the node does it.
#[test]
fn a2_the_bridge_is_made_again() {
    let sandbox = islands();
    let [four, six] = node_addresses("n1");
    let script = format!(
        "kind=$(ovs-vsctl get bridge br-ex datapath_type)
         mac=$(ip -o link show br-ex | sed 's/.*ether \\([^ ]*\\).*/\\1/')
         mtu=$(ip -o link show br-ex | sed 's/.* mtu \\([0-9]*\\).*/\\1/')
         ovs-vsctl del-br br-ex
         ovs-vsctl add-br br-ex -- set bridge br-ex datapath_type=$kind fail_mode=standalone \
           other_config:hwaddr=\\\"$mac\\\" -- set interface br-ex mtu_request=$mtu -- add-port br-ex eth0
         ip link set br-ex up
         ip address add {four}/24 dev br-ex 2>/dev/null || true
         ip address add {six}/64 dev br-ex nodad 2>/dev/null || true
         ip route replace default via {} || true
         ip -6 route replace default via {} || true",
        OUTSIDE[0], OUTSIDE[1]
    );
    heals_soon(sandbox, "another bridge", || drop(on(sandbox, "n1", &script)));
    wait_whole(sandbox, "another bridge", &node_addresses("n1"));
}

#[test]
fn a3_the_uplink_flaps() {
    let sandbox = islands();
    let flaps = "for i in 1 2 3; do ip link set eth0 down; sleep 0.3; ip link set eth0 up; sleep 0.3; done";
    heals_soon(sandbox, "an uplink that flapped", || drop(on(sandbox, "n1", flaps)));
    wait_whole(sandbox, "an uplink that flapped", &node_addresses("n1"));
}

/// The next hop says so itself when its MAC changes.
#[test]
fn a4_the_next_hop_has_another_mac() {
    let sandbox = islands();
    let script =
        "echo 1 >/proc/sys/net/ipv4/conf/eth0/arp_notify; echo 1 >/proc/sys/net/ipv6/conf/eth0/ndisc_notify
                  ip link set eth0 address 02:00:00:00:aa:07";
    heals_soon(sandbox, "a next hop with another MAC", || drop(on(sandbox, "outside", script)));
    wait_whole(sandbox, "a next hop with another MAC", &node_addresses("n1"));
}

/// What leaves has the new address, and node ports are there. The old one is the end of tunnels and the kubelet's in IPv4, so
/// IPv6 moves.
/// udn-ovn-cases F13.
#[test]
fn a5_the_node_has_another_address() {
    let sandbox = islands();
    let [four, six] = node_addresses("n1");
    let other = "fd00:172:30::1:b".to_owned();
    let moves = format!("ip address add {other}/64 dev br-ex nodad; ip address del {six}/64 dev br-ex");
    heals_soon(sandbox, "another address", || drop(on(sandbox, "n1", &moves)));
    let moved = || {
        let node = sandbox.get(&["node", "n1"])?;
        let text =
            node["metadata"]["annotations"]["k8s.ovn.org/l3-gateway-config"].as_str().unwrap_or_default();
        Ok(text.contains(&other).then_some(()))
    };
    let began = Instant::now();
    let is_moved = sandbox.wait_for("the annotation to follow", moved);
    println!("the annotation: {:.1} s", began.elapsed().as_secs_f64());
    if is_moved.is_ok() {
        wait_whole(sandbox, "another address", &[four.clone(), other.clone()]);
    }
    on(
        sandbox,
        "n1",
        &format!(
            "ip address add {six}/64 dev br-ex nodad 2>/dev/null || true; ip address del {other}/64 dev br-ex"
        ),
    );
    is_moved.unwrap();
    wait_whole(sandbox, "the old address", &[four, six]);
}

/// The node moves in IPv4: its tunnels, what leaves it, and node ports. The kubelet is still asked at the old address, which no
/// port of the bridge has any more; its flags are not ours to change.
/// udn-ovn-cases F13.
#[test]
fn a6_the_node_moves_in_ipv4() {
    let sandbox = islands();
    sandbox.start_pods(&[("blue/b", "n2")]).unwrap();
    let [four, six] = node_addresses("n1");
    let other = "172.30.0.111".to_owned();
    let move_to = |from: &str, to: &str, lo: &str| {
        let script = format!(
            "ip address add {to}/24 dev br-ex; ovs-vsctl set open . external_ids:ovn-encap-ip={to}
             ip address del {from}/24 dev br-ex; {lo}; ip route replace default via 172.30.0.2"
        );
        on(sandbox, "n1", &script);
    };
    heals_soon(sandbox, "a move in IPv4", || {
        move_to(&four, &other, &format!("ip address add {four}/32 dev lo"));
    });
    let began = Instant::now();
    let moved = || {
        let node = sandbox.get(&["node", "n1"])?;
        let text = node["metadata"]["annotations"]["k8s.ovn.org/l3-gateway-config"].to_string();
        Ok((text.contains(&other) && !text.contains(&format!("{four}/"))).then_some(()))
    };
    let is_moved = sandbox.wait_for("the annotation to follow", moved);
    println!("the annotation: {:.1} s", began.elapsed().as_secs_f64());
    let reached = || {
        let both = sandbox.can_reach("blue/a", "blue/b")? && sandbox.can_reach("blue/b", "blue/a")?;
        Ok(both.then_some(()))
    };
    let is_whole = is_moved.is_ok().then(|| {
        wait_whole(sandbox, "a move in IPv4", &[other.clone(), six.clone()]);
        sandbox.wait_for("pods to reach each other through moved tunnels", reached)
    });
    println!("tunnels too: {:.1} s", began.elapsed().as_secs_f64());
    move_to(&other, &four, &format!("ip address del {four}/32 dev lo"));
    is_moved.unwrap();
    is_whole.unwrap().unwrap();
    wait_whole(sandbox, "the move back", &[four, six]);
    sandbox.wait_for("pods to reach each other as before", reached).unwrap();
}

/// Flows with their counters, one each.
fn counted(sandbox: &Sandbox) -> Vec<(String, u64)> {
    let text = on(sandbox, "n1", "ovs-ofctl -OOpenFlow15 --no-names dump-flows br-ex");
    let read = |line: &str| {
        let place = line.split(" actions=").next()?.rsplit(", ").next()?.to_owned();
        let table = line.split("table=").nth(1)?.split(',').next()?;
        let packets = line.split("n_packets=").nth(1)?.split(',').next()?.parse().ok()?;
        Some((format!("{table} {place}"), packets))
    };
    text.lines().filter_map(read).collect()
}

/// The role ends and comes back: nothing is written anywhere, and flows count on.
#[test]
fn b1_a_restart_writes_nothing_and_flows_count_on() {
    let sandbox = islands();
    let rules = || on(sandbox, "n1", "nft -a list ruleset | grep -v counter");
    let (rows, before, firewall) = (transactions(sandbox, "n1"), counted(sandbox), rules());
    let pings = [("blue/a", OUTSIDE[0]), ("red/a", OUTSIDE[1]), ("plain/a", FAR[0])];
    for unit in ["n1/causeway", "cluster-manager"] {
        let lost = lost_of(sandbox, &pings, || kill_and_wait(sandbox, unit));
        assert_eq!(lost, [0, 0, 0], "packets were lost on the way out while {unit} began anew");
    }
    wait_whole(sandbox, "a restart", &node_addresses("n1"));
    let after = counted(sandbox);
    assert_eq!(after.len(), before.len());
    for ((flow, was), (_, is)) in before.iter().zip(&after).filter(|((flow, _), (same, _))| flow == same) {
        assert!(is >= was, "{flow} began to count anew: {was}, then {is}");
    }
    assert_eq!(transactions(sandbox, "n1"), rows, "rows were written");
    assert_eq!(rules(), firewall, "the firewall was loaded anew");
}

/// Networks, services, host ports and pods come and go; nothing is left by listing.
/// udn-ovn-cases F07, G10.
#[test]
fn z1_deletion_leaves_nothing() {
    let sandbox = islands();
    for namespace in ["blue", "red", "green", "plain"] {
        sandbox.kubectl(&["delete", "namespace", namespace, "--wait=true", "--timeout=240s"]).unwrap();
    }
    let everything = || {
        let mut all = inventory(sandbox, &NODES);
        all.extend(NODES.iter().flat_map(|node| way_out(sandbox, node)));
        all
    };
    // What was there before the first island is what another sandbox of the same kind has; so islands come and go once more.
    let wait_gone = || {
        sandbox.wait_for("what belonged to islands to be gone", || {
            let left: Vec<String> = everything().into_iter().filter(|line| is_of_island(line)).collect();
            nothing_wrong(&left, "")
        })
    };
    wait_gone().unwrap();
    let before = everything();
    sandbox.apply(ISLANDS).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    sandbox.apply(SERVICE).unwrap();
    sandbox.apply(&host_port("blue", 8180)).unwrap();
    sandbox.apply(&host_port("plain", 8190)).unwrap();
    for pod in ["blue/door", "plain/door"] {
        sandbox.pod(pod).wait_ready().unwrap();
    }
    wait_whole(sandbox, "islands that came again", &node_addresses("n1"));
    assert!(everything().len() > before.len());
    for namespace in ["blue", "red", "green", "plain"] {
        sandbox.kubectl(&["delete", "namespace", namespace, "--wait=true", "--timeout=240s"]).unwrap();
    }
    let as_before = || {
        let now = everything();
        let more = now.difference(&before).map(|line| format!("+ {line}"));
        let fewer = before.difference(&now).map(|line| format!("- {line}"));
        nothing_wrong(&more.chain(fewer).collect::<Vec<_>>(), "")
    };
    sandbox.wait_for("everything to be as before", as_before).unwrap();
}

fn is_of_island(line: &str) -> bool {
    ["blue", "red_", "red/", "green", "plain/"].iter().any(|word| line.contains(word))
}

fn host_port(namespace: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: door, namespace: {namespace}}}\nspec:\n  nodeName: n1\n  \
         terminationGracePeriodSeconds: 0\n  containers:\n  - name: tools\n    image: {IMAGE}\n    \
         ports: [{{containerPort: 8080, hostPort: {port}}}]\n"
    )
}
