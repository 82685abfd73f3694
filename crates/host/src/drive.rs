//! Brings an output to what is planned: read, compare, apply, and read again.

use crate::diff::diff;
use crate::error::Error;
use crate::output::{Applied, Op, Output, Problem, Wanted};
use causeway_types::host::{HostPlan, Key, Owner, Planned};
use std::collections::BTreeSet;
use tracing::debug;

/// How often an output is read and changed before somebody is believed to work against us. One change can undo another:
/// the kernel drops routes with the last address of a link.
const PASSES: usize = 3;
/// So many bad items are found one by one; the rest waits for the next time.
const MANY_BAD: usize = 50;

/// Makes the output's part of the plan true. What is ours and not planned goes; what is not ours stays.
pub fn bring(output: &mut dyn Output, plan: &HostPlan) -> Applied {
    let mut run = Run::default();
    let wanted = run.wanted(output, plan);
    for _ in 0..PASSES {
        let actual = match output.read(&wanted) {
            Ok(actual) => actual,
            Err(error) => {
                run.applied.problems.push(Problem { key: None, owner: None, error });
                return run.applied;
            }
        };
        let difference = diff(plan, &wanted, &actual);
        for key in difference.taken {
            run.fail(&key, wanted.get(&key), Error::Taken(key.clone()));
        }
        let ops = run.open(difference.ops);
        if ops.is_empty() {
            return run.applied;
        }
        if run.apply(output, &ops) == 0 {
            return run.applied;
        }
    }
    run.look_at_the_end(output, plan, &wanted);
    run.applied
}

#[derive(Default)]
struct Run {
    applied: Applied,
    /// What failed, and what stands on it.
    bad: BTreeSet<Key>,
}

impl Run {
    /// The plan's items for this output, in the form in which they are read back.
    fn wanted(&mut self, output: &mut dyn Output, plan: &HostPlan) -> Wanted {
        let mut wanted = Wanted::new();
        let items = || plan.items().iter().filter(|(key, _)| output.takes(key));
        let ours: Vec<(&Key, &Planned)> = items().collect();
        output.prepare(&ours.iter().map(|(_, planned)| &planned.item).collect::<Vec<_>>());
        // An element is a part of its table.
        let whole = |(key, _): &(&Key, &Planned)| !matches!(key, Key::Element { .. });
        for (key, planned) in ours.into_iter().filter(whole) {
            match output.normal(&planned.item) {
                Ok(item) => {
                    let owner = planned.owner.clone();
                    wanted.insert(item.key(), Planned { owner, item });
                }
                // It stays among the wanted, so that what is there under its key stays.
                Err(error) => {
                    self.fail(key, Some(planned), error);
                    wanted.insert(key.clone(), planned.clone());
                }
            }
        }
        for (key, owners) in plan.clashes().iter().filter(|(key, _)| output.takes(key)) {
            let clash = |owner: &Owner| Problem {
                key: Some(key.clone()),
                owner: Some(owner.clone()),
                error: Error::Clash,
            };
            self.applied.problems.extend(owners.iter().map(clash));
        }
        wanted
    }

    /// The changes that can be tried: not those that failed, nor what stands on something that failed.
    fn open(&mut self, ops: Vec<Op>) -> Vec<Op> {
        ops.into_iter().filter(|op| !self.is_held(op)).collect()
    }

    fn is_held(&mut self, op: &Op) -> bool {
        if self.bad.contains(&op.key()) {
            return true;
        }
        let held = op.needs().iter().any(|key| self.bad.contains(key));
        if held {
            self.bad.insert(op.key());
        }
        held
    }

    /// How many changes were made.
    fn apply(&mut self, output: &mut dyn Output, ops: &[Op]) -> usize {
        let before = self.applied.writes;
        match output.apply_together(ops) {
            Some(Ok(())) => self.applied.writes += ops.len(),
            Some(Err(_)) if ops.len() > 1 => self.apply_halves(output, ops),
            _ => ops.iter().for_each(|op| self.apply_one(output, op)),
        }
        self.applied.writes - before
    }

    /// Finds out which ones are bad, and does all others. Where very many are, it is not the items that are bad.
    fn apply_halves(&mut self, output: &mut dyn Output, ops: &[Op]) {
        if self.bad.len() > MANY_BAD {
            return;
        }
        let (first, second) = ops.split_at(ops.len() / 2);
        self.apply(output, first);
        self.apply(output, second);
    }

    fn apply_one(&mut self, output: &mut dyn Output, op: &Op) {
        if self.is_held(op) {
            return;
        }
        debug!(output = output.name(), %op, "changing the host");
        match output.apply(op) {
            Ok(()) => self.applied.writes += 1,
            Err(error) => self.fail_op(op, error),
        }
    }

    fn look_at_the_end(&mut self, output: &mut dyn Output, plan: &HostPlan, wanted: &Wanted) {
        let Ok(actual) = output.read(wanted) else { return };
        for op in self.open(diff(plan, wanted, &actual).ops) {
            self.fail_op(&op, Error::NotKept);
        }
    }

    fn fail_op(&mut self, op: &Op, error: Error) {
        self.bad.insert(op.key());
        let problem = Problem { key: Some(op.key()), owner: op.owner().cloned(), error };
        self.applied.problems.push(problem);
    }

    fn fail(&mut self, key: &Key, planned: Option<&Planned>, error: Error) {
        if self.bad.insert(key.clone()) {
            let owner = planned.map(|planned| planned.owner.clone());
            self.applied.problems.push(Problem { key: Some(key.clone()), owner, error });
        }
    }
}
