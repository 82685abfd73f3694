//! Who of the zone's components owes an answer, and since when.
//!
//! Every counted change goes a way: our transaction into the northbound database, from there through northd into the southbound
//! one, and through ovn-controller into the switch; each repeats the count when it is done. Where the count stops, there somebody
//! is silent. While nothing changes, a question is asked now and then. Knows nothing of what the change was.

use std::collections::BTreeMap;
use std::time::Duration;

/// A moment, by how long the role had run then.
pub type Moment = Duration;

/// An answer that takes longer is missed, and said to be.
const PATIENCE: Duration = Duration::from_secs(20);
/// Whoever comes later on the way is not blamed while somebody before him owes an answer for so long.
const SHORT: Duration = Duration::from_secs(3);
/// After so long without a change that is counted, a question is asked.
const IDLE: Duration = Duration::from_secs(60);
/// How often one looks while somebody owes an answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Those on the way of a change, in their order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Component {
    /// The server of the database that we write.
    Northbound,
    /// The server of the database that northd writes.
    Southbound,
    /// Who makes flows of rows.
    Northd,
    /// Who brings flows into the switch.
    Controller,
}

impl Component {
    /// In the order of the way.
    pub const ALL: [Component; 4] = [Self::Northbound, Self::Southbound, Self::Northd, Self::Controller];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Northbound => "northbound database",
            Self::Southbound => "southbound database",
            Self::Northd => "ovn-northd",
            Self::Controller => "ovn-controller",
        }
    }

    /// What to look at.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Northbound | Self::Southbound => "look whether its ovsdb-server runs",
            Self::Northd => "look whether it runs, and into its log",
            Self::Controller => "look whether it and ovs-vswitchd run, and into their logs",
        }
    }
}

/// What was seen at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// Since when the northbound database owes an answer, if it does.
    pub northbound: Option<Moment>,
    /// The same of the southbound one.
    pub southbound: Option<Moment>,
    /// The count of the northbound database.
    pub asked: Option<i64>,
    /// How far northd has repeated it.
    pub northd: Option<i64>,
    /// How far ovn-controller has.
    pub controller: Option<i64>,
}

impl Signs {
    /// Whether the switch has every change that was counted.
    pub fn all_installed(&self) -> bool {
        let reached = |done: Option<i64>| self.asked.is_some() && done >= self.asked;
        reached(self.northd) && reached(self.controller)
    }

    /// The same, and a change has been counted since the count was this.
    pub fn have_installed_since(&self, before: Option<i64>) -> bool {
        self.asked > before && self.all_installed()
    }
}

/// What to ask now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Questions {
    /// A change that is only counted.
    pub count: bool,
    /// Whether the databases live.
    pub databases: bool,
}

/// Who owes an answer.
#[derive(Debug)]
pub struct Silence {
    waits: BTreeMap<Component, Moment>,
    /// How far northd and ovn-controller were.
    seen: [Option<i64>; 2],
    /// The last count, and when it was first seen.
    asked: (Option<i64>, Moment),
    /// When the databases were asked last. Their answers wake us: without a pause one question would follow the other.
    asked_databases: Option<Moment>,
}

impl Silence {
    /// Nobody does yet, and the next question is due after a while.
    pub fn new(now: Moment) -> Self {
        Self { waits: BTreeMap::new(), seen: [None, None], asked: (None, now), asked_databases: None }
    }

    /// Takes the signs of this moment.
    pub fn look(&mut self, signs: &Signs, now: Moment) {
        if self.asked.0 != signs.asked {
            self.asked = (signs.asked, now);
        }
        let northd = self.behind(Component::Northd, signs.northd, signs.asked, 0, now);
        // ovn-controller can only repeat what northd has said.
        let controller = self.behind(Component::Controller, signs.controller, signs.northd, 1, now);
        let waits = [
            (Component::Northbound, signs.northbound),
            (Component::Southbound, signs.southbound),
            (Component::Northd, northd),
            (Component::Controller, controller),
        ];
        self.waits = waits.into_iter().filter_map(|(who, since)| Some((who, since?))).collect();
    }

    /// Since when somebody is behind without getting on.
    fn behind(
        &mut self,
        who: Component,
        done: Option<i64>,
        asked: Option<i64>,
        place: usize,
        now: Moment,
    ) -> Option<Moment> {
        let got_on = std::mem::replace(&mut self.seen[place], done) != done;
        let known = self.waits.get(&who).copied().filter(|_| !got_on);
        (asked.is_some() && done < asked).then(|| known.unwrap_or(now))
    }

