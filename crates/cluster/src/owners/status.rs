//! What users are told about their networks, where they look for it.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::conditions::{
    Finding, NETWORK_ALLOCATION_SUCCEEDED, NETWORK_CREATED, NETWORK_READY, bounded, merge,
};
use causeway_api::crd::{NetworkStatus, Topology};
use causeway_record::{Action, Kind, ObjectKey, Part, Priority, Target};
use causeway_types::{NamespaceName, NodeName};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{Owner, Owners, Report};
use crate::OwnerKey;
use crate::attachments::Attachments;
use crate::desk::Desk;
use crate::dirty::Dirty;
use crate::namespaces::Namespaces;
use crate::networks::{NetworkState, Networks};
use crate::nodes::Nodes;
use crate::pods::{Fullness, Pods};
use crate::trouble::{
    LISTED, NETWORK_ALLOCATION_FAILED, SUBNET_EXHAUSTED, Trouble, finding, listed, no_namespace,
};
use crate::writes::FIELD_MANAGER;
use crate::zone_reports::ZoneReports;

/// The shortest time between two statuses of one network that differ in nothing but how many addresses are in use.
const PAUSE_MS: i64 = 1_000;

impl Owners {
    /// What was sent of an object's status is written.
    pub(crate) fn status_done(&mut self, target: &Target) {
        let key = OwnerKey::of(target);
        let owner = key.and_then(|key| self.all.get_mut(&key));
        if let Some((_, done)) = owner.and_then(|owner| owner.sent.as_mut()) {
            *done = true;
        }
    }
}

impl Owners {
    /// Writes the status of an owner if it is not what the owner has.
    pub(crate) fn settle_status(&mut self, key: &OwnerKey, observed: &Observed<'_>, desk: &mut Desk) {
        let Some(owner) = self.all.get(key) else { return };
        if owner.report.is_early() {
            return;
        }
        let base = owner.sent.as_ref().map_or(&owner.object.status, |(sent, _)| sent);
        let findings = observed.findings(key, owner);
        let wanted = observed.status(key, owner, base, &findings);
        if wanted == *base {
            return;
        }
        // Pods come in thousands. What is wrong is said at once, how many there are once in a second.
        let counts_alone = NetworkStatus { addresses: base.addresses.clone(), ..wanted.clone() } == *base;
        if counts_alone && owner.said_at.is_some_and(|at| desk.now_ms < at + PAUSE_MS) {
            desk.dirty.status_later(key);
            return;
        }
        let news = news(key, owner, &findings, base);
        let body = status_body(key, &wanted);
        let action = Action::Apply { subresource: Some("status"), manager: FIELD_MANAGER, body };
        desk.writes.ask(key.target(), Part::Status, Priority::Status, action);
        if let Some(owner) = self.all.get_mut(key) {
            owner.sent = Some((wanted, false));
            owner.said_at = Some(desk.now_ms);
        }
        let Some(regarding) = self.regarding(key) else { return };
        for (reason, message) in news {
            desk.writes.warn(regarding.clone(), &reason, message);
        }
    }

    /// A write that fails again and again shows where it belongs.
    pub(crate) fn write_failed(&mut self, target: &Target, problem: &str, dirty: &mut Dirty) {
        if target.kind != Kind::NetworkAttachmentDefinition {
            return;
        }
        let Some(namespace) = target.namespace.clone().and_then(|name| NamespaceName::new(name).ok()) else {
            return;
        };
        let named = |key: &&OwnerKey| key.name().as_str() == target.name;
        let Some(key) = self.wanting(&namespace).find(named).cloned() else { return };
        if let Some(owner) = self.all.get_mut(&key) {
            let message = format!("NetworkAttachmentDefinition {namespace}/{}: {problem}", target.name);
            owner.failing.insert(namespace.clone(), Trouble::new("SyncError", message));
        }
        dirty.owners_in([key], &namespace);
    }
}

