//! The ZoneReport: what this zone could not do, for the cluster manager to fold into the status of networks.

use std::collections::BTreeMap;

use causeway_api::crd::{FailureSubject, MAX_FAILURES, ZoneFailure, ZoneReportSpec};
use causeway_model::record::Node;
use causeway_model::zone::{Problem, Subject, Zone};
use causeway_ovn::Str;
use causeway_ovn::apply::Engine;
use serde_json::{Value, json};

/// A message that fits into the report.
const LONGEST_MESSAGE: usize = 1024;

/// What the zone and its two databases say.
pub(super) fn report(zone: &Zone, engines: &[&Engine], epoch: i64) -> ZoneReportSpec {
    let mut failures = BTreeMap::new();
    for (subject, problem) in zone.problems() {
        add(&mut failures, of_problem(zone, subject, problem));
    }
    for engine in engines {
        for (slice, failure) in engine.failures() {
            add(&mut failures, of_slice(zone, slice, "DatabaseRefused", &failure.error));
        }
        for (slice, reason) in engine.waiting() {
            add(&mut failures, of_slice(zone, slice, "Waiting", reason));
        }
    }
    let failure_count = failures.len() as i64;
    let failures = failures.into_values().take(MAX_FAILURES).collect();
    ZoneReportSpec { epoch, connects: Vec::new(), failures, failure_count }
}

/// One line for each subject: the first reason stands for all of its slices.
fn add(failures: &mut BTreeMap<(FailureSubject, String), ZoneFailure>, failure: ZoneFailure) {
    failures.entry((failure.subject, failure.name.clone())).or_insert(failure);
}

fn of_problem(zone: &Zone, subject: &Subject, problem: &Problem) -> ZoneFailure {
    let (kind, name) = match subject {
        Subject::Network(network) => (FailureSubject::Network, network.to_string()),
        Subject::Nad(_) | Subject::Node(_) | Subject::Pod(_) => {
            (FailureSubject::Node, format!("{}", zone.config().node))
        }
    };
    let message = match kind {
        FailureSubject::Network => problem.message.clone(),
        _ => format!("{subject}: {}", problem.message),
    };
    ZoneFailure { subject: kind, name, reason: format!("{:?}", problem.reason), message: cut(&message) }
}

fn of_slice(zone: &Zone, slice: &Str, reason: &str, message: &str) -> ZoneFailure {
    let mut parts = slice.split(':');
    let (subject, name) = match (parts.next(), parts.next()) {
        (Some("network"), Some(network)) if !network.is_empty() => {
            (FailureSubject::Network, network.to_owned())
        }
        _ => (FailureSubject::Node, zone.config().node.to_string()),
    };
    ZoneFailure { subject, name, reason: reason.to_owned(), message: cut(&format!("{slice} {message}")) }
}

fn cut(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    format!("{}…", &message[..message.floor_char_boundary(LONGEST_MESSAGE - "…".len())])
}

/// The object: it goes with its Node.
pub(super) fn object(node: &Node, spec: &ZoneReportSpec) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1",
        "kind": "ZoneReport",
        "metadata": {
            "name": node.name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}],
        },
        "spec": spec,
    })
}