    /// Who is silent for too long, and since when.
    pub fn silent(&self, now: Moment) -> Option<(Component, Moment)> {
        let lasts = |since: &Moment| now.saturating_sub(*since);
        let (who, since) = self.waits.iter().find(|(_, since)| lasts(since) >= SHORT)?;
        (lasts(since) >= PATIENCE).then_some((*who, *since))
    }

    /// What is to be asked now.
    pub fn questions(&mut self, now: Moment) -> Questions {
        let idle = self.waits.is_empty() && now.saturating_sub(self.asked.1) >= IDLE;
        let paused = self.asked_databases.is_none_or(|last| now.saturating_sub(last) >= PAUSE);
        let databases = paused && (idle || !self.waits.is_empty());
        if databases {
            self.asked_databases = Some(now);
        }
        Questions { count: idle && paused, databases }
    }

    /// When to look again without an event.
    pub fn next(&self, now: Moment) -> Moment {
        if self.waits.is_empty() { (self.asked.1 + IDLE).max(now + PAUSE) } else { now + PAUSE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(asked: i64, northd: i64, controller: i64) -> Signs {
        Signs {
            northbound: None,
            southbound: None,
            asked: Some(asked),
            northd: Some(northd),
            controller: Some(controller),
        }
    }

    fn after(begin: Moment, seconds: u64) -> Moment {
        begin + Duration::from_secs(seconds)
    }

    #[test]
    fn who_stops_the_count_is_named_after_a_while() {
        let begin = Moment::from_secs(1_000);
        for (stopped, who) in [
            (signs(6, 5, 5), Component::Northd),
            (signs(6, 6, 5), Component::Controller),
            (Signs { controller: None, ..signs(6, 6, 5) }, Component::Controller),
            (Signs { southbound: Some(begin), ..signs(6, 5, 5) }, Component::Southbound),
            (Signs { northbound: Some(begin), ..signs(5, 5, 5) }, Component::Northbound),
        ] {
            let mut silence = Silence::new(begin);
            silence.look(&signs(5, 5, 5), begin);
            silence.look(&stopped, begin);
            silence.look(&stopped, after(begin, 19));
            assert_eq!(silence.silent(after(begin, 19)), None, "{stopped:?}");
            assert_eq!(silence.silent(after(begin, 20)), Some((who, begin)), "{stopped:?}");
            silence.look(&signs(6, 6, 6), after(begin, 30));
            assert_eq!(silence.silent(after(begin, 60)), None);
        }
    }

    /// Who is behind but gets on is only slow.
    #[test]
    fn whoever_gets_on_is_not_silent() {
        let begin = Moment::from_secs(1_000);
        let mut silence = Silence::new(begin);
        for n in 0..10 {
            let now = after(begin, 15 * n);
            silence.look(&signs(100, 50 + n as i64, 50 + n as i64), now);
            assert_eq!(silence.silent(now), None);
        }
    }

    /// A database is asked for a sign of life before northd is blamed for its silence.
    #[test]
    fn nobody_is_blamed_while_somebody_before_him_owes_an_answer() {
        let begin = Moment::from_secs(1_000);
        let mut silence = Silence::new(begin);
        silence.look(&signs(6, 5, 5), begin);
        let stopped = Signs { southbound: Some(after(begin, 2)), ..signs(6, 5, 5) };
        silence.look(&stopped, after(begin, 20));
        assert_eq!(silence.silent(after(begin, 20)), None);
        assert_eq!(silence.silent(after(begin, 22)), Some((Component::Southbound, after(begin, 2))));
    }

    #[test]
    fn while_nothing_changes_a_question_is_asked_now_and_then() {
        let begin = Moment::from_secs(1_000);
        let mut silence = Silence::new(begin);
        silence.look(&signs(5, 5, 5), begin);
        assert_eq!(silence.questions(after(begin, 59)), Questions::default());
        assert_eq!(silence.questions(after(begin, 60)), Questions { count: true, databases: true });
        assert_eq!(silence.next(begin), after(begin, 60));
        silence.look(&signs(6, 5, 5), after(begin, 60));
        // An answer comes at once and wakes the task: that is no reason to ask again.
        assert_eq!(silence.questions(after(begin, 60)), Questions::default());
        assert_eq!(silence.questions(after(begin, 61)), Questions { count: false, databases: true });
        assert_eq!(
            silence.questions(after(begin, 61)),
            Questions::default(),
            "an answer is no reason to ask"
        );
    }
}
