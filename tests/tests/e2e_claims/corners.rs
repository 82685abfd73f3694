//! Corners in which somebody was wronged: by a kubelet, by who waits, by an edit, by a typo, by a namespace of the same name, by a
//! subnet that came later, by an address without a way.

use std::fs;

use causeway_sandbox::harness::Sandbox;
use causeway_tests::{condition, lost_during, road, wait_reach};
use serde_json::json;

use super::{delete, given, pod, wait_said};

/// A kubelet's own pod gets onto a tenant's network only where an administrator has said so.
pub(crate) fn static_pods_need_the_administrators_word(sandbox: &Sandbox) {
    let file = sandbox.folder().path("nodes").join("n1/static/web.json");
    let mut manifest = pod("static/web", "n1", &json!({}));
    manifest["spec"].as_object_mut().unwrap().remove("nodeName");
    fs::write(&file, manifest.to_string()).unwrap();
    let there = || Ok(sandbox.pod("static/web-n1").object().ok());
    sandbox.wait_for("the mirror of the static pod", there).unwrap();
    wait_said(
        sandbox,
        "static",
        "web-n1",
        "static pods get no address on the primary network of namespace static",
    );
    assert_eq!(given(sandbox, "static/web-n1"), None);
    sandbox.kubectl(&["label", "namespace", "static", "k8s.ovn.org/allow-static-pods="]).unwrap();
    sandbox.pod("static/web-n1").wait_ready().unwrap();
    assert_eq!(sandbox.pod("static/web-n1").addresses().unwrap(), ["10.82.0.3"]);
    fs::remove_file(&file).unwrap();
    let gone = || Ok(sandbox.pod("static/web-n1").object().is_err().then_some(()));
    sandbox.wait_for("the static pod to go", gone).unwrap();
}

/// An old pod that waits for a taken address keeps nothing from a younger one that takes any. One taken address is no full network: as
/// long as there is room the network says so.
pub(crate) fn who_waits_is_in_nobodys_way(sandbox: &Sandbox) {
    sandbox.start_pods(&[("small/a", "n1"), ("small/b", "n1")]).unwrap();
    let address = |name: &str| sandbox.pod(&format!("small/{name}")).addresses().unwrap().remove(0);
    let (first, second) = (address("a"), address("b"));
    let asks = json!([{"name": "default", "ips": [format!("{first}/29")]}]).to_string();
    let old = pod("small/old", "n1", &json!({"v1.multus-cni.io/default-network": asks}));
    sandbox.apply(&old.to_string()).unwrap();
    wait_said(sandbox, "small", "old", "provided IP is already allocated");
    has_room(sandbox, "2/3");
    sandbox.start_pods(&[("small/c", "n2")]).unwrap();
    // Full, and nobody has been turned away for that: the pod that waits wants an address that one more pod would not free.
    has_room(sandbox, "3/3");
    sandbox.apply(&pod("small/young", "n2", &json!({})).to_string()).unwrap();
    wait_said(sandbox, "small", "young", "is full");
    delete(sandbox, &["pod", "-n", "small", "b"]);
    sandbox.pod("small/young").wait_ready().unwrap();
    assert_eq!((address("young"), given(sandbox, "small/old")), (second, None));
    delete(sandbox, &["pod", "-n", "small", "a"]);
    sandbox.pod("small/old").wait_ready().unwrap();
    assert_eq!(address("old"), first);
    delete(sandbox, &["namespace", "small"]);
}

/// Waits until the network has counted so many pods, and sees that it calls nothing exhausted then.
fn has_room(sandbox: &Sandbox, used: &str) {
    let network = ["udn", "-n", "small", "net"];
    let counted = || Ok((sandbox.get(&network)?["status"]["addresses"] == used).then_some(()));
    sandbox.wait_for(&format!("{used} addresses to be counted"), counted).unwrap();
    let (status, message) = condition(sandbox, &network, "NetworkAllocationSucceeded");
    println!("small/net with {used}: {status} {message}");
    assert_eq!(status, "True", "{used}: {message}");
}

/// A network that somebody has written by hand is not torn down under its pods: neither by an edit, which the API server refuses, nor
/// by another attachment that says something else of the same network.
pub(crate) fn a_network_by_hand_stays_under_its_pods(sandbox: &Sandbox) {
    sandbox.start_pods(&[("hand/a", "n1"), ("hand/b", "n2")]).unwrap();
    wait_reach(sandbox, "hand/a", "hand/b");
    let lost = lost_during(sandbox, "hand/a", "hand/b", || {
        let mut nad = sandbox.get(&["net-attach-def", "-n", "hand", "net"]).unwrap();
        let config = nad["spec"]["config"].as_str().unwrap().replace("10.84.0.0/16", "10.87.0.0/16");
        let patch = format!("--patch={}", json!({"spec": {"config": config}}));
        let words = ["patch", "net-attach-def", "-n", "hand", "net", "--type=merge", &patch];
        let said = sandbox.kubectl(&words).unwrap_err().to_string();
        assert!(said.contains("create another one instead of changing its configuration"), "{said}");
        nad["metadata"] = json!({"name": "clash", "namespace": "static"});
        nad["spec"]["config"] =
            config.replace("hand/net", "static/clash").replace("primary", "secondary").into();
        sandbox.apply(&nad.to_string()).unwrap();
        wait_said(sandbox, "static", "clash", "by-hand");
    });
    assert_eq!(lost, 0, "packets lost by a clash");
    assert!(sandbox.can_reach("hand/a", "hand/b").unwrap());
    delete(sandbox, &["net-attach-def", "-n", "static", "clash"]);
    delete(sandbox, &["namespace", "hand", "static"]);
}

