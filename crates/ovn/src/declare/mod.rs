//! What we own of each table, said once: identity, columns, map keys, edges, order.
//!
//! A table that is not declared is neither monitored nor touched. A column is owned whole unless it is listed as an
//! edge, as ignored, as a map of which only some keys are ours, or as one whose members are planned one by one.

mod nb;
mod sb;
mod vswitch;

use crate::path::{self, ID_KEY};
use crate::typed::TableMeta;
use causeway_ovsdb::{Atom, Condition, Datum, IndexFn, MonitorTable, RowRef, Str};

pub use nb::NORTHBOUND;
pub use sb::SOUTHBOUND;
pub use vswitch::VSWITCH;

/// The order in which things come into being; they go in reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Switches, routers, port groups, the address sets of guards.
    Container,
    /// Drop and isolation ACLs.
    Guard,
    /// Ports of switches and routers.
    Port,
    /// Static routes and NAT.
    Route,
    /// Policies, load balancers and where they are attached, address sets that steer.
    Steering,
    /// Where rows that are there already are closed to what nobody allows: what somebody allows is there before.
    Closing,
}

impl Phase {
    /// All phases, in the order of creation.
    pub const ALL: [Phase; 6] =
        [Phase::Container, Phase::Guard, Phase::Port, Phase::Route, Phase::Steering, Phase::Closing];
}

/// How a row of a table is recognised as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// By its path in `external_ids`.
    Id,
    /// By the values of these columns: the path is `<table>:<values>`, and the UUID the one that it gives.
    Key(&'static [&'static str]),
    /// A row that is there already and stays: only our columns and keys of it are written.
    Adopted,
}

/// Which keys of a map are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Those that begin with one of the prefixes or are one of the names; others stay as they are.
    Ours {
        /// Prefixes of keys.
        prefixes: &'static [&'static str],
        /// Whole keys.
        names: &'static [&'static str],
    },
}

impl Keys {
    /// Whether a key is ours.
    pub fn owns(self, key: &str) -> bool {
        let Keys::Ours { prefixes, names } = self;
        prefixes.iter().any(|p| key.starts_with(p)) || names.contains(&key)
    }
}

/// The `external_ids` that every kind of row may carry.
pub(crate) const EXTERNAL_IDS: (&str, Keys) = (
    "external_ids",
    Keys::Ours {
        prefixes: &["k8s.ovn.org/"],
        names: &[
            "k8s-cluster-router",
            "node",
            "ic-node",
            "namespace",
            "pod",
            "name",
            "direction",
            "gress-index",
            "ip-family",
            "physical_ip",
            "physical_ips",
        ],
    },
);

/// The column that counts northbound changes, in the global rows of both databases: whoever raises it northbound sees
/// southbound when northd has carried out everything up to there.
pub(crate) const COUNTER: &str = "nb_cfg";

/// What we own of one table.
#[derive(Clone, Copy, Debug)]
pub struct Decl {
    /// The table.
    pub meta: fn() -> &'static TableMeta,
    /// How our rows are recognised.
    pub identity: Identity,
    /// When its rows come into being, unless the plan says otherwise.
    pub phase: Phase,
    /// Sets of references that belong to the rows referred to.
    pub edges: &'static [&'static str],
    /// Columns that the server or somebody else writes, and that we do not look at.
    pub ignored: &'static [&'static str],
    /// Columns that we read and no plan has.
    pub watched: &'static [&'static str],
    /// The column by which single rows are asked for, in a table of which nothing is ours and only watched columns are
    /// read; until somebody asks, no row is.
    pub asked_by: Option<&'static str>,
    /// Maps of which only some keys are ours.
    pub maps: &'static [(&'static str, Keys)],
    /// Sets whose members come with the creations and go with the deletions, so that what they guard is never bare.
    pub grows: &'static [&'static str],
    /// Sets of texts and maps from texts to texts whose members are planned and written one by one. A row that states
    /// such a column all the same has it whole, and then nobody plans members of it.
    pub members: &'static [&'static str],
}

