//! VTEPs: where each node has its end of the tunnels on the fabric, and what the administrator is told.
//!
//! A node says which addresses it has; which of them is its end of a VTEP's tunnels is decided here and written on the Node, where zones
//! read it. What was written stays while it is true, and while nobody knows better.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use causeway_api::annotations::{Annotation as _, VtepIps, Vteps as Ends};
use causeway_api::conditions::{ACCEPTED, Finding, merge};
use causeway_api::crd::VtepStatus;
use causeway_api::intent::{Evpn, Network};
use causeway_record::{Action, Cause, Event, Kind, Node, Part, Priority, Target, Vtep};
use causeway_types::{Cidr, NodeName, ObjectName};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::desk::Desk;
use crate::dirty::Dirty;
use crate::nodes::Nodes;
use crate::owners::Owners;
use crate::trouble::{Trouble, finding, listed};
use crate::writes::FIELD_MANAGER;

/// Reasons of the condition Accepted.
const ALLOCATED: &str = "Allocated";
const ALLOCATION_FAILED: &str = "AllocationFailed";
const CIDR_OVERLAP: &str = "CIDROverlap";

/// All VTEPs.
#[derive(Debug, Default)]
pub(crate) struct Vteps {
    all: BTreeMap<ObjectName, State>,
    known: Known,
}

/// How far the kind is known.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Known {
    #[default]
    Unlisted,
    /// The API server says that there is no such kind. One that has just begun says so of all kinds.
    NotInstalled,
    Listed,
}

#[derive(Debug)]
struct State {
    object: Vtep,
    /// The status that was asked for last, and whether it is written.
    sent: Option<(VtepStatus, bool)>,
}

/// Why a node has no end of a VTEP's tunnels.
enum Lack {
    Address,
    Choice(Vec<Ipv4Addr>),
}

impl Vteps {
    /// Whether anything can be said of networks that need one.
    pub(crate) fn are_known(&self) -> bool {
        self.known != Known::Unlisted
    }

    /// Ranges of a VTEP that can be used.
    fn usable(&self, name: &ObjectName) -> Result<&[Cidr], Finding> {
        let refuse = |reason: &str, message: String| finding(ACCEPTED, false, reason, message);
        let Some(state) = self.all.get(name) else {
            return Err(refuse("NotFound", format!("there is no VTEP {name}")));
        };
        let own = match &state.object.cidrs {
            Ok(cidrs) => cidrs,
            Err(problem) => return Err(refuse("InvalidSpec", problem.clone())),
        };
        if state.object.managed {
            let message = "mode Managed is not supported by this version: give each node an address and set mode Unmanaged";
            return Err(refuse("ModeNotSupported", message.into()));
        }
        match self.overlap(name, own) {
            Some(message) => Err(refuse(CIDR_OVERLAP, message)),
            None => Ok(own),
        }
    }

    fn overlap(&self, name: &ObjectName, own: &[Cidr]) -> Option<String> {
        let others = self.all.iter().filter(|(other, _)| *other != name);
        let mut cidrs = others
            .flat_map(|(other, state)| state.object.cidrs.iter().flatten().map(move |cidr| (other, cidr)));
        let (other, cidr) = cidrs.find(|(_, cidr)| own.iter().any(|own| own.overlaps(cidr)))?;
        Some(format!("its ranges overlap {cidr} of VTEP {other}: change one of them"))
    }

