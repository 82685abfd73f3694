//! The same cases on a real API server, and what only a real one can show: policies, roles, columns, documentation.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_api::annotations::keys;
use causeway_testing::{Answer, ApiServer};
use serde_json::{Value, json};
use support::{Case, NAMESPACE, as_wanted, cases};

const CHART: [&str; 5] = [
    "crds/causeway.yaml",
    "crds-if-absent/k8s.cni.cncf.io.yaml",
    "crds-if-absent/policy.networking.k8s.io.yaml",
    "policies/causeway.yaml",
    "roles/causeway.yaml",
];

fn install(server: &ApiServer) {
    server.kubectl(&["create", "namespace", "causeway"]).text();
    server.kubectl(&["create", "namespace", NAMESPACE]).text();
    for file in CHART {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/causeway").join(file);
        let answer = server.kubectl(&["apply", "--server-side", "-f", &path.display().to_string()]);
        assert!(!answer.err.contains("Warning"), "{file}: {}", answer.err);
        answer.text();
    }
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).text();
}

/// Sends all objects at once and gives each its part of what kubectl complains about.
fn send(server: &ApiServer, verb: &str, objects: &[(&Case, &Value)]) -> BTreeMap<String, Vec<String>> {
    let input: String = objects
        .iter()
        .map(|(_, object)| format!("---\n{}\n", serde_json::to_string(object).unwrap()))
        .collect();
    let answer = server.kubectl_with(&[verb, "-f", "-", "--validate=ignore"], &input);
    complaints(&answer.err, objects.iter().map(|(case, object)| (case, *object)))
}

/// kubectl complains in one line for each object, with its kind and name.
fn complaints<'a>(
    text: &str,
    objects: impl Iterator<Item = (&'a &'a Case, &'a Value)>,
) -> BTreeMap<String, Vec<String>> {
    let subjects: BTreeMap<String, String> = objects
        .map(|(case, object)| {
            (
                format!(" {}.k8s.ovn.org {} is invalid:", case.kind.name(), object["metadata"]["name"]),
                case.id.clone(),
            )
        })
        .collect();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let subject = line.find(" is invalid:").and_then(|end| {
            let start = line[..end].rfind(": ")? + 1;
            subjects.get(&line[start..end + " is invalid:".len()])
        });
        found.entry(subject.cloned().unwrap_or("kubectl itself".into())).or_default().push(line.to_owned());
    }
    found
}

#[test]
fn every_case_gets_its_verdict() {
    let server = ApiServer::start();
    install(&server);
    let cases = cases();
    let objects: Vec<(&Case, &Value)> = cases.iter().map(|case| (case, &case.object)).collect();
    let mut messages = send(&server, "create", &objects);
    assert_eq!(messages.remove("kubectl itself"), None);
    let updates: Vec<(&Case, &Value)> =
        cases.iter().filter_map(|case| Some((case, case.update.as_ref()?))).collect();
    for (case, _) in &updates {
        assert_eq!(messages.get(&case.id), None, "{}: before the update", case.id);
    }
    messages.extend(send(&server, "replace", &updates));
    let none = Vec::new();
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| !as_wanted(case, messages.get(&case.id).unwrap_or(&none)))
        .map(|case| format!("{}: wanted {:?}, got {:#?}", case.id, case.reject, messages.get(&case.id)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Everything else that only a real server shows, on one server: starting one costs seconds.
#[test]
fn policies_roles_columns_and_documentation_work() {
    let server = ApiServer::start();
    install(&server);
    let user = User { server: &server, arguments: Vec::new() };
    wait_for_policies(&user);
    a_namespace_keeps_its_kind_of_network(&user);
    annotations_of_a_connection_have_one_writer(&user);
    annotations_of_a_node_have_one_writer(&user);
    annotations_of_a_pod_have_one_writer(&user);
    a_zone_report_has_one_writer(&user);
    a_mirror_has_one_writer(&user);
    whoever_writes_too_long_a_list_is_warned(&user);
    cluster_scoped_policies_have_their_limits(&user);
    requested_addresses_stay(&user);
    a_rendered_attachment_has_one_writer(&user);
    tenants_have_networks_and_nothing_wider(&user);
    our_own_roles_have_what_they_need_and_no_more(&user);
    a_node_has_what_it_needs_and_no_more(&user);
    columns_show_what_is_in_effect(&user);
    documentation_is_served(&user);
    both_versions_show_the_same(&user);
    examples_apply(&user);
    no_policy_can_be_taken_away(&user);
}

/// Somebody who runs kubectl.
struct User<'a> {
    server: &'a ApiServer,
    arguments: Vec<String>,
}

impl User<'_> {
    fn named(&self, user: &str, groups: &[&str]) -> User<'_> {
        let mut arguments = vec![format!("--as={user}")];
        arguments.extend(groups.iter().map(|group| format!("--as-group={group}")));
        User { server: self.server, arguments }
    }

    fn with_node_name(mut self, node: &str) -> Self {
        self.arguments.push(format!("--as-user-extra=authentication.kubernetes.io/node-name={node}"));
        self
    }

    fn cluster_manager(&self) -> User<'_> {
        self.named("system:serviceaccount:causeway:cluster-manager", &["system:authenticated"])
    }

    /// A node that has a certificate.
    fn node(&self, name: &str) -> User<'_> {
        self.named(&format!("causeway-node:{name}"), &["causeway:nodes", "system:authenticated"])
    }

    /// A node that has a service account token.
    fn node_with_token(&self, name: &str) -> User<'_> {
        self.named("system:serviceaccount:causeway:node", &["system:authenticated"]).with_node_name(name)
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &[&str], input: &str) -> Answer {
        let own: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.server.kubectl_with(&[&own[..], arguments].concat(), input)
    }

    fn create(&self, object: &Value) -> Answer {
        self.run_with(&["create", "-f", "-"], &object.to_string())
    }

    /// Merges something into an object, given as `kind/name` and further arguments.
    fn patch(&self, what: &[&str], patch: &Value) -> Answer {
        self.run(&[&["patch", "--type=merge", "-p", &patch.to_string()][..], what].concat())
    }
}