/// What statuses are made of besides the owner itself.
pub(crate) struct Observed<'a> {
    pub(crate) now_ms: i64,
    /// The MTU of networks that say none.
    pub(crate) cluster_mtu: u32,
    /// How many nodes there may be.
    pub(crate) most_nodes: u32,
    pub(crate) nodes: &'a Nodes,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) attachments: &'a Attachments,
    pub(crate) networks: &'a Networks,
    pub(crate) pods: &'a Pods,
    pub(crate) zone_reports: &'a ZoneReports,
}

impl Observed<'_> {
    fn status(
        &self,
        key: &OwnerKey,
        owner: &Owner,
        base: &NetworkStatus,
        findings: &[Finding],
    ) -> NetworkStatus {
        let now = Time(Timestamp::from_millisecond(self.now_ms / 1000 * 1000).unwrap_or_default());
        let network = self.networks.get(&key.network());
        let intent = owner.intent.as_ref().ok().or(network.map(NetworkState::intent));
        NetworkStatus {
            conditions: merge(&base.conditions, findings, owner.object.generation, &now),
            observed_generation: owner.object.generation,
            topology: intent.map(|intent| intent.topology),
            role: intent.map(|intent| intent.role),
            subnets: intent.map(causeway_api::intent::Network::subnets_text).filter(|text| !text.is_empty()),
            addresses: network
                .and_then(|network| self.pods.room(network, self.most_nodes))
                .map(|room| room.to_string()),
            network_id: network.and_then(|network| u16::try_from(network.id().get()).ok()),
            vrf_name: network.and_then(vrf_name),
            active_namespaces: self.active(key, network).iter().map(ToString::to_string).collect(),
        }
    }

    /// The namespaces in which pods can use the network.
    fn active(&self, key: &OwnerKey, network: Option<&NetworkState>) -> BTreeSet<NamespaceName> {
        let numbered = |nad: &&ObjectKey| {
            self.attachments.network_of(nad).is_some()
                && self.attachments.get(nad).is_some_and(|nad| !nad.deleting && nad.is_numbered())
        };
        let nads = network.iter().flat_map(|network| network.nads()).filter(numbered);
        nads.filter(|nad| nad.name == key.name().as_str()).map(|nad| nad.namespace.clone()).collect()
    }

    /// NetworkCreated, NetworkReady and, last, NetworkAllocationSucceeded.
    fn findings(&self, key: &OwnerKey, owner: &Owner) -> Vec<Finding> {
        let network = self.networks.get(&key.network());
        let active = self.active(key, network);
        let missing: BTreeSet<&NamespaceName> = owner.wanted.difference(&active).collect();
        vec![
            created(key, owner, &self.staying(key, owner), &active, &missing),
            self.network_ready(key, owner, &missing),
            refused(owner, &active).unwrap_or_else(|| self.allocated(network)),
        ]
    }

    fn network_ready(&self, key: &OwnerKey, owner: &Owner, missing: &BTreeSet<&NamespaceName>) -> Finding {
        let report = &owner.report;
        let network = key.network();
        let mut failing = self.zone_reports.failures(&network).peekable();
        let trouble = if owner.object.deleting {
            Some(Trouble::new("NetworkDeleting", leaving(report)))
        } else if let Some(trouble) = &report.network {
            Some(trouble.clone())
        } else if owner.wanted.is_empty() {
            Some(no_namespace())
        } else if !missing.is_empty() || !report.namespaces.is_empty() {
            Some(Trouble::new("NetworkAttachmentDefinitionNotExist", not_provided(report, missing)))
        } else if let Some(message) = self.networks.get(&network).and_then(|one| one.intent().unsupported()) {
            Some(Trouble::new("NetworkRenderingFailed", message))
        } else {
            failing.peek().is_some().then(|| {
                let texts = failing.map(|(node, message)| format!("node {node}: {message}"));
                Trouble::new("NetworkRenderingFailed", listed(texts, "; "))
            })
        };
        let trouble = trouble.or_else(|| self.too_large(self.networks.get(&network)?));
        match trouble {
            Some(trouble) => finding(NETWORK_READY, false, trouble.reason, trouble.message),
            None if self.zone_reports.cut().next().is_some() => self.not_known(),
            None => finding(
                NETWORK_READY,
                true,
                "NetworkAttachmentDefinitionReady",
                "NetworkAttachmentDefinition has been created".into(),
            ),
        }
    }

    /// Some zones could not do more than they name, and this network may be among the rest.
    fn not_known(&self) -> Finding {
        let nodes = listed(self.zone_reports.cut(), ", ");
        let message = format!(
            "more fails on these nodes than their ZoneReports can name, and this network may be among it: {nodes}. Mend what they explain"
        );
        Finding { status: None, ..finding(NETWORK_READY, false, "NetworkRenderingUnknown", message) }
    }

    /// Packets that do not fit into a node's tunnels are lost without a word, so it is said here.
    fn too_large(&self, network: &NetworkState) -> Option<Trouble> {
        let intent = network.intent();
        if intent.topology == Topology::Localnet {
            return None;
        }
        let mtu = intent.mtu.unwrap_or(self.cluster_mtu);
        let narrow: Vec<(&NodeName, u32)> = self.nodes.narrower_than(mtu).collect();
        let least = narrow.iter().map(|(_, carried)| *carried).min()?;
        let nodes = listed(narrow.iter().map(|(node, carried)| format!("{node} ({carried})")), ", ");
        let message = format!(
            "mtu {mtu} is more than the tunnels of these nodes carry: {nodes}. Larger packets between nodes are lost. Create \
             the network with mtu {least} or less, or raise the MTU of the nodes' own interfaces"
        );
        Some(Trouble::new("MTUTooLarge", message))
    }

    /// The report without attachments that go with their namespace: that is no trouble of the network.
    fn staying(&self, key: &OwnerKey, owner: &Owner) -> Staying {
        let all = owner.object.deleting || matches!(key, OwnerKey::Udn(..));
        let stays = |nad: &ObjectKey| all || !self.namespaces.is_going(&nad.namespace);
        let Report { users, leaving, .. } = &owner.report;
        Staying {
            users: users
                .iter()
                .filter(|(nad, _)| stays(nad))
                .map(|(nad, pods)| (nad.clone(), pods.clone()))
                .collect(),
            leaving: leaving.iter().filter(|nad| stays(nad)).cloned().collect(),
        }
    }

    /// Whether every node has a part of the network, and every pod an address.
    fn allocated(&self, network: Option<&NetworkState>) -> Finding {
        let fail =
            |reason: &str, message: String| finding(NETWORK_ALLOCATION_SUCCEEDED, false, reason, message);
        if let Some(node) = network.and_then(|network| self.nodes.first_without(network.parts()?)) {
            let message = format!(
                "Network allocation failed for at least one node: {node}, check UDN events for more info. \
                 The subnets have no part left for it: add a subnet, or use smaller host subnets"
            );
            return fail("InternalError", message);
        }
        if let Some((pods, first)) = network.and_then(|network| self.pods.without_address(network.id())) {
            let message = format!(
                "{pods} pod(s) get no address, the first is {first}: the subnet is full; delete pods that are not \
                 needed, or add another primary network to the namespace ({RECIPE})"
            );
            return fail(SUBNET_EXHAUSTED, message);
        }
        let fullness = network.map_or(Fullness::Roomy, |network| self.pods.fullness(network.id()));
        let what = match fullness {
            Fullness::Roomy => String::new(),
            Fullness::Nearly => {
                " It is nearly full, on some node at least: 90 % of the addresses are given out.".into()
            }
            Fullness::Full => " It is full, on some node at least: all addresses are given out.".into(),
        };
        let advice = match fullness {
            Fullness::Roomy => String::new(),
            _ => format!(
                " Another primary network for the namespace takes the pods that come later ({RECIPE})"
            ),
        };
        let message = format!("Network allocation succeeded for all synced nodes.{what}{advice}");
        finding(NETWORK_ALLOCATION_SUCCEEDED, true, reason_of(fullness), message)
    }
}

