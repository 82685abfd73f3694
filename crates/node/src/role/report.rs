//! The ZoneReport: what this zone could not do, for the cluster manager to fold into the status of networks.

use std::collections::BTreeMap;

use causeway_api::conditions::cut;
use causeway_api::crd::{FailureSubject, MAX_FAILURES, ZoneFailure, ZoneReportSpec};
use causeway_ovn::Str;
use causeway_ovn::apply::Engine;
use causeway_record::Node;
use causeway_zone::{Problem, Reason, Subject, Zone};
use serde_json::{Value, json};

use super::rendered::{Rendered, missing};

/// A message that fits into the report.
const LONGEST_MESSAGE: usize = 1024;

/// What the zone and its two databases say.
pub(super) fn report(zone: &Zone, engines: &[&Engine], epoch: i64, rendered: &Rendered) -> ZoneReportSpec {
    let mut failures = BTreeMap::new();
    for (subject, problem) in zone.problems() {
        add(&mut failures, of_problem(zone, subject, problem));
    }
    for connect in zone.connect_reports() {
        let subject = Subject::Connect(connect.name.clone());
        for problem in missing(&connect) {
            add(&mut failures, of_problem(zone, &subject, problem));
        }
    }
    for (connect, text) in rendered.wrong() {
        let problem = Problem::new(Reason::TunnelKeys, text.clone());
        add(&mut failures, of_problem(zone, &Subject::Connect(connect.clone()), &problem));
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
    ZoneReportSpec { epoch, connects: rendered.reports(), failures, failure_count }
}

/// One line for each subject: the first reason stands for all of its slices.
fn add(failures: &mut BTreeMap<(FailureSubject, String), ZoneFailure>, failure: ZoneFailure) {
    failures.entry((failure.subject, failure.name.clone())).or_insert(failure);
}

fn of_problem(zone: &Zone, subject: &Subject, problem: &Problem) -> ZoneFailure {
    let (kind, name) = match subject {
        Subject::Network(network) => (FailureSubject::Network, network.to_string()),
        Subject::Connect(connect) => (FailureSubject::ClusterNetworkConnect, connect.to_string()),
        Subject::Nad(_) | Subject::Node(_) | Subject::Pod(_) => {
            (FailureSubject::Node, format!("{}", zone.config().node))
        }
    };
    let message = match kind {
        FailureSubject::Network | FailureSubject::ClusterNetworkConnect => problem.message.clone(),
        FailureSubject::Node => format!("{subject}: {}", problem.message),
    };
    ZoneFailure {
        subject: kind,
        name,
        reason: format!("{:?}", problem.reason),
        message: cut(&message, LONGEST_MESSAGE),
    }
}

fn of_slice(zone: &Zone, slice: &Str, reason: &str, message: &str) -> ZoneFailure {
    let mut parts = slice.split(':');
    let (subject, name) = match (parts.next(), parts.next()) {
        (Some("network"), Some(network)) if !network.is_empty() => {
            (FailureSubject::Network, network.to_owned())
        }
        (Some("cnc"), Some(connect)) if !connect.is_empty() => {
            (FailureSubject::ClusterNetworkConnect, connect.to_owned())
        }
        _ => (FailureSubject::Node, zone.config().node.to_string()),
    };
    ZoneFailure {
        subject,
        name,
        reason: reason.to_owned(),
        message: cut(&format!("{slice} {message}"), LONGEST_MESSAGE),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::intent::ClusterConfig;
    use causeway_ovn::apply::Options;
    use causeway_ovn::declare::NORTHBOUND;
    use causeway_types::NodeId;
    use causeway_zone::ZoneConfig;

    fn zone() -> Zone {
        let cluster = ClusterConfig::new(vec!["10.244.0.0/16".parse().unwrap()], Vec::new(), NodeId::FIRST);
        Zone::new(ZoneConfig::new("n1".parse().unwrap(), cluster))
    }

    #[test]
    fn slices_become_failures_of_their_network_or_of_the_node() {
        let of = |slice: &str| {
            let failure = of_slice(&zone(), &slice.into(), "DatabaseRefused", "no");
            (failure.subject, failure.name)
        };
        assert_eq!(of("network:blue:pod:a:b:"), (FailureSubject::Network, "blue".into()));
        assert_eq!(of("cnc:main:link:blue:n1:"), (FailureSubject::ClusterNetworkConnect, "main".into()));
        assert_eq!(of("zone:common:"), (FailureSubject::Node, "n1".into()));
        assert_eq!(of("Load_Balancer_Group:x"), (FailureSubject::Node, "n1".into()));
    }

    /// A zone whose node is not known yet: one line for the default network, and no more.
    #[test]
    fn a_report_is_one_line_for_each_subject() {
        let engine = Engine::new(&NORTHBOUND, Options::default());
        let report = report(&zone(), &[&engine], 7, &Rendered::default());
        let lines: Vec<(&str, &str)> =
            report.failures.iter().map(|f| (f.name.as_str(), f.reason.as_str())).collect();
        assert_eq!(lines, [("default", "NodeNotReady")]);
        assert_eq!((report.epoch, report.failure_count), (7, 1));
    }
}