    pub(crate) fn status_done(&mut self, target: &Target) {
        let name = ObjectName::new(target.name.clone()).ok();
        let state = name.and_then(|name| self.all.get_mut(&name));
        if let Some((_, done)) = state.and_then(|state| state.sent.as_mut()) {
            *done = true;
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &ObjectName> {
        self.all.keys()
    }
}

/// The node's own address in these ranges. What it has been known by before is what it is known by.
fn end_in(node: &Node, before: Option<Ipv4Addr>, cidrs: &[Cidr]) -> Result<Ipv4Addr, Lack> {
    let all =
        node.hosts.as_ref().ok().and_then(Option::as_ref).map(|hosts| hosts.0.as_slice()).unwrap_or_default();
    let inside = |address: &IpAddr| cidrs.iter().any(|cidr| cidr.contains_address(*address));
    let mut found: Vec<Ipv4Addr> = Vec::new();
    for address in all.iter().map(|net| net.addr()).filter(inside) {
        if let IpAddr::V4(v4) = address {
            found.push(v4);
        }
    }
    if let Some(before) = before.filter(|before| found.contains(before)) {
        return Ok(before);
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Lack::Address),
        _ => Err(Lack::Choice(found)),
    }
}

fn target(name: &ObjectName) -> Target {
    Target { kind: Kind::Vtep, namespace: None, name: name.to_string() }
}

impl Vteps {
    pub(crate) fn take(
        &mut self,
        event: Event<Vtep, ObjectName>,
        nodes: &Nodes,
        owners: &Owners,
        desk: &mut Desk,
    ) {
        let changed = match event {
            Event::Applied(object) => self.applied(object, desk),
            Event::Deleted(name) => {
                self.all.remove(&name);
                desk.writes.withdraw(&target(&name), Part::Status);
                true
            }
            Event::Synced => self.is_new(Known::Listed),
            Event::Unsynced(broken) if broken.cause == Cause::NotInstalled => {
                self.known == Known::Unlisted && self.is_new(Known::NotInstalled)
            }
            Event::Unsynced(_) => false,
        };
        if changed {
            self.changed(nodes, owners, &mut desk.dirty);
        }
    }

    /// The answer is whether the VTEP may give other places than before.
    fn applied(&mut self, object: Vtep, desk: &mut Desk) -> bool {
        let name = object.name.clone();
        desk.writes.seen(&target(&name));
        let before = self.all.remove(&name).filter(|before| before.object.uid == object.uid);
        let same = before.as_ref().is_some_and(|before| {
            (&before.object.cidrs, before.object.managed) == (&object.cidrs, object.managed)
        });
        let sent = before.and_then(|before| before.sent);
        let sent = sent.filter(|(sent, done)| !*done && *sent != object.status);
        self.all.insert(name.clone(), State { object, sent });
        desk.dirty.vteps([name]);
        !same
    }

    fn is_new(&mut self, known: Known) -> bool {
        std::mem::replace(&mut self.known, known) != known
    }

    /// Others may have another place now: nodes, networks, and VTEPs beside which there is one more or less.
    fn changed(&self, nodes: &Nodes, owners: &Owners, dirty: &mut Dirty) {
        dirty.nodes(nodes.names().cloned());
        dirty.owners(owners.on_fabric());
        dirty.vteps(self.names().cloned());
    }

    /// A node has other addresses, or has come or gone.
    pub(crate) fn see_node(&self, name: &NodeName, dirty: &mut Dirty) {
        if self.all.is_empty() {
            return;
        }
        dirty.nodes([name.clone()]);
        dirty.vteps(self.names().cloned());
    }

    /// The node's ends of tunnels as they shall be written; nothing if that is not known, or there never was one.
    pub(crate) fn ends_of(&self, node: &Node, owners: &Owners) -> Option<(String, String)> {
        if self.known != Known::Listed {
            return None;
        }
        let published = node.vteps.as_ref().ok().cloned().flatten().unwrap_or_default();
        let mut wanted = Ends::default();
        for name in self.names() {
            let before = published.of(name.as_str());
            let end = match self.usable(name) {
                Ok(cidrs) => end_in(node, before, cidrs).ok(),
                Err(_) => before,
            };
            wanted.0.extend(end.map(|end| (name.to_string(), VtepIps { ips: vec![end.into()] })));
        }
        // Whoever deletes a VTEP that networks use has not taken these off the fabric.
        for (name, ips) in &published.0 {
            let used = || owners.uses_vtep(name);
            if ObjectName::new(name.as_str()).is_ok_and(|name| !self.all.contains_key(&name)) && used() {
                wanted.0.insert(name.clone(), ips.clone());
            }
        }
        let never = wanted.0.is_empty() && !node.published.contains_key(Ends::KEY);
        (!never).then(|| (Ends::KEY.to_owned(), wanted.text()))
    }

