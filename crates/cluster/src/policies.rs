//! Network policies: what their authors are told.
//!
//! Zones carry policies out; here is only said whether one can be carried out as it is written, and what its author may not have
//! meant. Owns the conditions of cluster-scoped policies; NetworkPolicies have no status, and get events. Never changes what a policy
//! means.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use causeway_api::conditions::{ACCEPTED, Finding, READY, merge};
use causeway_api::crd::policy::PolicyStatus;
use causeway_api::policy::{self, Order, PolicyId, PolicyKind};
use causeway_record::{
    Action, Cause, ClusterPolicy, Event, EventNote, Kind, Namespace, NetworkPolicy, ObjectKey, Part,
    Priority, Regarding, Target,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::Manager;
use crate::trouble::{finding, listed};
use crate::writes::FIELD_MANAGER;
use crate::zone_reports::{FAILED, PENDING, SUCCEEDED};

/// The shortest time between two statuses of one policy.
const PAUSE_MS: i64 = 1_000;
/// In a word: it is carried out, but not as it is written.
const RULE_FAILS_CLOSED: &str = "RuleFailsClosed";
/// What names of namespaces begin with that the cluster itself needs.
const SYSTEM: [&str; 2] = ["kube-", "openshift-"];

/// All cluster-scoped policies.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    all: BTreeMap<PolicyId, State>,
    /// Those that are asked at the same time, by age: each names the last one before it, so one that comes or goes concerns one.
    by_order: BTreeMap<Order, BTreeSet<Age>>,
    /// Those whose status waits for its second to pass.
    late: BTreeSet<PolicyId>,
    /// What tenants were told of their own: of those alone that cannot be carried out as they are written.
    told_tenants: BTreeMap<ObjectKey, EventNote>,
}

#[derive(Debug)]
struct State {
    object: ClusterPolicy,
    /// The status that was asked for last, and whether it is written.
    sent: Option<(PolicyStatus, bool)>,
    /// When a status was last asked for.
    said_at: Option<i64>,
}

impl State {
    /// What was said last.
    fn told(&self) -> &PolicyStatus {
        self.sent.as_ref().map_or(&self.object.status, |(sent, _)| sent)
    }

    fn age(&self) -> Age {
        (self.object.created, self.object.id.clone())
    }

    /// When it is asked, and which of those that are it is.
    fn place(&self) -> Option<(Order, Age)> {
        Some((order_of(self)?, self.age()))
    }
}

/// When a policy came. What came in one second is told apart by name.
type Age = (i64, PolicyId);

impl Policies {
    /// A policy has another place from now on, or none; the answer is those who have another one before them by that.
    fn place(&mut self, old: Option<(Order, Age)>, new: Option<(Order, Age)>) -> Vec<PolicyId> {
        if old == new {
            return Vec::new();
        }
        let left = old.iter().filter_map(|place| self.after(place)).collect::<Vec<_>>();
        if let Some((order, age)) = &old
            && let Some(same) = self.by_order.get_mut(order)
        {
            same.remove(age);
            if same.is_empty() {
                self.by_order.remove(order);
            }
        }
        if let Some((order, age)) = &new {
            self.by_order.entry(*order).or_default().insert(age.clone());
        }
        left.into_iter().chain(new.iter().filter_map(|place| self.after(place))).collect()
    }

    /// The next one after a place.
    fn after(&self, (order, age): &(Order, Age)) -> Option<PolicyId> {
        let later = (Bound::Excluded(age), Bound::Unbounded);
        self.by_order.get(order)?.range::<Age, _>(later).next().map(|(_, id)| id.clone())
    }

    /// The youngest of the older ones that are asked at the same time.
    fn before(&self, state: &State) -> Option<&PolicyId> {
        let (order, age) = state.place()?;
        self.by_order.get(&order)?.range(..age).next_back().map(|(_, id)| id)
    }

    /// Everything of a kind.
    fn of_kind(&self, kind: PolicyKind) -> Vec<PolicyId> {
        self.all.keys().filter(|id| id.kind == kind).cloned().collect()
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = PolicyId> {
        self.all.keys().cloned()
    }
}

/// When a policy is asked; nobody else is when the last one is.
fn order_of(state: &State) -> Option<Order> {
    let meant = state.object.meant.as_ref().ok()?;
    Some(meant.order).filter(|order| order.written.is_some())
}

/// Whether the cluster itself needs what is in the namespace.
pub(crate) fn is_system(namespace: &Namespace) -> bool {
    SYSTEM.iter().any(|start| namespace.name.as_str().starts_with(start))
}

impl Policies {
    pub(crate) fn status_done(&mut self, target: &Target) {
        let kind = PolicyKind::ALL.into_iter().find(|kind| kind_of(*kind) == target.kind);
        let id = kind.map(|kind| PolicyId { kind, name: target.name.clone() });
        let state = id.and_then(|id| self.all.get_mut(&id));
        if let Some((_, done)) = state.and_then(|state| state.sent.as_mut()) {
            *done = true;
        }
    }
}

impl Manager {
    pub(crate) fn policy_event(&mut self, kind: PolicyKind, event: Event<ClusterPolicy, PolicyId>) {
        match event {
            Event::Applied(object) => self.policy_applied(object),
            Event::Deleted(id) => self.policy_deleted(&id),
            // Without the kind there are no objects of it.
            Event::Unsynced(broken) if broken.cause == Cause::NotInstalled => {
                self.policies.of_kind(kind).iter().for_each(|id| self.policy_deleted(id));
            }
            Event::Synced | Event::Unsynced(_) => {}
        }
    }

