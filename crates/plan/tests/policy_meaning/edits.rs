//! One policy is changed: while its rows become others, a packet on which both versions agree meets nothing else at either end.

use causeway_api::policy::{PolicyId, PolicyKind};
use causeway_ovn::apply::Options;
use causeway_plan::{Dirty, northbound};
use causeway_testing::policy::Written;
use causeway_zone::{Changes, Zone};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::reading::{Packet, Rows, network};
use super::stage::Stage;
use super::support::{cluster_policy, key, policy};
use super::{address, choices, people, told, written};

/// A policy that has another spec, or none, from now on.
#[derive(Clone, Debug)]
enum Edit {
    Tenant(String, Option<Value>),
    Cluster(String, Option<Value>),
}

impl Edit {
    fn make(&self, zone: &mut Zone) -> Changes {
        match self {
            Self::Tenant(name, Some(spec)) => zone.apply_policy(&policy(name, spec.clone())),
            Self::Tenant(name, None) => {
                let (namespace, name) = name.split_once('/').unwrap();
                zone.delete_policy(&key(namespace, name))
            }
            Self::Cluster(name, Some(spec)) => zone.apply_cluster_policy(&cluster_policy(name, spec.clone())),
            Self::Cluster(name, None) => {
                zone.delete_cluster_policy(&PolicyId { kind: PolicyKind::Cluster, name: name.clone() })
            }
        }
    }
}

/// The wider the transactions, the less can be seen between them; but a policy of which nothing is left fits into one, as it does with
/// the usual width unless it is very large.
fn narrow() -> Options {
    Options { txn_rows: 16, ..Options::default() }
}

fn check(written: &Written, edit: &Edit) -> Result<(), TestCaseError> {
    let mut zone = told(written);
    let people = people();
    people.iter().for_each(|pod| drop(zone.apply_pod(pod)));
    let mut stage = Stage::start(narrow());
    stage.bring(&northbound(&zone), |_| ());
    let before = Rows::there(&stage.database);
    let changes = edit.make(&mut zone);
    Dirty::after(&zone, &changes).northbound.iter().for_each(|prefix| stage.engine.dirty(prefix));
    let mut between = Vec::new();
    stage.bring(&northbound(&zone), |database| between.push(Rows::there(database)));
    let after = Rows::there(&stage.database);
    let ends = people.iter().flat_map(|from| people.iter().map(move |to| (from, to)));
    for (from, to) in ends.filter(|(from, to)| network(from) == network(to)) {
        for (six, protocol, port) in [(false, "tcp", 80), (true, "tcp", 81), (false, "udp", 80)] {
            let packet =
                Packet { from, to, source: address(from, six), target: address(to, six), protocol, port };
            for ingress in [false, true] {
                let meant = before.may_pass(&packet, ingress);
                if meant != after.may_pass(&packet, ingress) {
                    continue;
                }
                for (step, rows) in between.iter().enumerate() {
                    let may = rows.may_pass(&packet, ingress);
                    let of = between.len();
                    prop_assert_eq!(&may, &meant, "after {} of {}: {}", step + 1, of, said(&packet, ingress));
                }
            }
        }
    }
    Ok(())
}

fn said(packet: &Packet<'_>, ingress: bool) -> String {
    let Packet { from, to, source, target, protocol, port } = packet;
    let end = if ingress { "in" } else { "out" };
    format!("{} {source} to {} {target} by {protocol} {port}, on the way {end}", from.key, to.key)
}

fn one_cluster(spec: Value) -> Written {
    let labels = |name: &str| (name.to_owned(), [("name".to_owned(), name.to_owned())].into());
    let namespaces = super::NAMESPACES.into_iter().map(labels).collect();
    Written { namespaces, cluster: [("c".to_owned(), spec)].into(), ..Written::default() }
}

fn one_tenant(spec: Value) -> Written {
    let written = one_cluster(json!({}));
    Written { policies: [("x/p".to_owned(), spec)].into(), cluster: Default::default(), ..written }
}

fn accept(namespace: &str, port: u16) -> Value {
    json!({"action": "Accept", "from": [{"namespaces": {"matchLabels": {"name": namespace}}}],
        "protocols": [{"tcp": {"destinationPort": {"number": port}}}]})
}

/// A rule before all others moves each of them by one, and the places where two of them meet belong to nobody else in between.
#[test]
fn rules_move_together() {
    let last = |action: &str| json!({"action": action, "from": [{"namespaces": {}}]});
    let spec = |rules: &[Value]| json!({"tier": "Admin", "priority": 5, "subject": {"namespaces": {"matchLabels": {"name": "x"}}}, "ingress": rules});
    for action in ["Deny", "Accept"] {
        let first = |namespace, port| {
            let mut rule = accept(namespace, port);
            rule["action"] = json!(if action == "Deny" { "Accept" } else { "Deny" });
            rule
        };
        let (few, many) = ([first("y", 80), last(action)], [first("x", 81), first("y", 80), last(action)]);
        let edit = |to: &[Value]| Edit::Cluster("c".into(), Some(spec(to)));
        check(&one_cluster(spec(&few)), &edit(&many)).unwrap();
        check(&one_cluster(spec(&many)), &edit(&few)).unwrap();
    }
}

