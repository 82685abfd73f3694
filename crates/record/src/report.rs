//! What zones say of themselves.

use std::collections::BTreeMap;

use causeway_alloc::{Cleared, Epoch};
use causeway_api::crd::{self, FailureSubject, ZoneFailure};
use causeway_api::policy::{PolicyId, PolicyKind};
use causeway_types::{ConnectName, NetworkName, NodeName};
use serde::{Deserialize, Serialize};

use crate::Watched;

/// What a zone tells the cluster manager in its `ZoneReport` object.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ZoneReport {
    /// The node whose zone it is.
    pub node: NodeName,
    /// Which freed numbers are gone from the zone.
    #[serde(flatten)]
    pub cleared: Cleared,
    /// What the zone has rendered of each connection.
    pub rendered: BTreeMap<ConnectName, RenderedHash>,
    /// What it could not do for connections.
    pub connects: BTreeMap<ConnectName, String>,
    /// What it could not do for networks.
    pub networks: BTreeMap<NetworkName, String>,
    /// Whether it could not do more than the report names: then of networks that it does not name nothing is known.
    #[serde(default)]
    pub cut: bool,
    /// What the zone has carried out of each cluster-scoped policy: UID and generation.
    #[serde(default)]
    pub carried_out: Vec<(PolicyId, String)>,
    /// What it could not do for cluster-scoped policies.
    #[serde(default)]
    pub policies: Vec<(PolicyId, String)>,
}

/// Stands for the spec and the annotations that a zone has rendered: small, for there are as many as connections times zones.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct RenderedHash(u128);

impl RenderedHash {
    /// The hash of a text as reports have it.
    pub fn new(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl From<RenderedHash> for String {
    fn from(hash: RenderedHash) -> Self {
        format!("{:032x}", hash.0)
    }
}

impl TryFrom<String> for RenderedHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text).ok_or_else(|| format!("{text:?} is no hash of a report"))
    }
}

impl ZoneReport {
    /// The report of a zone that has said nothing.
    pub fn none(node: NodeName) -> Self {
        Self {
            node,
            cleared: Cleared::default(),
            rendered: BTreeMap::new(),
            connects: BTreeMap::new(),
            networks: BTreeMap::new(),
            cut: false,
            carried_out: Vec::new(),
            policies: Vec::new(),
        }
    }
}

/// What is said of those whose failure has no room of its own in a report.
const FURTHER: &str =
    "it fails, and its ZoneReport has no room to say why: mend what that explains, then it explains this";

/// All failures that a report names, and whether there are more.
fn failures(spec: &mut crd::ZoneReportSpec) -> (Vec<ZoneFailure>, bool) {
    let further = std::mem::take(&mut spec.further_failures).into_iter().map(|further| ZoneFailure {
        subject: further.subject,
        name: further.name,
        reason: String::new(),
        message: FURTHER.to_owned(),
    });
    let failures: Vec<ZoneFailure> = std::mem::take(&mut spec.failures).into_iter().chain(further).collect();
    let cut = usize::try_from(spec.failure_count).is_ok_and(|count| count > failures.len());
    (failures, cut)
}

/// What could not be done for policies of every kind.
fn about_policies(failures: &[ZoneFailure]) -> Vec<(PolicyId, String)> {
    let kinds = [
        (FailureSubject::ClusterNetworkPolicy, PolicyKind::Cluster),
        (FailureSubject::AdminNetworkPolicy, PolicyKind::Admin),
        (FailureSubject::BaselineAdminNetworkPolicy, PolicyKind::Baseline),
    ];
    let of =
        |(subject, kind)| about(failures, subject, |name| Some(PolicyId { kind, name: name.to_owned() }));
    kinds.into_iter().flat_map(of).collect()
}

/// Which freed numbers are gone, by a report.
pub fn cleared(spec: &crd::ZoneReportSpec) -> Cleared {
    let epoch = |number: i64| Epoch(u64::try_from(number).unwrap_or(0));
    Cleared::new(epoch(spec.epoch), spec.held_epochs.iter().copied().map(epoch))
}

/// What could not be done, by whom it is about: all of it in one text.
fn about<K: Ord>(
    failures: &[ZoneFailure],
    subject: FailureSubject,
    name: impl Fn(&str) -> Option<K>,
) -> BTreeMap<K, String> {
    let mut texts: BTreeMap<K, String> = BTreeMap::new();
    for failure in failures.iter().filter(|failure| failure.subject == subject) {
        let Some(name) = name(&failure.name) else { continue };
        let text = texts.entry(name).or_default();
        let separator = if text.is_empty() { "" } else { "; " };
        *text = format!("{text}{separator}{}", failure.message);
    }
    texts
}