impl Decl {
    pub(crate) const fn new(meta: fn() -> &'static TableMeta, phase: Phase) -> Decl {
        let maps: &'static [(&'static str, Keys)] = &[EXTERNAL_IDS];
        Decl {
            meta,
            identity: Identity::Id,
            phase,
            edges: &[],
            ignored: &[],
            watched: &[],
            asked_by: None,
            maps,
            grows: &[],
            members: &[],
        }
    }

    /// Which keys of a map column are ours; `None` for a column that is ours as a whole.
    pub(crate) fn keys(&self, column: &str) -> Option<Keys> {
        self.maps.iter().find(|(name, _)| *name == column).map(|(_, keys)| *keys)
    }

    fn monitor(&self) -> MonitorTable {
        let meta = (self.meta)();
        let is_read = |column: &&&str| match self.asked_by {
            Some(_) => self.watched.contains(*column),
            None => !self.ignored.contains(*column),
        };
        let columns = meta.columns.iter().filter(is_read).map(|c| Str::from(*c)).collect();
        let index: Option<IndexFn> = match self.identity {
            Identity::Id => Some(path_in_external_ids),
            Identity::Key(_) => Some(path_of_natural_key),
            Identity::Adopted => None,
        };
        MonitorTable {
            columns,
            index,
            backrefs: self.edges.iter().map(|c| Str::from(*c)).collect(),
            conditions: self.asked_by.map(|column| asked(column, [])).unwrap_or_default(),
            ..MonitorTable::whole(meta.name)
        }
    }
}

/// The declarations of one database.
#[derive(Debug)]
pub struct Declarations {
    /// Its name.
    pub database: &'static str,
    /// All that are monitored; a plan for any other is refused.
    pub tables: &'static [Decl],
}

impl Declarations {
    /// What a session must hold for the differ to work.
    pub fn monitor_tables(&self) -> Vec<MonitorTable> {
        self.tables.iter().map(Decl::monitor).collect()
    }

    /// The conditions under which exactly the rows with these names are read, of a table whose rows are asked for.
    pub fn asked<'a>(&self, table: &str, names: impl IntoIterator<Item = &'a str>) -> Option<Vec<Condition>> {
        Some(asked(self.find(table)?.asked_by?, names))
    }

    /// The table whose one row counts changes; those whose rows are asked for repeat the count.
    pub(crate) fn counter(&self) -> Option<&'static str> {
        let counts = |d: &&Decl| d.watched.contains(&COUNTER) && d.asked_by.is_none();
        self.tables.iter().find(counts).map(|d| (d.meta)().name)
    }

    pub(crate) fn find(&self, table: &str) -> Option<&'static Decl> {
        self.tables.iter().find(|d| (d.meta)().name == table)
    }
}

/// Rows with one of these names. No row has an empty one, and no condition at all would mean every row.
fn asked<'a>(column: &'static str, names: impl IntoIterator<Item = &'a str>) -> Vec<Condition> {
    let all = [""].into_iter().chain(names);
    all.map(|name| Condition::equal(column, name)).collect()
}

fn path_in_external_ids(row: RowRef<'_>) -> Option<Str> {
    row.get("external_ids")?.get(ID_KEY).cloned()
}

/// The three databases have no table with a natural key in common but for `Static_MAC_Binding`, whose key is the same.
fn path_of_natural_key(row: RowRef<'_>) -> Option<Str> {
    let table = row.layout.table();
    let decl = [&NORTHBOUND, &SOUTHBOUND, &VSWITCH].iter().find_map(|d| d.find(table))?;
    let Identity::Key(columns) = decl.identity else { return None };
    natural_path(table, columns, |column| row.get(column))
}

/// `<table>:<values of the key>`.
pub(crate) fn natural_path<'a>(
    table: &str,
    key: &[&str],
    get: impl Fn(&str) -> Option<&'a Datum>,
) -> Option<Str> {
    let mut components = vec![table.to_owned()];
    for column in key {
        components.push(match get(column)?.one()? {
            Atom::String(s) => s.to_string(),
            Atom::Integer(i) => i.to_string(),
            _ => return None,
        });
    }
    Some(path::join(components))
}
