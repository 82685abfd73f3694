//! The limits of cluster-scoped policies: what the API server lets through, and what it refuses with which words.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod support;

use causeway_api::schema::{policy, rules, schema_of};
use serde_json::{Value, json};
use support::judge_one;

#[derive(Clone, Copy)]
enum Kind {
    Cluster,
    Admin,
    Baseline,
}

impl Kind {
    fn schema(self) -> Value {
        let definition = match self {
            Self::Cluster => policy::cluster(&rules::cluster_network_policy()),
            Self::Admin => policy::admin(&rules::admin_network_policy()),
            Self::Baseline => policy::baseline(&rules::baseline_admin_network_policy()),
        };
        schema_of(&definition.unwrap()).clone()
    }

    /// An object that uses every field.
    fn whole(self) -> Value {
        let selector = json!({"matchLabels": {"a": "b"}});
        let pods = json!({"pods": {"namespaceSelector": selector, "podSelector": {}}});
        let span = json!({"destinationPort": {"range": {"start": 1, "end": 65535}}});
        let (accept, field, ports) = match self {
            Self::Cluster => (
                "Accept",
                "protocols",
                json!([{"tcp": {"destinationPort": {"number": 80}}}, {"udp": span},
                {"sctp": span}]),
            ),
            _ => (
                "Allow",
                "ports",
                json!([{"portNumber": {"port": 80}}, {"portRange": {"protocol": "UDP", "start": 1,
                "end": 2}}]),
            ),
        };
        let named = json!([if field == "ports" {
            json!({"namedPort": "web"})
        } else {
            json!({"destinationNamedPort": "web"})
        }]);
        let rule = |peers: &str, peer: Value, ports: &Value| json!({"name": "rule", "action": accept, peers: [peer, pods], field: ports});
        let mut spec = json!({
            "subject": {"namespaces": {}},
            "ingress": [rule("from", json!({"namespaces": {}}), &named)],
            "egress": [rule("to", json!({"namespaces": {}}), &named), rule("to", json!({"nodes": selector}), &ports),
                rule("to", json!({"networks": ["10.0.0.0/8", "fd00::/8"]}), &ports)],
        });
        if !matches!(self, Self::Baseline) {
            spec["priority"] = 1000.into();
            spec["egress"][0]["to"][0] = json!({"domainNames": ["*.example.com"]});
            spec["egress"][0].as_object_mut().unwrap().remove(field);
        }
        if matches!(self, Self::Cluster) {
            spec["tier"] = "Admin".into();
        }
        json!({"metadata": {"name": "default"}, "spec": spec})
    }
}

/// The messages when one place has another value; null takes it away.
fn refused(kind: Kind, pointer: &str, value: Value) -> String {
    let mut object = kind.whole();
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} is nowhere"));
    match (parent, value) {
        (Value::Object(map), Value::Null) => drop(map.remove(last)),
        (Value::Object(map), value) => drop(map.insert(last.to_owned(), value)),
        (Value::Array(list), value) => list[last.parse::<usize>().unwrap()] = value,
        (other, _) => panic!("{pointer} points into {other}"),
    }
    judge_one(&kind.schema(), &object, None).join("\n")
}

fn repeated(value: Value, times: usize) -> Value {
    vec![value; times].into()
}

#[test]
fn whole_objects_are_let_through() {
    for kind in [Kind::Cluster, Kind::Admin, Kind::Baseline] {
        assert_eq!(judge_one(&kind.schema(), &kind.whole(), None), Vec::<String>::new());
    }
}

