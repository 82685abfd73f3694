//! Connections that come, change and go, and the first look at all of them.

use std::collections::BTreeSet;

use crate::decision::{Absent, Cluster, Connect, Connections};
use causeway_alloc::ConnectRecord;
use causeway_api::intent;
use causeway_record::{self as record, Cause, Event};
use causeway_types::ConnectName;

use super::{ConnectState, KIND, connect_target};
use crate::Manager;
use crate::trouble::Trouble;

impl Manager {
    pub(crate) fn connect_applied(&mut self, object: record::Connect) {
        let name = object.name.clone();
        self.writes.seen(&connect_target(&name));
        if self.connects.all.get(&name).is_some_and(|before| before.object.uid != object.uid) {
            self.connect_deleted(&name);
        }
        let before = self.connects.all.remove(&name);
        let state = self.read_connect(object, before);
        // A spec that cannot be read changes nothing: what was decided last stays.
        let record = state.record.clone().filter(|_| state.unreadable.is_none() || state.object.deleting);
        self.connects.all.insert(name.clone(), state);
        self.connects.count(&name);
        if self.connects.model.is_some() {
            if let Some(record) = record {
                self.feed_connect(&name, record);
            }
            self.dirty.connects([name]);
        }
    }

    /// What an object says, with what is known of it from before.
    fn read_connect(&self, object: record::Connect, before: Option<ConnectState>) -> ConnectState {
        let known = before.as_ref().and_then(|before| before.record.as_ref());
        let meant = object.meant.as_ref().map_err(|problems| Trouble::from(&problems[..]));
        let read = meant.and_then(|meant| self.connect_record(&object, meant, known));
        let mut state = ConnectState::new(object);
        match read {
            Ok(record) => state.record = Some(record),
            Err(trouble) => {
                state.record = known.cloned();
                state.unreadable = Some(trouble);
            }
        }
        if let Some(record) = state.record.as_mut().filter(|_| state.object.deleting) {
            // Whoever goes lets go of its networks first.
            record.selections.clear();
        }
        let Some(before) = before else { return state };
        ConnectState {
            without_key: before.without_key,
            waits: before.waits,
            retired: before.retired,
            hash: before.hash,
            hash_since: before.hash_since,
            lost: before.lost,
            sent: before.sent.filter(|(sent, done)| !*done && *sent != state.object.status),
            said_at: before.said_at,
            stuck: before.stuck,
            ..state
        }
    }

    /// Only what an object carries at first sight counts; later its annotations are the manager's own, on their way back.
    fn connect_record(
        &self,
        object: &record::Connect,
        meant: &intent::Connect,
        known: Option<&Connect>,
    ) -> Result<Connect, Trouble> {
        let written = Connect::of(object, meant, self.config.connect_topology, ConnectRecord::default());
        let Some(known) = known else {
            return written.map_err(|error| {
                Trouble::new("InvalidAnnotation", format!("{error}; delete the object and create it anew"))
            });
        };
        let before = intent::Connect { subnets: known.subnets.clone(), ..meant.clone() };
        let problems = before.changes(meant);
        if !problems.is_empty() {
            return Err(Trouble::from(&problems[..]));
        }
        let (blocks, slots) = match written {
            Ok(written) => (written.blocks, written.slots.or(known.slots)),
            Err(_) => (known.blocks.clone(), known.slots),
        };
        Ok(Connect { selections: meant.selections.clone(), blocks, slots, ..known.clone() })
    }

    pub(super) fn feed_connect(&mut self, name: &ConnectName, mut record: Connect) {
        let Some(model) = &mut self.connects.model else { return };
        record.record = self.freed.take_gone(name);
        match model.apply_connect(record) {
            Ok(dirty) => self.dirty.connects(dirty),
            Err(error) => {
                let trouble = Trouble::new("InvalidSpec", error.to_string());
                if let Some(state) = self.connects.all.get_mut(name) {
                    state.unreadable = Some(trouble);
                }
            }
        }
    }

    /// The object is gone. If somebody has taken the finalizer away by force, its numbers rest all the same.
    pub(crate) fn connect_deleted(&mut self, name: &ConnectName) {
        self.writes.seen(&connect_target(name));
        let Some(state) = self.connects.all.get(name) else { return };
        let numbered = self.numbers.connect_key(name).is_some();
        if self.connects.model.is_some() && numbered && !state.is_retired() {
            self.deselect_all(name);
            let only = BTreeSet::from([name.clone()]);
            self.record_numbers(&only, &only);
        }
        self.connects.all.remove(name);
        if let Some(model) = &mut self.connects.model {
            self.freed.keep_gone(name, model.record(name).unwrap_or_default());
            self.dirty.connects(model.delete_connect(name));
        }
        self.numbers.release_connect(name);
        self.connects.late.remove(name);
        self.connects.tally.forget(name);
        self.dirty.forget_connect(name);
        self.dirty.connects(self.connects.without_key());
    }

    fn deselect_all(&mut self, name: &ConnectName) {
        let record = self.connects.all.get(name).and_then(|state| state.record.clone());
        if let Some(record) = record {
            self.feed_connect(name, Connect { selections: Vec::new(), ..record });
        }
    }

    /// A kind that is not installed has no objects that hold numbers, so everything else can go on; connections are looked
    /// at once they have been listed.
    pub(crate) fn listen_to_connects(&mut self, event: &Event<record::Connect, ConnectName>) {
        match event {
            Event::Unsynced(broken) if broken.cause == Cause::NotInstalled => self.gate.listed(KIND),
            Event::Synced if !self.connects.listed => {
                self.connects.listed = true;
                if self.started {
                    self.start_connects();
                }
            }
            _ => {}
        }
    }

    /// Decides about all connections at once: whoever has a place keeps it, whatever the order of events was.
    pub(crate) fn start_connects(&mut self) {
        let freed = &mut self.freed;
        let record = |(name, state): (&ConnectName, &ConnectState)| {
            let record = state.record.clone()?;
            Some(Connect { record: freed.take_gone(name), ..record })
        };
        let connects: Vec<Connect> = self.connects.all.iter().filter_map(record).collect();
        let coming = self.freed.coming();
        let around = self.surroundings();
        let absent: Vec<Absent> = around.all_absent().collect();
        let started = Connections::start(
            Cluster { no_overlay: self.config.no_overlay, ..Cluster::from(&self.config.cluster) },
            coming,
            around.networks(),
            around.namespaces(),
            around.nodes(),
            connects,
        );
        match started {
            Ok(mut model) => {
                absent.into_iter().for_each(|absent| drop(model.apply_absent(absent)));
                self.connects.model = Some(model);
            }
            Err(error) => tracing::error!(%error, "connections are not looked at"),
        }
        drop(self.dirty.take_reach());
        let all = self.connects.all.iter_mut();
        all.for_each(|(_, state)| state.hash_since = self.now_ms);
        self.dirty.connects(self.connects.all.keys().cloned());
        // What zones have cleared of their blocks.
        self.freed.look_again();
        self.expire_numbers();
    }
}
