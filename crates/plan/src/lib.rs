//! Plans: from a zone's index to OVN rows and host configuration.
//!
//! Pure functions of a [`Zone`]. A feature is a room: a file or a folder, and one line in the list of its output below.
//! Nothing here looks at what a database has.

mod all_services;
mod chassis;
mod common;
mod connect;
pub mod host;
mod host_ports;
mod isolation;
mod local_endpoints;
mod network;
pub mod node;
mod policy;
pub mod progress;
pub mod replay;
pub mod room;
mod row;
pub mod running;
mod services;
pub mod wiring;

use causeway_zone::{Change, Changes, Subject, Zone};

pub use chassis::slice_of as chassis_slice;
pub use connect::{OwnPort, own_ports};
pub use local_endpoints::{LocalEndpoints, local_endpoints};

use host::HostDirty;
use room::{House, Room, World};

/// The rooms of the northbound database. A new feature is one more line.
pub static NORTHBOUND: &[&Room<Zone>] = &[
    &common::ROOM,
    &isolation::ROOM,
    &network::ROOM,
    &connect::ROOM,
    &services::ROOM,
    &policy::ROOM,
    &host_ports::ROOM,
    &all_services::ROOM,
];

/// The rooms of the southbound database.
pub static SOUTHBOUND: &[&Room<Zone>] = &[&chassis::ROOM];

impl World for Zone {
    type Change = Change;
    type Subject = Subject;

    fn is_everything(change: &Change) -> bool {
        *change == Change::Everything
    }
}

/// The plan of a zone's northbound database.
pub fn northbound(zone: &Zone) -> House<'_, Zone> {
    House::new(zone, NORTHBOUND)
}

/// The plan of a zone's southbound database.
pub fn southbound(zone: &Zone) -> House<'_, Zone> {
    House::new(zone, SOUTHBOUND)
}

/// What is to be looked at in each output.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Dirty {
    /// Prefixes in the northbound database; the empty one is everything.
    pub northbound: Vec<String>,
    /// The same in the southbound database.
    pub southbound: Vec<String>,
    /// What of the host's plan may differ.
    pub host: HostDirty,
}

impl Dirty {
    /// What follows from changes. The zone is as it is after them.
    pub fn after(zone: &Zone, changes: &Changes) -> Self {
        if changes.is_empty() {
            return Self::default();
        }
        Self {
            northbound: northbound(zone).dirty(changes).into_iter().collect(),
            southbound: southbound(zone).dirty(changes).into_iter().collect(),
            host: changes.iter().fold(HostDirty::default(), |mut all, change| {
                all.merge(HostDirty::after(zone, change));
                all
            }),
        }
    }

    /// Every slice of both databases, and all of the host's plan.
    pub fn everything() -> Self {
        Self {
            northbound: vec![String::new()],
            southbound: vec![String::new()],
            host: HostDirty::everything(),
        }
    }

    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.northbound.is_empty() && self.southbound.is_empty() && !self.host.any()
    }

    /// Adds what follows from other changes.
    pub fn merge(&mut self, other: Self) {
        self.northbound.extend(other.northbound);
        self.southbound.extend(other.southbound);
        self.host.merge(other.host);
    }
}
