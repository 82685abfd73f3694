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

use crate::desk::Desk;
use crate::dirty::Dirty;
use crate::namespaces::Namespaces;
use crate::trouble::{finding, listed};
use crate::writes::{FIELD_MANAGER, Writes};
use crate::zone_reports::{FAILED, PENDING, SUCCEEDED, Zones};

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

impl Policies {
    pub(crate) fn take(&mut self, kind: PolicyKind, event: Event<ClusterPolicy, PolicyId>, desk: &mut Desk) {
        match event {
            Event::Applied(object) => self.applied(object, desk),
            Event::Deleted(id) => self.deleted(&id, desk),
            // Without the kind there are no objects of it.
            Event::Unsynced(broken) if broken.cause == Cause::NotInstalled => {
                self.of_kind(kind).iter().for_each(|id| self.deleted(id, desk));
            }
            Event::Synced | Event::Unsynced(_) => {}
        }
    }

    /// A tenant's policy with parts that nobody here can read: they fail closed, and he is told once.
    pub(crate) fn take_of_tenant(&mut self, event: Event<NetworkPolicy, ObjectKey>, writes: &mut Writes) {
        match event {
            Event::Applied(policy) if !policy.unreadable.is_empty() => {
                let note = fails_closed(&policy);
                let told = self.told_tenants.insert(policy.key, note.clone());
                if told.as_ref() != Some(&note) {
                    writes.say(note);
                }
            }
            Event::Applied(NetworkPolicy { key, .. }) | Event::Deleted(key) => {
                self.told_tenants.remove(&key);
            }
            Event::Synced | Event::Unsynced(_) => {}
        }
    }

    fn applied(&mut self, object: ClusterPolicy, desk: &mut Desk) {
        let id = object.id.clone();
        desk.writes.seen(&target(&id));
        let before = self.all.remove(&id);
        let place = before.as_ref().and_then(State::place);
        let before = before.filter(|before| before.object.uid == object.uid);
        let (sent, said_at) = before.map_or((None, None), |before| (before.sent, before.said_at));
        let sent = sent.filter(|(sent, done)| !*done && *sent != object.status);
        let state = State { object, sent, said_at };
        desk.dirty.policies(self.place(place, state.place()));
        self.all.insert(id.clone(), state);
        desk.dirty.policies([id]);
    }

    fn deleted(&mut self, id: &PolicyId, desk: &mut Desk) {
        let place = self.all.remove(id).and_then(|state| state.place());
        desk.dirty.policies(self.place(place, None));
        self.late.remove(id);
        desk.writes.withdraw(&target(id), Part::Status);
    }

    /// A namespace that the cluster itself needs has come, gone or changed: whoever selects it says so.
    pub(crate) fn see_namespace(
        &self,
        before: Option<&Namespace>,
        now: Option<&Namespace>,
        dirty: &mut Dirty,
    ) {
        let changed = before.map(|one| &one.labels) != now.map(|one| &one.labels);
        if changed && before.into_iter().chain(now).any(is_system) {
            dirty.policies(self.all());
        }
    }

    /// Time passes: statuses that had to wait.
    pub(crate) fn tick(&mut self, dirty: &mut Dirty) {
        dirty.policies(std::mem::take(&mut self.late));
    }

