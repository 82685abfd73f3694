//! A tenant who wants out: he has the role `edit` in two namespaces of his own and tries to get into the networks of
//! others by objects, by annotations, by labels and by packets. Each attempt is refused with a message or has no effect.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "e2e_tenant/nodes.rs"]
mod nodes;
#[path = "e2e_tenant/packets.rs"]
mod packets;
#[path = "e2e_tenant/wishes.rs"]
mod wishes;

use causeway_sandbox::harness::{IMAGE, Probe, Sandbox};
use causeway_tests::shared;
use serde_json::{Value, json};

const MANIFESTS: &str = include_str!("manifests/tenant.yaml");
const VICTIMS: [(&str, &str); 4] =
    [("victim/v1", "n1"), ("victim/v2", "n2"), ("victim2/w1", "n1"), ("victim2/w2", "n2")];
/// His own pods: three on his network, two on the default one.
const OWN: [(&str, &str, &str); 5] = [
    ("mallory", "m1", "n1"),
    ("mallory", "m2", "n2"),
    ("mallory", "m3", "n1"),
    ("mallory-plain", "p1", "n1"),
    ("mallory-plain", "p2", "n2"),
];
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// What the API server says of what his role does not have.
const FORBIDDEN: &str = r#"is forbidden: User "mallory" cannot "#;

/// The attacker at his keyboard.
struct Mallory(&'static Sandbox);

impl Mallory {
    fn tries(&self, words: &[&str], input: &str) -> Result<String, String> {
        let words = [&["--as=mallory"], words].concat();
        // What kubectl said, without the command line.
        let said =
            |error: String| error.split_once("` failed: ").map_or(error.clone(), |(_, said)| said.to_owned());
        self.0.kubectl_with(&words, input).map_err(|error| said(error.to_string()))
    }

    fn creates(&self, object: &Value) -> Result<String, String> {
        self.tries(&["create", "--validate=ignore", "-f", "-"], &object.to_string())
    }

    fn is_refused(&self, words: &[&str], because: &str) {
        refused(&words.join(" "), self.tries(words, ""), because);
    }

    fn may_not_create(&self, what: &str, object: &Value, because: &str) {
        refused(what, self.creates(object), because);
    }

    /// Creates pods that must be told why they get no address.
    fn pods_are_told(&self, pods: &[(Value, &str)]) {
        let list: Vec<&Value> = pods.iter().map(|(pod, _)| pod).collect();
        self.creates(&json!({"apiVersion": "v1", "kind": "List", "items": list})).unwrap();
        for (pod, because) in pods {
            let said = self.wait_said(&pod["metadata"], because);
            println!("pod {}: {said}", pod["metadata"]["name"]);
            let there = self.0.pod(&path(&pod["metadata"])).object().unwrap();
            assert_eq!(there["metadata"]["annotations"][POD_NETWORKS], Value::Null, "{there:#}");
        }
        self.tries(
            &["delete", "-f", "-", "--wait=false"],
            &json!({"apiVersion": "v1", "kind": "List", "items": list}).to_string(),
        )
        .unwrap();
    }

    /// An event about one of his objects.
    fn wait_said(&self, meta: &Value, because: &str) -> String {
        let (namespace, name) = (meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap());
        let selector = format!("--field-selector=involvedObject.name={name}");
        let said = || {
            let events = self.0.get(&["events", "--namespace", namespace, &selector])?;
            let events = events["items"].as_array().cloned().unwrap_or_default();
            let mut messages = events.iter().filter_map(|event| event["message"].as_str());
            Ok(messages.find(|message| message.contains(because)).map(str::to_owned))
        };
        self.0.wait_for(&format!("{name} to be told {because:?}"), said).unwrap()
    }
}

fn path(meta: &Value) -> String {
    format!("{}/{}", meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap())
}

fn refused(what: &str, answer: Result<String, String>, because: &str) {
    match answer {
        Ok(done) => panic!("{what} was let through: {done}"),
        Err(said) => {
            println!("{}: {said}", what.chars().take(100).collect::<String>());
            assert!(said.contains(because), "{what} was refused, but not because of {because:?}: {said}");
        }
    }
}

fn pod(namespace: &str, name: &str, node: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "annotations": annotations},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "tools", "image": IMAGE,
                "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
                "readinessProbe": {"httpGet": {"path": "/hostname", "port": 8080}, "periodSeconds": 1},
            }],
        },
    })
}