/// What is said of a network in which nobody waits for an address.
fn reason_of(fullness: Fullness) -> &'static str {
    match fullness {
        Fullness::Roomy => "NetworkAllocationSucceeded",
        Fullness::Nearly => "NetworkNearlyFull",
        Fullness::Full => "NetworkFull",
    }
}

/// How near the end of its addresses a network was said to be. When pods wait, more has been said.
fn fullness_said(reason: &str) -> Fullness {
    match reason {
        "NetworkNearlyFull" => Fullness::Nearly,
        "NetworkFull" | SUBNET_EXHAUSTED => Fullness::Full,
        _ => Fullness::Roomy,
    }
}

/// The VRF that nodes have for the network: those that are on the fabric have one.
fn vrf_name(network: &NetworkState) -> Option<String> {
    let intent = network.intent();
    intent.evpn()?;
    intent.vrf_name(network.id()).ok().map(|name| name.to_string())
}

/// Where users read what to do about it.
const RECIPE: &str = "docs/networks.md, \"My network is full\"";

/// Attachments on their way out, and the pods that keep them.
struct Staying {
    users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    leaving: BTreeSet<ObjectKey>,
}

/// That a network comes near the end of its addresses is said before anybody misses one, and once.
fn fuller(finding: &Finding, base: &NetworkStatus) -> bool {
    let before = base.conditions.iter().find(|condition| condition.type_ == finding.kind);
    let said = before.map_or(Fullness::Roomy, |condition| fullness_said(&condition.reason));
    finding.kind == NETWORK_ALLOCATION_SUCCEEDED
        && finding.status == Some(true)
        && fullness_said(&finding.reason) > said
}