    /// Writes the status of a policy if it is not what the policy has.
    pub(crate) fn settle(
        &mut self,
        id: &PolicyId,
        namespaces: &Namespaces,
        zones: Zones<'_>,
        desk: &mut Desk,
    ) {
        let Some(state) = self.all.get(id).filter(|state| !state.object.deleting) else { return };
        if state.said_at.is_some_and(|at| desk.now_ms < at + PAUSE_MS) {
            self.late.insert(id.clone());
            return;
        }
        let accepted = self.accepted(state, namespaces);
        let now = Time(Timestamp::from_millisecond(desk.now_ms / 1000 * 1000).unwrap_or_default());
        let told = &state.told().conditions;
        let findings: Vec<Finding> =
            [accepted.clone()].into_iter().chain(ready(state, &accepted, zones)).collect();
        let conditions = merge(told, &findings, state.object.generation, &now);
        if conditions == *told {
            return;
        }
        let known = told.iter().find(|one| one.type_ == ACCEPTED).map(|one| one.reason.clone());
        let regarding = regarding(&state.object);
        if accepted.status == Some(false) && known.as_deref() != Some(accepted.reason.as_str()) {
            desk.writes.warn(regarding, &accepted.reason, accepted.message);
        }
        self.write_status(id, PolicyStatus { conditions }, desk);
    }

    fn write_status(&mut self, id: &PolicyId, wanted: PolicyStatus, desk: &mut Desk) {
        let (api_version, kind) = kind_of(id.kind).api_version_and_kind();
        // What is applied: our own conditions only, so that those of others stay theirs.
        let is_ours = |kind: &str| [ACCEPTED, READY].contains(&kind);
        let own: Vec<_> = wanted.conditions.iter().filter(|one| is_ours(&one.type_)).collect();
        let body = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": id.name}, "status": {"conditions": own},
        });
        let action = Action::Apply { subresource: Some("status"), manager: FIELD_MANAGER, body };
        desk.writes.ask(target(id), Part::Status, Priority::Status, action);
        if let Some(state) = self.all.get_mut(id) {
            state.sent = Some((wanted, false));
            state.said_at = Some(desk.now_ms);
        }
    }

    /// Whether a policy can be carried out as it is written.
    fn accepted(&self, state: &State, namespaces: &Namespaces) -> Finding {
        let meant = match &state.object.meant {
            Ok(meant) => meant,
            Err(refusal) => return finding(ACCEPTED, false, refusal.reason(), refusal.to_string()),
        };
        if !meant.remarks.is_empty() {
            let message = format!("Rules fail closed: {}", listed(&meant.remarks, "; "));
            return finding(ACCEPTED, false, RULE_FAILS_CLOSED, message);
        }
        let mut words = vec!["The policy is carried out as it is written".to_owned()];
        words.extend(system_words(meant, namespaces));
        let Some(older) = self.before(state) else {
            return finding(ACCEPTED, true, "Accepted", words.join(". "));
        };
        let message = format!(
            "It has the tier and priority of {older}: which of them is asked first is not defined, give it a priority of its own"
        );
        words.insert(1, message);
        finding(ACCEPTED, true, "EqualPriority", words.join(". "))
    }
}

/// Whether every zone has carried a policy out as it is written now. Before reports are listed, what was said stays.
fn ready(state: &State, accepted: &Finding, Zones { nodes, reports }: Zones<'_>) -> Option<Finding> {
    if state.object.meant.is_err() {
        let message = "Nothing of it is carried out, see Accepted".to_owned();
        return Some(finding(READY, false, &accepted.reason, message));
    }
    if !reports.are_listed() {
        return None;
    }
    let (id, version) = (&state.object.id, state.object.version());
    let (mut live, mut done, mut failing, mut waiting) = (0, 0, Vec::new(), Vec::new());
    for (node, _) in nodes.live().filter(|(_, live)| *live) {
        live += 1;
        if let Some(failure) = reports.policy_failure(id, node) {
            failing.push(format!("{node}: {failure}"));
        } else if reports.carried_out(id, node) == Some(version.as_str()) {
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
fn system_words(meant: &policy::ClusterPolicy, namespaces: &Namespaces) -> Option<String> {
    let selected =
        |namespace: &&Namespace| is_system(namespace) && meant.subject.namespaces.selects(&namespace.labels);
    let names: Vec<&str> =
        namespaces.iter().filter(selected).map(|namespace| namespace.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        let count = names.len();
        format!("Warning: the subject includes {count} system namespaces: {}", listed(names, ", "))
    })
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