fn annotation(key: &str, value: impl Into<Value>) -> Value {
    json!({"metadata": {"annotations": {key: value.into()}}})
}

/// Policies take effect a moment after they are created. Each try has a namespace of its own: without a controller
/// manager none ever goes away.
fn wait_for_policies(admin: &User) {
    let deadline = Instant::now() + Duration::from_secs(60);
    for number in 0.. {
        let name = format!("probe-{number}");
        admin.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).text();
        if !admin.run(&["label", "namespace", &name, "k8s.ovn.org/primary-user-defined-network="]).ok {
            return;
        }
        assert!(Instant::now() < deadline, "the policies have no effect");
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// udn-cases D005, D007.
fn a_namespace_keeps_its_kind_of_network(admin: &User) {
    let label = "k8s.ovn.org/primary-user-defined-network";
    let refused = "label cannot be added/removed after the namespace was created";
    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    admin.create(&namespace("with", json!({label: ""}))).text();
    admin.create(&namespace("without", json!({}))).text();
    admin.run(&["label", "namespace", "with", &format!("{label}-")]).refused(refused);
    admin.run(&["label", "namespace", "without", &format!("{label}=")]).refused(refused);
    let labels = json!({"metadata": {"labels": {label: ""}}});
    admin.patch(&["namespace/without", "--subresource=status"], &labels).refused(refused);
    admin.run(&["label", "namespace", "with", "--overwrite", &format!("{label}=x")]).text();
    admin.run(&["label", "namespace", "without", "a=b"]).text();
}

fn connection(name: &str, annotations: Value) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": name, "annotations": annotations},
           "spec": {"networkSelectors": [{"networkSelectionType": "ClusterUserDefinedNetworks",
                    "clusterUserDefinedNetworkSelector": {"networkSelector": {}}}],
                    "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}], "connectivity": ["PodNetwork"]}})
}

/// cnc-cases A11, C01, C02, C04, C05, C07, C08.
fn annotations_of_a_connection_have_one_writer(admin: &User) {
    let manager = admin.cluster_manager();
    let refused = "only the cluster manager of Causeway writes";
    admin.create(&connection("blue", json!({keys::NETWORK_SUBNETS: "{}"}))).refused(refused);
    admin.create(&connection("blue", json!({keys::CONNECT_ROUTER_TUNNEL_KEY: "16715779"}))).refused(refused);
    admin.create(&connection("blue", json!({"mine": "1"}))).text();
    let what = ["clusternetworkconnect/blue"];
    admin.patch(&what, &annotation(keys::NETWORK_SUBNETS, "{}")).refused(refused);
    admin.patch(&what, &annotation(keys::NETWORK_CONNECT_SUBNET, "{}")).refused(refused);
    manager.patch(&what, &annotation(keys::NETWORK_SUBNETS, "{}")).text();
    manager.patch(&what, &annotation(keys::CONNECT_ROUTER_TUNNEL_KEY, "16715779")).text();
    manager.patch(&what, &annotation(keys::CONNECT_ROUTER_SLOTS, "128")).text();
    manager.patch(&what, &annotation(keys::CONNECT_TOPOLOGY, "transit")).text();
    admin.patch(&what, &annotation(keys::NETWORK_SUBNETS, Value::Null)).refused(refused);
    admin.patch(&what, &annotation(keys::CONNECT_ROUTER_TUNNEL_KEY, "16715780")).refused("denied");
    admin.patch(&what, &json!({"spec": {"connectivity": ["ServiceNetwork"]}})).text();
    manager
        .patch(&what, &annotation(keys::NETWORK_SUBNETS, r#"{"layer3_1":{"ipv4":"192.168.0.0/24"}}"#))
        .text();
    let once = "nobody changes or removes";
    manager.patch(&what, &annotation(keys::CONNECT_ROUTER_TUNNEL_KEY, "16715780")).refused(once);
    manager.patch(&what, &annotation(keys::CONNECT_ROUTER_SLOTS, Value::Null)).refused(once);
    manager.patch(&what, &annotation(keys::CONNECT_TOPOLOGY, "both")).text();
}

/// udn-cases F023 from the other side: nobody else can delete or change what the cluster manager wrote.
fn annotations_of_a_node_have_one_writer(admin: &User) {
    for node in ["n1", "n2"] {
        admin.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})).text();
    }
    let own = ["node/n1", "--subresource=status"];
    let (id, version) = (annotation(keys::NODE_ID, "2"), annotation(keys::LAYER2_TOPOLOGY_VERSION, "2.0"));
    let manager = "only the cluster manager of Causeway writes";
    admin.patch(&["node/n1"], &id).refused(manager);
    admin.patch(&own, &id).refused(manager);
    // Two policies forbid this; whichever the server names first.
    admin.node("n1").patch(&own, &id).refused("'causeway-");
    admin.cluster_manager().patch(&own, &id).text();
    let node = "only the Causeway of node n1 writes";
    admin.patch(&["node/n1"], &version).refused(node);
    admin.cluster_manager().patch(&own, &version).refused(node);
    // Two policies forbid this; whichever the server names first.
    admin.node("n2").patch(&own, &version).refused("'causeway-node-");
    admin.node_with_token("n2").patch(&own, &version).refused("'causeway-node-");
    // A token tells the truth about its node, but this one is somebody else's.
    let other = admin.named("system:serviceaccount:team:app", &["system:masters"]).with_node_name("n1");
    other.patch(&own, &version).refused(node);
    admin.node("n1").patch(&own, &version).text();
    admin.node_with_token("n1").patch(&own, &annotation(keys::LAYER2_TOPOLOGY_VERSION, "2.1")).text();
    let limits = "a node of Causeway writes";
    admin.node("n1").patch(&own, &json!({"metadata": {"labels": {"a": "b"}}})).refused(limits);
    admin.node("n1").patch(&own, &json!({"status": {"phase": "Running"}})).refused(limits);
    admin.node("n2").patch(&own, &annotation("mine", "1")).refused(limits);
    admin.node("n1").patch(&own, &annotation("mine", "1")).refused("but those that are its own");
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "u"}]);
    admin
        .node("n1")
        .patch(&own, &json!({"metadata": {"ownerReferences": owner}}))
        .refused("not owner references");
    admin.node("n1").patch(&["node/n1"], &version).refused("forbidden");
    // What a node claims is its own to write; what of it counts is not.
    let record = annotation(keys::NODE_CHASSIS_RECORD, "{}");
    admin.node("n1").patch(&own, &annotation(keys::NODE_CHASSIS_ID, "c")).text();
    admin.node("n1").patch(&own, &record).refused("denied request");
    admin.patch(&["node/n1"], &record).refused(manager);
    let forged = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n3", "annotations": {keys::NODE_CHASSIS_RECORD: "{}"}}});
    admin.create(&forged).refused(manager);
    admin.cluster_manager().patch(&own, &record).text();
}

