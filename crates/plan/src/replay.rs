//! Plays a recording of a node again: the same messages, in the same order, make the same slices dirty, and plan the same.
//!
//! What stood in a database before the recording began is not known: it is not shown when it goes.
//! What the node says to the API server is not planned here: it depends on what databases and the switch answer, which nobody records.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use causeway_ovn::{Plan, Planned, Planner, Str};
use causeway_ovsdb::encode_datum;
use causeway_record::recording::{Header, messages};
use causeway_record::{Error, ObjectKey};
use causeway_types::host::{self, HostUpdate, Owner};
use causeway_zone::{Changes, Input, Knowledge, Zone, ZoneConfig};
use ipnet::IpNet;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::host::HostKeeper;
use crate::wiring::{self, Attached, Verdict};
use crate::{Dirty, northbound, southbound};

/// What recordings of a node's role say that they are of.
pub const ROLE: &str = "node";

/// What followed from a message.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// The line of the message in the recording.
    pub line: usize,
    /// What was to be written, and where.
    #[serde(flatten)]
    pub what: What,
}

/// What was to be written, by the place where it belongs.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum What {
    /// Rows of a database.
    Slice(Slice),
    /// The node itself: kernel, nftables, ports and flows of Open vSwitch, FRR.
    Host(Host),
    /// A pod's interfaces, which the CNI server makes when it is asked.
    Pod(Wired),
}

/// What one slice was to be.
#[derive(Debug, Serialize)]
pub struct Slice {
    /// Which database.
    pub database: &'static str,
    /// The path of one row or, with a `:` at its end, the beginning of many, such as `zone:common:`.
    pub slice: String,
    /// Rows and members; none means that what is there goes, unless it is held or kept.
    pub rows: Vec<Row>,
    /// Why what is there stays as it is, because it is not known what shall be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// Whether whatever is there is right for now, and stays.
    #[serde(skip_serializing_if = "is_false")]
    pub kept: bool,
}

/// What differs in the host's plan.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Host {
    /// What is to be under a key.
    Item {
        /// The key, such as `link ovn-k8s-mp0`.
        host: String,
        /// None means that what is there goes, unless its owner is held.
        planned: Option<host::Planned>,
    },
    /// Who asks for a key that somebody else has.
    Clash {
        /// The key.
        host: String,
        /// Nobody any more, if it is empty.
        in_vain: BTreeSet<Owner>,
    },
    /// Whether what an owner has stays as it is.
    Held {
        /// None means everybody.
        owner: Option<Owner>,
        /// Why; none means that it follows the plan again.
        held: Option<String>,
    },
}

/// What a pod of the node is to be connected with.
#[derive(Debug, Serialize)]
pub struct Wired {
    /// Namespace and name.
    pub pod: String,
    /// The default network first; none is connected if the pod waits, is refused or is gone.
    pub networks: Vec<Interface>,
    /// What must come before it can be connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Why it is never connected like this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A network that a pod is to be connected with.
#[derive(Debug, Serialize)]
pub struct Interface {
    /// Its name in the zone.
    pub network: String,
    /// The pod's on it, with the prefix lengths of their subnets.
    pub addresses: Vec<IpNet>,
    /// Of the pod's interface.
    pub mac: String,
    /// Of the pod's interface.
    pub mtu: u32,
}

/// A planned row or member.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name in the schema, such as `Logical_Switch`.
    pub table: &'static str,
    /// What it is known by.
    pub path: String,
    /// Its columns, as the database writes them.
    pub columns: BTreeMap<&'static str, Box<RawValue>>,
}

/// Plays a recording of a node's role. Nothing is written anywhere: the answers are all there is.
///
/// # Errors
/// If the header or a line cannot be read.
pub fn replay<'a>(
    header: &Header,
    lines: impl IntoIterator<Item = &'a str>,
) -> Result<impl Iterator<Item = Result<Answer, Error>>, Error> {
    let known = Knowledge::new(header.config::<ZoneConfig>(ROLE)?);
    let mut player = Player { known, databases: <[Known; 2]>::default(), host: HostKeeper::default() };
    Ok(messages::<Input>(lines).flat_map(move |message| match message {
        Ok((line, input)) => {
            let answers = player.step(input).into_iter();
            answers.map(|what| Ok(Answer { line, what })).collect::<Vec<_>>()
        }
        Err(error) => vec![Err(error)],
    }))
}

/// What the role's task keeps of its own, and what its databases would have.
struct Player {
    known: Knowledge,
    databases: [Known; 2],
    host: HostKeeper,
}

/// The rows that were planned so far in a database. A slice that does not exist any more is looked at as long as something of it is there.
#[derive(Default)]
struct Known {
    paths: BTreeSet<Str>,
    /// Rows outside of the slice that plans them.
    outside: BTreeMap<Str, BTreeSet<Str>>,
}