/// What is refused or lacking and was not said before, as events: the reason and the message.
fn news(key: &OwnerKey, owner: &Owner, findings: &[Finding], base: &NetworkStatus) -> Vec<(String, String)> {
    let is_new = |finding: &&Finding| {
        let before = base.conditions.iter().find(|condition| condition.type_ == finding.kind);
        finding.status == Some(false)
            && before.is_none_or(|before| before.message != bounded(&finding.message))
    };
    // What is refused everywhere is said once, of the network as a whole.
    let said = |message: &str| findings.iter().any(|one| one.kind == NETWORK_READY && one.message == message);
    let filling = findings.iter().filter(|finding| fuller(finding, base));
    let filling = filling.map(|finding| (finding.reason.clone(), finding.message.clone()));
    let event = |finding: &Finding| match finding.kind.as_str() {
        NETWORK_READY if !owner.object.deleting => Some((finding.reason.clone(), finding.message.clone())),
        NETWORK_ALLOCATION_SUCCEEDED if said(&finding.message) => None,
        NETWORK_ALLOCATION_SUCCEEDED => {
            let message = format!("error allocating network {}: {}", key.network(), finding.message);
            Some((NETWORK_ALLOCATION_FAILED.to_owned(), message))
        }
        _ => None,
    };
    findings.iter().filter(is_new).filter_map(event).chain(filling).collect()
}

/// A network that is refused everywhere is allocated nowhere.
fn refused(owner: &Owner, active: &BTreeSet<NamespaceName>) -> Option<Finding> {
    let report = &owner.report;
    let trouble = report.network.as_ref().or_else(|| report.namespaces.values().next())?;
    let nowhere = active.is_empty() && !owner.object.deleting;
    nowhere.then(|| finding(NETWORK_ALLOCATION_SUCCEEDED, false, trouble.reason, trouble.message.clone()))
}

