//! What the kinds of cluster-scoped policies mean, as tables: what is written, and the form that zones render.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

use causeway_api::policy::{
    Action, ClusterPolicy, ClusterRule, LabelMatch, Peer, Pods, PolicyId, PolicyKind, PortMatch, Refusal,
    Tier,
};
use causeway_types::Protocol;
use serde_json::{Value, json};

fn cnp(spec: Value) -> ClusterPolicy {
    ClusterPolicy::of_cluster("guard", &serde_json::from_value(spec).unwrap()).unwrap()
}

fn anp(spec: Value) -> ClusterPolicy {
    ClusterPolicy::of_admin("guard", &serde_json::from_value(spec).unwrap()).unwrap()
}

fn banp(spec: Value) -> ClusterPolicy {
    ClusterPolicy::of_baseline("default", &serde_json::from_value(spec).unwrap()).unwrap()
}

fn labels(selector: Value) -> LabelMatch {
    LabelMatch::read(&serde_json::from_value(selector).unwrap()).unwrap()
}

fn team(name: &str) -> Value {
    json!({"matchLabels": {"team": name}})
}

fn all_of(team: &str) -> Peer {
    Peer::Pods(Pods {
        namespaces: labels(json!({"matchLabels": {"team": team}})),
        pods: LabelMatch::default(),
    })
}

fn port(protocol: Protocol, first: u16, last: u16) -> PortMatch {
    PortMatch::Port { protocol, first, last }
}

/// A ClusterNetworkPolicy with one rule of each direction.
fn cluster(tier: &str, action: &str, from: Value, to: Value, protocols: Value) -> Value {
    json!({
        "tier": tier, "priority": 7, "subject": {"namespaces": {}},
        "ingress": [{"name": "in", "action": action, "from": [from], "protocols": protocols}],
        "egress": [{"action": action, "to": [to], "protocols": protocols}],
    })
}

#[test]
fn a_cluster_network_policy_is_the_form_itself() {
    let both = json!({"pods": {"namespaceSelector": team("a"), "podSelector": team("b")}});
    let ports = json!([
        {"tcp": {"destinationPort": {"number": 80}}}, {"udp": {"destinationPort": {"range": {"start": 5, "end": 9}}}},
        {"sctp": {"destinationPort": {"number": 1}}}, {"destinationNamedPort": "web"},
    ]);
    let policy = cnp(cluster("Baseline", "Pass", json!({"namespaces": team("a")}), both, ports));
    let ports = Some(vec![
        port(Protocol::Tcp, 80, 80),
        port(Protocol::Udp, 5, 9),
        port(Protocol::Sctp, 1, 1),
        PortMatch::Named("web".into()),
    ]);
    let rule = |name: Option<&str>, peer: Peer| ClusterRule {
        name: name.map(str::to_owned),
        action: Action::Pass,
        peers: vec![peer],
        ports: ports.clone(),
    };
    assert_eq!(policy.ingress, [rule(Some("in"), all_of("a"))]);
    let both = Peer::Pods(Pods { namespaces: labels(team("a")), pods: labels(team("b")) });
    assert_eq!(policy.egress, [rule(None, both)]);
    assert_eq!((policy.order.tier, policy.order.base, policy.remarks), (Tier::Baseline, 32_066, vec![]));
    assert!(policy.subject.namespaces.is_everything() && policy.subject.pods.is_everything());
}

#[test]
fn nodes_and_networks_are_peers_of_what_goes_out() {
    let to =
        |peer: Value| cnp(cluster("Admin", "Accept", json!({"namespaces": {}}), peer, Value::Null)).egress;
    assert_eq!(to(json!({"nodes": team("a")}))[0].peers, [Peer::Nodes(labels(team("a")))]);
    let networks = to(json!({"networks": ["10.1.2.3/8", "fd00::/64"]}));
    let wanted = ["10.0.0.0/8", "fd00::/64"].map(|text| text.parse().unwrap());
    assert_eq!(networks[0].peers, [Peer::Networks(wanted.to_vec())]);
    assert_eq!(networks[0].ports, None);
}

/// The same rules, written as each kind, are the same rules; only the order differs.
#[test]
fn older_kinds_become_the_same_rules() {
    let rules = |field: &str, number: Value, range: Value, name: Value, accept: &str| {
        json!({
            "tier": "Admin", "priority": 3, "subject": {"pods": {"namespaceSelector": {}, "podSelector": team("s")}},
            "ingress": [{"action": accept, "from": [{"namespaces": team("a")}], field: [number, range]}],
            "egress": [{"action": "Deny", "to": [{"networks": ["0.0.0.0/0"]}]},
                       {"action": accept, "to": [{"nodes": {}}]},
                       {"action": accept, "to": [{"namespaces": {}}], field: [name]}],
        })
    };
    let older = || {
        rules(
            "ports",
            json!({"portNumber": {"port": 80}}),
            json!({"portRange": {"protocol": "UDP", "start": 5, "end": 9}}),
            json!({"namedPort": "web"}),
            "Allow",
        )
    };
    let newer = cnp(rules(
        "protocols",
        json!({"tcp": {"destinationPort": {"number": 80}}}),
        json!({"udp": {"destinationPort": {"range": {"start": 5, "end": 9}}}}),
        json!({"destinationNamedPort": "web"}),
        "Accept",
    ));
    let admin = anp(older());
    assert_eq!((admin.id.kind, &admin.order), (PolicyKind::Admin, &newer.order));
    assert_eq!(
        (&admin.subject, &admin.ingress, &admin.egress),
        (&newer.subject, &newer.ingress, &newer.egress)
    );
    let baseline = banp(older());
    assert_eq!(
        (baseline.order.tier, baseline.order.base, baseline.order.written),
        (Tier::Baseline, 241, None)
    );
    assert_eq!((&baseline.ingress, &baseline.egress), (&newer.ingress, &newer.egress));
    assert_eq!(baseline.remarks, []);
}