impl Watched for ZoneReport {
    type Object = crd::ZoneReport;
    type Key = NodeName;
    const KIND: &'static str = "zonereports";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<NodeName> {
        NodeName::new(object.metadata.name.clone()?).ok()
    }

    fn trim(object: Self::Object, node: NodeName) -> Self {
        let mut spec = object.spec;
        let cleared = cleared(&spec);
        let (failures, cut) = failures(&mut spec);
        let rendered = spec.connects.iter().filter_map(|connect| {
            let name = ConnectName::new(connect.name.as_str()).ok()?;
            Some((name, RenderedHash::new(&connect.hash)?))
        });
        let carried_out = spec.policies.into_iter().filter_map(|policy| {
            let kind = PolicyKind::named(&policy.kind)?;
            Some((PolicyId { kind, name: policy.name }, policy.version))
        });
        Self {
            node,
            cleared,
            rendered: rendered.collect(),
            connects: about(&failures, FailureSubject::ClusterNetworkConnect, |name| {
                ConnectName::new(name).ok()
            }),
            networks: about(&failures, FailureSubject::Network, |name| NetworkName::new(name).ok()),
            cut,
            carried_out: carried_out.collect(),
            policies: about_policies(&failures),
        }
    }
}

/// A report word for word, for the node that has written it: what others put there is to go.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OwnReport {
    /// The node whose zone it is.
    pub node: NodeName,
    /// What it says.
    pub spec: crd::ZoneReportSpec,
}

impl Watched for OwnReport {
    type Object = crd::ZoneReport;
    type Key = NodeName;
    const KIND: &'static str = "zonereports";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<NodeName> {
        <ZoneReport as Watched>::key(object)
    }

    fn trim(object: Self::Object, node: NodeName) -> Self {
        Self { node, spec: object.spec }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    #[test]
    fn a_report_by_whom_it_is_about() {
        let failure = |subject: &str, name: &str, message: &str| json!({"subject": subject, "name": name, "reason": "R", "message": message});
        let report: ZoneReport = trimmed(
            json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ZoneReport", "metadata": {"name": "n1"},
            "spec": {"epoch": 7, "heldEpochs": [3], "connects": [{"name": "road", "hash": "00ff"}, {"name": "path", "hash": "none"}],
                     "policies": [{"kind": "AdminNetworkPolicy", "name": "guard", "version": "u/2"}, {"kind": "Other", "name": "x", "version": "u/1"}],
                     "failures": [failure("ClusterNetworkPolicy", "wall", "held"), failure("Network", "blue", "no"), failure("ClusterNetworkConnect", "road", "one"),
                                  failure("ClusterNetworkConnect", "road", "two"), failure("Node", "n1", "off")]}}),
        );
        let policy = |kind, name: &str| PolicyId { kind, name: name.to_owned() };
        let road: ConnectName = "road".parse().unwrap();
        let expected = ZoneReport {
            cleared: Cleared::new(Epoch(7), [Epoch(3)]),
            rendered: [(road.clone(), RenderedHash(255))].into(),
            connects: [(road, "one; two".to_owned())].into(),
            networks: [("blue".parse().unwrap(), "no".to_owned())].into(),
            carried_out: vec![(policy(PolicyKind::Admin, "guard"), "u/2".to_owned())],
            policies: vec![(policy(PolicyKind::Cluster, "wall"), "held".to_owned())],
            ..ZoneReport::none("n1".parse().unwrap())
        };
        assert_eq!(report, expected);
        assert_eq!(replayed(&report), report);
    }

    /// Whoever is named fails, also without a reason; where not everybody is, that is known.
    #[test]
    fn a_report_that_has_no_room_for_everything() {
        let report = |further: serde_json::Value, count: i64| -> ZoneReport {
            let failures = json!([{"subject": "Network", "name": "blue", "reason": "R", "message": "no"}]);
            let spec = json!({"failures": failures, "furtherFailures": further, "failureCount": count});
            trimmed(
                json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ZoneReport", "metadata": {"name": "n1"}, "spec": spec}),
            )
        };
        let all = report(
            json!([{"subject": "Network", "name": "red"}, {"subject": "ClusterNetworkConnect", "name": "road"}]),
            3,
        );
        let (red, road) = ("red".parse().unwrap(), "road".parse().unwrap());
        assert_eq!((&all.networks[&red], &all.connects[&road]), (&FURTHER.to_owned(), &FURTHER.to_owned()));
        assert!(!all.cut && all.networks.len() == 2);
        assert!(report(json!([]), 2).cut && !report(json!([]), 1).cut);
    }
}
