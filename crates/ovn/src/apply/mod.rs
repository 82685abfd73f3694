//! The apply engine: turns dirty slices into rounds of transactions and reacts to their outcomes.
//!
//! ```text
//!   dirty ──► plan, diff ──► round: [what frees a name] → containers → guards → ports → routes → steering → closing
//!     ▲                        │ each phase waits for the replies of the last
//!     │ retry, progress,       ▼
//!     └── foreign change ── outcomes            deletions: when nothing is dirty, in the reverse order
//! ```
//! Synchronous and total: time comes in as a number, the replica as a reference. It owns what is queued and in
//! flight, and remembers nothing of what it did. One failing slice backs off alone.

mod dirty;
mod echo;
mod expand;
mod pack;
mod removals;
mod round;

use crate::declare::{COUNTER, Declarations};
use crate::desired::{Planner, covers};
use crate::diff::Create;
use crate::member::column_prefix;
use crate::resolve::Resolved;
use causeway_ovsdb::{EncodedTransaction, Replica, Str, TransactOutcome, Uuid};
use dirty::Dirty;
use expand::{Cursor, Expansion};
use pack::Item;
use removals::Removals;
use round::Round;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Limits and times of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The OVSDB lock that every transaction asserts, if any.
    pub lock: Option<Str>,
    /// Rows that differ, at which a round takes no more slices.
    pub round_rows: usize,
    /// Rows at which a transaction is full.
    pub txn_rows: usize,
    /// How many rows are compared, or paths looked at, before the caller gets a turn.
    pub batch: usize,
    /// First and longest pause of a failing slice, in milliseconds.
    pub retry: (u64, u64),
    /// Roots of paths whose changes are counted, so that one can see when northd has carried them out. Each count
    /// makes ovn-controller answer too, so only what somebody waits for is counted.
    pub counted: &'static [&'static str],
    /// How often everything is compared at idle, in milliseconds; what that finds is a bug.
    pub audit_interval: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            lock: None,
            round_rows: 2_000,
            txn_rows: 250,
            batch: 5_000,
            retry: (100, 30_000),
            counted: &[],
            audit_interval: 600_000,
        }
    }
}

/// Names a transaction in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What to do next.
#[derive(Debug, Default)]
pub struct Step {
    /// To be sent in this order, without waiting in between.
    pub transactions: Vec<(Ticket, EncodedTransaction)>,
    /// Whether there is more to do at once; the caller may serve its sockets first.
    pub again: bool,
}

/// Why a slice is not as planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What the server or the plan says.
    pub error: String,
    /// How often it failed in a row.
    pub attempts: u32,
    /// When it is tried again, in the caller's milliseconds.
    pub retry_at: u64,
}

/// What an engine has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions sent.
    pub transactions: u64,
    /// Bytes of their operations.
    pub bytes: u64,
    /// Rows inserted.
    pub created: u64,
    /// Rows changed.
    pub modified: u64,
    /// Rows deleted, alone or with what held them.
    pub deleted: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Slices dirtied by a change that was not ours.
    pub foreign_changes: u64,
    /// Rows that only the audit found to differ.
    pub audit_findings: u64,
    /// Rounds begun.
    pub rounds: u64,
    /// Members put into sets and maps of rows that were there, or given another value.
    pub joined: u64,
    /// Members taken out of sets and maps of rows that stay.
    pub left: u64,
}

/// How many rounds of creations go before all deletions that wait, while both do.
const CREATE_ROUNDS: u32 = 8;

/// The engine of one database.
#[derive(Debug)]
pub struct Engine {
    declarations: &'static Declarations,
    options: Options,
    resolved: Resolved,
    roots: Vec<String>,
    ready: bool,
    lock_held: bool,
    /// Prefixes and paths to be looked at, not yet split into slices; `true` if only the audit asks.
    prefixes: VecDeque<(Str, bool)>,
    /// The prefix that is being split.
    expanding: Option<Expansion>,
    touched: BTreeSet<Str>,
    dirty: Dirty,
    removals: Removals,
    /// Whether rows with our path and a wrong UUID have been looked for since the last load, and are gone.
    strays: Strays,
    waiting: BTreeMap<Str, String>,
    failed: BTreeMap<Str, Failure>,
    held: BTreeMap<Str, String>,
    lacking: BTreeSet<String>,
    /// The slice that plans our part of an adopted row, by table.
    adopted: BTreeMap<&'static str, Str>,
    round: Option<Round>,
    create_rounds: u32,
    in_flight: FxHashMap<Uuid, (Ticket, usize, usize)>,
    /// Rows that go with the rows that hold them.
    going: FxHashSet<Uuid>,
    next_ticket: u64,
    next_audit: Option<u64>,
    stats: Stats,
}

