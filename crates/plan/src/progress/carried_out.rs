//! Which cluster-scoped policies this zone has carried out, as they are wanted now: what the report names.
//!
//! When what is wanted has changed and the northbound database is as planned, a change is counted; when ovn-controller has installed
//! that count, everything is carried out that was wanted then and that nothing is in trouble of. Until then what was said last holds,
//! be it by the predecessor.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::crd::{MAX_REPORTED_POLICIES, PolicyReport};
use causeway_api::policy::{PolicyId, PolicyKind};
use causeway_zone::{Change, Changes, PolicyKey, Subject, Zone};

use super::silence::Signs;
use super::trouble::Trouble;

/// Which spec of each policy.
type Versions = BTreeMap<PolicyId, String>;

/// What was said of each policy, and what is waited for to say more.
#[derive(Debug, Default)]
pub struct CarriedOut {
    done: Versions,
    stirred: bool,
    /// What was wanted when a change was counted, and how far the count was before.
    counted: Option<(Versions, Option<i64>)>,
}

impl CarriedOut {
    /// Takes over what the predecessor's report says.
    pub fn inherit(&mut self, policies: &[PolicyReport]) {
        let read = |report: &PolicyReport| {
            let kind = PolicyKind::named(&report.kind)?;
            Some((PolicyId { kind, name: report.name.clone() }, report.version.clone()))
        };
        self.done = policies.iter().filter_map(read).collect();
    }

    /// Something else may be wanted.
    pub fn changed(&mut self, changes: &Changes) {
        self.stirred |= changes.iter().any(|change| matches!(change, Change::Everything | Change::Versions));
    }

    /// Goes as far as it can. Says whether a change has to be counted now, and whether more is carried out than before.
    pub fn turn(&mut self, zone: &Zone, settled: bool, signs: &Signs) -> (bool, bool) {
        if let Some((wanted, _)) = self.counted.take_if(|(_, before)| signs.have_installed_since(*before)) {
            let news = self.done != wanted;
            self.done = wanted;
            return (false, news);
        }
        if !self.stirred || !settled || self.counted.is_some() || signs.asked.is_none() {
            return (false, false);
        }
        self.stirred = false;
        let wanted = zone.policy_versions();
        let count = self.done != *wanted;
        if count {
            self.counted = Some((wanted.clone(), signs.asked));
        }
        (count, false)
    }

    /// Policies that others have not carried out yet as they are wanted now.
    pub fn pending<'a>(&'a self, zone: &'a Zone) -> impl Iterator<Item = &'a PolicyId> + 'a {
        let wanted = zone.policy_versions().iter();
        wanted.filter(|(id, version)| self.done.get(*id) != Some(*version)).map(|(id, _)| id)
    }

    /// What the report says: nothing of what is in trouble, or gone.
    pub fn reports(&self, zone: &Zone, troubles: &[Trouble]) -> Vec<PolicyReport> {
        let troubled: BTreeSet<&Subject> = troubles.iter().flat_map(|trouble| &trouble.blame).collect();
        let well = |id: &PolicyId| !troubled.contains(&Subject::Policy(PolicyKey::Cluster(id.clone())));
        let said = self.done.iter().filter(|(id, _)| zone.policy_versions().contains_key(*id) && well(id));
        let report = |(id, version): (&PolicyId, &String)| PolicyReport {
            kind: id.kind.to_string(),
            name: id.name.clone(),
            version: version.clone(),
        };
        said.map(report).take(MAX_REPORTED_POLICIES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::crd::policy as crd;
    use causeway_api::intent::ClusterConfig;
    use causeway_record::{OfKind, Watched as _};
    use causeway_types::NodeId;
    use causeway_zone::ZoneConfig;
    use serde_json::json;

    fn zone() -> Zone {
        let cluster = ClusterConfig::new(vec!["10.244.0.0/16".parse().unwrap()], Vec::new(), NodeId::FIRST);
        Zone::new(ZoneConfig::new("n1".parse().unwrap(), cluster))
    }

    fn signs(asked: i64, installed: i64) -> Signs {
        let (northbound, southbound) = (None, None);
        let (northd, controller) = (Some(installed), Some(installed));
        Signs { northbound, southbound, asked: Some(asked), northd, controller }
    }

    fn apply(zone: &mut Zone, generation: i64) -> Changes {
        let object = serde_json::from_value(json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "wall", "uid": "u", "generation": generation},
            "spec": {"tier": "Admin", "priority": 1, "subject": {"namespaces": {}}},
        }))
        .unwrap();
        let id = OfKind::<crd::ClusterNetworkPolicy>::key(&object).unwrap();
        zone.apply_cluster_policy(&OfKind::<crd::ClusterNetworkPolicy>::trim(object, id).policy)
    }

    fn said(policies: &CarriedOut, zone: &Zone, troubles: &[Trouble]) -> Vec<String> {
        policies.reports(zone, troubles).into_iter().map(|report| report.version).collect()
    }

    #[test]
    fn a_policy_is_carried_out_when_a_later_count_is_installed() {
        let mut zone = zone();
        let mut policies = CarriedOut::default();
        policies.changed(&apply(&mut zone, 1));
        assert_eq!(policies.turn(&zone, false, &signs(5, 5)), (false, false), "rows are not written yet");
        assert_eq!(policies.turn(&zone, true, &signs(5, 5)), (true, false));
        assert_eq!(policies.turn(&zone, true, &signs(5, 5)), (false, false), "that was counted before");
        assert_eq!(policies.turn(&zone, true, &signs(6, 5)), (false, false), "somebody owes an answer");
        assert_eq!((said(&policies, &zone, &[]).len(), policies.pending(&zone).count()), (0, 1));
        // It changes while one waits: what was wanted then is carried out, and no more.
        policies.changed(&apply(&mut zone, 2));
        assert_eq!(policies.turn(&zone, true, &signs(6, 6)), (false, true));
        assert_eq!(
            (said(&policies, &zone, &[]), policies.pending(&zone).count()),
            (vec!["u/1".to_owned()], 1)
        );
        assert_eq!(policies.turn(&zone, true, &signs(6, 6)), (true, false));
        assert_eq!(policies.turn(&zone, true, &signs(7, 7)), (false, true));
        assert_eq!(
            (said(&policies, &zone, &[]), policies.pending(&zone).count()),
            (vec!["u/2".to_owned()], 0)
        );
        let id = PolicyId { kind: PolicyKind::Cluster, name: "wall".into() };
        let blame = vec![Subject::Policy(PolicyKey::Cluster(id.clone()))];
        let trouble = Trouble { slice: "policy:".into(), blame, reason: "Waiting", message: String::new() };
        assert_eq!(said(&policies, &zone, &[trouble]), Vec::<String>::new());
        zone.delete_cluster_policy(&id);
        assert_eq!(said(&policies, &zone, &[]), Vec::<String>::new());
    }

    /// A process that starts anew says what the last one said, and counts nothing if that is what is wanted.
    #[test]
    fn a_restart_takes_nothing_back() {
        let mut zone = zone();
        let mut policies = CarriedOut::default();
        let report =
            |kind: &str| PolicyReport { kind: kind.into(), name: "wall".into(), version: "u/1".into() };
        policies.inherit(&[report("ClusterNetworkPolicy"), report("Unknown")]);
        policies.changed(&apply(&mut zone, 1));
        assert_eq!(policies.turn(&zone, true, &signs(5, 5)), (false, false));
        assert_eq!(said(&policies, &zone, &[]), ["u/1"]);
    }
}