/// NetworkCreated, with the reasons that tools wait for.
fn created(
    key: &OwnerKey,
    owner: &Owner,
    staying: &Staying,
    active: &BTreeSet<NamespaceName>,
    missing: &BTreeSet<&NamespaceName>,
) -> Finding {
    let cluster = matches!(key, OwnerKey::Cudn(_));
    let sync_error = if cluster { "NetworkAttachmentDefinitionSyncError" } else { "SyncError" };
    let report = &owner.report;
    let fail = |reason: &str, message: String| finding(NETWORK_CREATED, false, reason, message);
    if let Some(trouble) = &report.network {
        return fail(sync_error, trouble.message.clone());
    }
    if !staying.users.is_empty() {
        return fail(sync_error, in_use(&staying.users));
    }
    if !staying.leaving.is_empty() || owner.object.deleting {
        return fail("NetworkAttachmentDefinitionDeleted", leaving(report));
    }
    if !report.namespaces.is_empty() || !missing.is_empty() {
        return fail(sync_error, not_provided(report, missing));
    }
    let message = match key {
        OwnerKey::Udn(..) => "NetworkAttachmentDefinition has been created".to_owned(),
        OwnerKey::Cudn(_) => format!(
            "NetworkAttachmentDefinition has been created in following namespaces: {}",
            listed(active, ", ")
        ),
    };
    finding(NETWORK_CREATED, true, "NetworkAttachmentDefinitionCreated", message)
}

fn in_use(users: &BTreeMap<ObjectKey, BTreeSet<ObjectKey>>) -> String {
    let text = |(nad, pods): (&ObjectKey, &BTreeSet<ObjectKey>)| {
        let pods = listed(pods, " ");
        format!(
            "failed to delete NetworkAttachmentDefinition [{nad}]: network in use by the following pods: {pods}; delete them"
        )
    };
    let mut texts: Vec<String> = users.iter().take(LISTED).map(text).collect();
    let more = users.len().saturating_sub(LISTED);
    if more > 0 {
        texts.push(format!("and {more} more namespaces"));
    }
    texts.join("\n")
}

fn leaving(report: &Report) -> String {
    if !report.users.is_empty() {
        return in_use(&report.users);
    }
    format!("NetworkAttachmentDefinition are being deleted: {}", listed(&report.leaving, " "))
}

/// Namespaces without the network, with the reason where one is known.
fn not_provided(report: &Report, missing: &BTreeSet<&NamespaceName>) -> String {
    let known = report.namespaces.values().map(|trouble| trouble.message.clone());
    let waiting = missing.iter().filter(|name| !report.namespaces.contains_key(**name));
    let mut texts: Vec<String> = known.collect();
    let waiting: Vec<&&NamespaceName> = waiting.collect();
    if !waiting.is_empty() {
        texts.push(format!(
            "Not all desired namespaces provisioned with NetworkAttachmentDefinition: {}",
            listed(waiting, ", ")
        ));
    }
    let more = texts.len().saturating_sub(LISTED);
    texts.truncate(LISTED);
    if more > 0 {
        texts.push(format!("and {more} more namespaces"));
    }
    texts.join("\n")
}

/// What is applied: our own conditions only, so that those of others stay theirs.
fn status_body(key: &OwnerKey, status: &NetworkStatus) -> serde_json::Value {
    let ours = [NETWORK_CREATED, NETWORK_READY, NETWORK_ALLOCATION_SUCCEEDED];
    let conditions = status.conditions.iter().filter(|c| ours.contains(&c.type_.as_str())).cloned();
    let own = NetworkStatus { conditions: conditions.collect(), ..status.clone() };
    let target = key.target();
    let (api_version, kind) = target.kind.api_version_and_kind();
    let mut metadata = json!({"name": target.name});
    if let Some(namespace) = target.namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": own})
}