fn pod(name: &str, node: &str, annotations: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
           "spec": {"containers": [{"name": "c", "image": "i"}]}});
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

fn annotations_of_a_pod_have_one_writer(admin: &User) {
    let manager = "only the cluster manager of Causeway writes";
    let node = "only the Causeway of the pod's node writes";
    let networks = annotation(keys::POD_NETWORKS, "{}");
    let status = annotation(keys::NETWORK_STATUS, "[]");
    admin.create(&pod("p", "n1", json!({keys::POD_NETWORKS: "{}"}))).refused(manager);
    admin.create(&pod("p", "n1", json!({keys::NETWORK_STATUS: "[]"}))).refused(node);
    admin.create(&pod("p", "n1", json!({keys::REQUESTED_PRIMARY: "blue"}))).text();
    let what = ["pod/p", "-n", NAMESPACE];
    let own = ["pod/p", "-n", NAMESPACE, "--subresource=status"];
    admin.patch(&what, &networks).refused(manager);
    admin.patch(&own, &networks).refused(manager);
    admin.node("n1").patch(&own, &networks).refused("denied request");
    admin.cluster_manager().patch(&own, &networks).text();
    admin.patch(&what, &status).refused(node);
    admin.node("n2").patch(&own, &status).refused("denied request");
    admin.node("n1").patch(&own, &status).text();
    admin.node_with_token("n1").patch(&own, &annotation(keys::NETWORK_STATUS, "[{}]")).text();
    admin.node("n1").patch(&own, &json!({"status": {"phase": "Failed"}})).refused("not the status");
    admin.node("n1").patch(&own, &json!({"metadata": {"finalizers": ["a/b"]}})).refused("not finalizers");
    let other = "writes no annotation of a pod but";
    admin.node("n1").patch(&own, &annotation("mine", "1")).refused(other);
    admin.node("n1").patch(&own, &annotation(keys::REQUESTED_PRIMARY, Value::Null)).refused(other);
    let multus = admin.named("system:serviceaccount:kube-system:multus", &["system:masters"]);
    multus.patch(&own, &annotation(keys::NETWORK_STATUS, "[]")).text();
    // The API server copies the annotations of a binding to the pod.
    admin.create(&pod("unbound", "", json!({}))).text();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "unbound", "annotations": {keys::POD_NETWORKS: "{}"}},
                         "target": {"kind": "Node", "name": "n1"}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/unbound/binding");
    admin.run_with(&["create", "--raw", &path, "-f", "-"], &binding.to_string()).refused(manager);
    let asks = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "unbound", "annotations": {keys::DEFAULT_NETWORK: "[]"}},
                      "target": {"kind": "Node", "name": "n1"}});
    admin
        .run_with(&["create", "--raw", &path, "-f", "-"], &asks.to_string())
        .refused("can't be added, changed or removed after the pod was created");
}