impl Known {
    fn slices(&self, planner: &dyn Planner, prefix: &str) -> BTreeSet<Str> {
        let own = |path: &Str| {
            planner.holder(path).unwrap_or_else(|| path[..planner.slice_len(path).max(prefix.len())].into())
        };
        planner.slices(prefix).into_iter().chain(self.below(prefix).map(own)).collect()
    }

    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Str> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.paths.range::<str, _>(from).take_while(move |path| path.starts_with(prefix))
    }

    /// The slice has these rows now, and no others.
    fn set(&mut self, slice: &Str, rows: &[Planned]) {
        let is_whole = slice.is_empty() || slice.ends_with(':');
        let covers = |path: &Str| if is_whole { path.starts_with(slice.as_str()) } else { path == slice };
        let mut gone: BTreeSet<Str> = self.below(slice).filter(|path| covers(path)).cloned().collect();
        gone.extend(self.outside.remove(slice).into_iter().flatten());
        for path in &gone {
            self.paths.remove(path);
        }
        for row in rows {
            self.paths.insert(row.path.clone());
            if !covers(&row.path) {
                self.outside.entry(slice.clone()).or_default().insert(row.path.clone());
            }
        }
    }
}

impl Player {
    fn step(&mut self, input: Input) -> Vec<What> {
        let effect = self.known.step(input);
        if !self.known.is_ready() {
            return Vec::new();
        }
        let zone = &self.known.zone;
        let (changes, dirty) = match effect.became_ready {
            true => (Changes::everything(), Dirty::everything()),
            false => (effect.changes.clone(), Dirty::after(zone, &effect.changes)),
        };
        let [nb, sb] = &mut self.databases;
        let mut all = slices("northbound", &northbound(zone), nb, &dirty.northbound);
        all.extend(slices("southbound", &southbound(zone), sb, &dirty.southbound));
        if dirty.host.any() {
            all.extend(host(self.host.follow(zone, &dirty.host)));
        }
        all.extend(pods(zone, &changes));
        all
    }
}

fn slices(database: &'static str, planner: &dyn Planner, known: &mut Known, dirty: &[String]) -> Vec<What> {
    let slices: BTreeSet<Str> = dirty.iter().flat_map(|prefix| known.slices(planner, prefix)).collect();
    let answer = |slice: Str| {
        let (rows, held, kept) = match planner.plan(&slice) {
            Plan::Rows(rows) => (rows, None, false),
            Plan::Absent => (Vec::new(), None, false),
            Plan::Keep => (Vec::new(), None, true),
            Plan::Hold(reason) => (Vec::new(), Some(reason), false),
        };
        if held.is_none() && !kept {
            known.set(&slice, &rows);
        }
        let rows = rows.iter().map(row).collect();
        What::Slice(Slice { database, slice: slice.to_string(), rows, held, kept })
    };
    slices.into_iter().map(answer).collect()
}

fn host(update: HostUpdate) -> impl Iterator<Item = What> {
    let HostUpdate { items, clashes, holds, hold_all } = update;
    let everybody = hold_all.map(|held| Host::Held { owner: None, held });
    let holds = holds.into_iter().map(|(owner, held)| Host::Held { owner: Some(owner), held });
    let items = items.into_iter().map(|(key, planned)| Host::Item { host: key.to_string(), planned });
    let clashes = clashes.into_iter().map(|(key, in_vain)| Host::Clash { host: key.to_string(), in_vain });
    everybody.into_iter().chain(holds).chain(items).chain(clashes).map(What::Host)
}

fn pods(zone: &Zone, changes: &Changes) -> impl Iterator<Item = What> {
    let pods: BTreeSet<ObjectKey> = changes.iter().flat_map(|change| wiring::follows(zone, change)).collect();
    pods.into_iter().map(|pod| What::Pod(wired(zone, &pod)))
}

fn wired(zone: &Zone, pod: &ObjectKey) -> Wired {
    let mut wired = Wired { pod: pod.to_string(), networks: Vec::new(), waits: None, refused: None };
    match wiring::wiring(zone, pod).map(|wiring| wiring.verdict) {
        None => {}
        Some(Verdict::Connect(attached)) => wired.networks = attached.iter().map(interface).collect(),
        Some(Verdict::Wait(missing)) => wired.waits = Some(missing.to_string()),
        Some(Verdict::Refuse(refusal)) => wired.refused = Some(refusal.message),
    }
    wired
}

fn interface(attached: &Attached) -> Interface {
    Interface {
        network: attached.network.to_string(),
        addresses: attached.address.ip_addresses.clone(),
        mac: attached.address.mac_address.to_string(),
        mtu: attached.mtu,
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn row(planned: &Planned) -> Row {
    let column = |(at, datum): &(u8, causeway_ovsdb::Datum)| {
        let mut text = Vec::new();
        encode_datum(&mut text, datum);
        let value = RawValue::from_string(String::from_utf8(text).ok()?).ok()?;
        Some((*planned.meta.columns.get(usize::from(*at))?, value))
    };
    let columns = planned.columns.iter().filter_map(column).collect();
    Row { table: planned.meta.name, path: planned.path.to_string(), columns }
}