/// A selector that nobody can read is refused when it is written, and nothing changes.
pub(crate) fn a_typo_is_refused_at_once(sandbox: &Sandbox) {
    let selector = json!({"matchLabels": null, "matchExpressions": [{"key": "island", "operator": "Inn", "values": ["east"]}]});
    let patch = format!("--patch={}", json!({"spec": {"namespaceSelector": selector}}));
    let said = sandbox.kubectl(&["patch", "cudn", "east", "--type=merge", &patch]).unwrap_err().to_string();
    println!("{said}");
    assert!(said.contains(r#"Unsupported value: "Inn""#), "{said}");
    let subnets: Vec<_> = (0..17).map(|n| json!({"cidr": format!("10.{}.0.0/16", 120 + n)})).collect();
    let many = json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "metadata": {"name": "many", "namespace": "lan"},
        "spec": {"topology": "Layer3", "layer3": {"role": "Secondary", "subnets": subnets}}});
    let said = sandbox.apply(&many.to_string()).unwrap_err().to_string();
    assert!(said.contains("must have at most 16 items"), "{said}");
}

/// When a namespace goes, what was to be written for it goes with it. One of the same name gets nothing of the former.
pub(crate) fn a_namespace_of_the_same_name_is_another_one(sandbox: &Sandbox) {
    let namespace = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "again",
        "labels": {"k8s.ovn.org/primary-user-defined-network": ""}}}"#;
    let network = json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "metadata": {"name": "net", "namespace": "again"},
        "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.88.0.0/16"]}}});
    sandbox.apply(namespace).unwrap();
    sandbox.apply(&network.to_string()).unwrap();
    sandbox.start_pods(&[("again/a", "n1")]).unwrap();
    delete(sandbox, &["namespace", "again"]);
    sandbox.apply(namespace).unwrap();
    let lonely = pod("again/a", "n1", &json!({})).to_string();
    sandbox.wait_for("the pod to be accepted", || sandbox.apply(&lonely).map(Some)).unwrap();
    wait_said(sandbox, "again", "a", "invalid primary network state for namespace");
    let nads = sandbox.get(&["net-attach-def", "-n", "again"]).unwrap();
    assert_eq!(nads["items"], json!([]), "the former namespace's network is back");
    let waiting = || {
        let metrics = sandbox.exec("control", &["curl", "-s", "http://127.0.0.1:9411/metrics"])?;
        Ok(metrics.lines().any(|line| line == "causeway_writes_waiting 0.0").then_some(()))
    };
    sandbox.wait_for("nothing to wait for being written", waiting).unwrap();
    delete(sandbox, &["namespace", "again"]);
}

/// A road for services alone guards subnets that a network gets later, too.
pub(crate) fn guards_follow_subnets(sandbox: &Sandbox) {
    sandbox.start_pods(&[("east/a", "n1"), ("west/b", "n2")]).unwrap();
    sandbox.apply(&road("shores", "shore", 181, "ClusterIPServiceNetwork")).unwrap();
    let guarded = |subnet: &str| {
        let words = ["ovn-nbctl", "--no-leader-only", "--bare", "--columns=addresses", "list", "address_set"];
        Ok(sandbox.exec("n1", &words)?.contains(subnet).then_some(()))
    };
    sandbox.wait_for("the first subnet to be guarded", || guarded("10.86.0.0/16")).unwrap();
    let added = json!([{"op": "add", "path": "/spec/network/layer3/subnets/-", "value": {"cidr": "10.89.0.0/16", "hostSubnet": 24}}]);
    sandbox.kubectl(&["patch", "cudn", "west", "--type=json", &format!("--patch={added}")]).unwrap();
    sandbox.wait_for("the next one to be guarded", || guarded("10.89.0.0/16")).unwrap();
    assert!(!sandbox.can_reach("east/a", "west/b").unwrap(), "services alone");
    delete(sandbox, &["cnc", "shores"]);
}

/// Links of IPv4 alone: the other network's services answer by IPv4, and nothing is said of their IPv6 addresses, which lead nowhere.
pub(crate) fn no_way_for_a_family_without_links(sandbox: &Sandbox) {
    let both = road("shores", "shore", 182, "PodNetwork, ClusterIPServiceNetwork");
    let four: String =
        both.lines().filter(|line| !line.contains("fd01:")).map(|line| format!("{line}\n")).collect();
    sandbox.apply(&four).unwrap();
    let service = sandbox.get(&["service", "-n", "west", "web"]).unwrap();
    let addresses: Vec<&str> = service["spec"]["clusterIPs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|address| address.as_str().unwrap())
        .collect();
    let url = |address: &&&str| address.contains(':');
    let v4 = addresses.iter().find(|address| !url(address)).unwrap();
    let v6 = addresses.iter().find(url).unwrap();
    let asks = |from: &str, host: &str| {
        let url = format!("http://{host}/hostname");
        sandbox.pod(from).exec(&["curl", "-s", "--max-time", "3", &url])
    };
    let answers = || Ok((asks("east/a", v4)? == "b").then_some(()));
    sandbox.wait_for("the service to answer across by IPv4", answers).unwrap();
    let own = || Ok((asks("west/b", &format!("[{v6}]"))? == "b").then_some(()));
    sandbox.wait_for("the service to answer in its own network by IPv6", own).unwrap();
    asks("east/a", &format!("[{v6}]")).unwrap_err();
    let words = ["ovn-nbctl", "--no-leader-only", "--bare", "--columns=vips", "list", "load_balancer"];
    let vips = sandbox.exec("n1", &words).unwrap();
    assert!(vips.contains(&format!("[{v6}]:80")), "its own network has it: {vips}");
    delete(sandbox, &["cnc", "shores"]);
    delete(sandbox, &["namespace", "east", "west"]);
}