    /// Why a network cannot be on the fabric as it asks; nothing if it does not ask, or can.
    pub(crate) fn check(&self, network: &Network) -> Result<(), Trouble> {
        let Some(Evpn { vtep, ip_vrf, .. }) = network.evpn() else { return Ok(()) };
        if ip_vrf.is_none() {
            let message = "macVRF alone is not supported by this version: add an ipVRF, by which the network's subnets are advertised";
            return Err(Trouble::new("TransportNotSupported", message));
        }
        let missing = |why: &str| Trouble::new("VTEPNotFound", format!("VTEP {vtep:?} {why}"));
        let name =
            ObjectName::new(vtep.as_str()).map_err(|error| missing(&format!("cannot be there: {error}")))?;
        match self.usable(&name) {
            Ok(_) => Ok(()),
            Err(problem) if problem.reason == "NotFound" => Err(missing("is not there: create it")),
            Err(problem) => {
                let message = format!("VTEP {vtep} cannot be used: {}", problem.message);
                Err(Trouble::new("VTEPNotAccepted", message))
            }
        }
    }

    /// Writes the status of a VTEP if it is not what it has.
    pub(crate) fn settle(&mut self, name: &ObjectName, nodes: &Nodes, desk: &mut Desk) {
        let Some(state) = self.all.get(name) else { return };
        let told = state.sent.as_ref().map_or(&state.object.status, |(sent, _)| sent);
        let now = Time(Timestamp::from_millisecond(desk.now_ms / 1000 * 1000).unwrap_or_default());
        let finding = self.finding(name, nodes);
        let conditions = merge(&told.conditions, &[finding], state.object.generation, &now);
        if conditions == told.conditions {
            return;
        }
        let own: Vec<_> = conditions.iter().filter(|one| one.type_ == ACCEPTED).collect();
        let (api_version, kind) = Kind::Vtep.api_version_and_kind();
        let body = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "status": {"conditions": own},
        });
        let action = Action::Apply { subresource: Some("status"), manager: FIELD_MANAGER, body };
        desk.writes.ask(target(name), Part::Status, Priority::Status, action);
        if let Some(state) = self.all.get_mut(name) {
            state.sent = Some((VtepStatus { conditions }, false));
        }
    }

    fn finding(&self, name: &ObjectName, nodes: &Nodes) -> Finding {
        let cidrs = match self.usable(name) {
            Ok(cidrs) => cidrs,
            Err(finding) => return finding,
        };
        let (mut without, mut several) = (Vec::new(), Vec::new());
        for node in nodes.all() {
            let before =
                node.vteps.as_ref().ok().and_then(Option::as_ref).and_then(|ends| ends.of(name.as_str()));
            match end_in(node, before, cidrs) {
                Ok(_) => {}
                Err(Lack::Address) => without.push(node.name.to_string()),
                Err(Lack::Choice(found)) => several.push(format!("{} ({})", node.name, listed(found, " "))),
            }
        }
        let mut texts = Vec::new();
        if !without.is_empty() {
            texts.push(format!("nodes without an IPv4 address in its ranges: {}", listed(without, ", ")));
        }
        if !several.is_empty() {
            texts.push(format!("nodes with several, of which none is chosen: {}", listed(several, ", ")));
        }
        match texts.is_empty() {
            true => finding(ACCEPTED, true, ALLOCATED, "every node has an address".into()),
            false => finding(ACCEPTED, false, ALLOCATION_FAILED, texts.join("; ")),
        }
    }
}