#[test]
fn limits_of_a_cluster_network_policy() {
    let rule = json!({"action": "Deny", "from": [{"namespaces": {}}]});
    let cases = [
        ("/spec/tier", json!("Middle"), "Unsupported value"),
        ("/spec/tier", Value::Null, "spec.tier: Required value"),
        ("/spec/priority", json!(1001), "less than or equal to 1000"),
        ("/spec/priority", json!(-1), "greater than or equal to 0"),
        ("/spec/subject", Value::Null, "spec.subject: Required value"),
        ("/spec/subject", json!({}), "at least 1 properties"),
        ("/spec/subject/pods", json!({"podSelector": {}}), "at most 1 properties"),
        ("/spec/ingress", repeated(rule, 26), "at most 25 items"),
        ("/spec/ingress/0/action", json!("Allow"), "Unsupported value"),
        ("/spec/ingress/0/name", json!("n".repeat(101)), "more than 100 bytes"),
        ("/spec/ingress/0/from", json!([]), "at least 1 items"),
        ("/spec/ingress/0/from", repeated(json!({"namespaces": {}}), 26), "at most 25 items"),
        ("/spec/ingress/0/from/0", json!({}), "at least 1 properties"),
        ("/spec/ingress/0/protocols", json!([]), "at least 1 items"),
        ("/spec/ingress/0/protocols", json!([{"tcp": {}}]), "at least 1 properties"),
        ("/spec/ingress/0/protocols", json!([{"udp": {"destinationPort": {}}}]), "at least 1 properties"),
        ("/spec/egress/0/to/0", json!({"nodes": {}, "namespaces": {}}), "at most 1 properties"),
        ("/spec/egress/2/to/0/networks", json!(["10.0.0.0"]), "CIDR is invalid"),
        ("/spec/egress/2/to/0/networks", repeated(json!("::/0"), 26), "at most 25 items"),
        ("/spec/egress/1/protocols/0/tcp/destinationPort/number", json!(0), "greater than or equal to 1"),
        (
            "/spec/egress/1/protocols/0/tcp/destinationPort/range",
            json!({"start": 1, "end": 2}),
            "at most 1 properties",
        ),
        ("/spec/egress/1/protocols/1/udp/destinationPort/range/end", json!(1), "start must be less than end"),
        (
            "/spec/egress/1/protocols/2/sctp/destinationPort/range/end",
            json!(65_536),
            "less than or equal to 65535",
        ),
        ("/spec/egress/1/protocols", json!([{"destinationNamedPort": "web"}]), "have no named ports"),
        ("/spec/egress/2/protocols", json!([{"destinationNamedPort": "web"}]), "have no named ports"),
        ("/spec/egress/0/protocols", json!([{"destinationNamedPort": "web"}]), "have no named ports"),
    ];
    for (pointer, value, wanted) in cases {
        let said = refused(Kind::Cluster, pointer, value.clone());
        assert!(said.contains(wanted), "{pointer} {value}: wanted {wanted:?}, got {said:?}");
    }
}

#[test]
fn limits_of_the_older_kinds() {
    let rule = |peers: &str| json!({"action": "Allow", peers: [{"namespaces": {}}]});
    let both = [
        ("/spec/subject", json!({}), "at least 1 properties"),
        ("/spec/ingress", repeated(rule("from"), 101), "at most 100 items"),
        ("/spec/egress", repeated(rule("to"), 101), "at most 100 items"),
        ("/spec/ingress/0/action", json!("Accept"), "Unsupported value"),
        ("/spec/ingress/0/from", repeated(json!({"namespaces": {}}), 101), "at most 100 items"),
        ("/spec/egress/1/ports/0", json!({}), "at least 1 properties"),
        ("/spec/egress/1/ports/0/portNumber/port", json!(0), "greater than or equal to 1"),
        ("/spec/egress/1/ports/0/namedPort", json!("web"), "at most 1 properties"),
        ("/spec/egress/1/ports", json!([{"namedPort": "web"}]), "have no named ports"),
        ("/spec/egress/2/to/0/networks", json!(["10.0.0.0"]), "CIDR is invalid"),
    ];
    for (pointer, value, wanted) in both {
        for kind in [Kind::Admin, Kind::Baseline] {
            let said = refused(kind, pointer, value.clone());
            assert!(said.contains(wanted), "{pointer} {value}: wanted {wanted:?}, got {said:?}");
        }
    }
    assert!(refused(Kind::Admin, "/spec/priority", json!(1001)).contains("less than or equal to 1000"));
    assert!(refused(Kind::Baseline, "/spec/ingress/0/action", json!("Pass")).contains("Unsupported value"));
    assert!(refused(Kind::Baseline, "/metadata/name", json!("mine")).contains("is called default"));
    assert_eq!(refused(Kind::Admin, "/metadata/name", json!("mine")), "");
}