/// What cannot be read fails closed: a rule that accepts matches nothing, one that denies or passes denies all.
#[test]
fn what_nobody_here_can_read_fails_closed() {
    let any = json!({"namespaces": {}});
    let strange = json!({"serviceAccounts": {}});
    let ports = |port: Value| json!([{"tcp": {"destinationPort": {"number": 80}}}, port]);
    let cases = [
        (&strange, &any, Value::Null, "ingress[0].from[0]: none of its fields is known here"),
        (&any, &strange, Value::Null, "egress[0].to[0]: none of its fields is known here"),
        (&any, &any, ports(json!({"icmp": {}})), "ingress[0].protocols[1]: none of its fields is known here"),
        (&any, &any, ports(json!({"udp": {}})), "ingress[0].protocols[1]: none of its fields is known here"),
        (
            &any,
            &json!({"domainNames": ["*.example.com"]}),
            Value::Null,
            "egress[0].to[0]: domain names are not resolved",
        ),
        (&any, &json!({"networks": ["10.0.0/8"]}), Value::Null, "egress[0].to[0]: \"10.0.0/8\" is no CIDR"),
        (
            &any,
            &json!({"networks": ["::/0"], "nodes": {}}),
            Value::Null,
            "egress[0].to[0]: exactly one field",
        ),
        (
            &json!({"namespaces": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
            &any,
            Value::Null,
            "ingress[0].from[0]: the label selector cannot be read: a with the unknown operator \"Like\"",
        ),
    ];
    for (from, to, protocols, wanted) in cases {
        for action in ["Accept", "Deny", "Pass"] {
            let policy = cnp(cluster("Admin", action, from.clone(), to.clone(), protocols.clone()));
            let remark = policy.remarks[0].to_string();
            assert!(remark.starts_with(wanted), "{remark}, wanted {wanted}");
            let broken = if remark.starts_with("ingress") { &policy.ingress[0] } else { &policy.egress[0] };
            let closed = match action {
                "Accept" => (Action::Accept, vec![]),
                _ => (Action::Deny, vec![Peer::Anyone]),
            };
            assert_eq!(
                (broken.action, broken.peers.clone(), &broken.ports),
                (closed.0, closed.1, &None),
                "{wanted}"
            );
        }
    }
}

#[test]
fn ports_that_are_none_fail_closed() {
    let remark = |port: Value| {
        let rule = json!({"action": "Allow", "from": [{"namespaces": {}}], "ports": [port]});
        anp(json!({"priority": 0, "subject": {"namespaces": {}}, "ingress": [rule]})).remarks[0].why.clone()
    };
    assert_eq!(remark(json!({"portRange": {"start": 9, "end": 5}})), "no port is between 9 and 5");
    assert_eq!(remark(json!({"portNumber": {"port": 70_000}})), "70000 is no port");
    assert_eq!(
        remark(json!({"portNumber": {"port": 1, "protocol": "ICMP"}})),
        "\"ICMP\" is no protocol with ports"
    );
}

/// POL-093: what cannot be rendered is refused as a whole, with words.
#[test]
fn what_cannot_be_carried_out_is_refused() {
    let refused = |spec: Value| {
        let spec = serde_json::from_value(spec).unwrap();
        ClusterPolicy::of_admin("guard", &spec).unwrap_err().to_string()
    };
    let rule = json!({"action": "Allow", "from": [{"namespaces": {}}]});
    let many = vec![rule; 26];
    assert!(
        refused(json!({"priority": 150, "subject": {"namespaces": {}}, "ingress": many}))
            .starts_with("26 ingress rules are more than the 25 that there is room for with priority 150")
    );
    assert!(
        refused(json!({"priority": 1, "subject": {"owners": {}}}))
            .starts_with("the subject cannot be read: none")
    );
}

/// What nobody here knows is told from what cannot be done: rows of the former may stay.
#[test]
fn what_is_no_policy_is_unreadable() {
    let read = |spec: Value| ClusterPolicy::read(PolicyKind::Cluster, "guard", &spec);
    let whole = json!({"tier": "Admin", "priority": 1, "subject": {"namespaces": {}}});
    assert!(read(whole.clone()).is_ok());
    let mut newer = whole;
    newer["tier"] = "Middle".into();
    let refusal = read(newer).unwrap_err();
    assert!(matches!(refusal, Refusal::Unreadable(_)) && refusal.to_string().contains("Middle"), "{refusal}");
    let id = PolicyId { kind: PolicyKind::Baseline, name: "default".into() };
    assert_eq!(id.to_string().parse(), Ok(id));
}
