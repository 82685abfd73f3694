//! Connections that come, change and go, and the first look at all of them.

use std::collections::BTreeSet;

use crate::decision::{Absent, Connect, Connections};
use causeway_alloc::ConnectRecord;
use causeway_api::intent;
use causeway_record as record;
use causeway_types::ConnectName;

use super::{ConnectState, Connects, Surroundings, connect_target};
use crate::desk::Desk;
use crate::dirty::Dirty;
use crate::numbers::Numbers;
use crate::trouble::Trouble;

impl Connects {
    pub(crate) fn applied(&mut self, object: record::Connect, numbers: &mut Numbers, desk: &mut Desk) {
        let name = object.name.clone();
        desk.writes.seen(&connect_target(&name));
        if self.all.get(&name).is_some_and(|before| before.object.uid != object.uid) {
            self.deleted(&name, numbers, desk);
        }
        let before = self.all.remove(&name);
        let state = self.read(object, before);
        // A spec that cannot be read changes nothing: what was decided last stays.
        let record = state.record.clone().filter(|_| state.unreadable.is_none() || state.object.deleting);
        self.all.insert(name.clone(), state);
        self.count(&name);
        if self.model.is_some() {
            if let Some(record) = record {
                self.feed(&name, record, numbers, &mut desk.dirty);
            }
            desk.dirty.connects([name]);
        }
    }

    /// What an object says, with what is known of it from before.
    fn read(&self, object: record::Connect, before: Option<ConnectState>) -> ConnectState {
        let known = before.as_ref().and_then(|before| before.record.as_ref());
        let meant = object.meant.as_ref().map_err(|problems| Trouble::from(&problems[..]));
        let read = meant.and_then(|meant| self.record_of(&object, meant, known));
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
    fn record_of(
        &self,
        object: &record::Connect,
        meant: &intent::Connect,
        known: Option<&Connect>,
    ) -> Result<Connect, Trouble> {
        let written = Connect::of(object, meant, self.topology, ConnectRecord::default());
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

    pub(super) fn feed(
        &mut self,
        name: &ConnectName,
        mut record: Connect,
        numbers: &mut Numbers,
        dirty: &mut Dirty,
    ) {
        let Some(model) = self.deciding() else { return };
        record.record = numbers.take_gone(name);
        match model.apply_connect(record) {
            Ok(concerned) => dirty.connects(concerned),
            Err(error) => {
                let trouble = Trouble::new("InvalidSpec", error.to_string());
                if let Some(state) = self.all.get_mut(name) {
                    state.unreadable = Some(trouble);
                }
            }
        }
    }

    /// The object is gone. If somebody has taken the finalizer away by force, its numbers rest all the same.
    pub(crate) fn deleted(&mut self, name: &ConnectName, numbers: &mut Numbers, desk: &mut Desk) {
        desk.writes.seen(&connect_target(name));
        let Some(state) = self.all.get(name) else { return };
        let numbered = numbers.connect_key(name).is_some();
        if self.model.is_some() && numbered && !state.is_retired() {
            self.deselect_all(name, numbers, &mut desk.dirty);
            let only = BTreeSet::from([name.clone()]);
            self.record_numbers(&only, &only, numbers, &mut desk.writes);
        }
        self.all.remove(name);
        if let Some(model) = self.deciding() {
            numbers.keep_gone(name, model.record(name).unwrap_or_default());
            desk.dirty.connects(model.delete_connect(name));
        }
        numbers.release_connect(name);
        self.late.remove(name);
        self.tally.forget(name);
        desk.dirty.forget_connect(name);
        desk.dirty.connects(self.without_key());
    }

    fn deselect_all(&mut self, name: &ConnectName, numbers: &mut Numbers, dirty: &mut Dirty) {
        let record = self.all.get(name).and_then(|state| state.record.clone());
        if let Some(record) = record {
            self.feed(name, Connect { selections: Vec::new(), ..record }, numbers, dirty);
        }
    }

    /// Decides about all connections at once: whoever has a place keeps it, whatever the order of events was.
    pub(crate) fn start(&mut self, around: &Surroundings<'_>, numbers: &mut Numbers, desk: &mut Desk) {
        let record = |(name, state): (&ConnectName, &ConnectState)| {
            let record = state.record.clone()?;
            Some(Connect { record: numbers.take_gone(name), ..record })
        };
        let connects: Vec<Connect> = self.all.iter().filter_map(record).collect();
        let absent: Vec<Absent> = around.all_absent().collect();
        let started = Connections::start(
            around.cluster(),
            numbers.coming_epoch(),
            around.networks(),
            around.namespaces(),
            around.nodes(),
            connects,
        );
        match started {
            Ok(mut model) => {
                absent.into_iter().for_each(|absent| drop(model.apply_absent(absent)));
                self.model = Some(model);
                self.tally.decided();
            }
            Err(error) => tracing::error!(%error, "connections are not looked at"),
        }
        let all = self.all.iter_mut();
        all.for_each(|(_, state)| state.hash_since = desk.now_ms);
        desk.dirty.connects(self.all.keys().cloned());
    }
}
