//! Addresses for services of type LoadBalancer: the process that gives them, and its rights.

use super::unit::{Body, Command, Probe, Process, Task, Unit};
use super::{CONTROL, Places};
use serde_json::{Value, json};

/// What its certificate is called.
pub(super) const NAME: &str = "pool";
/// As whom it speaks to the API server.
pub(super) const USER: &str = "causeway-sandbox:pool";
const STEP: &str = "addresses of services";

pub(super) fn units(places: &Places) -> [Unit; 2] {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": rights()});
    let apply = places.apply().input(format!("{list:#}\n"));
    let rights = Unit::new("pool-rights", STEP, Body::Task(Task::Run(vec![apply]))).after(["kube-apiserver"]);
    let words = [
        places.own.display().to_string(),
        "sandbox".into(),
        "internal".into(),
        "pool".into(),
        format!("--kubeconfig={}", places.certificate(&format!("{NAME}.kubeconfig"))),
    ];
    let command = Command::new(words).within(CONTROL);
    let process = Process { command, files: Vec::new(), probe: Probe::Runs };
    [rights, Unit::new("pool", STEP, Body::Process(process)).after(["pool-rights"])]
}

/// It looks at services, their endpoints and nodes, and writes the status of services and events.
fn rights() -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let look = ["list", "watch"];
    let role = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": USER},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "nodes"], "verbs": look},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": look},
            {"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    });
    [role, binding]
}
