//! The ZoneReport: what this zone could not do, for the cluster manager to fold into the status of networks.

use std::collections::BTreeMap;

use causeway_api::conditions::cut;
use causeway_api::crd::{FailureSubject, MAX_FAILURES, ZoneFailure, ZoneReportSpec};
use causeway_record::Node;
use causeway_zone::{Problem, Reason, Subject, Zone};
use serde_json::{Value, json};

use super::rendered::{Rendered, missing};
use super::trouble::{HELD, Trouble};

/// A message that fits into the report.
const LONGEST_MESSAGE: usize = 1024;

/// What the zone and its two databases say.
pub(super) fn report(zone: &Zone, troubles: &[Trouble], epoch: i64, rendered: &Rendered) -> ZoneReportSpec {
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
    for trouble in troubles.iter().filter(|trouble| trouble.reason != HELD) {
        for subject in &trouble.blame {
            add(&mut failures, of_trouble(zone, subject, trouble));
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
    failure(zone, subject, &format!("{:?}", problem.reason), &problem.message)
}

fn of_trouble(zone: &Zone, subject: &Subject, trouble: &Trouble) -> ZoneFailure {
    failure(zone, subject, trouble.reason, &trouble.message)
}

/// What has no conditions of its own is told of the node, with its name.
fn failure(zone: &Zone, subject: &Subject, reason: &str, message: &str) -> ZoneFailure {
    let of_node = || (FailureSubject::Node, zone.config().node.to_string(), format!("{subject}: {message}"));
    let (kind, name, message) = match subject {
        Subject::Network(network) => (FailureSubject::Network, network.to_string(), message.to_owned()),
        Subject::Connect(connect) => {
            (FailureSubject::ClusterNetworkConnect, connect.to_string(), message.to_owned())
        }
        Subject::Nad(_) | Subject::Node(_) | Subject::Pod(_) | Subject::Service(_) => of_node(),
    };
    ZoneFailure { subject: kind, name, reason: reason.to_owned(), message: cut(&message, LONGEST_MESSAGE) }
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
    use causeway_types::NodeId;
    use causeway_zone::ZoneConfig;

    fn zone() -> Zone {
        let cluster = ClusterConfig::new(vec!["10.244.0.0/16".parse().unwrap()], Vec::new(), NodeId::FIRST);
        Zone::new(ZoneConfig::new("n1".parse().unwrap(), cluster))
    }

    #[test]
    fn a_slice_is_told_of_everybody_whom_it_concerns() {
        let of = |slice: &str| {
            let zone = zone();
            let blame = causeway_plan::northbound(&zone).blame(slice);
            let trouble = Trouble {
                slice: slice.into(),
                blame,
                reason: "DatabaseRefused",
                message: format!("{slice} no"),
            };
            let report = report(&zone, &[trouble], 0, &Rendered::default());
            let told = report.failures.into_iter().filter(|failure| failure.reason == "DatabaseRefused");
            told.map(|failure| (failure.subject, failure.name)).collect::<Vec<_>>()
        };
        let connect = |name: &str| vec![(FailureSubject::ClusterNetworkConnect, name.to_owned())];
        assert_eq!(of("network:blue:pod:a:b:"), [(FailureSubject::Network, "blue".into())]);
        assert_eq!(of("cnc:main:link:blue:n1:"), connect("main"));
        assert_eq!(of("Load_Balancer_Group:cnc_svc_main"), connect("main"));
        assert_eq!(of("zone:common:"), [(FailureSubject::Node, "n1".into())]);
        assert_eq!(of("service:ns1:web:blue:"), [(FailureSubject::Node, "n1".into())]);
    }

    /// A zone whose node is not known yet: one line for the default network, and no more.
    #[test]
    fn a_report_is_one_line_for_each_subject() {
        let report = report(&zone(), &[], 7, &Rendered::default());
        let lines: Vec<(&str, &str)> =
            report.failures.iter().map(|f| (f.name.as_str(), f.reason.as_str())).collect();
        assert_eq!(lines, [("default", "NodeNotReady")]);
        assert_eq!((report.epoch, report.failure_count), (7, 1));
    }
}
