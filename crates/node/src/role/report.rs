//! The ZoneReport: what this zone could not do, for the cluster manager to fold into the status of networks.

use std::collections::BTreeMap;

use causeway_alloc::{Cleared, Epoch};
use causeway_api::conditions::cut;
use causeway_api::crd::{FailureSubject, MAX_FAILURES, ZoneFailure, ZoneReportSpec};
use causeway_api::policy::PolicyKind;
use causeway_record::Node;
use causeway_types::NodeName;
use causeway_zone::{PolicyKey, Problem, Reason, Subject, Zone};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::carried_out::CarriedOut;
use super::rendered::{Rendered, missing};
use super::silence::Component;
use super::trouble::{HELD, Trouble};

/// A message that fits into the report.
const LONGEST_MESSAGE: usize = 1024;

/// In a word: a component does not do its part.
const SILENT: &str = "ComponentSilent";

/// Who has not answered since when. The text stays the same as long as that is so.
pub(super) fn silence(node: &NodeName, who: Component, since: Instant) -> String {
    let clock = Timestamp::now().checked_sub(since.elapsed()).unwrap_or_default().strftime("%FT%TZ");
    format!("{} on {node} has not answered since {clock}: {}", who.name(), who.advice())
}

/// How far everything is that reports speak of.
#[derive(Clone, Copy)]
pub(super) struct Progress<'a> {
    pub(super) troubles: &'a [Trouble],
    pub(super) cleared: &'a Cleared,
    pub(super) rendered: &'a Rendered,
    pub(super) policies: &'a CarriedOut,
    /// Who does not do its part.
    pub(super) silent: Option<&'a str>,
}

/// What the zone and its two databases say, and who does not do its part.
pub(super) fn report(zone: &Zone, progress: Progress<'_>) -> ZoneReportSpec {
    let Progress { troubles, cleared, rendered, policies, silent } = progress;
    let mut failures = BTreeMap::new();
    if let Some(silent) = silent {
        let here = Subject::Node(zone.config().node.clone());
        let roads = rendered.pending().iter().cloned().map(Subject::Connect);
        let waiting = policies.pending(zone).map(|id| Subject::Policy(PolicyKey::Cluster(id.clone())));
        for subject in roads.chain(waiting).chain([here]) {
            add(&mut failures, failure(zone, &subject, SILENT, silent));
        }
    }
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
    let carried_out = policies.reports(zone, troubles);
    let failure_count = failures.len() as i64;
    let failures = failures.into_values().take(MAX_FAILURES).collect();
    let number = |epoch: Epoch| i64::try_from(epoch.0).unwrap_or(i64::MAX);
    let (epoch, held_epochs) = (number(cleared.upto()), cleared.held().map(number).collect());
    ZoneReportSpec {
        epoch,
        held_epochs,
        connects: rendered.reports(),
        policies: carried_out,
        failures,
        failure_count,
    }
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
        Subject::Policy(PolicyKey::Cluster(id)) => (of_policy(id.kind), id.name.clone(), message.to_owned()),
        Subject::Nad(_) | Subject::Node(_) | Subject::Pod(_) | Subject::Service(_) | Subject::Policy(_) => {
            of_node()
        }
    };
    ZoneFailure { subject: kind, name, reason: reason.to_owned(), message: cut(&message, LONGEST_MESSAGE) }
}

fn of_policy(kind: PolicyKind) -> FailureSubject {
    match kind {
        PolicyKind::Cluster => FailureSubject::ClusterNetworkPolicy,
        PolicyKind::Admin => FailureSubject::AdminNetworkPolicy,
        PolicyKind::Baseline => FailureSubject::BaselineAdminNetworkPolicy,
    }
}

/// The object: it goes with its Node. All fields are there, empty or not: what a writer does not state, others may.
pub(super) fn object(node: &Node, spec: &ZoneReportSpec) -> Value {
    let ZoneReportSpec { epoch, held_epochs, connects, policies, failures, failure_count } = spec;
    json!({
        "apiVersion": "k8s.ovn.org/v1",
        "kind": "ZoneReport",
        "metadata": {
            "name": node.name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}],
        },
        "spec": {
            "epoch": epoch,
            "heldEpochs": held_epochs,
            "connects": connects,
            "policies": policies,
            "failures": failures,
            "failureCount": failure_count,
        },
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

    fn report_of(
        zone: &Zone,
        troubles: &[Trouble],
        cleared: &Cleared,
        silent: Option<&str>,
    ) -> ZoneReportSpec {
        let (rendered, policies) = (&Rendered::default(), &CarriedOut::default());
        report(zone, Progress { troubles, cleared, rendered, policies, silent })
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
            let report = report_of(&zone, &[trouble], &Cleared::default(), None);
            let told = report.failures.into_iter().filter(|failure| failure.reason == "DatabaseRefused");
            told.map(|failure| (failure.subject, failure.name)).collect::<Vec<_>>()
        };
        let connect = |name: &str| vec![(FailureSubject::ClusterNetworkConnect, name.to_owned())];
        assert_eq!(of("network:blue:pod:a:b:"), [(FailureSubject::Network, "blue".into())]);
        assert_eq!(of("cnc:main:link:blue:n1:"), connect("main"));
        assert_eq!(of("Load_Balancer_Group:cnc_svc_main"), connect("main"));
        let policy = vec![(FailureSubject::ClusterNetworkPolicy, "wall".to_owned())];
        assert_eq!(of("policy:rules:blue:CNP//wall:"), policy);
        assert_eq!(of("zone:common:"), [(FailureSubject::Node, "n1".into())]);
        assert_eq!(of("service:ns1:web:blue:"), [(FailureSubject::Node, "n1".into())]);
    }

    /// Who is silent is told of the node, and of connections that wait for it.
    #[test]
    fn a_silent_component_is_named() {
        let text = silence(&"n1".parse().unwrap(), Component::Controller, Instant::now());
        assert!(text.starts_with("ovn-controller on n1 has not answered since 2"), "{text}");
        let report = report_of(&zone(), &[], &Cleared::default(), Some(&text));
        let line = report.failures.iter().find(|failure| failure.reason == SILENT).unwrap();
        assert_eq!((line.subject, line.name.as_str()), (FailureSubject::Node, "n1"));
    }

    /// A zone whose node is not known yet: one line for the default network, and no more.
    #[test]
    fn a_report_is_one_line_for_each_subject() {
        let report = report_of(&zone(), &[], &Cleared::new(Epoch(7), [Epoch(4)]), None);
        let lines: Vec<(&str, &str)> =
            report.failures.iter().map(|f| (f.name.as_str(), f.reason.as_str())).collect();
        assert_eq!(lines, [("default", "NodeNotReady")]);
        assert_eq!((report.epoch, report.held_epochs, report.failure_count), (7, vec![4], 1));
    }
}