fn a_zone_report_has_one_writer(admin: &User) {
    let report = |name: &str| json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ZoneReport", "metadata": {"name": name}, "spec": {"epoch": 1}});
    let refused = "writes its ZoneReport";
    admin.node("n1").create(&report("n2")).refused(refused);
    admin.create(&report("n1")).refused(refused);
    admin.node("n1").create(&report("n1")).text();
    admin.node_with_token("n1").patch(&["zonereport/n1"], &json!({"spec": {"epoch": 2}})).text();
    admin.patch(&["zonereport/n1"], &json!({"spec": {"epoch": 3}})).refused(refused);
    admin.patch(&["zonereport/n1"], &json!({"metadata": {"labels": {"a": "b"}}})).text();
    admin.node("n1").run(&["delete", "zonereport", "n1"]).refused("forbidden");
    admin.node("n2").create(&report("n2")).text();
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": "u"});
    for (metadata, forged) in [
        (json!({"labels": {"a": "c"}}), json!({"labels": {"a": "c"}})),
        (json!({"annotations": {"a": "c"}}), json!({"annotations": {"a": "c"}})),
        (json!({"finalizers": ["a/b"]}), json!({"finalizers": ["a/b"]})),
        (json!({"ownerReferences": [owner("n2")]}), json!({"ownerReferences": [owner("n1")]})),
    ] {
        // Its own with something else than its own Node, and another's at all.
        let own = "of the metadata of its ZoneReport a node writes only that its Node owns it";
        admin.node("n1").patch(&["zonereport/n1"], &json!({"metadata": metadata})).refused(own);
        for node in [admin.node("n1"), admin.node_with_token("n1")] {
            node.patch(&["zonereport/n2"], &json!({"metadata": forged})).refused(refused);
        }
    }
    let nameless = admin.named("system:serviceaccount:causeway:node", &["system:authenticated"]);
    nameless.patch(&["zonereport/n1"], &json!({"metadata": {"labels": {"a": "c"}}})).refused(refused);
    admin
        .node("n1")
        .patch(&["zonereport/n1"], &json!({"metadata": {"ownerReferences": [owner("n1")]}}))
        .text();
}

fn slice(name: &str, labels: Value, annotations: Value) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [], "ports": [],
           "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations}})
}

/// udn-cases I001, I002 from the other side: what tells a mirror from other slices has one writer.
fn a_mirror_has_one_writer(admin: &User) {
    let manager = admin.cluster_manager();
    let refused = "only the cluster manager of Causeway writes EndpointSlices that mirror others";
    let (managed, plain) = (json!({keys::SLICE_MANAGED_BY_LABEL: keys::SLICE_MIRRORS}), json!({}));
    admin.create(&slice("forged", managed.clone(), plain.clone())).refused(refused);
    admin
        .create(&slice("forged", json!({keys::MIRRORED_SERVICE_LABEL: "web"}), plain.clone()))
        .refused(refused);
    for key in keys::OF_MIRROR {
        admin.create(&slice("forged", plain.clone(), json!({key: "red_net"}))).refused(refused);
    }
    let own = json!({keys::SLICE_MANAGED_BY_LABEL: "team", keys::SERVICE_LABEL: "web"});
    admin.create(&slice("own", own, json!({"mine": "1"}))).text();
    admin
        .patch(&["endpointslice/own", "-n", NAMESPACE], &json!({"metadata": {"labels": managed}}))
        .refused(refused);
    admin
        .patch(&["endpointslice/own", "-n", NAMESPACE], &annotation(keys::MIRROR_NETWORK, "red_net"))
        .refused(refused);
    admin
        .patch(&["endpointslice/own", "-n", NAMESPACE], &json!({"endpoints": [{"addresses": ["192.0.2.1"]}]}))
        .text();
    manager.create(&slice("mirror", managed, json!({keys::MIRROR_NETWORK: "blue_net"}))).text();
    let mirror = ["endpointslice/mirror", "-n", NAMESPACE];
    let labels = json!({"metadata": {"labels": {keys::SLICE_MANAGED_BY_LABEL: Value::Null}}});
    admin.patch(&mirror, &labels).refused(refused);
    admin.patch(&mirror, &annotation(keys::MIRROR_NETWORK, "red_net")).refused(refused);
    admin.patch(&mirror, &annotation("mine", "1")).refused(refused);
    let endpoints = json!({"endpoints": [{"addresses": ["192.0.2.1"]}]});
    admin.patch(&mirror, &endpoints).refused(refused);
    admin.patch(&mirror, &json!({"ports": [{"port": 80}]})).refused(refused);
    manager.patch(&mirror, &endpoints).text();
    // As the garbage collector does it when a service goes and its slices shall stay.
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u"}]}});
    admin.patch(&mirror, &owner).text();
    admin.run(&["delete", "endpointslice", "mirror", "own", "-n", NAMESPACE]).text();
}

