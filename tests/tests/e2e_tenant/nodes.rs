//! A node in wrong hands, and a tenant who has a process on a node: neither reaches beyond that node.

use std::time::{Duration, Instant};

use causeway_sandbox::harness::Sandbox;
use causeway_tests::lost_during;
use serde_json::{Value, json};

use super::Mallory;
use super::packets::held;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

pub(crate) fn in_wrong_hands(mallory: &Mallory) {
    let sandbox = mallory.0;
    // Whoever has the smaller number, whoever came first: it is the same.
    for (liar, victim) in [("n1", "n3"), ("n3", "n2")] {
        a_node_takes_nobodys_place(sandbox, liar, victim);
    }
    a_report_is_its_own_nodes(sandbox);
    forged_tunnels(sandbox);
    the_end_of_the_cable(sandbox);
}

/// With the credential of a node.
fn as_node(sandbox: &Sandbox, node: &str, words: &[&str]) -> Result<String, String> {
    let user = format!("--as=causeway-node:{node}");
    let who = [user.as_str(), "--as-group=causeway:nodes", "--as-group=system:authenticated"];
    sandbox.kubectl(&[&who[..], words].concat()).map_err(|error| error.to_string())
}

fn annotation(sandbox: &Sandbox, node: &str, key: &str) -> String {
    let object = sandbox.get(&["node", node]).unwrap();
    object["metadata"]["annotations"][format!("k8s.ovn.org/{key}")].as_str().unwrap_or_default().to_owned()
}

fn record(sandbox: &Sandbox, node: &str) -> Value {
    serde_json::from_str(&annotation(sandbox, node, "node-chassis-record")).unwrap()
}

fn chassis(sandbox: &Sandbox) -> Vec<String> {
    let list = |node: &str| {
        let columns = ["--bare", "--columns=hostname,name", "list", "chassis"];
        let mut lines: Vec<String> = sandbox
            .exec(node, &[&["ovn-sbctl", "--no-leader-only"], &columns[..]].concat())
            .unwrap()
            .split("\n\n")
            .map(|row| row.replace('\n', " "))
            .collect();
        lines.sort();
        format!("{node}: {}", lines.join(", "))
    };
    NODES.iter().map(|node| list(node)).collect()
}

/// It writes on its own Node that it has another's chassis and everybody's tunnel addresses.
fn a_node_takes_nobodys_place(sandbox: &Sandbox, liar: &str, victim: &str) {
    let (records, zones) = (NODES.map(|node| record(sandbox, node)), chassis(sandbox));
    let all: Vec<Value> = records.iter().flat_map(|r| r["encap-ips"].as_array().unwrap().clone()).collect();
    let stolen = annotation(sandbox, victim, "node-chassis-id");
    let lie = json!({"metadata": {"annotations": {
        "k8s.ovn.org/node-chassis-id": stolen,
        "k8s.ovn.org/node-encap-ips": json!(all).to_string(),
    }}});
    // Its role would say the truth again at once.
    let role = format!("{liar}/causeway");
    sandbox.signal(&role, "STOP").unwrap();
    let lost = lost_during(sandbox, "victim/v1", "victim/v2", || {
        let patch = format!("--patch={lie}");
        as_node(sandbox, liar, &["patch", "node", liar, "--subresource=status", &patch]).unwrap();
        let refused = || {
            let refused = record(sandbox, liar)["refused"].clone();
            Ok((refused.as_array().is_some_and(|texts| texts.len() == 3)).then_some(refused))
        };
        let refused = sandbox.wait_for("the lie to be refused", refused).unwrap();
        println!("{liar} as {victim}: {refused:#}");
        assert!(refused.to_string().contains(&format!("chassis id {stolen} belongs to node {victim}")));
        let selector = format!("--field-selector=involvedObject.name={liar},reason=ChassisClaimRefused");
        let told = || {
            Ok(sandbox
                .kubectl(&["get", "events", "-A", "-o=name", &selector])?
                .contains("event")
                .then_some(()))
        };
        sandbox.wait_for("an event on the liar's Node", told).unwrap();
        for (node, before) in NODES.iter().zip(&records) {
            let mut now = record(sandbox, node);
            now.as_object_mut().unwrap().remove("refused");
            assert_eq!(now, *before, "the record of {node}");
        }
    });
    assert_eq!(chassis(sandbox), zones);
    assert_eq!(lost, 0, "packets of others lost");
    // What counts is not the node's to write.
    let record_too = r#"--patch={"metadata":{"annotations":{"k8s.ovn.org/node-chassis-record":"{}"}}}"#;
    as_node(sandbox, liar, &["patch", "node", liar, "--subresource=status", record_too]).unwrap_err();
    sandbox.signal(&role, "CONT").unwrap();
    let honest = || Ok((NODES.map(|node| record(sandbox, node)) == records).then_some(()));
    sandbox.wait_for("the truth to be settled", honest).unwrap();
}

