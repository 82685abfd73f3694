//! What is to be done: writes that are under way, so that none is asked for twice, and what is said in events.

use std::collections::BTreeMap;

use causeway_record::{Action, EventNote, Outcome, Part, Priority, Regarding, Request, Target};

use crate::Output;

/// Who applies what the manager applies.
pub(crate) const FIELD_MANAGER: &str = "causeway-cluster-manager";

/// Writes under way, and everything that the next answer of the manager holds.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pending: BTreeMap<(Target, Part), Pending>,
    tokens: u64,
    out: Vec<Output>,
}

#[derive(Debug)]
struct Pending {
    action: Action,
    token: u64,
    /// It has ended, but nothing was seen of it yet.
    done: bool,
    /// There is news of the object, so it may have to be asked for again; but it may wait still.
    stale: bool,
}

impl Writes {
    /// Asks for a write, unless exactly this one is under way; the answer is its token.
    pub(crate) fn ask(&mut self, target: Target, part: Part, priority: Priority, action: Action) -> u64 {
        let key = (target.clone(), part);
        let same = |pending: &&Pending| pending.action == action && !pending.stale;
        if let Some(pending) = self.pending.get(&key).filter(same) {
            return pending.token;
        }
        self.tokens += 1;
        let token = self.tokens;
        self.pending.insert(key, Pending { action: action.clone(), token, done: false, stale: false });
        self.out.push(Output::Write(Request { target, part, priority, action, token }));
        token
    }

    /// Takes back what was asked for of an object's part, if it still waits.
    pub(crate) fn withdraw(&mut self, target: &Target, part: Part) {
        if self.pending.remove(&(target.clone(), part)).is_some_and(|pending| !pending.done) {
            self.out.push(Output::Withdraw { target: target.clone(), part });
        }
    }

    /// Whether the creation of an object is under way, and nothing is seen of it.
    pub(crate) fn is_creating(&self, target: &Target, part: Part) -> bool {
        let pending = self.pending.get(&(target.clone(), part));
        matches!(pending, Some(Pending { action: Action::Create(_), stale: false, .. }))
    }

    /// The namespace is gone, and with it whatever waits for objects in it.
    pub(crate) fn withdraw_all_in(&mut self, namespace: &str) {
        self.withdraw_where(namespace, |_| true);
    }

    /// Nothing can be created in a namespace that is going: what waits would be refused again and again.
    pub(crate) fn withdraw_creations_in(&mut self, namespace: &str) {
        self.withdraw_where(namespace, |action| matches!(action, Action::Create(_)));
    }

    fn withdraw_where(&mut self, namespace: &str, is: impl Fn(&Action) -> bool) {
        let here = |target: &Target| target.namespace.as_deref() == Some(namespace);
        let all = self.pending.iter().filter(|((target, _), pending)| here(target) && is(&pending.action));
        let found: Vec<(Target, Part)> = all.map(|(key, _)| key.clone()).collect();
        found.iter().for_each(|(target, part)| self.withdraw(target, *part));
    }

    /// News of an object: whatever was asked for is compared with it anew. What waits still can be withdrawn.
    pub(crate) fn seen(&mut self, target: &Target) {
        let of_target = self.pending.range_mut((target.clone(), Part::FIRST)..);
        let mut over = Vec::new();
        for (key, pending) in of_target.take_while(|((other, _), _)| other == target) {
            pending.stale = true;
            over.extend(pending.done.then(|| key.clone()));
        }
        over.iter().for_each(|key| drop(self.pending.remove(key)));
    }

    /// A write is done; what follows from it shows in the next event of the object.
    pub(crate) fn done(&mut self, outcome: &Outcome) {
        let key = (outcome.target.clone(), outcome.part);
        if let Some(pending) = self.pending.get_mut(&key).filter(|pending| pending.token == outcome.token) {
            pending.done = true;
            if pending.stale {
                self.pending.remove(&key);
            }
        }
    }

    /// A write was refused and is not tried again: whatever is in the way shows in the next event of the object.
    pub(crate) fn refused(&mut self, outcome: &Outcome) {
        let key = (outcome.target.clone(), outcome.part);
        if self.pending.get(&key).is_some_and(|pending| pending.token == outcome.token) {
            self.pending.remove(&key);
        }
    }

    /// Warns about an object, in an event.
    pub(crate) fn warn(&mut self, regarding: Regarding, reason: &str, message: String) {
        self.say(EventNote { regarding, warning: true, reason: reason.into(), message });
    }

    /// Says something about an object, in an event.
    pub(crate) fn say(&mut self, note: EventNote) {
        self.out.push(Output::Event(note));
    }

    /// Everything that was asked for and said since the last time.
    pub(crate) fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }
}
