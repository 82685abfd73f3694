//! Admission policies: each managed annotation has one writer, and a namespace keeps its kind of network.

use serde_json::{Value, json};

use super::{Installation, NODE_USER_PREFIX};
use crate::annotations::keys;
use crate::service::{MOST_EXTERNAL_IPS, MOST_SOURCE_RANGES};

/// The policies with their bindings.
pub fn policies(installation: &Installation) -> Vec<Value> {
    let all = [
        namespace_label(),
        cluster_manager_annotations(installation),
        connect_keys(),
        node_annotations(installation),
        network_status(installation),
        node_limits(installation),
        zone_reports(installation),
        mirrors(installation),
        requested_addresses(),
        attachments(installation),
    ];
    let refusals = all.into_iter().map(|policy| (policy, Effect::Refuses));
    let warnings = [(services(), Effect::Warns)];
    let both = refusals.chain(warnings);
    both.flat_map(|(policy, effect)| [policy.policy(effect), policy.binding(effect)]).collect()
}

/// What becomes of a request that a policy objects to.
#[derive(Clone, Copy)]
enum Effect {
    Refuses,
    Warns,
}

impl Effect {
    fn action(self) -> &'static str {
        match self {
            Self::Refuses => "Deny",
            Self::Warns => "Warn",
        }
    }

    /// Who would only be warned is not stopped by a policy that fails.
    fn on_failure(self) -> &'static str {
        match self {
            Self::Refuses => "Fail",
            Self::Warns => "Ignore",
        }
    }
}

struct Policy {
    name: &'static str,
    rules: Value,
    conditions: Value,
    variables: Vec<Value>,
    validations: Value,
}

impl Policy {
    fn policy(&self, effect: Effect) -> Value {
        let mut spec = json!({
            "failurePolicy": effect.on_failure(),
            "matchConstraints": {"resourceRules": self.rules},
            "validations": self.validations,
        });
        if !self.variables.is_empty() {
            spec["variables"] = Value::Array(self.variables.clone());
        }
        if !self.conditions.is_null() {
            spec["matchConditions"] = self.conditions.clone();
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": self.name},
            "spec": spec,
        })
    }

    fn binding(&self, effect: Effect) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": self.name},
            "spec": {"policyName": self.name, "validationActions": [effect.action()]},
        })
    }
}

fn rule(groups: &[&str], resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": groups, "apiVersions": ["*"], "resources": resources, "operations": operations})
}

fn variable(name: &str, expression: impl Into<String>) -> Value {
    json!({"name": name, "expression": expression.into()})
}

/// Texts as CEL writes them in a list.
fn list(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("'{text}'")).collect();
    quoted.join(", ")
}

/// The keys among `keys` whose annotation the request adds, changes or removes. The `=` in front tells an empty
/// annotation from none.
fn changed(keys: &[&str]) -> Value {
    let of = |object: &str| {
        format!(
            "(has({object}.metadata.annotations) && k in {object}.metadata.annotations ? \
             '=' + {object}.metadata.annotations[k] : '')"
        )
    };
    variable(
        "changed",
        format!(
            "[{}].filter(k, {} != (oldObject == null ? '' : {}))",
            list(keys),
            of("object"),
            of("oldObject")
        ),
    )
}

/// The name of the node that asks, or nothing. A token names its node truthfully for every service account,
/// so the account is checked too.
fn node(installation: &Installation) -> Value {
    let length = NODE_USER_PREFIX.len();
    let extra = "authentication.kubernetes.io/node-name";
    variable(
        "node",
        format!(
            "request.userInfo.username.startsWith('{NODE_USER_PREFIX}') ? request.userInfo.username.substring({length}) : \
             request.userInfo.username == '{}' && has(request.userInfo.extra) && '{extra}' in request.userInfo.extra ? \
             string(request.userInfo.extra['{extra}'][0]) : ''",
            installation.node_user()
        ),
    )
}

/// Whether a node asks, whichever; one whose token does not name it has no name.
fn is_node(installation: &Installation) -> String {
    format!(
        "request.userInfo.username.startsWith('{NODE_USER_PREFIX}') || request.userInfo.username == '{}'",
        installation.node_user()
    )
}

