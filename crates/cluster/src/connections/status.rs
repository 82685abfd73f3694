//! What users are told about their connections.

use std::collections::BTreeSet;

use causeway_api::conditions::{ACCEPTED, Finding, READY, READY_IN_ZONE_PREFIX, merge};
use causeway_api::crd::{ClusterNetworkConnectStatus, SelectedNetwork, StatusType};
use causeway_record::{Action, EventNote, Part, Priority};
use causeway_types::{ConnectName, NodeName};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::{ConnectState, Connects, connect_target};
use crate::decision::Acceptance;
use crate::desk::Desk;
use crate::dirty::Dirty;
use crate::numbers::Numbers;
use crate::trouble::{finding, listed};
use crate::writes::{FIELD_MANAGER, Writes};
use crate::zone_reports::{FAILED, PENDING, SUCCEEDED, Zones};

/// Beyond so many zones only failing ones are listed, and no more than these.
const LISTED_ZONES: usize = 100;
/// A zone that has not rendered what it should after so long is said to have failed.
const SILENCE_MS: i64 = 60_000;
/// The shortest time between two statuses of one connection.
const PAUSE_MS: i64 = 1_000;
const UNHEARD: &str = "NodeNotHeardOf";
const DONE: &str = "Connect router and all ports created successfully";
/// What a zone has done of a connection that is not accepted.
const PARTLY: &str = "The node has built what can be connected; Accepted says what is left out";

/// What is decided about a connection.
struct Verdict {
    /// The condition `Accepted`, and whether it holds.
    accepted: Finding,
    is_accepted: bool,
    networks: Vec<SelectedNetwork>,
    /// How many of the selected networks are connected, as `2/3`.
    connected: Option<String>,
}

/// How far the zones are with a connection.
#[derive(Debug, Default)]
struct Progress {
    /// Zones that are heard of, and those of them that have rendered it.
    live: usize,
    current: usize,
    /// Zones that could not do it, or are silent.
    failing: Vec<NodeName>,
    /// Zones that are not heard of.
    unheard: Vec<NodeName>,
    /// What is found out about zones.
    findings: Vec<Finding>,
    /// Zones that have not said anything yet: what was last said about them stays.
    waiting: BTreeSet<String>,
    /// When the first of these turns silent.
    silent_at: Option<i64>,
}

impl Progress {
    fn is_complete(&self) -> bool {
        self.live > 0 && self.current == self.live
    }

    /// Where there are many zones, only the failing ones are listed.
    fn shortened(mut self) -> Self {
        self.findings.retain(|finding| finding.status != Some(true));
        self.findings.truncate(LISTED_ZONES);
        self
    }

    /// Zones that have not said anything since, and had failed before.
    fn still_failing(&mut self, kept: &[Condition]) {
        let waits =
            |condition: &&Condition| condition.status == "False" && self.waiting.contains(&condition.type_);
        let zone =
            |condition: &Condition| NodeName::new(condition.type_.strip_prefix(READY_IN_ZONE_PREFIX)?).ok();
        let still: Vec<NodeName> = kept.iter().filter(waits).filter_map(zone).collect();
        self.failing.extend(still);
        self.failing.sort();
    }

    /// The condition `Ready`: all networks, in all zones.
    fn ready(&self, verdict: &Verdict) -> Finding {
        let unheard = match self.unheard.is_empty() {
            true => String::new(),
            false => format!("; not heard of: {}", listed(&self.unheard, ", ")),
        };
        let zones = format!("{}/{} zones{unheard}", self.current, self.live);
        let (status, reason, message) = if !verdict.is_accepted {
            let connected = verdict.connected.as_deref().unwrap_or("No");
            let message = format!("{connected} selected networks connected, see Accepted; {zones}");
            (false, verdict.accepted.reason.as_str(), message)
        } else if !self.failing.is_empty() {
            (false, FAILED, format!("{zones}; failing: {}", listed(&self.failing, ", ")))
        } else if self.is_complete() {
            (true, SUCCEEDED, zones)
        } else {
            (false, PENDING, zones)
        };
        finding(READY, status, reason, message)
    }
}

impl Connects {
    /// A zone does not say any more that it has rendered these: its time begins anew.
    pub(crate) fn zone_lost(&mut self, node: &NodeName, connects: &BTreeSet<ConnectName>, now_ms: i64) {
        for name in connects {
            if let Some(state) = self.all.get_mut(name) {
                state.lost.insert(node.clone(), now_ms);
            }
        }
    }

    pub(crate) fn status_done(&mut self, name: &str) {
        let state = ConnectName::new(name).ok().and_then(|name| self.all.get_mut(&name));
        if let Some((_, done)) = state.and_then(|state| state.sent.as_mut()) {
            *done = true;
        }
    }
}

