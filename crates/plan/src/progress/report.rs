//! The ZoneReport: what this zone could not do, for the cluster manager to fold into the status of networks.

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{Cleared, Epoch};
use causeway_api::conditions::cut;
use causeway_api::crd::{
    FailureSubject, FurtherFailure, MAX_FAILURES, MAX_FURTHER_FAILURES, ZoneFailure, ZoneReportSpec,
};
use causeway_api::policy::PolicyKind;
use causeway_record::Node;
use causeway_types::{NetworkName, NetworkOrigin};
use causeway_zone::{PolicyKey, Reason, Subject, Zone};
use serde_json::{Value, json};

use super::carried_out::CarriedOut;
use super::rendered::{Rendered, missing};
use super::trouble::{HELD, Trouble};

/// A message that fits into the report.
const LONGEST_MESSAGE: usize = 1024;

/// In a word: a component does not do its part.
const SILENT: &str = "ComponentSilent";

/// How far everything is that reports speak of.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    /// What is not as planned, and who is to be told.
    pub troubles: &'a [Trouble],
    /// Which freed numbers are gone from here.
    pub cleared: &'a Cleared,
    /// Which connections are installed.
    pub rendered: &'a Rendered,
    /// Which cluster-scoped policies are installed.
    pub policies: &'a CarriedOut,
    /// Who does not do its part.
    pub silent: Option<&'a str>,
}

/// What the zone and its two databases say, and who does not do its part.
pub fn report(zone: &Zone, progress: Progress<'_>) -> ZoneReportSpec {
    let Progress { troubles, cleared, rendered, policies, .. } = progress;
    let failures = failures(zone, &progress);
    let failing: BTreeSet<(FailureSubject, String)> = failures.keys().cloned().collect();
    // Whose failure has no room must not be taken for one that is well.
    let mut carried_out = policies.reports(zone, troubles);
    carried_out.retain(|report| {
        let kind = PolicyKind::named(&report.kind).map(of_policy);
        kind.is_none_or(|kind| !failing.contains(&(kind, report.name.clone())))
    });
    let failure_count = failures.len() as i64;
    let (failures, further_failures) = chosen(zone, failures);
    let number = |epoch: Epoch| i64::try_from(epoch.0).unwrap_or(i64::MAX);
    ZoneReportSpec {
        epoch: number(cleared.upto()),
        held_epochs: cleared.held().map(number).collect(),
        connects: rendered.reports(),
        policies: carried_out,
        failures,
        further_failures,
        failure_count,
    }
}

fn word(reason: Reason) -> String {
    format!("{reason:?}")
}

type Failures = BTreeMap<(FailureSubject, String), ZoneFailure>;

/// One line for each subject: the first reason stands for all of its slices. The node's own come before those of others that are
/// told of the node.
fn failures(zone: &Zone, progress: &Progress<'_>) -> Failures {
    let Progress { troubles, rendered, policies, silent, .. } = progress;
    let mut all: Vec<(Subject, String, &str)> = Vec::new();
    if let Some(silent) = silent {
        let here = Subject::Node(zone.config().node.clone());
        let roads = rendered.pending().iter().cloned().map(Subject::Connect);
        let waiting = policies.pending(zone).map(|id| Subject::Policy(PolicyKey::Cluster(id.clone())));
        all.extend(
            [here]
                .into_iter()
                .chain(roads)
                .chain(waiting)
                .map(|subject| (subject, SILENT.to_owned(), *silent)),
        );
    }
    let connects = zone.connect_reports();
    let lacks = connects.iter().flat_map(|connect| missing(connect).map(|problem| (&connect.name, problem)));
    let lacks = lacks.map(|(name, problem)| (Subject::Connect(name.clone()), problem));
    // What this version does not render at all is no matter of a zone: the cluster manager says it.
    let problems = zone.problems().iter().filter(|(_, problem)| problem.reason != Reason::Unsupported);
    let problems = problems.map(|(subject, problem)| (subject.clone(), problem)).chain(lacks);
    all.extend(problems.map(|(subject, problem)| (subject, word(problem.reason), problem.message.as_str())));

    for (connect, text) in rendered.wrong() {
        all.push((Subject::Connect(connect.clone()), word(Reason::TunnelKeys), text));
    }
    for trouble in troubles.iter().filter(|trouble| trouble.reason != HELD) {
        let reason = trouble.reason.to_owned();
        all.extend(trouble.blame.iter().map(|one| (one.clone(), reason.clone(), trouble.message.as_str())));
    }
    all.sort_by_key(|(subject, ..)| !matches!(subject, Subject::Node(_)));
    let mut failures = Failures::new();
    for (subject, reason, message) in all {
        let failure = failure(zone, &subject, &reason, message);
        failures.entry((failure.subject, failure.name.clone())).or_insert(failure);
    }
    failures
}