/// What a service says beyond our bounds is accepted, for others may read it, and its author is told.
fn whoever_writes_too_long_a_list_is_warned(admin: &User) {
    let service = |ranges: usize, ips: usize| {
        let ranges: Vec<String> =
            (0..ranges).map(|n| format!("10.{}.{}.0/24", n / 100, n % 100 * 2)).collect();
        let ips: Vec<String> = (0..ips).map(|n| format!("192.0.2.{}", n + 1)).collect();
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "open", "namespace": NAMESPACE},
               "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": ranges, "externalIPs": ips}})
    };
    let warned = |ranges: usize, ips: usize| {
        let input = service(ranges, ips).to_string();
        let answer = admin.run_with(&["create", "--dry-run=server", "-f", "-"], &input);
        assert!(answer.ok, "{}", answer.err);
        answer.err
    };
    let plain = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "plain", "namespace": NAMESPACE},
                       "spec": {"clusterIP": "None"}});
    assert_eq!(admin.create(&plain).err, "");
    // The API server has a word of its own about external IPs.
    assert!(!warned(256, 64).contains("entries"));
    let said = warned(257, 0);
    assert!(said.contains("spec.loadBalancerSourceRanges has 257 entries: at most 256 count"), "{said}");
    assert!(!said.contains("externalIPs"), "{said}");
    let said = warned(0, 65);
    assert!(said.contains("spec.externalIPs has 65 entries: the first 64 count"), "{said}");
    admin.create(&service(256, 0)).text();
    let longer =
        json!({"spec": {"loadBalancerSourceRanges": service(300, 0)["spec"]["loadBalancerSourceRanges"]}});
    let answer = admin.patch(&["service/open", "-n", NAMESPACE], &longer);
    assert!(answer.ok && answer.err.contains("has 300 entries"), "{}", answer.err);
    admin.run(&["delete", "service", "open", "plain", "-n", NAMESPACE]).text();
}

fn nad(name: &str, owners: Value) -> Value {
    json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
           "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": owners}, "spec": {"config": "{}"}})
}

