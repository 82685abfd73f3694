//! The rules that the API server checks are checked again at reconcile time, with the same words.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod support;

use causeway_api::crd::{ClusterNetworkConnect, ClusterUserDefinedNetwork, UserDefinedNetwork};
use causeway_api::intent::{ClusterConfig, Connect, Network, Problem, changes};
use causeway_types::{ConnectName, NamespaceName, NodeId, ObjectName};
use serde_json::Value;
use support::{Case, Kind, NAMESPACE, cases};

/// What an object means, or what speaks against it; nothing if it cannot even be decoded.
enum Meaning {
    Network(Box<Result<Network, Vec<Problem>>>),
    Connect(Result<Connect, Vec<Problem>>),
}

fn meaning(kind: Kind, object: &Value) -> Option<Meaning> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let object_name = ObjectName::new(name).unwrap();
    match kind {
        Kind::Udn => {
            let udn: UserDefinedNetwork = serde_json::from_value(object.clone()).ok()?;
            let namespace = NamespaceName::new(NAMESPACE).unwrap();
            Some(Meaning::Network(Box::new(Network::of_udn(&namespace, &object_name, &udn.spec))))
        }
        Kind::Cudn => {
            let cudn: ClusterUserDefinedNetwork = serde_json::from_value(object.clone()).ok()?;
            Some(Meaning::Network(Box::new(Network::of_cluster_udn(&object_name, &cudn.spec))))
        }
        Kind::Cnc => {
            let cnc: ClusterNetworkConnect = serde_json::from_value(object.clone()).ok()?;
            Some(Meaning::Connect(Connect::of(&ConnectName::new(name).unwrap(), &cnc.spec)))
        }
    }
}

/// What speaks against the object, or against the update.
fn problems(case: &Case) -> Option<Vec<Problem>> {
    let Some(update) = &case.update else {
        return Some(match meaning(case.kind, &case.object)? {
            Meaning::Network(result) => result.err().unwrap_or_default(),
            Meaning::Connect(result) => result.err().unwrap_or_default(),
        });
    };
    let valid = format!("{}: before and after the update", case.id);
    Some(match (meaning(case.kind, &case.object)?, meaning(case.kind, update)?) {
        (Meaning::Network(old), Meaning::Network(new)) => changes(&old.expect(&valid), &new.expect(&valid)),
        (Meaning::Connect(old), Meaning::Connect(new)) => old.expect(&valid).changes(&new.expect(&valid)),
        _ => panic!("{}: an update of another kind", case.id),
    })
}

fn is_rule(case: &Case) -> bool {
    let wanted = case.reject.as_deref().unwrap_or_default();
    // Limits of the schema have the server's own words, which happen to be part of one of ours.
    !wanted.starts_with("should be ") && case.kind.rules().iter().any(|rule| rule.message.contains(wanted))
}

/// A change of form is no change of the network, and what is immutable as a whole is named by its part.
fn has_own_words(case: &Case) -> bool {
    let wanted = case.reject.as_deref().unwrap_or_default();
    ["The form of ", "Spec is immutable", "Template is immutable"]
        .iter()
        .any(|words| wanted.starts_with(words))
}

/// Ranges that are no pod's are looked at together with those of the cluster, and named one by one.
fn is_about_ranges(case: &Case) -> bool {
    case.reject.as_deref().is_some_and(|wanted| wanted.starts_with("Subnets must not have addresses"))
}

#[test]
fn ranges_that_are_no_pods_are_refused_again() {
    let cluster = ClusterConfig::new(Vec::new(), Vec::new(), NodeId::FIRST);
    let all = cases();
    let about: Vec<&Case> = all.iter().filter(|case| is_about_ranges(case)).collect();
    assert!(about.len() > 5, "{}", about.len());
    for case in about {
        let network = match meaning(case.kind, &case.object).unwrap() {
            Meaning::Network(network) => {
                network.unwrap_or_else(|problems| panic!("{}: {problems:?}", case.id))
            }
            Meaning::Connect(_) => panic!("{}: connections have no pods", case.id),
        };
        assert!(!network.problems(&cluster).is_empty(), "{}", case.id);
    }
}

#[test]
fn accepted_objects_have_a_meaning() {
    for case in cases().iter().filter(|case| case.reject.is_none()) {
        assert_eq!(problems(case), Some(Vec::new()), "{}", case.id);
    }
}

#[test]
fn every_rule_is_checked_again() {
    let cases = cases();
    let mut wrong = Vec::new();
    let same_words = |case: &&Case| is_rule(case) && !has_own_words(case) && !is_about_ranges(case);
    for case in cases.iter().filter(|case| case.reject.is_some()).filter(same_words) {
        let wanted = case.reject.as_deref().unwrap();
        let found = problems(case);
        if !found.iter().flatten().any(|problem| problem.message.contains(wanted)) {
            wrong.push(format!("{}: wanted {wanted:?}, got {found:?}", case.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_flat_network_does_not_change() {
    for case in cases().iter().filter(|case| has_own_words(case)) {
        let found = problems(case).unwrap();
        let form_only = case.reject.as_deref().unwrap().starts_with("The form of ");
        assert_eq!(found.is_empty(), form_only, "{}: {found:?}", case.id);
    }
}
