//! On which networks a judge's namespaces are, without the judge knowing.
//!
//! A namespace has its primary network from its creation on, and judges create their namespaces themselves: a mutating admission
//! policy labels them on their way in, and again whenever a judge sets labels of its own. Judges learn a pod's address from its status, where the kubelet writes that of the default
//! network; another policy writes the one that counts. A third one stops servers of a protocol that no kernel at hand has, which would
//! keep their pods from getting ready.

use anyhow::Result;
use causeway_sandbox::harness::Sandbox;
use serde_json::{Value, json};

use super::Judge;

/// Where a judge's namespaces are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Network {
    /// On the default network.
    Default,
    /// All on one layer3 network.
    One,
    /// On three networks of both topologies, joined by a ClusterNetworkConnect.
    Three,
}

impl Network {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Default, Self::One, Self::Three];

    /// What it is called on the command line and in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::One => "one",
            Self::Three => "three",
        }
    }
}

/// Which network of the three a namespace is on. Of the houses of the policy API's tests one is all on the hosts' network.
const PLACES: [(&str, &str); 3] = [
    ("judge-a", r"^(([a-z]+-)*x(-[0-9]+)?|network-policy-conformance-gryffindor)$"),
    ("judge-b", r"^(([a-z]+-)*y(-[0-9]+)?|network-policy-conformance-(slytherin|hufflepuff))$"),
    ("judge-c", r"^(([a-z]+-)*z(-[0-9]+)?|network-policy-conformance-ravenclaw)$"),
];
const LABEL: &str = "judge.causeway.invalid/network";
/// What containers do that must not do what they were made for.
const PAUSE: [&str; 2] = ["/agnhost", "pause"];
const PRIMARY: &str = "k8s.ovn.org/primary-user-defined-network";

/// Makes the networks and the policies that put namespaces on them.
pub(super) fn prepare(sandbox: &Sandbox, judge: Judge, network: Network) -> Result<()> {
    wait_for_the_last_judge(sandbox, judge)?;
    let mut objects = match network {
        Network::Default => Vec::new(),
        Network::One => vec![layer3("judge-a", 41)],
        Network::Three => vec![layer3("judge-a", 41), layer2("judge-b", 42), layer3("judge-c", 43), road()],
    };
    let mut policies = Vec::new();
    if network != Network::Default {
        policies.extend([namespaces(network), addresses()]);
    }
    if matches!(judge, Judge::Cnp | Judge::Anp) {
        policies.push(without_sctp());
    }
    objects.extend(policies.into_iter().flatten());
    if objects.is_empty() {
        return Ok(());
    }
    sandbox.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string())?;
    if network != Network::Default {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nobody-x"}});
        wait_for(sandbox, &namespace, |made| made["metadata"]["labels"].get(PRIMARY).is_some())?;
    }
    if matches!(judge, Judge::Cnp | Judge::Anp) {
        wait_for(sandbox, &server_of_sctp(), |made| {
            made["spec"]["containers"][0]["command"] == json!(PAUSE)
        })?;
    }
    Ok(())
}

/// Judges delete their namespaces and do not wait for it: whoever uses the same ones next would find the ruins.
fn wait_for_the_last_judge(sandbox: &Sandbox, judge: Judge) -> Result<()> {
    let is_wanted = |name: &str| match judge {
        Judge::Cnp | Judge::Anp => name.starts_with("network-policy-conformance-"),
        Judge::Cyclonus => ["x", "y", "z"].contains(&name),
        Judge::E2e | Judge::Netpol => false,
    };
    sandbox.wait_for("the namespaces of an earlier judge to be gone", || {
        let names = sandbox.kubectl(&["get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}"])?;
        Ok((!names.split(' ').any(is_wanted)).then_some(()))
    })?;
    Ok(())
}

/// Policies take effect a moment after they are created: an object is as it would be, without being there.
fn wait_for(sandbox: &Sandbox, object: &Value, is_changed: impl Fn(&Value) -> bool) -> Result<()> {
    let text = object.to_string();
    sandbox.wait_for("admission policies to take effect", || {
        let made = sandbox.kubectl_with(&["create", "-f", "-", "--dry-run=server", "-o", "json"], &text)?;
        let made: Value = serde_json::from_str(&made).unwrap_or_default();
        Ok(is_changed(&made).then_some(()))
    })?;
    Ok(())
}