    /// A tenant's policy with parts that nobody here can read: they fail closed, and he is told once.
    pub(crate) fn network_policy_event(&mut self, event: Event<NetworkPolicy, ObjectKey>) {
        match event {
            Event::Applied(policy) if !policy.unreadable.is_empty() => {
                let note = fails_closed(&policy);
                let told = self.policies.told_tenants.insert(policy.key, note.clone());
                if told.as_ref() != Some(&note) {
                    self.writes.say(note);
                }
            }
            Event::Applied(NetworkPolicy { key, .. }) | Event::Deleted(key) => {
                self.policies.told_tenants.remove(&key);
            }
            Event::Synced | Event::Unsynced(_) => {}
        }
    }

    fn policy_applied(&mut self, object: ClusterPolicy) {
        let id = object.id.clone();
        self.writes.seen(&target(&id));
        let before = self.policies.all.remove(&id);
        let place = before.as_ref().and_then(State::place);
        let before = before.filter(|before| before.object.uid == object.uid);
        let (sent, said_at) = before.map_or((None, None), |before| (before.sent, before.said_at));
        let sent = sent.filter(|(sent, done)| !*done && *sent != object.status);
        let state = State { object, sent, said_at };
        self.dirty.policies(self.policies.place(place, state.place()));
        self.policies.all.insert(id.clone(), state);
        self.dirty.policies([id]);
    }

    fn policy_deleted(&mut self, id: &PolicyId) {
        let place = self.policies.all.remove(id).and_then(|state| state.place());
        self.dirty.policies(self.policies.place(place, None));
        self.policies.late.remove(id);
        self.writes.withdraw(&target(id), Part::Status);
    }

    /// A namespace that the cluster itself needs has come, gone or changed: whoever selects it says so.
    pub(crate) fn policies_see_namespace(&mut self, before: Option<&Namespace>, now: Option<&Namespace>) {
        let changed = before.map(|one| &one.labels) != now.map(|one| &one.labels);
        if changed && before.into_iter().chain(now).any(is_system) {
            self.dirty.policies(self.policies.all.keys().cloned());
        }
    }

    /// Time passes: statuses that had to wait.
    pub(crate) fn policies_tick(&mut self) {
        self.dirty.policies(std::mem::take(&mut self.policies.late));
    }

    /// All policies hear of a node that comes, goes or falls silent.
    pub(crate) fn all_policy_statuses(&mut self) {
        self.dirty.policies(self.policies.all());
    }

    /// Writes the status of a policy if it is not what the policy has.
    pub(crate) fn settle_policy(&mut self, id: &PolicyId) {
        let Some(state) = self.policies.all.get(id).filter(|state| !state.object.deleting) else { return };
        if state.said_at.is_some_and(|at| self.now_ms < at + PAUSE_MS) {
            self.policies.late.insert(id.clone());
            return;
        }
        let accepted = self.policy_accepted(state);
        let now = Time(Timestamp::from_millisecond(self.now_ms / 1000 * 1000).unwrap_or_default());
        let told = &state.told().conditions;
        let findings: Vec<Finding> =
            [accepted.clone()].into_iter().chain(self.policy_ready(state, &accepted)).collect();
        let conditions = merge(told, &findings, state.object.generation, &now);
        if conditions == *told {
            return;
        }
        let known = told.iter().find(|one| one.type_ == ACCEPTED).map(|one| one.reason.clone());
        let regarding = regarding(&state.object);
        if accepted.status == Some(false) && known.as_deref() != Some(accepted.reason.as_str()) {
            self.writes.warn(regarding, &accepted.reason, accepted.message);
        }
        self.write_policy_status(id, PolicyStatus { conditions });
    }

