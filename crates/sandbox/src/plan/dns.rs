//! DNS of the cluster: CoreDNS as `kube-dns`, as distributions install it, with the rights that it needs.

use super::Places;
use super::unit::{Body, Task, Unit};
use crate::address::{Family, dns_service};
use crate::wanted::{Plugin, Wanted};
use serde_json::{Value, json};

/// The domain of the cluster's names.
pub(super) const DOMAIN: &str = "cluster.local";
/// One of the names in the archive of the tool image: CoreDNS and nothing else.
const IMAGE: &str = "localhost/causeway-dns:1";
/// What everything is called but the service, whose name programs know.
const NAME: &str = "coredns";
const NAMESPACE: &str = "kube-system";
/// How soon the pod of a lost node starts elsewhere, in seconds after the node was found lost.
const LOST: u8 = 10;

/// Where pods ask for names: nowhere if nobody carries services.
pub(super) fn resolvers(wanted: &Wanted) -> Vec<String> {
    let families = wanted.families.iter().filter(|_| wanted.plugin == Plugin::Causeway);
    families.map(|family| dns_service(*family).to_string()).collect()
}

/// The objects are there; and, as long as there is a node for them, names are answered.
pub(super) fn cluster(wanted: &Wanted, places: &Places) -> Vec<Unit> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects(wanted)});
    let apply = places.apply().input(format!("{list:#}\n"));
    let task = |id: &str, command| Unit::new(id, "DNS", Body::Task(Task::Run(vec![command])));
    let objects = task("dns", apply).after(["kube-apiserver"]);
    let deployment = format!("deployment/{NAME}");
    let wait = ["wait", "-n", NAMESPACE, "--for=condition=Available", &deployment, "--timeout=20s"];
    let ready = task("dns-ready", places.kubectl(wait)).after(["dns"]);
    std::iter::once(objects).chain(wanted.running().next().map(|_| ready)).collect()
}

fn objects(wanted: &Wanted) -> Vec<Value> {
    let meta = || json!({"name": NAME, "namespace": NAMESPACE, "labels": labels()});
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta()}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(), "data": {"Corefile": COREFILE}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(), "spec": deployment(wanted)}),
        service(&wanted.families),
    ];
    objects.extend(rights());
    objects
}

fn labels() -> Value {
    json!({"k8s-app": "kube-dns"})
}

/// Names of the cluster change at once, so they are not remembered; others are asked for where the node itself asks.
const COREFILE: &str = "\
.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    forward . /etc/resolv.conf
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    loop
    reload
}
";

/// What CoreDNS lists and watches; it reads nothing else and writes nothing.
fn rights() -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let name = "system:coredns";
    let role = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    });
    [role, binding]
}

fn service(families: &[Family]) -> Value {
    let addresses: Vec<String> = families.iter().map(|family| dns_service(*family).to_string()).collect();
    let names: Vec<&str> = families.iter().map(|family| family_name(*family)).collect();
    let port =
        |name: &str, protocol: &str, port: u16| json!({"name": name, "protocol": protocol, "port": port});
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": NAMESPACE, "labels": labels()},
        "spec": {
            "selector": labels(),
            "clusterIP": addresses.first(),
            "clusterIPs": addresses,
            "ipFamilies": names,
            "ipFamilyPolicy": if families.len() > 1 { "RequireDualStack" } else { "SingleStack" },
            "ports": [port("dns", "UDP", 53), port("dns-tcp", "TCP", 53)],
        },
    })
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

/// Two pods on two nodes, so that names are answered while one of them is off.
fn deployment(wanted: &Wanted) -> Value {
    let spread = json!({
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels()},
    });
    let lost = ["not-ready", "unreachable"].map(|what| {
        json!({
            "key": format!("node.kubernetes.io/{what}"),
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": LOST,
        })
    });
    json!({
        "replicas": wanted.nodes.len().min(2),
        "strategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "selector": {"matchLabels": labels()},
        "template": {
            "metadata": {"labels": labels()},
            "spec": {
                "serviceAccountName": NAME,
                // Its own names come from where the node asks, not from itself.
                "dnsPolicy": "Default",
                "priorityClassName": "system-cluster-critical",
                "topologySpreadConstraints": [spread],
                "tolerations": lost,
                "terminationGracePeriodSeconds": 5,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65534, "runAsGroup": 65534},
                "containers": [container()],
                "volumes": [{"name": "config", "configMap": {"name": NAME}}],
            },
        },
    })
}

fn container() -> Value {
    let probe = |path: &str, port: u16, seconds: u8| json!({"httpGet": {"path": path, "port": port}, "periodSeconds": seconds});
    json!({
        "name": NAME,
        "image": IMAGE,
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "protocol": "UDP", "containerPort": 53},
            {"name": "dns-tcp", "protocol": "TCP", "containerPort": 53},
        ],
        "readinessProbe": probe("/ready", 8181, 1),
        "livenessProbe": probe("/health", 8080, 10),
        "resources": {"requests": {"cpu": "10m", "memory": "30Mi"}, "limits": {"memory": "170Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": true}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(nodes: u8, families: &[Family]) -> Wanted {
        Wanted::new("test", nodes, families.to_vec(), 1).unwrap()
    }

    #[test]
    fn the_service_has_the_tenth_address_of_each_family() {
        let service = service(&[Family::Ipv6, Family::Ipv4]);
        assert_eq!(service["spec"]["clusterIPs"], json!(["fd00:10:96::a", "10.96.0.10"]));
        assert_eq!(service["spec"]["ipFamilyPolicy"], "RequireDualStack");
        assert_eq!(resolvers(&wanted(1, &[Family::Ipv4])), ["10.96.0.10"]);
    }

    #[test]
    fn without_services_pods_have_no_resolver_in_the_cluster() {
        let bridge = Wanted { plugin: Plugin::Bridge, ..wanted(1, &[Family::Ipv4]) };
        assert_eq!(resolvers(&bridge), [""; 0]);
    }

    #[test]
    fn one_node_has_one_pod_and_more_have_two() {
        let replicas = |nodes| deployment(&wanted(nodes, &[Family::Ipv4]))["replicas"].as_u64();
        assert_eq!([1, 2, 3].map(replicas), [Some(1), Some(2), Some(2)]);
    }

    /// The least that it works with: nothing is written, and no pods or secrets are read.
    #[test]
    fn it_may_only_list_and_watch() {
        let [role, _] = rights();
        for rule in role["rules"].as_array().unwrap() {
            assert_eq!(rule["verbs"], json!(["list", "watch"]), "{rule}");
        }
        let text = role.to_string();
        assert!(!text.contains("secrets") && !text.contains("pods") && !text.contains('*'), "{text}");
    }

    #[test]
    fn the_corefile_knows_the_domain() {
        assert!(
            COREFILE.contains(&format!("kubernetes {DOMAIN} "))
                && COREFILE.contains("disable denial cluster.local")
        );
    }
}