/// Those that there is room to explain, and the names of the rest, both sorted. However many networks of one namespace fail, they
/// leave room for everybody else's.
fn chosen(zone: &Zone, failures: Failures) -> (Vec<ZoneFailure>, Vec<FurtherFailure>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut place = |failure: &ZoneFailure| match failure.subject {
        FailureSubject::Node => 0,
        FailureSubject::Network => {
            let before = seen.entry(whose(zone, &failure.name)).or_default();
            *before += 1;
            1 + *before
        }
        _ => 1,
    };
    let mut all: Vec<(usize, ZoneFailure)> =
        failures.into_values().map(|failure| (place(&failure), failure)).collect();
    all.sort_by_key(|(place, _)| *place);
    let mut all = all.into_iter().map(|(_, failure)| failure);
    let mut explained: Vec<ZoneFailure> = all.by_ref().take(MAX_FAILURES).collect();
    let name = |failure: ZoneFailure| FurtherFailure { subject: failure.subject, name: failure.name };
    let mut named: Vec<FurtherFailure> = all.take(MAX_FURTHER_FAILURES).map(name).collect();
    explained.sort();
    named.sort();
    (explained, named)
}

/// The namespace whose network it is, or the network itself if it is an administrator's.
fn whose(zone: &Zone, network: &str) -> String {
    let Ok(name) = NetworkName::new(network) else { return String::new() };
    match name.origin() {
        NetworkOrigin::Namespaced(namespace, _) => namespace.to_string(),
        NetworkOrigin::Bare => zone.namespaces_of(&name).first().map(ToString::to_string).unwrap_or_default(),
        NetworkOrigin::Default | NetworkOrigin::Cluster(_) => network.to_owned(),
    }
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
pub fn object(node: &Node, spec: &ZoneReportSpec) -> Value {
    let ZoneReportSpec { epoch, held_epochs, connects, policies, failures, further_failures, failure_count } =
        spec;
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
            "furtherFailures": further_failures,
            "failureCount": failure_count,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::intent::ClusterConfig;
    use causeway_api::policy::PolicyId;
    use causeway_types::NodeId;
    use causeway_types::host::Owner;
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
            let blame = crate::northbound(&zone).blame(slice);
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
        let text = "ovn-controller on n1 has not answered since noon: look at it";
        let report = report_of(&zone(), &[], &Cleared::default(), Some(text));
        let line = report.failures.iter().find(|failure| failure.reason == SILENT).unwrap();
        assert_eq!((line.subject, line.name.as_str()), (FailureSubject::Node, "n1"));
        assert!(line.message.ends_with(text), "{}", line.message);
    }

    /// What nft, vtysh or the kernel refuse for a network is told of the network.
    #[test]
    fn what_the_host_refuses_is_told_of_its_network() {
        let red = Owner::network(&"cluster_udn_red".parse().unwrap());
        let trouble = Trouble::of_host(&red, "vtysh: % Unknown command").unwrap();
        let report = report_of(&zone(), &[trouble], &Cleared::default(), None);
        let told = report.failures.iter().find(|failure| failure.name == "cluster_udn_red").unwrap();
        let expected = (FailureSubject::Network, "HostRefused", "vtysh: % Unknown command");
        assert_eq!((told.subject, told.reason.as_str(), told.message.as_str()), expected);
    }

    fn refused(slice: &str, blame: Subject) -> Trouble {
        Trouble { slice: slice.into(), blame: vec![blame], reason: "DatabaseRefused", message: "no".into() }
    }

    /// However much of one namespace fails, the node's, the connections', the policies' and everybody else's failures are explained,
    /// and whatever is not is named.
    #[test]
    fn one_namespace_hides_nobody_elses_failures() {
        let network = |name: String| refused("network:", Subject::Network(name.parse().unwrap()));
        let mut troubles: Vec<Trouble> = (10..70).map(|n| network(format!("a-tenant_n{n}"))).collect();
        troubles.extend(["b_blue", "z_one", "z_two", "cluster_udn_all"].map(|name| network(name.into())));
        troubles.push(refused("cnc:main:", Subject::Connect("main".parse().unwrap())));
        let wall = PolicyKey::Cluster(PolicyId { kind: PolicyKind::Cluster, name: "wall".into() });
        troubles.push(refused("policy:", Subject::Policy(wall)));
        let report = report_of(&zone(), &troubles, &Cleared::default(), Some("nobody answers"));
        let told = |name: &str| report.failures.iter().any(|failure| failure.name == name);
        for name in
            ["n1", "main", "wall", "b_blue", "z_one", "z_two", "cluster_udn_all", "default", "a-tenant_n10"]
        {
            assert!(told(name), "{name} is not in {:?}", report.failures);
        }
        assert!(report.failures.is_sorted() && report.further_failures.is_sorted());
        assert_eq!(
            (report.failures.len(), report.further_failures.len(), report.failure_count),
            (50, 18, 68)
        );
        let mut networks: Vec<&String> = report.failures.iter().map(|failure| &failure.name).collect();
        networks.extend(report.further_failures.iter().map(|failure| &failure.name));
        assert_eq!(networks.iter().filter(|name| name.starts_with("a-tenant_")).count(), 60);
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
