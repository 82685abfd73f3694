//! What is written on a connection: all its annotations in one patch, with the finalizer that keeps it until its numbers
//! are recorded as freed.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::{Annotation, ConnectRouterKey, ConnectSlots, keys};
use causeway_record::{Action, Part, Priority, RenderedHash, Texts};
use causeway_types::{ConnectName, DatapathKey};
use serde_json::{Value, json};

use super::{ConnectState, Connects, connect_target};
use crate::desk::Desk;
use crate::numbers::Numbers;
use crate::trouble::Trouble;
use crate::writes::Writes;

impl Connects {
    /// Writes what has been decided about connections, all at once.
    pub(crate) fn settle(&mut self, dirty: BTreeSet<ConnectName>, numbers: &mut Numbers, desk: &mut Desk) {
        self.record_freed(&dirty, numbers, &mut desk.writes);
        for name in dirty {
            self.settle_one(&name, numbers, desk);
            desk.dirty.connect_statuses([name]);
        }
    }

    /// What these connections have let go of is recorded before their annotations say so: a manager that takes over in
    /// between must not give it to somebody else.
    fn record_freed(&mut self, dirty: &BTreeSet<ConnectName>, numbers: &mut Numbers, writes: &mut Writes) {
        let Some(model) = &self.model else { return };
        let listed = numbers.coming_epoch();
        let freed = |name: &&ConnectName| {
            let record = model.record(name).unwrap_or_default();
            record.quarantined.iter().any(|(_, _, epoch)| *epoch == listed)
        };
        let going = |name: &&ConnectName| {
            self.all.get(*name).is_some_and(|state| state.object.deleting && !state.is_retired())
        };
        let freed: BTreeSet<ConnectName> = dirty.iter().filter(freed).cloned().collect();
        let going: BTreeSet<ConnectName> = dirty.iter().filter(going).cloned().collect();
        let names = &freed | &going;
        if !names.is_empty() {
            self.record_numbers(&names, &going, numbers, writes);
        } else if dirty.iter().any(|name| numbers.lists_more(name, model.record(name).as_ref())) {
            // Somebody has come back to his place: zones must not wait for it to be gone.
            numbers.record(self, writes);
        }
    }

    /// Records what connections have let go of, and the keys of those that are going.
    pub(super) fn record_numbers(
        &mut self,
        names: &BTreeSet<ConnectName>,
        going: &BTreeSet<ConnectName>,
        numbers: &mut Numbers,
        writes: &mut Writes,
    ) {
        let epoch = numbers.next_epoch(self);
        for name in going {
            numbers.quarantine_connect(name, epoch);
        }
        let token = numbers.record(self, writes);
        for name in names {
            if let Some(state) = self.all.get_mut(name) {
                state.waits = Some(token);
                state.retired |= going.contains(name);
            }
        }
    }

    fn settle_one(&mut self, name: &ConnectName, numbers: &mut Numbers, desk: &mut Desk) {
        let Some(state) = self.all.get(name) else { return };
        if state.waits.is_some_and(|token| !numbers.is_written(token)) {
            return;
        }
        let wanted = self.annotations(name, numbers);
        let Some(state) = self.all.get_mut(name) else { return };
        state.waits = None;
        let hash = wanted
            .as_ref()
            .zip(state.object.meant.as_ref().ok())
            .map(|(texts, meant)| meant.report_hash(texts));
        let hash = hash.and_then(|hash| RenderedHash::new(&hash));
        if state.hash != hash {
            (state.hash, state.hash_since) = (hash, desk.now_ms);
        }
        match patch(state, &wanted.unwrap_or_default()) {
            Some(body) => {
                let action = Action::Merge { subresource: None, body };
                desk.writes.ask(connect_target(name), Part::Annotations, Priority::Network, action);
            }
            // What waits would write something that is not meant any more.
            None => desk.writes.withdraw(&connect_target(name), Part::Annotations),
        }
    }

    /// What the connection is to carry; nothing while that cannot be decided.
    fn annotations(&mut self, name: &ConnectName, numbers: &mut Numbers) -> Option<Texts> {
        if !self.on {
            return self.kept_annotations(name, numbers);
        }
        let state = self.all.get(name)?;
        let topology = state.record.as_ref()?.topology;
        let key = self.key(name, numbers);
        let state = self.all.get_mut(name)?;
        state.without_key = key.as_ref().err().cloned();
        let model = self.model.as_ref()?;
        let mut texts = Texts::from([
            (ConnectRouterKey::KEY.to_owned(), ConnectRouterKey(key.ok()?).text()),
            (keys::CONNECT_TOPOLOGY.to_owned(), topology.text()),
        ]);
        if let Some(slots) = model.slots(name).and_then(ConnectSlots::new) {
            texts.insert(ConnectSlots::KEY.to_owned(), slots.text());
        }
        let blocks = model.annotation(name)?;
        if !blocks.0.is_empty() || state.object.published.contains_key(keys::NETWORK_SUBNETS) {
            for key in [keys::NETWORK_SUBNETS, keys::NETWORK_CONNECT_SUBNET] {
                texts.insert(key.to_owned(), blocks.text());
            }
        }
        Some(texts)
    }

    /// The tunnel key of the connect router. One that is written stays, so it must not be somebody else's.
    fn key(&self, name: &ConnectName, numbers: &mut Numbers) -> Result<DatapathKey, Trouble> {
        if let Some(key) = numbers.connect_key(name) {
            return Ok(key);
        }
        let state = self.all.get(name);
        if let Some(Err(problem)) = state.map(|state| &state.object.router_key) {
            // What is there nobody may change, so a key of ours would be refused for ever.
            let message = format!(
                "the connect router has no tunnel key: {problem}; delete the object and create it anew"
            );
            return Err(Trouble::new("InvalidAnnotation", message));
        }
        match state.and_then(ConnectState::key) {
            Some(key) => numbers.keep_connect_key(name, key).map(|()| key).map_err(|error| {
                let message = format!("the connect router cannot keep its tunnel key: {error}; delete the object and create it anew");
                Trouble::new("TunnelKeyConflict", message)
            }),
            None => numbers.give_connect_key(name).map_err(|error| {
                Trouble::new("TunnelKeysExhausted", format!("the connect router gets no tunnel key: {error}"))
            }),
        }
    }
}

/// What has to be merged into the object. The list of finalizers is written as a whole, so only over the version that was
/// seen.
fn patch(state: &ConnectState, wanted: &Texts) -> Option<Value> {
    let differs = |(key, text): &(&String, &String)| state.object.published.get(*key) != Some(*text);
    let annotations: BTreeMap<&String, &String> = wanted.iter().filter(differs).collect();
    let others = || state.object.finalizers.iter().filter(|finalizer| *finalizer != keys::CONNECT_FINALIZER);
    let finalizers: Option<Vec<String>> = match (state.object.deleting, state.is_protected()) {
        (true, true) => Some(others().cloned().collect()),
        (false, false) if !wanted.is_empty() => {
            Some(others().cloned().chain([keys::CONNECT_FINALIZER.to_owned()]).collect())
        }
        _ => None,
    };
    let mut metadata = json!({"uid": state.object.uid});
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    if let Some(finalizers) = &finalizers {
        metadata["finalizers"] = json!(finalizers);
        metadata["resourceVersion"] = json!(state.object.version);
    }
    (finalizers.is_some() || !annotations.is_empty()).then(|| json!({"metadata": metadata}))
}