#[derive(Debug, PartialEq)]
enum Strays {
    /// How far the search has come.
    Unknown(Cursor),
    Going,
    Gone,
}

impl Engine {
    /// An engine that waits for a replica.
    pub fn new(declarations: &'static Declarations, options: Options) -> Engine {
        Engine {
            declarations,
            options,
            resolved: Resolved::default(),
            roots: Vec::new(),
            ready: false,
            lock_held: false,
            prefixes: VecDeque::new(),
            expanding: None,
            touched: BTreeSet::new(),
            dirty: Dirty::default(),
            removals: Removals::default(),
            strays: Strays::Unknown(Cursor::default()),
            waiting: BTreeMap::new(),
            failed: BTreeMap::new(),
            held: BTreeMap::new(),
            lacking: BTreeSet::new(),
            adopted: BTreeMap::new(),
            round: None,
            create_rounds: 0,
            in_flight: FxHashMap::default(),
            going: FxHashSet::default(),
            next_ticket: 0,
            next_audit: None,
            stats: Stats::default(),
        }
    }

    /// The replica is complete: everything is looked at.
    pub fn synced(&mut self, replica: &Replica) {
        self.resolved = Resolved::new(self.declarations, replica);
        self.forget_work();
        self.failed.clear();
        self.strays = Strays::Unknown(Cursor::default());
        self.ready = true;
        self.dirty("");
    }

    /// The connection is gone: nothing is sent until the next [`Engine::synced`].
    pub fn disconnected(&mut self) {
        self.ready = false;
        self.lock_held = false;
        self.forget_work();
    }

    fn forget_work(&mut self) {
        self.round = None;
        self.in_flight.clear();
        self.going.clear();
        self.removals.clear();
        self.waiting.clear();
        self.dirty.clear();
        self.touched.clear();
        self.prefixes.clear();
        self.expanding = None;
    }

    /// Whether we hold the lock.
    pub fn lock(&mut self, held: bool) {
        self.lock_held = held;
    }

    /// Says that the plan of everything under a prefix may have changed.
    pub fn dirty(&mut self, prefix: &str) {
        self.prefixes.push_back((prefix.into(), false));
    }

    /// Slices that failed, with the reason and the time of the next attempt.
    pub fn failures(&self) -> &BTreeMap<Str, Failure> {
        &self.failed
    }

    /// Slices that their plan holds as they are, with its reason.
    pub fn held(&self) -> &BTreeMap<Str, String> {
        &self.held
    }

    /// Slices with rows that wait for other rows, with what they wait for.
    pub fn waiting(&self) -> &BTreeMap<Str, String> {
        &self.waiting
    }