/// Others' reports are not its to write, and its own is what its role says, within ten seconds.
fn a_report_is_its_own_nodes(sandbox: &Sandbox) {
    for metadata in
        [json!({"labels": {"a": "b"}}), json!({"finalizers": ["a/b"]}), json!({"ownerReferences": null})]
    {
        let patch = format!("--patch={}", json!({"metadata": metadata}));
        let said = as_node(sandbox, "n3", &["patch", "zonereport", "n1", "--type=merge", &patch]);
        assert!(said.unwrap_err().contains("only the Causeway of node n1 writes its ZoneReport"));
    }
    let spec = || sandbox.get(&["zonereport", "n3"]).map(|report| report["spec"].clone());
    // Its role has only just seen that its claim is settled again.
    let calm = || Ok(Some(spec()?).filter(|spec| spec["failureCount"] == 0));
    let before = sandbox.wait_for("n3 to report no failure", calm).unwrap();
    let within = |what: &str| {
        let begun = Instant::now();
        sandbox.wait_for(what, || Ok((spec()? == before).then_some(()))).unwrap();
        println!("{what}: {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}: {:?}", begun.elapsed());
    };
    sandbox.kubectl(&["delete", "zonereport", "n3"]).unwrap();
    within("a deleted report to be back");
    let forged = json!({"spec": {"failures": [{"subject": "Network", "name": "victim2_lan", "reason": "R", "message": "forged"}]}});
    as_node(sandbox, "n3", &["patch", "zonereport", "n3", "--type=merge", &format!("--patch={forged}")])
        .unwrap();
    within("a forged failure to go");
}