impl Connects {
    /// Time passes: statuses that had to wait, and zones that have been silent for too long.
    pub(crate) fn tick(&mut self, desk: &mut Desk) {
        desk.dirty.connect_statuses(std::mem::take(&mut self.late));
        desk.dirty.connect_statuses(self.tally.silent(desk.now_ms));
    }

    /// All connections hear of a node that comes, goes or falls silent.
    pub(crate) fn all_statuses(&self, dirty: &mut Dirty) {
        dirty.connect_statuses(self.all.keys().cloned());
    }

    /// Writes the status of a connection if it is not what the connection has.
    pub(crate) fn settle_status(
        &mut self,
        name: &ConnectName,
        zones: Zones<'_>,
        numbers: &mut Numbers,
        desk: &mut Desk,
    ) {
        let Some(state) = self.all.get(name).filter(|state| !state.object.deleting) else { return };
        if !self.on {
            return self.clear_status(name, desk);
        }
        if self.model.is_none() {
            return;
        }
        if state.said_at.is_some_and(|at| desk.now_ms < at + PAUSE_MS) {
            self.late.insert(name.clone());
            return;
        }
        let Some(verdict) = self.verdict(name, state) else { return };
        let rendering = Rendering { now_ms: desk.now_ms, zones };
        let progress = rendering.progress(name, state, verdict.is_accepted);
        let (silent_at, complete) = (progress.silent_at, progress.is_complete());
        let accepted = verdict.accepted.clone();
        let wanted = rendering.status(state, verdict, progress);
        let changed = wanted != *state.told();
        if changed {
            self.tell_acceptance(name, &accepted, &mut desk.writes);
            self.write_status(name, wanted, desk);
        }
        if let Some(state) = self.all.get_mut(name) {
            state.lost.retain(|node, _| zones.nodes.exists(node));
        }
        self.tally.turns_silent(name, silent_at);
        if complete {
            self.move_topology(name, numbers, desk);
        }
    }

    pub(super) fn write_status(
        &mut self,
        name: &ConnectName,
        wanted: ClusterNetworkConnectStatus,
        desk: &mut Desk,
    ) {
        let body = status_body(name, &wanted);
        let action = Action::Apply { subresource: Some("status"), manager: FIELD_MANAGER, body };
        desk.writes.ask(connect_target(name), Part::Status, Priority::Status, action);
        if let Some(state) = self.all.get_mut(name) {
            state.sent = Some((wanted, false));
            state.said_at = Some(desk.now_ms);
        }
        self.count(name);
    }

    /// A new word about a connection is also an event.
    fn tell_acceptance(&self, name: &ConnectName, accepted: &Finding, writes: &mut Writes) {
        let Some(state) = self.all.get(name) else { return };
        let before = state.told().conditions.iter().find(|condition| condition.type_ == ACCEPTED);
        let holds = accepted.status == Some(true);
        let status = if holds { "True" } else { "False" };
        if before.is_some_and(|before| before.status == status && before.reason == accepted.reason) {
            return;
        }
        writes.say(EventNote {
            regarding: state.regarding(name),
            warning: !holds,
            reason: accepted.reason.clone(),
            message: accepted.message.clone(),
        });
    }
}

impl Connects {
    fn verdict(&self, name: &ConnectName, state: &ConnectState) -> Option<Verdict> {
        let answer = self.model.as_ref()?.answer(name);
        let accepted = match state.unreadable.as_ref().or(state.without_key.as_ref()) {
            Some(trouble) => finding(ACCEPTED, false, trouble.reason, trouble.message.clone()),
            None => {
                let Acceptance { accepted, reason, message } = answer.as_ref()?.acceptance.clone();
                finding(ACCEPTED, accepted, reason.as_str(), message)
            }
        };
        let counts = answer.as_ref().map(|answer| answer.connected);
        Some(Verdict {
            is_accepted: accepted.status == Some(true),
            accepted,
            connected: counts.map(|(connected, selected)| format!("{connected}/{selected}")),
            networks: answer.map(|answer| answer.networks).unwrap_or_default(),
        })
    }
}

/// The zones that are to render connections, and what they have said.
struct Rendering<'a> {
    now_ms: i64,
    zones: Zones<'a>,
}