/// A pod of the kind that does not get ready.
fn server_of_sctp() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sctp", "namespace": "default"},
        "spec": {"containers": [{"name": "server", "image": "any", "command": ["/agnhost", "porter"],
            "env": [{"name": "SERVE_SCTP_PORT_9003", "value": "any"}]}]},
    })
}

fn cudn(name: &str, network: Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
        "metadata": {"name": name, "labels": {"judge": "yes"}},
        "spec": {"namespaceSelector": {"matchLabels": {LABEL: name}}, "network": network},
    })
}

fn layer3(name: &str, number: u8) -> Value {
    let subnets = json!([{"cidr": format!("10.{number}.0.0/16")}, {"cidr": format!("fd{number}::/48")}]);
    cudn(name, json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}}))
}

fn layer2(name: &str, number: u8) -> Value {
    let subnets = json!([format!("10.{number}.0.0/16"), format!("fd{number}::/48")]);
    cudn(name, json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": subnets}}))
}

fn road() -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": "judge"},
        "spec": {
            "networkSelectors": [{
                "networkSelectionType": "ClusterUserDefinedNetworks",
                "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"judge": "yes"}}},
            }],
            "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}, {"cidr": "fd01::/64", "networkPrefix": 96}],
            "connectivity": ["PodNetwork", "ServiceNetwork"],
        },
    })
}

/// A mutating admission policy with its binding.
fn mutation(name: &str, resource: &str, operations: &[&str], condition: &str, patch: &str) -> [Value; 2] {
    let api = "admissionregistration.k8s.io/v1";
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": [resource], "operations": operations});
    [
        json!({
            "apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "meant", "expression": condition}],
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
            },
        }),
        json!({
            "apiVersion": api, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name},
        }),
    ]
}

/// Namespaces of judges are put on their network, and stay there when a judge replaces all labels.
fn namespaces(network: Network) -> [Value; 2] {
    let matches = |pattern: &str| format!("object.metadata.name.matches(r'{pattern}')");
    let any = PLACES.map(|(_, pattern)| matches(pattern)).join(" || ");
    let place = match network {
        Network::Three => {
            let [(a, first), (b, second), (c, _)] = PLACES;
            format!("({} ? '{a}' : {} ? '{b}' : '{c}')", matches(first), matches(second))
        }
        _ => format!("'{}'", PLACES[0].0),
    };
    let add = |label: &str, value: &str| {
        format!(
            "JSONPatch{{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('{label}'), value: {value}}}"
        )
    };
    let patch = format!("[{}, {}]", add(PRIMARY, "''"), add(LABEL, &place));
    mutation("judge-namespaces", "namespaces", &["CREATE", "UPDATE"], &any, &patch)
}

/// The status of a pod has its address on its primary network. In the annotation that is the entry whose key has a slash.
fn addresses() -> [Value; 2] {
    let annotation = "object.metadata.annotations['k8s.ovn.org/pod-networks']";
    let found = format!(r#"{annotation}.find('"[^"/]+/[^"/]+":\\{{"ip_addresses":\\["[0-9a-f.:]+/')"#);
    let condition = format!(
        "has(object.status.podIP) && has(object.metadata.annotations) && \
         'k8s.ovn.org/pod-networks' in object.metadata.annotations && {found} != ''"
    );
    let address = format!("{found}.substring({found}.lastIndexOf('\"') + 1, size({found}) - 1)");
    let patch = format!(
        "[JSONPatch{{op: 'replace', path: '/status/podIP', value: {address}}}, \
         JSONPatch{{op: 'replace', path: '/status/podIPs', value: [{{'ip': {address}}}]}}]"
    );
    mutation("judge-addresses", "pods/status", &["UPDATE"], &condition, &patch)
}

/// Servers of SCTP do not start.
fn without_sctp() -> [Value; 2] {
    let serves = |container: &str| {
        format!("has({container}.env) && {container}.env.exists(e, e.name.startsWith('SERVE_SCTP_PORT_'))")
    };
    let condition = format!("object.spec.containers.exists(c, {})", serves("c"));
    let numbers = (0..10).map(|number: usize| number.to_string()).collect::<Vec<_>>().join(", ");
    let patch = format!(
        "[{numbers}].filter(i, i < size(object.spec.containers) && {}).map(i, JSONPatch{{op: 'add', \
         path: '/spec/containers/' + string(i) + '/command', value: ['{}']}})",
        serves("object.spec.containers[i]"),
        PAUSE.join("', '")
    );
    mutation("judge-without-sctp", "pods", &["CREATE"], &condition, &patch)
}