/// A process without rights on n3 sends what looks like a packet of the tunnel, into the victim's network on n2.
fn forged_tunnels(sandbox: &Sandbox) {
    let ends: Vec<String> = serde_json::from_str(&annotation(sandbox, "n2", "node-encap-ips")).unwrap();
    // A file, since a shell would send one datagram for each line.
    let lay = |payload: &str| {
        let text: String =
            forged_frame(sandbox, payload).iter().map(|byte| format!("\\{byte:03o}")).collect();
        let file = format!("/tmp/causeway-{payload}");
        sandbox.exec("n3", &["sh", "-c", &format!("printf '{text}' >{file}; chmod 644 {file}")]).unwrap();
        format!(
            "setpriv --reuid=65534 --regid=65534 --clear-groups bash -c 'cat {file} >/dev/udp/{}/6081'",
            ends[0]
        )
    };
    let (forged, hidden) = (lay("forged"), lay("hidden"));
    let pod = sandbox.pod("victim2/w2");
    let listen = "tcpdump --immediate-mode -p -U -Z root -i ovn-udn1 -w /tmp/forged.pcap udp port 7777 \
                  >/dev/null 2>&1 </dev/null & echo $! >/tmp/forged.pid; i=0; \
                  until [ -s /tmp/forged.pcap ]; do i=$((i+1)); [ $i -lt 100 ] || exit 1; sleep 0.1; done";
    pod.exec(&["sh", "-c", listen]).unwrap();
    let heard = |payload: &str| {
        let all = pod.exec(&["tcpdump", "-Z", "root", "-nn", "-A", "-r", "/tmp/forged.pcap"]).unwrap();
        all.matches(payload).count()
    };
    // The packet is as good as a real one: without the shield, which the role may put back at any time, it arrives.
    let bare = format!("nft delete table inet causeway-tunnels 2>/dev/null; {forged}");
    let arrives = || {
        sandbox.exec("n3", &["sh", "-c", &bare])?;
        Ok((heard("forged") > 0).then_some(()))
    };
    sandbox.wait_for("the forged packet to arrive without the shield", arrives).unwrap();
    // The role looks when the kernel tells of a change, and puts the shield back.
    sandbox.exec("n3", &["sh", "-c", "ip tuntap add forged0 mode tap; ip link del forged0"]).unwrap();
    let back = || sandbox.exec("n3", &["nft", "list", "table", "inet", "causeway-tunnels"]).map(Some);
    let shield = sandbox.wait_for("the shield to be back", back).unwrap();
    assert!(ends.iter().all(|end| shield.contains(end.as_str())), "{shield}");
    for _ in 0..5 {
        // The kernel refuses the packet to its sender.
        sandbox.exec("n3", &["sh", "-c", &hidden]).unwrap_err();
    }
    // What was sent before has arrived when this has.
    let knock = format!("echo honest >/dev/udp/{}/7777", held(sandbox, "victim2/w2", "victim2/lan").v4);
    let real = || {
        sandbox.pod("victim2/w1").exec(&["bash", "-c", &knock])?;
        Ok((heard("honest") > 0).then_some(()))
    };
    sandbox.wait_for("a real packet", real).unwrap();
    assert_eq!(heard("hidden"), 0, "forged packets pass the shield");
    println!("forged packets: {} without the shield, none with it", heard("forged"));
    pod.exec(&["sh", "-c", "kill $(cat /tmp/forged.pid)"]).unwrap();
}

/// A number of the southbound database of n2.
fn number(sandbox: &Sandbox, words: &[&str]) -> u32 {
    let said = sandbox.exec("n2", &[&["ovn-sbctl", "--no-leader-only", "--bare"], words].concat()).unwrap();
    said.trim().parse().unwrap_or_else(|error| panic!("{words:?}: {said:?}: {error}"))
}