impl Rendering<'_> {
    fn progress(&self, name: &ConnectName, state: &ConnectState, accepted: bool) -> Progress {
        let mut progress = Progress::default();
        if !self.zones.reports.are_listed() {
            let zones = self.zones.nodes.names().map(|node| format!("{READY_IN_ZONE_PREFIX}{node}"));
            progress.waiting = zones.collect();
            return progress;
        }
        for (node, live) in self.zones.nodes.live() {
            self.look_at_zone(name, state, node, live, &mut progress);
        }
        if !accepted {
            progress
                .findings
                .iter_mut()
                .filter(|zone| zone.status == Some(true))
                .for_each(|zone| zone.message = PARTLY.to_owned());
        }
        if self.zones.nodes.len() > LISTED_ZONES { progress.shortened() } else { progress }
    }

    /// A zone that is cut off is not waited for: nobody knows what it has.
    fn look_at_zone(
        &self,
        name: &ConnectName,
        state: &ConnectState,
        node: &NodeName,
        live: bool,
        progress: &mut Progress,
    ) {
        let kind = format!("{READY_IN_ZONE_PREFIX}{node}");
        if !live {
            let message = format!(
                "Kubernetes does not hear of node {node}: what it has built is not known, and packets to it may be lost"
            );
            progress.unheard.push(node.clone());
            return progress
                .findings
                .push(Finding { status: None, ..finding(&kind, false, UNHEARD, message) });
        }
        progress.live += 1;
        let mut fail = |message: &str| {
            progress.failing.push(node.clone());
            progress.findings.push(finding(&kind, false, FAILED, message.to_owned()));
        };
        if let Some(failure) = self.zones.reports.failure(name, node) {
            return fail(failure);
        }
        if state.hash.is_some() && self.zones.reports.rendered(name, node) == state.hash {
            progress.current += 1;
            progress.findings.push(finding(&kind, true, SUCCEEDED, DONE.to_owned()));
            return;
        }
        let lost = state.lost.get(node).copied().unwrap_or(state.hash_since);
        let heard = self.zones.reports.heard_since(node);
        let silent_at = heard.map(|since| since.max(state.hash_since).max(lost) + SILENCE_MS);
        if state.hash.is_some() && silent_at.is_some_and(|at| at <= self.now_ms) {
            let seconds = SILENCE_MS / 1000;
            let message = format!(
                "The zone has not reported this configuration for {seconds} s; look at the log of Causeway on node {node}"
            );
            return fail(&message);
        }
        progress.waiting.insert(kind);
        progress.silent_at =
            progress.silent_at.into_iter().chain(silent_at.filter(|_| state.hash.is_some())).min();
    }

    fn status(
        &self,
        state: &ConnectState,
        verdict: Verdict,
        mut progress: Progress,
    ) -> ClusterNetworkConnectStatus {
        let now = Time(Timestamp::from_millisecond(self.now_ms / 1000 * 1000).unwrap_or_default());
        let base = state.told();
        let many = self.zones.nodes.len() > LISTED_ZONES;
        let unknown = !self.zones.reports.are_listed();
        let stays = |condition: &&Condition| {
            let known = progress.findings.iter().any(|finding| finding.kind == condition.type_);
            let listed = !many || condition.status != "True";
            // Who is heard of again has not said anything yet.
            let meant = unknown || condition.status != "Unknown";
            let waits = progress.waiting.contains(&condition.type_) && listed && meant;
            known
                || waits
                || [ACCEPTED, READY].contains(&condition.type_.as_str())
                || !is_ours(&condition.type_)
        };
        let kept: Vec<Condition> = base.conditions.iter().filter(stays).cloned().collect();
        progress.still_failing(&kept);
        let complete = progress.is_complete();
        let said = kept.iter().any(|condition| condition.type_ == READY);
        // Before reports are listed, what was said of all zones stays.
        let ready = (!unknown || !said).then(|| progress.ready(&verdict));
        let findings: Vec<Finding> =
            [verdict.accepted].into_iter().chain(ready).chain(progress.findings).collect();
        let conditions = merge(&kept, &findings, state.object.generation, &now);
        let status = match conditions.iter().any(failing) {
            true => StatusType::Failure,
            false if complete => StatusType::Success,
            // Before reports are listed nothing is known against what was said.
            false if unknown && base.status == Some(StatusType::Success) => StatusType::Success,
            false => StatusType::Progressing,
        };
        ClusterNetworkConnectStatus {
            status: Some(status),
            conditions,
            observed_generation: state.object.generation,
            networks: verdict.networks,
            connected_networks: verdict.connected,
        }
    }
}

/// Whether a condition alone makes a connection fail.
fn failing(condition: &Condition) -> bool {
    let counts = condition.type_ == ACCEPTED || condition.type_.starts_with(READY_IN_ZONE_PREFIX);
    counts && condition.status == "False"
}

pub(super) fn is_ours(kind: &str) -> bool {
    kind == ACCEPTED || kind == READY || kind.starts_with(READY_IN_ZONE_PREFIX)
}

/// What is applied: our own conditions only, so that those of others stay theirs. The list is there also when it is empty: where nothing is
/// left of a status the API server makes it null, and refuses that.
fn status_body(name: &ConnectName, status: &ClusterNetworkConnectStatus) -> Value {
    let conditions = status.conditions.iter().filter(|condition| is_ours(&condition.type_)).cloned();
    let own = ClusterNetworkConnectStatus { conditions: conditions.collect(), ..status.clone() };
    let (api_version, kind) = connect_target(name).kind.api_version_and_kind();
    let mut body =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name.as_str()}, "status": own});
    body["status"]["conditions"] = json!(own.conditions);
    body
}
