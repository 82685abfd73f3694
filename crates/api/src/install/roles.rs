//! Roles: what tenants, the cluster manager and the nodes may do.

use serde_json::{Value, json};

use crate::crd::policy::POLICY_GROUP;

use super::{CLUSTER_MANAGER, FREED_NUMBERS, Installation, NODE, NODE_GROUP};

const READ: [&str; 3] = ["get", "list", "watch"];
/// The kinds of cluster-scoped network policies.
const POLICIES: [&str; 3] =
    ["clusternetworkpolicies", "adminnetworkpolicies", "baselineadminnetworkpolicies"];
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The roles with their bindings and service accounts.
pub fn roles(installation: &Installation) -> Vec<Value> {
    vec![
        tenant_edit(),
        tenant_view(),
        service_account(installation, CLUSTER_MANAGER),
        cluster_role("causeway:cluster-manager", cluster_manager()),
        cluster_binding(installation, "causeway:cluster-manager", CLUSTER_MANAGER, None),
        own_namespace(installation),
        own_namespace_binding(installation, CLUSTER_MANAGER, None),
        service_account(installation, NODE),
        cluster_role("causeway:node", node()),
        cluster_binding(installation, "causeway:node", NODE, Some(NODE_GROUP)),
        freed_numbers(installation),
        own_namespace_binding(installation, NODE, Some(NODE_GROUP)),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

/// Whoever may edit a namespace may have networks there. ClusterUserDefinedNetworks and ClusterNetworkConnects
/// reach across namespaces: no aggregated role has them.
fn tenant_edit() -> Value {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    let mut role = cluster_role(
        "causeway:networks-edit",
        json!([rule("k8s.ovn.org", &["userdefinednetworks"], &verbs)]),
    );
    role["metadata"]["labels"] = json!({
        "rbac.authorization.k8s.io/aggregate-to-admin": "true",
        "rbac.authorization.k8s.io/aggregate-to-edit": "true",
    });
    role
}

fn tenant_view() -> Value {
    let mut role = cluster_role(
        "causeway:networks-view",
        json!([rule("k8s.ovn.org", &["userdefinednetworks", "userdefinednetworks/status"], &READ)]),
    );
    role["metadata"]["labels"] = json!({
        "rbac.authorization.k8s.io/aggregate-to-admin": "true",
        "rbac.authorization.k8s.io/aggregate-to-edit": "true",
        "rbac.authorization.k8s.io/aggregate-to-view": "true",
    });
    role
}

/// Annotations of nodes and pods are written through their status, which reaches less than the whole object.
fn cluster_manager() -> Value {
    let networks = ["userdefinednetworks", "clusteruserdefinednetworks", "clusternetworkconnects"];
    let of = |suffix: &str| networks.map(|resource| format!("{resource}/{suffix}"));
    let (status, finalizers) = (of("status"), of("finalizers"));
    json!([
        rule("k8s.ovn.org", &networks, &["get", "list", "watch", "patch", "update"]),
        rule("k8s.ovn.org", &status.each_ref().map(String::as_str), &["patch", "update"]),
        rule("k8s.ovn.org", &finalizers.each_ref().map(String::as_str), &["update"]),
        rule("k8s.ovn.org", &["zonereports", "vteps"], &READ),
        rule("k8s.ovn.org", &["vteps/status"], &["patch", "update"]),
        rule(
            "k8s.cni.cncf.io",
            &["network-attachment-definitions"],
            &["get", "list", "watch", "create", "update", "patch", "delete"],
        ),
        rule("", &["nodes", "pods", "namespaces"], &READ),
        rule("", &["nodes/status", "pods/status"], &["get", "patch"]),
        rule("networking.k8s.io", &["networkpolicies"], &READ),
        rule(POLICY_GROUP, &POLICIES, &READ),
        rule(
            POLICY_GROUP,
            &POLICIES.map(|kind| format!("{kind}/status")).each_ref().map(String::as_str),
            &["patch", "update"]
        ),
        rule("discovery.k8s.io", &["endpointslices"], &["get", "list", "watch", "create", "patch", "delete"]),
        // A mirror is owned by what owns its source; where servers check it, that needs this right.
        rule("", &["services/finalizers", "endpoints/finalizers"], &["update"]),
        rule("", &["events"], &["create", "patch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ])
}

/// What a node's zone is made of. Pods, services and EndpointSlices are read of the whole cluster: a layer2 network has a port of
/// each of its pods in every zone, and load balancers have all endpoints. Reports are listed, to see one's own.
/// No right about events: nobody could check what a node's event is about. The cluster manager tells users.
fn node() -> Value {
    json!([
        rule("k8s.ovn.org", &["clusternetworkconnects"], &READ),
        rule("k8s.ovn.org", &["zonereports"], &["get", "list", "watch", "create", "patch"]),
        rule("k8s.cni.cncf.io", &["network-attachment-definitions"], &READ),
        rule("", &["nodes", "pods", "namespaces", "services"], &READ),
        rule("", &["nodes/status", "pods/status"], &["get", "patch"]),
        rule("discovery.k8s.io", &["endpointslices"], &READ),
        rule("networking.k8s.io", &["networkpolicies"], &READ),
        rule(POLICY_GROUP, &POLICIES, &READ),
    ])
}

/// The cluster manager's lease, and its memory of freed numbers.
fn own_namespace(installation: &Installation) -> Value {
    let verbs = ["get", "list", "watch", "create", "update", "patch"];
    json!({
        "apiVersion": RBAC,
        "kind": "Role",
        "metadata": {"name": CLUSTER_MANAGER, "namespace": installation.namespace},
        "rules": [rule("coordination.k8s.io", &["leases"], &verbs), rule("", &["configmaps"], &verbs)],
    })
}

/// Nodes read which numbers must be gone from their zones, and nothing else of the namespace.
fn freed_numbers(installation: &Installation) -> Value {
    let mut rule = rule("", &["configmaps"], &READ);
    rule["resourceNames"] = json!([FREED_NUMBERS]);
    json!({
        "apiVersion": RBAC,
        "kind": "Role",
        "metadata": {"name": NODE, "namespace": installation.namespace},
        "rules": [rule],
    })
}

fn own_namespace_binding(installation: &Installation, role: &str, group: Option<&str>) -> Value {
    json!({
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": installation.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": subjects(installation, role, group),
    })
}

fn service_account(installation: &Installation, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": installation.namespace},
    })
}

fn subject(installation: &Installation, account: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": account, "namespace": installation.namespace})
}

/// The service account of a role, and a group beside it.
fn subjects(installation: &Installation, account: &str, group: Option<&str>) -> Vec<Value> {
    let group =
        group.map(|group| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}));
    [subject(installation, account)].into_iter().chain(group).collect()
}

fn cluster_binding(installation: &Installation, role: &str, account: &str, group: Option<&str>) -> Value {
    json!({
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects(installation, account, group),
    })
}