/// Geneve with the victim's network and ports, and in it a datagram from w1 to w2.
fn forged_frame(sandbox: &Sandbox, payload: &str) -> Vec<u8> {
    let port = |pod: &str| format!("logical_port=victim2.lan_victim2_{pod}");
    let key = |pod: &str| number(sandbox, &["--columns=tunnel_key", "find", "port_binding", &port(pod)]);
    let words = ["--bare", "--columns=datapath", "find", "port_binding", &port("w2")];
    let datapath = sandbox.exec("n2", &[&["ovn-sbctl", "--no-leader-only"], &words[..]].concat()).unwrap();
    let network = number(sandbox, &["get", "datapath_binding", datapath.trim(), "tunnel_key"]);
    let (from, to) = (held(sandbox, "victim2/w1", "victim2/lan"), held(sandbox, "victim2/w2", "victim2/lan"));
    let mac =
        |text: &str| text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect::<Vec<_>>();
    let ip = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let (datagram, packet) = (8 + payload.len() as u16, 28 + payload.len() as u16);
    let mut ipv4 =
        [&[0x45, 0], &packet.to_be_bytes()[..], &[0, 0, 0, 0, 64, 17, 0, 0], &ip(&from.v4), &ip(&to.v4)]
            .concat();
    let sum: u32 = ipv4.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ipv4[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    [
        // Two words of options, critical; Ethernet inside; the network.
        &[2, 0x40, 0x65, 0x58][..],
        &(network << 8).to_be_bytes(),
        &[0x01, 0x02, 0x80, 0x01],
        &(key("w1") << 16 | key("w2")).to_be_bytes(),
        &mac(&to.mac),
        &mac(&from.mac),
        &[0x08, 0x00],
        &ipv4,
        &[0x1e, 0x61, 0x1e, 0x61],
        &datagram.to_be_bytes(),
        &[0, 0],
        payload.as_bytes(),
    ]
    .concat()
}

/// Somebody switches IPv6 on for all links of n1, and even gives the host's end of a pod's cable addresses: the pod gets no answer.
fn the_end_of_the_cable(sandbox: &Sandbox) {
    let pod = sandbox.pod("mallory-plain/p1");
    let index = pod.exec(&["cat", "/sys/class/net/eth0/iflink"]).unwrap();
    let find = format!("ip -o link | sed -n 's/^{index}: \\([^@:]*\\).*/\\1/p'");
    let cable = sandbox.exec("n1", &["sh", "-c", &find]).unwrap();
    let shown = sandbox.exec("n1", &["ip", "-json", "link", "show", &cable]).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let mac = shown[0]["address"].as_str().unwrap().to_owned();
    sandbox.exec("n1", &["sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6"]).unwrap();
    let addresses = sandbox.exec("n1", &["ip", "-o", "address", "show", "dev", &cable]).unwrap();
    assert_eq!(addresses, "", "the host's end has an address");
    let give = format!(
        "echo 0 >/proc/sys/net/ipv6/conf/{cable}/disable_ipv6; ip address add fe80::99/64 dev {cable} nodad; \
         ip address add 169.254.99.1/24 dev {cable}"
    );
    sandbox.exec("n1", &["sh", "-c", &give]).unwrap();
    let ask = format!(
        "ip address add 169.254.99.2/24 dev eth0; ip neighbour replace 169.254.99.1 lladdr {mac} dev eth0; \
         ip neighbour replace fe80::99 lladdr {mac} dev eth0; \
         for host in 169.254.99.1 '[fe80::99%25eth0]'; do curl -skg -m2 https://$host:10250/healthz && echo $host; done; \
         ping -c2 -i0.3 -W1 169.254.99.1 >/dev/null && echo 169.254.99.1; ping -c2 -i0.3 -W1 fe80::99%eth0 >/dev/null && echo fe80; \
         ip address del 169.254.99.2/24 dev eth0; ip neighbour flush dev eth0; true"
    );
    assert_eq!(pod.exec(&["sh", "-c", &ask]).unwrap(), "", "the node answers at the end of a pod's cable");
    the_wall_around_cables_comes_back(sandbox, || pod.exec(&["sh", "-c", &ask]).unwrap());
    let tidy = format!("echo 1 >/proc/sys/net/ipv6/conf/{cable}/disable_ipv6; ip address flush dev {cable}");
    sandbox.exec("n1", &["sh", "-c", &tidy]).unwrap();
}

/// Somebody takes away what closes the ends of cables, addresses and all: it is back when the role looks, and the pod is as deaf as before.
fn the_wall_around_cables_comes_back(sandbox: &Sandbox, ask: impl Fn() -> String) {
    let table = || sandbox.exec("n1", &["nft", "list", "table", "inet", "causeway-cables"]);
    let before = table().unwrap();
    sandbox.exec("n1", &["nft", "delete", "table", "inet", "causeway-cables"]).unwrap();
    let begun = Instant::now();
    // The role looks when the kernel tells of a change.
    sandbox.exec("n1", &["sh", "-c", "ip tuntap add cables0 mode tap; ip link del cables0"]).unwrap();
    sandbox.wait_for("the wall around cables to be back", || table().map(Some)).unwrap();
    println!("the wall around cables is back after {:?}", begun.elapsed());
    assert_eq!(table().unwrap(), before);
    assert_eq!(ask(), "", "the node answers at the end of a pod's cable");
}
