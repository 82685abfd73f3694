//! A tenant with the rights of `edit` does everything alone: his network fills, he adds another one, and what he has grows on.

use causeway_sandbox::harness::Sandbox;
use causeway_tests::siblings::{
    asking, lost_between, networked, pods_on, wait_replicas, wait_served_by_both,
};
use causeway_tests::{condition, shared};

use super::{Tenant, policies_hold_over_both, wait_apart};

const TESS: Tenant = Tenant { namespace: "own", rights: &["--as=tess"] };

fn udn(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {{name: {name}, namespace: own}}\nspec: {spec}\n"
    )
}

/// Waits until events of the namespace, as the tenant reads them, tell a pod something.
fn wait_told(sandbox: &Sandbox, pod: &str, reason: &str, text: &str) {
    let object = format!("involvedObject.name={pod}");
    let words =
        ["--as=tess", "get", "events", "--namespace", "own", "-o", "json", "--field-selector", &object];
    let told = || {
        let list: serde_json::Value = serde_json::from_str(&sandbox.kubectl(&words)?).unwrap();
        let events = list["items"].as_array().cloned().unwrap_or_default();
        let is_it = |event: &serde_json::Value| {
            event["reason"] == reason && event["message"].as_str().is_some_and(|said| said.contains(text))
        };
        Ok(events.iter().find(|event| is_it(event)).map(|event| event["message"].to_string()))
    };
    println!("{}", sandbox.wait_for(&format!("{pod} to be told {text:?}"), told).unwrap());
}

/// Who of the tenant's pods has no network.
fn waiting(sandbox: &Sandbox) -> Vec<String> {
    let list = sandbox.get(&["pods", "--namespace", "own", "--selector=app=web"]).unwrap();
    let there = networked(sandbox, "own");
    let names = list["items"].as_array().unwrap().iter().filter_map(|pod| pod["metadata"]["name"].as_str());
    names.filter(|name| !there.contains_key(*name)).map(str::to_owned).collect()
}

fn scale(replicas: u8) {
    let words = ["scale", "--namespace", "own", "deployment/web", &format!("--replicas={replicas}")];
    TESS.kubectl(shared(), &words, "");
}

/// A place is free, and the pod that has waited for it gets it.
fn a_place_is_free(sandbox: &Sandbox) {
    scale(5);
    let who = || Ok(Some(waiting(sandbox)).filter(|names| names.len() == 1).map(|mut names| names.remove(0)));
    let fifth = sandbox.wait_for("a pod to wait", who).unwrap();
    wait_told(sandbox, &fifth, "ErrorAllocatingPod", "network own_small: ");
    let full = || {
        let (status, message) =
            condition(sandbox, &["udn", "--namespace", "own", "small"], "NetworkAllocationSucceeded");
        Ok((status == "False" && message.contains("1 pod(s) get no address")).then_some(()))
    };
    sandbox.wait_for("the network to say that it is full", full).unwrap();
    let first = pods_on(sandbox, "own/small").remove(0);
    TESS.kubectl(sandbox, &["delete", "pod", "--namespace", "own", first.trim_start_matches("own/")], "");
    sandbox.pod(&format!("own/{fifth}")).wait_ready().unwrap();
    assert_eq!(networked(sandbox, "own")[&fifth].0, "own/small");
}

#[test]
fn a_tenant_grows_by_himself() {
    let sandbox = shared();
    sandbox.apply(super::TENANTS).unwrap();
    let apply = ["apply", "--server-side", "-f", "-"];
    TESS.kubectl(
        sandbox,
        &apply,
        &udn(
            "small",
            "{topology: Layer2, layer2: {role: Primary, subnets: [10.110.0.0/29, \"fd10:110::/64\"]}}",
        ),
    );
    let web = super::WEB.replace("grow", "own").replace("replicas: 12", "replicas: 4").replace("302", "303");
    TESS.kubectl(sandbox, &apply, &web);
    TESS.kubectl(sandbox, &apply, &asking("own/astray", "n1", "nowhere"));
    wait_replicas(sandbox, "own", 4);
    a_place_is_free(sandbox);

    let before = pods_on(sandbox, "own/small");
    TESS.kubectl(sandbox, &apply, &udn(
        "wide",
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.111.0.0/16}, {cidr: \"fd10:111::/48\"}]}}",
    ));
    wait_replicas(sandbox, "own", 5);
    scale(7);
    wait_replicas(sandbox, "own", 7);
    let (old, new) = (pods_on(sandbox, "own/small"), pods_on(sandbox, "own/wide"));
    assert_eq!((&old, new.len()), (&before, 3));
    sandbox.start_pods(&[("other/a", "n1")]).unwrap();
    let all: Vec<&str> = old.iter().chain(&new).map(String::as_str).chain(["other/a"]).collect();
    wait_apart(sandbox, &all);
    wait_served_by_both(sandbox, "own", [&old, &new]);
    policies_hold_over_both(sandbox, TESS, &old, &new);
    nobody_is_astray(sandbox);
    the_first_one_goes(sandbox);
}

/// Who asks for a network that is not there is told by the cluster manager and by the kubelet, and gets no interface.
fn nobody_is_astray(sandbox: &Sandbox) {
    wait_told(
        sandbox,
        "astray",
        "ErrorAllocatingPod",
        "asks for nowhere, which is no primary network of namespace own",
    );
    wait_told(sandbox, "astray", "FailedCreatePodSandBox", "");
    let ports =
        sandbox.exec("n1", &["ovs-vsctl", "--bare", "--columns=external_ids", "list", "Interface"]).unwrap();
    assert!(ports.contains("iface-id"), "{ports}");
    assert!(!ports.contains("astray"), "{ports}");
    let object = sandbox.pod("own/astray").object().unwrap();
    assert_eq!(object["metadata"]["annotations"].get(super::PRIMARY), None);
    TESS.kubectl(sandbox, &["delete", "pod", "--namespace", "own", "astray"], "");
}

/// It goes as soon as nobody is on it, and the others do not notice: neither those on one network, nor those on two.
fn the_first_one_goes(sandbox: &Sandbox) {
    let apply = ["apply", "--server-side", "-f", "-"];
    let third = "{topology: Layer2, layer2: {role: Primary, subnets: [10.112.0.0/24, \"fd10:112::/64\"]}}";
    TESS.kubectl(sandbox, &apply, &udn("third", third));
    TESS.kubectl(sandbox, &apply, &asking("own/q1", "n1", "third"));
    sandbox.start_pods(&[("own/q2", "n2")]).unwrap();
    sandbox.pod("own/q1").wait_ready().unwrap();
    let networks = networked(sandbox, "own");
    assert_eq!((networks["q1"].0.as_str(), networks["q2"].0.as_str()), ("own/third", "own/wide"));
    wait_apart(sandbox, &["own/q1", "own/q2", "other/a"]);
    let lost = lost_between(sandbox, "own/q1", "own/q2", || {
        TESS.kubectl(sandbox, &["delete", "deployment", "--namespace", "own", "web"], "");
        TESS.kubectl(sandbox, &["delete", "udn", "--namespace", "own", "small", "--timeout=60s"], "");
    });
    println!("{lost:?} packets lost between siblings when the first network went");
    assert_eq!(lost, [0, 0]);
    wait_apart(sandbox, &["own/q1", "own/q2", "other/a"]);
}