fn namespace_label() -> Policy {
    let label = keys::PRIMARY_NETWORK_LABEL;
    let has =
        |object: &str| format!("(has({object}.metadata.labels) && '{label}' in {object}.metadata.labels)");
    Policy {
        name: "causeway-namespace-label",
        rules: json!([rule(&[""], &["namespaces", "namespaces/status", "namespaces/finalize"], &["UPDATE"])]),
        conditions: Value::Null,
        variables: Vec::new(),
        validations: json!([{
            "expression": format!("{} == {}", has("object"), has("oldObject")),
            "message": format!("The '{label}' label cannot be added/removed after the namespace was created"),
        }]),
    }
}

/// Every way to write an annotation of the objects: the object itself, its status, and for pods a binding,
/// whose annotations the API server copies to the pod.
fn cluster_manager_annotations(installation: &Installation) -> Policy {
    let write = &["CREATE", "UPDATE"];
    Policy {
        name: "causeway-cluster-manager-annotations",
        rules: json!([
            rule(&[""], &["pods", "pods/status", "pods/binding", "bindings", "nodes", "nodes/status"], write,),
            rule(&["k8s.cni.cncf.io"], &["network-attachment-definitions"], write),
            rule(&["k8s.ovn.org"], &["clusternetworkconnects"], write),
        ]),
        conditions: Value::Null,
        variables: vec![changed(&keys::BY_CLUSTER_MANAGER)],
        validations: json!([{
            "expression": format!(
                "size(variables.changed) == 0 || request.userInfo.username == '{}'",
                installation.cluster_manager_user()
            ),
            "messageExpression": "'only the cluster manager of Causeway writes ' + variables.changed.join(', ')",
        }]),
    }
}

fn connect_keys() -> Policy {
    Policy {
        name: "causeway-connect-keys",
        rules: json!([rule(&["k8s.ovn.org"], &["clusternetworkconnects"], &["UPDATE"])]),
        conditions: Value::Null,
        variables: vec![variable(
            "changed",
            format!(
                "[{}].filter(k, has(oldObject.metadata.annotations) && k in oldObject.metadata.annotations && \
                 !(has(object.metadata.annotations) && k in object.metadata.annotations && \
                 object.metadata.annotations[k] == oldObject.metadata.annotations[k]))",
                list(&keys::WRITTEN_ONCE)
            ),
        )],
        validations: json!([{
            "expression": "size(variables.changed) == 0",
            "messageExpression": "'nobody changes or removes ' + variables.changed.join(', ') + \
                                  ' once it is there: create the ClusterNetworkConnect anew'",
        }]),
    }
}

fn node_annotations(installation: &Installation) -> Policy {
    Policy {
        name: "causeway-node-annotations",
        rules: json!([rule(&[""], &["nodes", "nodes/status"], &["CREATE", "UPDATE"])]),
        conditions: Value::Null,
        variables: vec![changed(&keys::BY_NODE), node(installation)],
        validations: json!([{
            "expression": "size(variables.changed) == 0 || variables.node == object.metadata.name",
            "messageExpression": "'only the Causeway of node ' + object.metadata.name + ' writes ' + variables.changed.join(', ')",
        }]),
    }
}

fn network_status(installation: &Installation) -> Policy {
    let others: Vec<String> = installation.status_writers.iter().map(|user| format!("'{user}'")).collect();
    Policy {
        name: "causeway-network-status",
        rules: json!([rule(
            &[""],
            &["pods", "pods/status", "pods/binding", "bindings"],
            &["CREATE", "UPDATE"]
        )]),
        conditions: Value::Null,
        variables: vec![changed(&[keys::NETWORK_STATUS]), node(installation)],
        validations: json!([{
            "expression": format!(
                "size(variables.changed) == 0 || request.userInfo.username in [{}] || (variables.node != '' && \
                 request.resource.resource == 'pods' && request.subResource != 'binding' && \
                 has(object.spec.nodeName) && object.spec.nodeName == variables.node)",
                others.join(", ")
            ),
            "message": format!("only the Causeway of the pod's node writes {}", keys::NETWORK_STATUS),
        }]),
    }
}

