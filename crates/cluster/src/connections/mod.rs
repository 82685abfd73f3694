//! ClusterNetworkConnects: what each one is, what it was given, and how far zones are with it.
//!
//! Which networks are connected, and where they have their blocks, is decided in `decision`; here that is fed with
//! the cluster as it is, and what it answers is written. A number is written only after everything that was freed before
//! is recorded, so that no zone ever meets it twice.

mod events;
mod off;
mod reach;
mod settle;
mod status;
mod tally;
mod topology;

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::{Connect, Connections};
use causeway_alloc::{Claim, Cleared, ConnectRecord, Epoch, KeyOwner, Seniority};
use causeway_api::annotations::{ConnectBlocks, ConnectRouterKey, keys};
use causeway_api::conditions::ACCEPTED;
use causeway_api::crd::{ClusterNetworkConnectStatus, StatusType};
use causeway_record::{self as record, Kind, Regarding, Target};
use causeway_types::{Cidr, ConnectName, ConnectTopology, DatapathKey, NetworkId, NetworkName, NodeName};

use crate::Config;
use crate::numbers::router;
use crate::trouble::Trouble;
pub(crate) use reach::Surroundings;
use tally::{Outcome, Tally};

/// What the kind is called.
pub(crate) const KIND: &str = "clusternetworkconnects";

/// All connections.
#[derive(Debug)]
pub(crate) struct Connects {
    /// Whether they are switched on. Else nothing new is given and nothing is said; what they have stays theirs.
    on: bool,
    /// How they are to be laid out; those that are laid out differently move.
    topology: ConnectTopology,
    all: BTreeMap<ConnectName, ConnectState>,
    /// What decides; nothing before all kinds have been listed.
    model: Option<Connections>,
    /// Whether they have been listed: a kind that is not installed yet has not been.
    listed: bool,
    /// Those whose status waits for its second to pass.
    late: BTreeSet<ConnectName>,
    tally: Tally,
}

impl Connects {
    pub(crate) fn new(config: &Config) -> Self {
        let (on, topology) = (config.features.network_connect, config.connect_topology);
        let (all, late, tally) = (BTreeMap::new(), BTreeSet::new(), Tally::default());
        Self { on, topology, all, model: None, listed: false, late, tally }
    }

    /// What decides, to be changed.
    fn deciding(&mut self) -> Option<&mut Connections> {
        self.tally.decided();
        self.model.as_mut()
    }

    /// All connections have been listed. The answer is whether that is new.
    pub(crate) fn listed(&mut self) -> bool {
        !std::mem::replace(&mut self.listed, true)
    }

    /// Whether all connections have been listed.
    pub(crate) fn are_listed(&self) -> bool {
        self.listed
    }

    fn names_where(&self, is: impl Fn(&ConnectState) -> bool) -> impl Iterator<Item = ConnectName> {
        self.all.iter().filter(move |(_, state)| is(state)).map(|(name, _)| name.clone())
    }

    /// What a network reaches by connections: the networks that it is connected with, and the subnets of links.
    pub(crate) fn across(&self, network: &NetworkName) -> (BTreeSet<NetworkId>, Vec<Cidr>) {
        let (mut networks, mut links) = (BTreeSet::new(), Vec::new());
        let model = self.model.as_ref().filter(|_| self.on);
        for (model, connect) in model.into_iter().flat_map(|m| m.connections_of(network).map(move |c| (m, c)))
        {
            for (owner, blocks) in model.blocks(connect).unwrap_or_default() {
                networks.insert(owner.network());
                links.extend(blocks);
            }
        }
        (networks, links)
    }

    /// Connections without a tunnel key: they ask again when one may be free.
    pub(crate) fn without_key(&self) -> impl Iterator<Item = ConnectName> {
        self.names_where(|state| state.without_key.is_some())
    }

    /// Connections whose annotations wait until freed numbers are recorded.
    pub(crate) fn waiting_for_record(&self) -> impl Iterator<Item = ConnectName> {
        self.names_where(|state| state.waits.is_some())
    }

    /// The tunnel keys that connections carry.
    pub(crate) fn written_keys(&self) -> impl Iterator<Item = Claim<KeyOwner, DatapathKey>> {
        let oldest = Seniority { finished: false, created: i64::MIN };
        self.all.iter().filter_map(move |(name, connect)| {
            Some(Claim { seniority: oldest, owner: router(name), number: connect.key()? })
        })
    }

    /// The blocks that objects carry.
    fn written_blocks(&self) -> impl Iterator<Item = (&ConnectName, &ConnectBlocks)> {
        self.all.iter().filter_map(|(name, state)| Some((name, state.object.blocks.as_ref().ok()?.as_ref()?)))
    }