/// What is rendered is the cluster manager's, and what has a number stays what it is.
fn a_rendered_attachment_has_one_writer(admin: &User) {
    let manager = admin.cluster_manager();
    let owner = json!([{"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "net", "uid": "u", "controller": true}]);
    let config = |text: &str| json!({"spec": {"config": text}});
    manager.create(&nad("rendered", owner)).text();
    let rendered = ["network-attachment-definition/rendered", "-n", NAMESPACE];
    let refused = "this NetworkAttachmentDefinition is rendered";
    admin.patch(&rendered, &config("{ }")).refused(refused);
    admin.patch(&rendered, &annotation("mine", "1")).refused(refused);
    admin.patch(&rendered, &json!({"metadata": {"labels": {"mine": "1"}}})).refused(refused);
    admin.patch(&rendered, &json!({"metadata": {"ownerReferences": null}})).refused(refused);
    admin.patch(&rendered, &json!({"metadata": {"finalizers": ["a/b"]}})).refused(refused);
    manager.patch(&rendered, &config("{ }")).text();
    admin.create(&nad("own", Value::Null)).text();
    let own = ["network-attachment-definition/own", "-n", NAMESPACE];
    admin.patch(&own, &config("{ }")).text();
    manager.patch(&own, &annotation(keys::NETWORK_ID, "7")).text();
    admin.patch(&own, &config("{  }")).refused("is a network with a number");
    admin.patch(&own, &annotation("mine", "1")).text();
}

/// What a pod asks for is decided once.
fn requested_addresses_stay(admin: &User) {
    let asks = |ip: &str| format!(r#"[{{"name":"default","ips":["{ip}"]}}]"#);
    admin.create(&pod("asks", "n1", json!({keys::DEFAULT_NETWORK: asks("10.0.0.9/24")}))).text();
    let refused = "can't be added, changed or removed after the pod was created";
    let name = ["pod/asks", "-n", NAMESPACE];
    admin.patch(&name, &annotation(keys::DEFAULT_NETWORK, asks("10.0.0.8/24"))).refused(refused);
    admin.patch(&name, &json!({"metadata": {"annotations": {keys::DEFAULT_NETWORK: null}}})).refused(refused);
    admin.patch(&name, &annotation("mine", "1")).text();
    let plain = ["pod/p", "-n", NAMESPACE];
    admin.patch(&plain, &annotation(keys::DEFAULT_NETWORK, asks("10.0.0.8/24"))).refused(refused);
}

/// Nobody is warned about a policy any more, and those of the cluster are read as they were meant.
fn cluster_scoped_policies_have_their_limits(admin: &User) {
    let wall = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                      "metadata": {"name": "wall", "namespace": NAMESPACE}, "spec": {"podSelector": {}}});
    assert_eq!(admin.create(&wall).err, "");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    for file in ["cluster.yaml", "admin.yaml"] {
        let answer = admin.run(&["create", "-f", &examples.join(file).display().to_string()]);
        assert_eq!(answer.err, "");
        answer.text();
    }
    let policy = |name: &str, to: Value, port: Value| {
        json!({"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": name},
            "spec": {"tier": "Admin", "priority": 1, "subject": {"namespaces": {}},
                "egress": [{"action": "Deny", "to": [to], "protocols": [port]}]}})
    };
    let (pods, web) = (json!({"namespaces": {}}), json!({"tcp": {"destinationPort": {"number": 80}}}));
    let named = json!({"destinationNamedPort": "web"});
    admin.create(&policy("fine", pods.clone(), named.clone())).text();
    admin.create(&policy("no-port", json!({"nodes": {}}), named)).refused("have no named ports");
    admin
        .create(&policy("no-cidr", json!({"networks": ["10.0.0.0"]}), web.clone()))
        .refused("CIDR is invalid");
    let range = json!({"udp": {"destinationPort": {"range": {"start": 9, "end": 9}}}});
    admin.create(&policy("no-range", pods, range)).refused("start must be less than end");
    admin
        .create(&policy("two", json!({"nodes": {}, "namespaces": {}}), web))
        .refused("must have at most 1 item");
    let other = json!({"apiVersion": "policy.networking.k8s.io/v1alpha1", "kind": "BaselineAdminNetworkPolicy",
                       "metadata": {"name": "mine"}, "spec": {"subject": {"namespaces": {}}}});
    admin.create(&other).refused("is called default");
}

/// The controller manager fills the aggregated roles; here their rules are put together as it would do it.
fn aggregated(admin: &User, role: &str) {
    let label = format!("rbac.authorization.k8s.io/aggregate-to-{role}=true");
    let list: Value =
        serde_json::from_str(&admin.run(&["get", "clusterroles", "-l", &label, "-o", "json"]).text())
            .unwrap();
    let rules: Vec<Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default())
        .collect();
    let name = format!("tenant-{role}");
    admin
        .create(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}))
        .text();
    admin
        .run(&[
            "create",
            "rolebinding",
            &name,
            "-n",
            NAMESPACE,
            &format!("--clusterrole={name}"),
            &format!("--user={name}"),
        ])
        .text();
}

fn tenants_have_networks_and_nothing_wider(admin: &User) {
    for role in ["admin", "edit", "view"] {
        aggregated(admin, role);
        let tenant = admin.named(&format!("tenant-{role}"), &["system:authenticated"]);
        let can = |verb: &str, resource: &str| {
            tenant.run(&["auth", "can-i", verb, resource, "-n", NAMESPACE]).out.trim() == "yes"
        };
        for verb in ["get", "list", "watch"] {
            assert!(can(verb, "userdefinednetworks.k8s.ovn.org"), "{role} {verb}");
        }
        for verb in ["create", "update", "patch", "delete", "deletecollection"] {
            assert_eq!(can(verb, "userdefinednetworks.k8s.ovn.org"), role != "view", "{role} {verb}");
        }
        for resource in ["clusteruserdefinednetworks", "clusternetworkconnects", "zonereports"] {
            for verb in ["get", "list", "watch", "create", "update", "patch", "delete"] {
                assert!(!can(verb, &format!("{resource}.k8s.ovn.org")), "{role} {verb} {resource}");
            }
        }
        let status =
            ["auth", "can-i", "update", "userdefinednetworks", "--subresource=status", "-n", NAMESPACE];
        assert_eq!(tenant.run(&status).out.trim(), "no", "{role} status");
    }
    let tenant = admin.named("tenant-edit", &["system:authenticated"]);
    tenant
        .create(&network(
            "mine",
            "v1",
            json!({"topology": "Layer2", "role": "Primary", "subnets": ["10.0.0.0/24"]}),
        ))
        .text();
    tenant.run(&["delete", "udn", "mine", "-n", NAMESPACE]).text();
    tenant.create(&connection("mine", json!({}))).refused("forbidden");
}