fn udn(namespace: &str, name: &str, role: &str, subnet: &str) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"topology": "Layer2", "layer2": {"role": role, "subnets": subnet.split(',').collect::<Vec<_>>()}},
    })
}

/// The whole attack. The victims talk before, after each part, and at the end.
#[test]
fn a_tenant_stays_on_his_island() {
    let sandbox = shared();
    let mallory = Mallory(sandbox);
    sandbox.apply(MANIFESTS).unwrap();
    sandbox.start_pods(&VICTIMS).unwrap();
    settle_in(&mallory);
    everybody_is_where_he_belongs(sandbox);
    let before = victims_objects(sandbox);

    what_is_not_his_is_not_his(&mallory);
    networks_of_his_own(&mallory);
    annotations_of_pods(&mallory);
    attachments(&mallory);
    everybody_is_where_he_belongs(sandbox);
    packets::his_own_interface_is_his_alone(&mallory);
    packets::the_locked_interface(&mallory);
    packets::from_the_default_network(&mallory);
    probes_of_others(&mallory);
    nodes::in_wrong_hands(&mallory);
    everybody_is_where_he_belongs(sandbox);
    assert_eq!(victims_objects(sandbox), before);
}

/// His network has the subnets of the victim's, so that he can have the very same addresses.
fn settle_in(mallory: &Mallory) {
    let own = udn("mallory", "own", "Primary", "10.72.0.0/16,fd72::/64");
    let create = || Ok(mallory.creates(&own).ok());
    mallory.0.wait_for("his role to count", create).unwrap();
    let pods: Vec<Value> = OWN.map(|(namespace, name, node)| pod(namespace, name, node, &json!({}))).into();
    mallory.creates(&json!({"apiVersion": "v1", "kind": "List", "items": pods})).unwrap();
    for (namespace, name, _) in OWN {
        mallory.0.pod(&format!("{namespace}/{name}")).wait_ready().unwrap();
    }
}

fn everybody_is_where_he_belongs(sandbox: &Sandbox) {
    let island = |pod: &str| pod.split_once('/').unwrap().0.to_owned();
    let own = OWN.map(|(namespace, name, _)| format!("{namespace}/{name}"));
    let pods: Vec<&str> = VICTIMS.iter().map(|(pod, _)| *pod).chain(own.iter().map(String::as_str)).collect();
    // A busy machine may lose a packet, so what should pass is asked for again; what should not is never excused.
    let whole = || {
        let matrix = sandbox.matrix_with(&pods, &[Probe::Http, Probe::Udp])?;
        println!("{matrix}");
        for (from, to) in pods.iter().flat_map(|from| pods.iter().map(move |to| (*from, *to))) {
            assert!(island(from) == island(to) || !matrix.leaks(from, to), "{from} reaches {to}");
        }
        Ok(matrix.wrong(|from, to| island(from) == island(to)).is_empty().then_some(()))
    };
    sandbox.wait_for("everybody to reach his own", whole).unwrap();
}