/// A node may write annotations of its own Node and the network status of the pods bound to it, and nothing else about
/// them: the right to patch a status would otherwise reach every status and all metadata.
fn node_limits(installation: &Installation) -> Policy {
    Policy {
        name: "causeway-node-limits",
        rules: json!([rule(&[""], &["nodes", "nodes/status", "pods", "pods/status"], &["UPDATE"])]),
        conditions: json!([{"name": "by-a-node", "expression": is_node(installation)}]),
        variables: vec![node(installation)],
        validations: json!([
            {
                "expression": "request.resource.resource == 'nodes' ? object.metadata.name == variables.node : \
                               has(object.spec.nodeName) && object.spec.nodeName == variables.node",
                "message": "a node of Causeway writes its own Node and the pods bound to it",
            },
            {
                "expression": same("metadata.labels"),
                "message": "a node of Causeway writes annotations, not labels",
            },
            {
                "expression": same("metadata.finalizers"),
                "message": "a node of Causeway writes annotations, not finalizers",
            },
            {
                "expression": same("metadata.ownerReferences"),
                "message": "a node of Causeway writes annotations, not owner references",
            },
            {
                "expression": format!("request.resource.resource == 'nodes' || ({})", only(&[keys::NETWORK_STATUS])),
                "message": format!("a node of Causeway writes no annotation of a pod but {}", keys::NETWORK_STATUS),
            },
            {
                "expression": format!("request.resource.resource == 'pods' || ({})", only(&keys::BY_NODE)),
                "message": "a node of Causeway writes no annotation of its Node but those that are its own",
            },
            {
                "expression": same("status"),
                "message": "a node of Causeway writes annotations, not the status",
            },
        ]),
    }
}

/// Whether a field stays as it is.
fn same(path: &str) -> String {
    format!(
        "has(object.{path}) == has(oldObject.{path}) && (!has(object.{path}) || object.{path} == oldObject.{path})"
    )
}

/// Whether no annotations but these are added, changed or removed.
fn only(keys: &[&str]) -> String {
    let keys = list(keys);
    let kept = |from: &str, to: &str| {
        format!(
            "(!has({from}.metadata.annotations) || {from}.metadata.annotations.all(k, k in [{keys}] || \
             (has({to}.metadata.annotations) && k in {to}.metadata.annotations && \
             {to}.metadata.annotations[k] == {from}.metadata.annotations[k])))"
        )
    };
    format!("{} && {}", kept("object", "oldObject"), kept("oldObject", "object"))
}

/// A node writes its own report, and of its metadata nothing but that it goes with its Node. Others, the garbage collector for
/// one, may write metadata of any report, and nothing that it says.
fn zone_reports(installation: &Installation) -> Policy {
    let kept = |path: &str| format!("(oldObject == null ? !has(object.{path}) : ({}))", same(path));
    let own_node = "(!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(r, \
                    r.apiVersion == 'v1' && r.kind == 'Node' && r.name == variables.node && \
                    !(has(r.blockOwnerDeletion) && r.blockOwnerDeletion)))";
    let metadata =
        [kept("metadata.labels"), kept("metadata.annotations"), kept("metadata.finalizers"), own_node.into()];
    Policy {
        name: "causeway-zone-reports",
        rules: json!([rule(&["k8s.ovn.org"], &["zonereports"], &["CREATE", "UPDATE"])]),
        conditions: Value::Null,
        variables: vec![node(installation), variable("isNode", is_node(installation))],
        validations: json!([
            {
                "expression": "variables.isNode ? variables.node == object.metadata.name : \
                               oldObject != null && object.spec == oldObject.spec",
                "messageExpression": "'only the Causeway of node ' + object.metadata.name + ' writes its ZoneReport'",
            },
            {
                "expression": format!("!variables.isNode || ({})", metadata.join(" && ")),
                "message": "of the metadata of its ZoneReport a node writes only that its Node owns it",
            },
        ]),
    }
}

/// A tenant may write EndpointSlices. One that looked like a mirror and named somebody else's network would have his
/// addresses taken for addresses there, so whatever tells a mirror from other slices is the cluster manager's to write.
/// Everybody may delete a mirror: it is made anew. The garbage collector may write who owns it.
fn mirrors(installation: &Installation) -> Policy {
    let has = |object: &str| {
        let labels = format!(
            "(has({object}.metadata.labels) && ('{}' in {object}.metadata.labels || \
             ('{label}' in {object}.metadata.labels && {object}.metadata.labels['{label}'] == '{}')))",
            keys::MIRRORED_SERVICE_LABEL,
            keys::SLICE_MIRRORS,
            label = keys::SLICE_MANAGED_BY_LABEL,
        );
        format!(
            "({labels} || (has({object}.metadata.annotations) && \
             [{}].exists(k, k in {object}.metadata.annotations)))",
            list(&keys::OF_MIRROR)
        )
    };
    let kept = ["metadata.labels", "metadata.annotations", "addressType", "ports", "endpoints"]
        .map(|path| format!("({})", same(path)));
    Policy {
        name: "causeway-mirrors",
        rules: json!([rule(&["discovery.k8s.io"], &["endpointslices"], &["CREATE", "UPDATE"])]),
        conditions: json!([{
            "name": "is-or-was-a-mirror",
            "expression": format!("{} || (oldObject != null && {})", has("object"), has("oldObject")),
        }]),
        variables: Vec::new(),
        validations: json!([{
            "expression": format!(
                "request.userInfo.username == '{}' || (oldObject != null && {})",
                installation.cluster_manager_user(),
                kept.join(" && ")
            ),
            "message": "only the cluster manager of Causeway writes EndpointSlices that mirror others",
        }]),
    }
}