fn can(user: &User, what: &str) -> bool {
    let arguments: Vec<&str> = what.split(' ').collect();
    user.run(&[&["auth", "can-i", "-A"], &arguments[..]].concat()).out.trim() == "yes"
}

fn our_own_roles_have_what_they_need_and_no_more(admin: &User) {
    let manager = admin.cluster_manager();
    for what in [
        "watch userdefinednetworks",
        "update clusteruserdefinednetworks --subresource=status",
        "update clusternetworkconnects --subresource=finalizers",
        "patch clusternetworkconnects",
        "delete network-attachment-definitions",
        "patch pods --subresource=status",
        "watch endpointslices",
        "create endpointslices",
        "patch endpointslices",
        "delete endpointslices",
        "update services --subresource=finalizers",
        "list zonereports",
        "create events",
    ] {
        assert!(can(&manager, what), "the cluster manager cannot {what}");
    }
    for what in [
        "get secrets",
        "patch nodes",
        "create pods",
        "delete userdefinednetworks",
        "create configmaps",
        "update leases",
        "create zonereports",
        "update services",
        "get services",
        "deletecollection endpointslices",
        "impersonate users",
    ] {
        assert!(!can(&manager, what), "the cluster manager can {what}");
    }
    let lease = ["auth", "can-i", "update", "leases", "-n", "causeway"];
    assert_eq!(manager.run(&lease).out.trim(), "yes");
}

fn a_node_has_what_it_needs_and_no_more(admin: &User) {
    let node = admin.node("n1");
    for what in [
        "watch clusternetworkconnects",
        "watch zonereports",
        "patch nodes --subresource=status",
        "create zonereports",
        "watch networkpolicies",
        "watch clusternetworkpolicies",
        "watch adminnetworkpolicies",
        "watch baselineadminnetworkpolicies",
    ] {
        assert!(can(&node, what), "a node cannot {what}");
    }
    for what in [
        "get secrets",
        "patch nodes",
        "patch pods",
        "create network-attachment-definitions",
        "patch clusternetworkconnects",
        "delete zonereports",
        "update zonereports",
        "create endpointslices",
        "create events",
        "get userdefinednetworks",
        "patch networkpolicies",
        "patch clusternetworkpolicies --subresource=status",
    ] {
        assert!(!can(&node, what), "a node can {what}");
    }
}

fn network(name: &str, version: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("k8s.ovn.org/{version}"), "kind": "UserDefinedNetwork",
           "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
}

/// udn-cases A064.
fn columns_show_what_is_in_effect(admin: &User) {
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions = [
        condition("NetworkReady", "True", "Fine"),
        condition("NetworkAllocationSucceeded", "False", "SubnetExhausted"),
    ];
    let status = json!({"status": {"topology": "Layer2", "role": "Primary", "subnets": "10.0.0.0/24", "networkID": 7,
                                   "addresses": "3/250", "vrfName": "udn-7-vrf", "conditions": conditions}});
    admin
        .create(&network(
            "shown",
            "v1",
            json!({"topology": "Layer2", "role": "Primary", "subnets": ["10.0.0.0/24"]}),
        ))
        .text();
    admin.patch(&["udn/shown", "-n", NAMESPACE, "--subresource=status"], &status).text();
    let row = |what: &[&str]| -> Vec<String> {
        let table = admin.run(&[&["get"], what].concat()).text();
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let shown = row(&["udn", "shown", "-n", NAMESPACE]);
    assert_eq!(shown[0], "NAME TOPOLOGY ROLE SUBNETS ADDRESSES ID READY ALLOCATED AGE");
    assert!(shown[1].starts_with("shown Layer2 Primary 10.0.0.0/24 3/250 7 True False "), "{shown:?}");
    let wide = row(&["udn", "shown", "-n", NAMESPACE, "-o", "wide"]);
    assert_eq!(wide[0], "NAME TOPOLOGY ROLE SUBNETS ADDRESSES ID READY ALLOCATED REASON ALLOCATION VRF AGE");
    let row_of_all = "shown Layer2 Primary 10.0.0.0/24 3/250 7 True False Fine SubnetExhausted udn-7-vrf ";
    assert!(wide[1].starts_with(row_of_all), "{wide:?}");
    admin
        .patch(
            &["cnc/blue", "--subresource=status"],
            &json!({"status": {"status": "Failure", "connectedNetworks": "2/3",
                "conditions": [condition("Accepted", "True", "Fine"), condition("Ready", "False", "OVNSetupFailed")],
                "networks": [{"name": "ns/x", "kind": "UserDefinedNetwork", "connected": false, "reason": "IPFamilyMismatch"}]}}),
        )
        .text();
    let connections = row(&["cnc", "blue"]);
    assert_eq!(connections[0], "NAME AGE STATUS NETWORKS READY ACCEPTED");
    assert!(connections[1].ends_with(" Failure 2/3 False True"), "{connections:?}");
    let networks = row(&["cudn", "-o", "wide"]);
    assert!(networks.is_empty() || networks[0].contains("NAMESPACES"), "{networks:?}");
    admin.run(&["get", "udn,cudn,cnc", "-A"]).text();
}

fn documentation_is_served(admin: &User) {
    for (field, part) in [
        ("udn", "isolated from all other networks"),
        ("udn.spec.layer3.subnets.hostSubnet", "a /16"),
        ("udn.status.conditions", "NetworkReady"),
        ("cudn.spec.namespaceSelector", "`{}` selects every namespace"),
        ("cudn.spec.network.localnet.vlan.access.id", "1 to 4094"),
        ("cnc.spec.connectSubnets.networkPrefix", "four times as many addresses as nodes"),
        ("cnc.spec.connectivityEnabled", "services are reachable"),
        ("zonereports.spec.failures", "could not do"),
    ] {
        let text = admin.run(&["explain", field]).text();
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(part), "{field}: {text}");
    }
}