    /// Columns that plans set and this server does not have.
    pub fn lacking(&self) -> &BTreeSet<String> {
        &self.lacking
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// How many changes are counted: those that were sent, in the northbound database; those that northd has carried
    /// out, in the southbound one.
    pub fn counted(&self, replica: &Replica) -> Option<i64> {
        let table = replica.table(self.declarations.counter()?)?;
        let row = replica.rows(table).next()?;
        row.get(COUNTER)?.one()?.as_integer()
    }

    /// A transaction that only counts: northd and ovn-controller answer it although nothing has changed. None while this
    /// process may not write.
    pub fn question(&self) -> Option<EncodedTransaction> {
        let may_write = self.ready && (self.options.lock.is_none() || self.lock_held);
        let counter = self.declarations.counter().filter(|_| may_write)?;
        Some(pack::transaction([].iter(), self.options.lock.as_ref(), Some(counter)))
    }

    /// Whether there is nothing to do and nothing in flight; failing and waiting slices don't count.
    pub fn is_idle(&self) -> bool {
        self.round.is_none()
            && self.dirty.is_empty()
            && self.prefixes.is_empty()
            && self.expanding.is_none()
            && self.touched.is_empty()
            && self.removals.all_failed(&self.failed)
    }

    /// When [`Engine::poll`] has something to do without any event.
    pub fn deadline(&self) -> Option<u64> {
        let retry = self.failed.values().map(|f| f.retry_at).min();
        [retry, self.next_audit].into_iter().flatten().min().filter(|_| self.ready)
    }

    /// The next transactions, if it is time for any.
    pub fn poll(&mut self, replica: &Replica, planner: &dyn Planner, now: u64) -> Step {
        if !self.ready || (self.options.lock.is_some() && !self.lock_held) {
            return Step::default();
        }
        self.roots = planner.roots().iter().map(|r| (*r).to_owned()).collect();
        self.wake(now);
        loop {
            if let Some(round) = &self.round
                && round.is_waiting()
            {
                return Step::default();
            }
            let transactions = self.next_wave(replica);
            if !transactions.is_empty() {
                return Step { transactions, again: false };
            }
            if self.round.as_ref().is_some_and(|r| !r.is_over()) {
                continue;
            }
            self.end_round();
            if !self.begin_round(replica, planner, now) {
                return Step { transactions: Vec::new(), again: !self.is_idle() };
            }
        }
    }

    /// Retries and the audit are due by the clock.
    fn wake(&mut self, now: u64) {
        let due: Vec<Str> =
            self.failed.iter().filter(|(_, f)| f.retry_at <= now).map(|(s, _)| s.clone()).collect();
        for slice in due {
            // Until the outcome is known it must not wake again.
            if let Some(failure) = self.failed.get_mut(&slice) {
                failure.retry_at = u64::MAX;
            }
            self.prefixes.push_back((slice, false));
        }
        match self.next_audit {
            Some(at) if now >= at && self.is_idle() => {
                self.prefixes.push_back((Str::new(), true));
                self.next_audit = Some(now + self.options.audit_interval);
            }
            None => self.next_audit = Some(now + self.options.audit_interval),
            _ => {}
        }
    }

    /// A transaction ended. The replica has its effects already.
    pub fn outcome(&mut self, ticket: Ticket, outcome: &TransactOutcome, now: u64) {
        let Some(round) = &mut self.round else { return };
        let Some(groups) = round.take(ticket) else { return };
        for item in groups.iter().flat_map(|g| &g.items) {
            self.in_flight.remove(&item.uuid());
        }
        match outcome {
            TransactOutcome::Done(_) => {
                round.progressed = true;
                self.count(&groups);
                self.look_for_members(&groups);
            }
            TransactOutcome::Failed(error) => {
                self.stats.failed += 1;
                if groups.len() > 1 {
                    round.resend.extend(groups.into_iter().map(|g| vec![g]));
                } else if let Some(group) = groups.into_iter().next() {
                    round.failed.insert(group.slice.clone());
                    self.fail(group.slice, error.to_string(), now);
                }
            }
            // The end of the connection, which comes next, clears everything.
            TransactOutcome::Lost => {}
        }
    }

    fn count(&mut self, groups: &[round::Group]) {
        for item in groups.iter().flat_map(|g| &g.items) {
            match item {
                Item::Create(_) => self.stats.created += 1,
                Item::Modify(_) | Item::Shrink(_) => self.stats.modified += 1,
                Item::Delete(_) => self.stats.deleted += 1,
                Item::Member(m) if m.new.is_some() => self.stats.joined += 1,
                Item::Member(_) => self.stats.left += 1,
            }
        }
    }

    /// A row that came without its members: they may have been planned all the time.
    fn look_for_members(&mut self, groups: &[round::Group]) {
        for group in groups {
            for item in &group.items {
                let Item::Create(Create { planned, .. }) = item else { continue };
                let Some(table) = self.resolved.by_meta(planned.meta) else { continue };
                let columns = table.member_columns().map(|(_, c)| column_prefix(&planned.path, c.name));
                let apart = columns.filter(|members| !covers(&group.slice, members));
                self.prefixes.extend(apart.map(|members| (members, false)));
            }
        }
    }

    fn fail(&mut self, slice: Str, error: String, now: u64) {
        let attempts = self.failed.get(&slice).map_or(0, |f| f.attempts) + 1;
        let (first, longest) = self.options.retry;
        let pause = first.saturating_mul(1 << (attempts - 1).min(20)).min(longest);
        self.failed.insert(slice, Failure { error, attempts, retry_at: now + pause });
    }
}