/// What the victims have, without the time of its last change.
fn victims_objects(sandbox: &Sandbox) -> Vec<Value> {
    let mut all = Vec::new();
    for words in [
        &["net-attach-def,udn,pods", "-n", "victim"][..],
        &["net-attach-def,udn,pods", "-n", "victim2"],
        &["cudn"],
    ] {
        for object in sandbox.get(words).unwrap()["items"].as_array().unwrap() {
            let meta = &object["metadata"];
            let conditions: Vec<Value> = object["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|condition| json!([condition["type"], condition["status"]]))
                .collect();
            all.push(json!([
                object["kind"],
                meta["name"],
                meta["uid"],
                meta["annotations"],
                meta["ownerReferences"],
                object["spec"],
                conditions
            ]));
        }
    }
    all
}

/// Objects that his role does not reach: other namespaces, the cluster's objects, the machinery's.
fn what_is_not_his_is_not_his(mallory: &Mallory) {
    let forbidden = FORBIDDEN;
    let victims = udn("victim2", "other", "Secondary", "10.99.0.0/16");
    mallory.may_not_create("a network in the victim's namespace", &victims, forbidden);
    let mut cluster_wide = udn("", "wide", "Primary", "10.99.0.0/16");
    cluster_wide["kind"] = "ClusterUserDefinedNetwork".into();
    let selector = json!({"matchLabels": {"tenant": "victim"}});
    cluster_wide["spec"] = json!({"namespaceSelector": selector, "network": cluster_wide["spec"]});
    cluster_wide["metadata"].as_object_mut().unwrap().remove("namespace");
    mallory.may_not_create("a cluster-wide network", &cluster_wide, forbidden);

    let patch = r#"--patch={"metadata":{"annotations":{"k8s.ovn.org/node-id":"9","k8s.ovn.org/node-chassis-id":"x"}}}"#;
    for words in [
        &["delete", "udn", "-n", "victim2", "lan"][..],
        &["delete", "cudn", "victim"],
        &["patch", "cudn", "victim", "--type=merge", r#"--patch={"spec":{"namespaceSelector":{}}}"#],
        &[
            "patch",
            "udn",
            "-n",
            "mallory",
            "own",
            "--subresource=status",
            "--type=merge",
            r#"--patch={"status":{"networkID":1}}"#,
        ],
        &["create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", "--user=mallory"],
        // Labels: what makes a namespace's pods use a primary network, and what the victim's network selects.
        &["label", "namespace", "mallory-plain", "k8s.ovn.org/primary-user-defined-network="],
        &["label", "namespace", "mallory", "k8s.ovn.org/primary-user-defined-network-"],
        &["label", "namespace", "mallory", "tenant=victim"],
        &["create", "namespace", "mallory-more"],
        // What nodes and the cluster manager say of themselves.
        &["patch", "node", "n1", patch],
        &["patch", "node", "n1", "--subresource=status", patch],
        &["get", "zonereports"],
        &["patch", "zonereport", "n1", "--type=merge", r#"--patch={"spec":{"failures":[]}}"#],
        &["get", "leases", "-n", "causeway"],
        &["delete", "leases", "-n", "causeway", "--all"],
        &["get", "configmaps", "-n", "causeway"],
        &["create", "configmap", "causeway-freed-numbers", "-n", "causeway"],
        &["delete", "configmap", "causeway-freed-numbers", "-n", "causeway"],
        &["create", "token", "cluster-manager", "-n", "causeway"],
        &["exec", "-n", "victim", "v1", "--", "true"],
        &["get", "--raw", "/api/v1/namespaces/victim/pods/v1:8080/proxy/hostname"],
    ] {
        mallory.is_refused(words, forbidden);
    }
    let report =
        json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ZoneReport", "metadata": {"name": "n9"}, "spec": {}});
    mallory.may_not_create("a report of a node", &report, forbidden);
    let connect = json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": "way-in"}, "spec": {
        "networkSelectors": [{"networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {}}}],
        "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}], "connectivityEnabled": ["PodNetwork"]}});
    mallory.may_not_create("a connection to the victim", &connect, forbidden);
}

/// Networks that he may have: each is another one than the victim's, whatever it is called and carries.
fn networks_of_his_own(mallory: &Mallory) {
    let sandbox = mallory.0;
    let stolen = sandbox.get(&["net-attach-def", "-n", "victim2", "lan"]).unwrap()["metadata"].clone();
    let mut lan = udn("mallory-plain", "lan", "Secondary", "10.72.0.0/16");
    lan["metadata"]["annotations"] = stolen["annotations"].clone();
    lan["metadata"]["labels"] = stolen["labels"].clone();
    mallory.creates(&lan).unwrap();
    mallory.creates(&udn("mallory-plain", "victim", "Secondary", "10.71.0.0/16")).unwrap();
    for (name, network) in [("lan", "mallory-plain_lan"), ("victim", "mallory-plain_victim")] {
        let numbered = || {
            let nad = sandbox.get(&["net-attach-def", "-n", "mallory-plain", name])?;
            let given = nad["metadata"]["annotations"].clone();
            Ok(given["k8s.ovn.org/network-id"].is_string().then_some(given))
        };
        let given = sandbox.wait_for(&format!("network {network} to have its numbers"), numbered).unwrap();
        println!("mallory-plain/{name}: {given}");
        assert_eq!(given["k8s.ovn.org/network-name"], network);
        assert_ne!(given["k8s.ovn.org/network-id"], stolen["annotations"]["k8s.ovn.org/network-id"]);
        assert_ne!(given["k8s.ovn.org/tunnel-keys"], stolen["annotations"]["k8s.ovn.org/tunnel-keys"]);
    }

    mallory.creates(&udn("mallory-plain", "a-b", "Secondary", "10.90.0.0/16")).unwrap();
    // The younger of two is refused, and a second decides who that is.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    mallory.creates(&udn("mallory-plain", "a.b", "Secondary", "10.91.0.0/16")).unwrap();
    mallory.creates(&udn("mallory-plain", "unlabelled", "Primary", "10.92.0.0/16")).unwrap();
    mallory.creates(&udn("mallory", "second", "Primary", "10.72.128.0/17,fd73::/64")).unwrap();
    mallory.creates(&udn("mallory", "of-the-cluster", "Secondary", "10.244.0.0/16")).unwrap();
    // A subnet of which no pod gets anything is a subnet all the same.
    let mut unused = udn("mallory", "of-services", "Secondary", "10.96.0.0/16");
    unused["spec"]["layer2"]["excludeSubnets"] = json!(["10.96.0.0/16"]);
    mallory.creates(&unused).unwrap();
    for (path, because) in [
        ("mallory-plain/a.b", "mallory-plain_a-b"),
        ("mallory-plain/unlabelled", "invalid primary network state for namespace"),
        ("mallory/second", "which serves the same namespace"),
        ("mallory/of-the-cluster", "overlaps"),
        ("mallory/of-services", r#"overlaps service subnet "10.96.0.0/16""#),
    ] {
        println!("{path}: {}", wait_not_ready(sandbox, path, because));
    }
    mallory.tries(&["delete", "udn", "--all", "-n", "mallory-plain", "--wait=false"], "").unwrap();
    mallory
        .tries(
            &["delete", "udn", "-n", "mallory", "second", "of-the-cluster", "of-services", "--wait=false"],
            "",
        )
        .unwrap();
}

fn wait_not_ready(sandbox: &Sandbox, path: &str, because: &str) -> String {
    let (namespace, name) = path.split_once('/').unwrap();
    let told = || {
        let object = sandbox.get(&["udn", "-n", namespace, name])?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let told = conditions.iter().filter(|c| c["type"] == "NetworkReady" && c["status"] == "False");
        let mut told = told.filter_map(|c| c["message"].as_str());
        Ok(told.find(|message| message.contains(because)).map(str::to_owned))
    };
    sandbox.wait_for(&format!("network {path} to be refused"), told).unwrap()
}

/// What he writes on pods: addresses that are not given to him, networks that are not his.
fn annotations_of_pods(mallory: &Mallory) {
    let sandbox = mallory.0;
    let only = "only the cluster manager of Causeway writes";
    let stolen = sandbox.pod("victim2/w1").object().unwrap()["metadata"]["annotations"][POD_NETWORKS].clone();
    let forged = json!({POD_NETWORKS: stolen});
    mallory.may_not_create(
        "a pod with the victim's addresses",
        &pod("mallory", "forged", "n1", &forged),
        only,
    );
    mallory.may_not_create("the same elsewhere", &pod("mallory-plain", "forged", "n1", &forged), only);
    let patch = format!("--patch={}", json!({"metadata": {"annotations": forged}}));
    let gone = format!("--patch={}", json!({"metadata": {"annotations": {POD_NETWORKS: null}}}));
    for patch in [&patch, &gone] {
        mallory.is_refused(&["patch", "pod", "-n", "mallory", "m1", patch], only);
    }
    mallory.is_refused(&["patch", "pod", "-n", "mallory", "m1", "--subresource=status", &patch], FORBIDDEN);
    let status = r#"--patch={"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}"#;
    mallory.is_refused(
        &["patch", "pod", "-n", "mallory", "m1", status],
        "only the Causeway of the pod's node writes",
    );
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": "mallory", "name": "m1", "annotations": forged},
        "target": {"kind": "Node", "name": "n1"}});
    mallory.may_not_create("a binding with the victim's addresses", &binding, FORBIDDEN);
    by_somebody_elses_hand(mallory, &forged);
    wishes::not_granted(mallory);
    wishes::attachments_of_another_namespace(mallory);
    wishes::lists_that_are_too_long(mallory);
}

/// A pod that asks for networks besides its primary one.
fn asks_for(namespace: &str, name: &str, networks: &str) -> Value {
    pod(namespace, name, "n1", &json!({NETWORKS: networks}))
}

/// Pods of his that controllers create are under the same rule.
fn by_somebody_elses_hand(mallory: &Mallory, forged: &Value) {
    let metadata = json!({"labels": {"app": "forged"}, "annotations": forged});
    let template = json!({"metadata": metadata, "spec": pod("mallory", "any", "n1", forged)["spec"]});
    let replica_set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "mallory", "name": "forged"},
        "spec": {"selector": {"matchLabels": {"app": "forged"}}, "template": template}});
    mallory.creates(&replica_set).unwrap();
    println!(
        "a replica set: {}",
        mallory.wait_said(&replica_set["metadata"], "only the cluster manager of Causeway writes")
    );
    mallory.tries(&["delete", "replicaset", "-n", "mallory", "forged"], "").unwrap();
}

fn nad(name: &str, config: &Value, meta: Value) -> Value {
    let mut nad = json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": meta, "spec": {"config": config.to_string()}});
    nad["metadata"]["name"] = name.into();
    nad["metadata"]["namespace"] = "mallory".into();
    nad
}

/// Attachment definitions. His role does not have them; then an administrator gives him that right as well.
fn attachments(mallory: &Mallory) {
    let sandbox = mallory.0;
    let victims =
        |namespace: &str, name: &str| sandbox.get(&["net-attach-def", "-n", namespace, name]).unwrap();
    let (layer3, layer2) = (victims("victim", "victim"), victims("victim2", "lan"));
    let config =
        |nad: &Value| -> Value { serde_json::from_str(nad["spec"]["config"].as_str().unwrap()).unwrap() };
    let into3 = nad("into3", &config(&layer3), json!({}));
    mallory.may_not_create("an attachment", &into3, FORBIDDEN);
    let rename = format!("--patch={}", json!({"spec": {"config": layer2["spec"]["config"]}}));
    mallory
        .is_refused(&["patch", "net-attach-def", "-n", "mallory", "own", "--type=merge", &rename], FORBIDDEN);

    let resource = "--resource=network-attachment-definitions.k8s.cni.cncf.io";
    sandbox.kubectl(&["create", "role", "generous", "-n", "mallory", "--verb=*", resource]).unwrap();
    sandbox
        .kubectl(&["create", "rolebinding", "generous", "-n", "mallory", "--role=generous", "--user=mallory"])
        .unwrap();
    let allowed = || Ok(mallory.tries(&["get", "net-attach-def", "-n", "mallory"], "").ok());
    sandbox.wait_for("the generous role to count", allowed).unwrap();

    let only = "only the cluster manager of Causeway writes";
    for stolen in [&layer3, &layer2] {
        let meta =
            json!({"annotations": stolen["metadata"]["annotations"], "labels": stolen["metadata"]["labels"]});
        mallory.may_not_create(
            "an attachment with the victim's numbers",
            &nad("into", &config(stolen), meta),
            only,
        );
    }
    named_like_the_victims(mallory, &config(&layer3), &config(&layer2));
    owned_by_the_victim(mallory, &layer3, &config(&layer3));
    his_own_attachment(mallory, &layer2);
}

/// Attachments that name the victim's networks in all forms. Each is told, and pods cannot use it.
fn named_like_the_victims(mallory: &Mallory, layer3: &Value, layer2: &Value) {
    let as_own = |config: &Value, name: &str, role: &str| {
        let mut config = config.clone();
        config["netAttachDefName"] = format!("mallory/{name}").into();
        config["role"] = role.into();
        config
    };
    let list = json!({"cniVersion": "1.1.0", "name": layer2["name"], "plugins": [as_own(layer2, "list", "secondary")]});
    let label = json!({"labels": {"k8s.ovn.org/user-defined-network": ""}});
    let nads = [
        nad("copy", layer3, json!({})),
        nad("primary3", &as_own(layer3, "primary3", "primary"), json!({})),
        nad("second3", &as_own(layer3, "second3", "secondary"), label.clone()),
        nad("primary2", &as_own(layer2, "primary2", "primary"), label),
        nad("second2", &as_own(layer2, "second2", "secondary"), json!({})),
        nad("list", &list, json!({})),
    ];
    mallory.creates(&json!({"apiVersion": "v1", "kind": "List", "items": nads})).unwrap();
    for nad in &nads {
        println!(
            "NAD {}: {}",
            nad["metadata"]["name"],
            mallory.wait_said(&nad["metadata"], "Failed to parse network config")
        );
    }
    let pods: Vec<(Value, &str)> = nads
        .iter()
        .map(|nad| {
            let name = nad["metadata"]["name"].as_str().unwrap();
            (asks_for("mallory", &format!("with-{name}"), name), "NAD mallory/")
        })
        .collect();
    mallory.pods_are_told(&pods);
    for nad in &nads {
        let name = nad["metadata"]["name"].as_str().unwrap();
        let there = mallory.0.get(&["net-attach-def", "-n", "mallory", name]).unwrap();
        assert_eq!(there["metadata"]["annotations"], Value::Null, "{there:#}");
        mallory.tries(&["delete", "net-attach-def", "-n", "mallory", name], "").unwrap();
    }
}

/// An attachment that says the victim's network controls it is taken away.
fn owned_by_the_victim(mallory: &Mallory, stolen: &Value, config: &Value) {
    let meta = json!({"ownerReferences": stolen["metadata"]["ownerReferences"], "labels": stolen["metadata"]["labels"]});
    for name in ["victim", "another"] {
        mallory.creates(&nad(name, config, meta.clone())).unwrap();
        let gone = || {
            Ok(mallory.tries(&["get", "net-attach-def", "-n", "mallory", name], "").is_err().then_some(()))
        };
        mallory.0.wait_for("a forged attachment to go", gone).unwrap();
        println!("NAD mallory/{name}, controlled by the victim's network: taken away");
    }
}

/// The attachment of his own network: it is rendered, and he changes nothing of it.
fn his_own_attachment(mallory: &Mallory, stolen: &Value) {
    let own = || mallory.0.get(&["net-attach-def", "-n", "mallory", "own"]).unwrap();
    let before = own();
    for (what, change) in [
        ("the victim's numbers", json!({"metadata": {"annotations": stolen["metadata"]["annotations"]}})),
        ("no numbers", json!({"metadata": {"annotations": null}})),
        ("the victim's configuration", json!({"spec": {"config": stolen["spec"]["config"]}})),
        ("no configuration", json!({"spec": {"config": "{}"}})),
        ("no label", json!({"metadata": {"labels": null}})),
        ("no finalizer", json!({"metadata": {"finalizers": null}})),
        ("no owner", json!({"metadata": {"ownerReferences": null}})),
    ] {
        let patch = format!("--patch={change}");
        let tried =
            mallory.tries(&["patch", "net-attach-def", "-n", "mallory", "own", "--type=merge", &patch], "");
        refused(what, tried, "denied request");
    }
    assert_eq!(own(), before);
}

/// The kubelet's requests get to the locked interface of every pod of its node, and a probe may name another host. The
/// network cannot tell whose probe it is, so this door is the namespace's: `baseline` of Kubernetes' Pod Security shuts it.
fn probes_of_others(mallory: &Mallory) {
    let level = "pod-security.kubernetes.io/enforce=baseline";
    mallory.0.kubectl(&["label", "namespace", "mallory-plain", level]).unwrap();
    let locked = mallory.0.pod("victim/v1").object().unwrap()["status"]["podIP"].clone();
    let request = json!({"httpGet": {"host": locked, "path": "/hostname", "port": 8080}});
    for (what, part) in [("readinessProbe", request.clone()), ("lifecycle", json!({"postStart": request}))] {
        let mut container = json!({"name": "tools", "image": IMAGE});
        container[what] = part;
        let mut prober = pod("mallory-plain", "prober", "n1", &json!({}));
        prober["spec"]["containers"] = json!([container]);
        mallory.may_not_create(&format!("a {what} of the victim"), &prober, "probe or lifecycle host");
    }
}