/// udn-cases B016.
fn both_versions_show_the_same(admin: &User) {
    let flat = json!({"topology": "Layer3", "role": "Primary", "mtu": 1400, "subnets": ["10.128.0.0/16/24"], "joinSubnets": ["100.70.0.0/16"]});
    let blocks = json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/24"]}});
    for (name, version, spec) in [("flat", "v1alpha1", flat), ("blocks", "v1", blocks)] {
        admin.create(&network(name, version, spec.clone())).text();
        for read in ["v1", "v1alpha1"] {
            let resource = format!("userdefinednetworks.{read}.k8s.ovn.org");
            let text = admin.run(&["get", &resource, name, "-n", NAMESPACE, "-o", "json"]).text();
            let object: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (&object["apiVersion"], &object["spec"]),
                (&json!(format!("k8s.ovn.org/{read}")), &spec)
            );
        }
    }
}

fn examples_apply(admin: &User) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let out = admin.run(&["apply", "-f", &folder.display().to_string()]).text();
    assert!(out.contains("clusternetworkconnect.k8s.ovn.org/colored-enterprise created"), "{out}");
}

/// Without its binding each policy lets something through that nothing else forbids. Nothing is really written.
fn no_policy_can_be_taken_away(admin: &User) {
    let dry = |user: &User, what: &[&str], patch: Value| {
        user.patch(&[what, &["--dry-run=server"]].concat(), &patch)
    };
    let node = ["node/n1", "--subresource=status"];
    let attempts: [(&str, &dyn Fn() -> Answer); 10] = [
        ("causeway-namespace-label", &|| {
            let labels = json!({"metadata": {"labels": {keys::PRIMARY_NETWORK_LABEL: ""}}});
            dry(admin, &["namespace/without"], labels)
        }),
        ("causeway-cluster-manager-annotations", &|| {
            dry(admin, &["node/n1"], annotation(keys::NODE_ID, "9"))
        }),
        ("causeway-connect-keys", &|| {
            let key = annotation(keys::CONNECT_ROUTER_TUNNEL_KEY, "16715799");
            dry(&admin.cluster_manager(), &["cnc/blue"], key)
        }),
        ("causeway-node-annotations", &|| {
            dry(admin, &["node/n1"], annotation(keys::LAYER2_TOPOLOGY_VERSION, "3.0"))
        }),
        ("causeway-network-status", &|| {
            dry(admin, &["pod/p", "-n", NAMESPACE], annotation(keys::NETWORK_STATUS, "[1]"))
        }),
        ("causeway-node-limits", &|| {
            dry(&admin.node("n1"), &node, json!({"metadata": {"labels": {"c": "d"}}}))
        }),
        ("causeway-zone-reports", &|| dry(admin, &["zonereport/n1"], json!({"spec": {"epoch": 9}}))),
        ("causeway-mirrors", &|| {
            let forged = slice("forged", json!({}), json!({keys::MIRROR_NETWORK: "red_net"}));
            admin.run_with(&["create", "--dry-run=server", "-f", "-"], &forged.to_string())
        }),
        ("causeway-requested-addresses", &|| {
            dry(admin, &["pod/p", "-n", NAMESPACE], annotation(keys::DEFAULT_NETWORK, "[]"))
        }),
        ("causeway-attachments", &|| {
            let rendered = ["network-attachment-definition/rendered", "-n", NAMESPACE];
            dry(admin, &rendered, json!({"spec": {"config": "{   }"}}))
        }),
    ];
    let names: Vec<&str> = attempts.iter().map(|(name, _)| *name).collect();
    let installed = admin.run(&["get", "validatingadmissionpolicybinding", "-o", "name"]).text();
    assert_eq!(installed.lines().count(), names.len() + 1, "these and the one that warns: {installed}");
    for (name, attempt) in attempts {
        attempt().refused(name);
        admin.run(&["delete", "validatingadmissionpolicybinding", name]).text();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !attempt().ok {
            assert!(Instant::now() < deadline, "without {name}: {}", attempt().err);
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}