    /// What connections let go of from now on is listed under this epoch.
    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        if let Some(model) = self.deciding() {
            model.set_epoch(epoch);
        }
    }

    /// All zones have cleared what these epochs list; the answer is who may get a place now.
    pub(crate) fn expire(&mut self, cleared: &Cleared) -> BTreeSet<ConnectName> {
        self.deciding().map(|model| model.expire(cleared)).unwrap_or_default()
    }

    /// Blocks and parcels that connections have let go of.
    pub(crate) fn freed(&self) -> impl Iterator<Item = (ConnectName, ConnectRecord)> {
        let record = |name: &ConnectName| Some((name.clone(), self.model.as_ref()?.record(name)?));
        self.all.keys().filter_map(record).filter(|(_, record)| !record.quarantined.is_empty())
    }

    /// Whether any of those rests.
    pub(crate) fn any_rests(&mut self) -> bool {
        let Self { all, model: Some(model), tally, .. } = self else { return false };
        let rests = |name| model.record(name).is_some_and(|record| !record.quarantined.is_empty());
        tally.any_rests(|| all.keys().any(rests))
    }

    /// How many there are, by whether they are accepted and by their outcome, as it was said last.
    pub(crate) fn counts(&self) -> BTreeMap<Outcome, usize> {
        self.tally.counts()
    }

    /// Counts what is said of a connection.
    fn count(&mut self, name: &ConnectName) {
        if let Some(state) = self.all.get(name) {
            self.tally.said(name, state.outcome());
        }
    }
}

/// A connection.
#[derive(Debug)]
struct ConnectState {
    object: record::Connect,
    /// What decisions are made from, as it was when it could last be read.
    record: Option<Connect>,
    /// Why it cannot be read now.
    unreadable: Option<Trouble>,
    /// Why it has no tunnel key.
    without_key: Option<Trouble>,
    /// The record of freed numbers that must be written before the annotations.
    waits: Option<u64>,
    /// Whether its numbers are listed as freed.
    retired: bool,
    /// What zones report when they have rendered it as it is to be, and since when that is so.
    hash: Option<record::RenderedHash>,
    hash_since: i64,
    /// Since when a zone does not say any more that it has rendered it.
    lost: BTreeMap<NodeName, i64>,
    /// The status that was asked for last, and whether it is written.
    sent: Option<(ClusterNetworkConnectStatus, bool)>,
    /// When a status was last asked for.
    said_at: Option<i64>,
    /// Why it cannot move to the other topology, as it was said.
    stuck: Option<String>,
}

impl ConnectState {
    fn new(object: record::Connect) -> Self {
        Self {
            object,
            record: None,
            unreadable: None,
            without_key: None,
            waits: None,
            retired: false,
            hash: None,
            hash_since: 0,
            lost: BTreeMap::new(),
            sent: None,
            said_at: None,
            stuck: None,
        }
    }

    /// The tunnel key that it carries.
    fn key(&self) -> Option<DatapathKey> {
        self.object.router_key.as_ref().ok()?.map(|ConnectRouterKey(key)| key)
    }

    fn is_protected(&self) -> bool {
        self.object.finalizers.iter().any(|finalizer| finalizer == keys::CONNECT_FINALIZER)
    }

    /// The finalizer goes only after the record is written, so a connection that is going without it has been recorded.
    fn is_retired(&self) -> bool {
        self.retired || (self.object.deleting && !self.is_protected())
    }

    /// What was said last.
    fn told(&self) -> &ClusterNetworkConnectStatus {
        self.sent.as_ref().map_or(&self.object.status, |(sent, _)| sent)
    }

    fn outcome(&self) -> Outcome {
        let told = self.told();
        let accepted = told.conditions.iter().any(|c| c.type_ == ACCEPTED && c.status == "True");
        let status = match told.status {
            None => "",
            Some(StatusType::Success) => "Success",
            Some(StatusType::Failure) => "Failure",
            Some(StatusType::Progressing) => "Progressing",
        };
        (if accepted { "true" } else { "false" }, status)
    }

    fn regarding(&self, name: &ConnectName) -> Regarding {
        let (api_version, kind) = Kind::ClusterNetworkConnect.api_version_and_kind();
        Regarding { api_version, kind, namespace: None, name: name.to_string(), uid: self.object.uid.clone() }
    }
}

fn connect_target(name: &ConnectName) -> Target {
    Target { kind: Kind::ClusterNetworkConnect, namespace: None, name: name.to_string() }
}