/// What a pod asks for on its primary network is decided once, when it gets its addresses.
fn requested_addresses() -> Policy {
    Policy {
        name: "causeway-requested-addresses",
        rules: json!([
            rule(&[""], &["pods", "pods/status"], &["UPDATE"]),
            rule(&[""], &["pods/binding", "bindings"], &["CREATE"])
        ]),
        conditions: Value::Null,
        variables: vec![changed(&[keys::DEFAULT_NETWORK])],
        validations: json!([{
            "expression": "size(variables.changed) == 0",
            "message": format!(
                "{} can't be added, changed or removed after the pod was created: create the pod anew",
                keys::DEFAULT_NETWORK
            ),
        }]),
    }
}

/// A rendered NAD says what the cluster manager has made of a network, and zones believe it: nobody else changes it. The
/// configuration of a NAD that is written by hand stays as it is once it has a number, for pods may use it. The garbage collector
/// may write who owns a NAD; everybody may delete one, for it goes only after its pods.
fn attachments(installation: &Installation) -> Policy {
    let rendered = "(has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(o, has(o.controller) && \
                    o.controller && o.apiVersion.startsWith('k8s.ovn.org/') && \
                    o.kind in ['UserDefinedNetwork', 'ClusterUserDefinedNetwork']))";
    let numbered = format!(
        "(has(oldObject.metadata.annotations) && '{}' in oldObject.metadata.annotations)",
        keys::NETWORK_ID
    );
    let kept = [
        "spec",
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences",
        "metadata.finalizers",
    ]
    .map(|path| format!("({})", same(path)));
    let others = [
        installation.cluster_manager_user(),
        "system:serviceaccount:kube-system:generic-garbage-collector".to_owned(),
    ];
    let others: Vec<String> = others.iter().map(|user| format!("'{user}'")).collect();
    Policy {
        name: "causeway-attachments",
        rules: json!([rule(&["k8s.cni.cncf.io"], &["network-attachment-definitions"], &["UPDATE"])]),
        conditions: json!([{
            "name": "by-somebody-else",
            "expression": format!("!(request.userInfo.username in [{}])", others.join(", ")),
        }]),
        variables: Vec::new(),
        validations: json!([
            {
                "expression": format!("!{rendered} || ({})", kept.join(" && ")),
                "message": "this NetworkAttachmentDefinition is rendered: change the network that it comes from",
            },
            {
                "expression": format!("!{numbered} || ({})", same("spec")),
                "message": "this NetworkAttachmentDefinition is a network with a number: create another one instead of changing its \
                            configuration",
            },
        ]),
    }
}

/// Lists of which not all counts. The API server has no bound for them, so whoever writes a longer one is told at once: a service has
/// nothing that says it later.
fn services() -> Policy {
    let count = |list: &str| format!("(has(object.spec.{list}) ? size(object.spec.{list}) : 0)");
    let told = |list: &str, most: usize, words: &str| {
        json!({
            "expression": format!("variables.{list} <= {most}"),
            "messageExpression": format!("'spec.{list} has ' + string(variables.{list}) + ' entries: {words}'"),
        })
    };
    let ranges = format!(
        "at most {MOST_SOURCE_RANGES} count, when those that lie side by side are merged, and nobody gets in by the load balancer if \
         more are left"
    );
    let lists = ["loadBalancerSourceRanges", "externalIPs"];
    Policy {
        name: "causeway-services",
        rules: json!([rule(&[""], &["services"], &["CREATE", "UPDATE"])]),
        conditions: Value::Null,
        variables: lists.map(|list| variable(list, count(list))).into(),
        validations: json!([
            told("loadBalancerSourceRanges", MOST_SOURCE_RANGES, &ranges),
            told(
                "externalIPs",
                MOST_EXTERNAL_IPS,
                &format!("the first {MOST_EXTERNAL_IPS} count, the others do not")
            ),
        ]),
    }
}