    fn write_policy_status(&mut self, id: &PolicyId, wanted: PolicyStatus) {
        let (api_version, kind) = kind_of(id.kind).api_version_and_kind();
        // What is applied: our own conditions only, so that those of others stay theirs.
        let is_ours = |kind: &str| [ACCEPTED, READY].contains(&kind);
        let own: Vec<_> = wanted.conditions.iter().filter(|one| is_ours(&one.type_)).collect();
        let body = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": id.name}, "status": {"conditions": own},
        });
        let action = Action::Apply { subresource: Some("status"), manager: FIELD_MANAGER, body };
        self.writes.ask(target(id), Part::Status, Priority::Status, action);
        let now_ms = self.now_ms;
        if let Some(state) = self.policies.all.get_mut(id) {
            state.sent = Some((wanted, false));
            state.said_at = Some(now_ms);
        }
    }

    /// Whether a policy can be carried out as it is written.
    fn policy_accepted(&self, state: &State) -> Finding {
        let meant = match &state.object.meant {
            Ok(meant) => meant,
            Err(refusal) => return finding(ACCEPTED, false, refusal.reason(), refusal.to_string()),
        };
        if !meant.remarks.is_empty() {
            let message = format!("Rules fail closed: {}", listed(&meant.remarks, "; "));
            return finding(ACCEPTED, false, RULE_FAILS_CLOSED, message);
        }
        let mut words = vec!["The policy is carried out as it is written".to_owned()];
        words.extend(self.system_words(meant));
        let Some(older) = self.policies.before(state) else {
            return finding(ACCEPTED, true, "Accepted", words.join(". "));
        };
        let message = format!(
            "It has the tier and priority of {older}: which of them is asked first is not defined, give it a priority of its own"
        );
        words.insert(1, message);
        finding(ACCEPTED, true, "EqualPriority", words.join(". "))
    }

    /// Whether every zone has carried a policy out as it is written now. Before reports are listed, what was said stays.
    fn policy_ready(&self, state: &State, accepted: &Finding) -> Option<Finding> {
        if state.object.meant.is_err() {
            let message = "Nothing of it is carried out, see Accepted".to_owned();
            return Some(finding(READY, false, &accepted.reason, message));
        }
        if !self.zone_reports.are_listed() {
            return None;
        }
        let (id, version) = (&state.object.id, state.object.version());
        let (mut live, mut done, mut failing, mut waiting) = (0, 0, Vec::new(), Vec::new());
        for (node, _) in self.nodes.live().filter(|(_, live)| *live) {
            live += 1;
            if let Some(failure) = self.zone_reports.policy_failure(id, node) {
                failing.push(format!("{node}: {failure}"));
            } else if self.zone_reports.carried_out(id, node) == Some(version.as_str()) {
                done += 1;
            } else {
                waiting.push(node);
            }
        }
        let zones = format!("{done}/{live} zones");
        Some(if !failing.is_empty() {
            finding(READY, false, FAILED, format!("{zones}; {}", listed(failing, "; ")))
        } else if !waiting.is_empty() {
            finding(READY, false, PENDING, format!("{zones}; waiting for: {}", listed(waiting, ", ")))
        } else {
            finding(READY, live > 0, if live > 0 { SUCCEEDED } else { PENDING }, zones)
        })
    }

    /// A warning about namespaces that the cluster itself needs.
    fn system_words(&self, meant: &policy::ClusterPolicy) -> Option<String> {
        let selected = |namespace: &&Namespace| {
            is_system(namespace) && meant.subject.namespaces.selects(&namespace.labels)
        };
        let names: Vec<&str> =
            self.namespaces.iter().filter(selected).map(|namespace| namespace.name.as_str()).collect();
        (!names.is_empty()).then(|| {
            let count = names.len();
            format!("Warning: the subject includes {count} system namespaces: {}", listed(names, ", "))
        })
    }
}

fn kind_of(kind: PolicyKind) -> Kind {
    match kind {
        PolicyKind::Cluster => Kind::ClusterNetworkPolicy,
        PolicyKind::Admin => Kind::AdminNetworkPolicy,
        PolicyKind::Baseline => Kind::BaselineAdminNetworkPolicy,
    }
}

fn target(id: &PolicyId) -> Target {
    Target { kind: kind_of(id.kind), namespace: None, name: id.name.clone() }
}

fn fails_closed(policy: &NetworkPolicy) -> EventNote {
    let regarding = Regarding {
        api_version: "networking.k8s.io/v1".into(),
        kind: "NetworkPolicy".into(),
        namespace: Some(policy.key.namespace.to_string()),
        name: policy.key.name.to_string(),
        uid: policy.uid.clone(),
    };
    let message = format!("Parts of the policy allow nobody: {}", listed(&policy.unreadable, "; "));
    EventNote { regarding, warning: true, reason: RULE_FAILS_CLOSED.into(), message }
}

fn regarding(policy: &ClusterPolicy) -> Regarding {
    let (api_version, kind) = kind_of(policy.id.kind).api_version_and_kind();
    Regarding { api_version, kind, namespace: None, name: policy.id.name.clone(), uid: policy.uid.clone() }
}