/// A rule with many subnets in front of another one: who is in a set does not hang on the place of the rule that names it.
#[test]
fn many_subnets_keep_their_rule() {
    let many = |but: [&str; 2]| json!([{"ipBlock": {"cidr": "0.0.0.0/0", "except": but}}]);
    let (offices, partners) =
        (many(["10.244.0.20/32", "198.51.100.1/32"]), many(["10.244.0.22/32", "198.51.100.1/32"]));
    let rule = |who: &Value, port: u16| json!({"from": who, "ports": [{"port": port}]});
    let spec = |rules: &[Value]| json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": rules});
    let (one, two) =
        (spec(&[rule(&offices, 80)]), spec(&[rule(&partners, 81), rule(&offices, 80), rule(&offices, 79)]));
    check(&one_tenant(one.clone()), &Edit::Tenant("x/p".into(), Some(two.clone()))).unwrap();
    check(&one_tenant(two), &Edit::Tenant("x/p".into(), Some(one))).unwrap();
}

/// Other pods and other rules at once: nobody gets the rules that were others'.
#[test]
fn a_subject_comes_with_its_rules() {
    let spec = |pod: &str, namespace: &str| {
        let from = json!([{"namespaceSelector": {"matchLabels": {"name": namespace}}}]);
        let ports = json!([{"port": "http"}]);
        json!({"podSelector": {"matchLabels": {"pod": pod}}, "policyTypes": ["Ingress"],
            "ingress": [{"from": from}, {"from": [{"podSelector": {}}], "ports": ports}]})
    };
    let mut written = one_tenant(spec("a", "y"));
    let closed = json!({"podSelector": {}, "policyTypes": ["Ingress"]});
    written.policies.insert("x/closed".into(), closed);
    check(&written, &Edit::Tenant("x/p".into(), Some(spec("b", "x")))).unwrap();
}

/// The same of an administrator's policy, which forbids before and after.
#[test]
fn nobody_is_between_two_subjects() {
    let spec = |namespaces: Value, protocols: Value| {
        let mut rule = json!({"action": "Deny", "to": [{"namespaces": {}}]});
        if !protocols.is_null() {
            rule["protocols"] = protocols;
        }
        json!({"tier": "Admin", "priority": 5, "subject": {"namespaces": namespaces}, "egress": [rule]})
    };
    let some = spec(json!({"matchLabels": {"name": "x"}}), Value::Null);
    let all = spec(json!({}), json!([{"tcp": {"destinationPort": {"number": 80}}}]));
    check(&one_cluster(some.clone()), &Edit::Cluster("c".into(), Some(all.clone()))).unwrap();
    check(&one_cluster(all), &Edit::Cluster("c".into(), Some(some))).unwrap();
}

/// The first policy on pods that run, and the last one: what both allow is not lost.
#[test]
fn a_policy_comes_and_goes_behind_what_it_allows() {
    let spec = json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}], "egress": [{}]});
    let with = one_tenant(spec.clone());
    let without = Written { policies: Default::default(), ..with.clone() };
    check(&without, &Edit::Tenant("x/p".into(), Some(spec))).unwrap();
    check(&with, &Edit::Tenant("x/p".into(), None)).unwrap();
}

/// What one makes of a spec.
#[derive(Clone, Copy, Debug)]
enum How {
    Another,
    Gone,
    Reversed,
    /// Rules of the other one before those that it has.
    Longer,
}

fn changed(old: &Value, new: &Value, how: How) -> Option<Value> {
    let mut spec = old.clone();
    for list in ["ingress", "egress"] {
        let rules = |spec: &Value| spec[list].as_array().cloned().unwrap_or_default();
        spec[list] = match how {
            How::Reversed => rules(old).into_iter().rev().collect(),
            _ => rules(new).into_iter().chain(rules(old)).collect(),
        };
    }
    match how {
        How::Another => Some(new.clone()),
        How::Gone => None,
        How::Reversed | How::Longer => Some(spec),
    }
}

fn edits() -> impl Strategy<Value = (Written, Edit)> {
    let how = prop::sample::select(vec![How::Another, How::Another, How::Gone, How::Reversed, How::Longer]);
    let specs = (choices().policies(), choices().cluster_policies());
    let chosen = (any::<bool>(), any::<prop::sample::Index>());
    (written(), specs, how, chosen).prop_map(|(mut written, (tenant, cluster), how, (admin, which))| {
        let pick = |all: Vec<String>, new: &str| match all.is_empty() {
            true => new.to_owned(),
            false => which.get(&all).clone(),
        };
        let edit = if admin {
            let name = pick(written.cluster.keys().cloned().collect(), &cluster.0);
            let old = written.cluster.entry(name.clone()).or_insert_with(|| cluster.1.clone()).clone();
            let mut new = cluster.1;
            // Nobody else has this one.
            new["priority"] = json!(new["priority"].as_u64().unwrap() + 5);
            Edit::Cluster(name, changed(&old, &new, how))
        } else {
            let name = pick(written.policies.keys().cloned().collect(), &tenant.0);
            let old = written.policies.entry(name.clone()).or_insert_with(|| tenant.1.clone()).clone();
            Edit::Tenant(name, changed(&old, &tenant.1, how))
        };
        (written, edit)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_both_versions_say_holds_all_the_time((written, edit) in edits()) {
        check(&written, &edit)?;
    }
}
