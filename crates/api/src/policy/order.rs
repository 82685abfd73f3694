//! In which order rules are asked, as priorities of ACLs.

use serde::{Deserialize, Serialize};

use super::{Direction, Tier};

/// The highest priority in use: one below what an ACL can have.
const TOP: u16 = 32_766;
/// Priorities below this one have room for so many rules each…
const WIDE_BELOW: u16 = 100;
const WIDE: u16 = 100;
/// …and from there on for so many.
const NARROW: u16 = 25;
const LAST: u16 = 1000;
/// Where the rules of the BaselineAdminNetworkPolicy begin: below all others of its tier.
const AFTER_ALL: u16 = 241;

/// When the rules of a policy are asked: the first rule has the base as its priority, each further one less. Higher
/// priorities are asked first, within the tier.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Order {
    /// Before NetworkPolicies (ACL tier 1) or after them (ACL tier 3).
    pub tier: Tier,
    /// The priority that was written; the BaselineAdminNetworkPolicy has none.
    pub written: Option<u16>,
    /// The priority of the first rule's ACLs.
    pub base: u16,
}

/// Why a policy cannot be carried out at all.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
pub enum Refusal {
    /// The priority is none.
    #[error("priority {0} is not between 0 and {LAST}")]
    Priority(i32),
    /// More rules than there is room for.
    #[error(
        "{rules} {direction} rules are more than the {room} that there is room for with priority {priority}; \
         priorities below {WIDE_BELOW} have room for {WIDE}"
    )]
    Rules {
        /// How many there are.
        rules: usize,
        /// Which.
        direction: Direction,
        /// How many there may be.
        room: u16,
        /// As the policy says, 0 to 1000; from 100 on a policy has room for 25 rules in each direction.
        priority: u16,
    },
    /// More rules than there is room for without a priority.
    #[error("{rules} {direction} rules are more than the {WIDE} that there is room for")]
    BaselineRules {
        /// How many there are.
        rules: usize,
        /// Which.
        direction: Direction,
    },
    /// It is no policy of its kind, as far as is known here.
    #[error("the spec cannot be read: {0}")]
    Unreadable(String),
    /// Nobody can tell whom it is about.
    #[error("the subject cannot be read: {0}")]
    Subject(String),
}

impl Refusal {
    /// One word for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Priority(_) => "InvalidPriority",
            Self::Rules { .. } | Self::BaselineRules { .. } => "TooManyRules",
            Self::Unreadable(_) => "UnreadableSpec",
            Self::Subject(_) => "InvalidSubject",
        }
    }
}

impl Order {
    /// The order of a policy with a priority.
    pub(super) fn of(tier: Tier, priority: i32, rules: [usize; 2]) -> Result<Self, Refusal> {
        let written = u16::try_from(priority).ok().filter(|written| *written <= LAST);
        let written = written.ok_or(Refusal::Priority(priority))?;
        let (base, room) = if written < WIDE_BELOW {
            (TOP - WIDE * written, WIDE)
        } else {
            (TOP - WIDE * WIDE_BELOW - NARROW * (written - WIDE_BELOW), NARROW)
        };
        match too_many(rules, room) {
            None => Ok(Self { tier, written: Some(written), base }),
            Some((rules, direction)) => Err(Refusal::Rules { rules, direction, room, priority: written }),
        }
    }

    /// The order of the policy that is asked last.
    pub(super) fn last(rules: [usize; 2]) -> Result<Self, Refusal> {
        match too_many(rules, WIDE) {
            None => Ok(Self { tier: Tier::Baseline, written: None, base: AFTER_ALL }),
            Some((rules, direction)) => Err(Refusal::BaselineRules { rules, direction }),
        }
    }

    /// The priority of the ACLs of a rule, counted from 0.
    pub fn priority(self, rule: usize) -> u16 {
        self.base.saturating_sub(u16::try_from(rule).unwrap_or(u16::MAX))
    }
}

/// Of the rules that come in and go out those that are too many.
fn too_many(rules: [usize; 2], room: u16) -> Option<(usize, Direction)> {
    rules
        .into_iter()
        .zip([Direction::Ingress, Direction::Egress])
        .find(|(rules, _)| *rules > usize::from(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POL-091.
    #[test]
    fn priorities_are_those_of_the_map() {
        let base = |priority: i32| Order::of(Tier::Admin, priority, [0, 0]).unwrap().base;
        assert_eq!([0, 99, 100, 1000].map(base), [32_766, 22_866, 22_766, 266]);
        assert_eq!(Order::of(Tier::Baseline, 1000, [25, 25]).unwrap().priority(24), 242);
    }

    /// POL-091: no two rules share a priority, and all of a policy come before the next one's.
    #[test]
    fn all_priorities_are_distinct_and_in_order() {
        let mut before = TOP + 1;
        for priority in 0..=i32::from(LAST) {
            let room = if priority < i32::from(WIDE_BELOW) { WIDE } else { NARROW };
            let order = Order::of(Tier::Admin, priority, [usize::from(room), 0]).unwrap();
            for rule in 0..room {
                let here = order.priority(usize::from(rule));
                assert!(here < before && here > AFTER_ALL, "{priority} {rule}: {here}, before {before}");
                before = here;
            }
        }
        let last = Order::last([100, 100]).unwrap();
        assert!(last.priority(0) < before && last.priority(99) > 0);
        assert_eq!((last.priority(0), last.priority(99)), (241, 142));
    }

    #[test]
    fn what_has_no_room_is_refused_with_words() {
        let refused = |priority, rules| Order::of(Tier::Admin, priority, rules).unwrap_err().to_string();
        assert_eq!(refused(1001, [0, 0]), "priority 1001 is not between 0 and 1000");
        assert_eq!(refused(-1, [0, 0]), "priority -1 is not between 0 and 1000");
        assert_eq!(
            refused(100, [25, 26]),
            "26 egress rules are more than the 25 that there is room for with priority 100; priorities below 100 have \
             room for 100"
        );
        assert!(Order::of(Tier::Admin, 99, [100, 100]).is_ok());
        assert!(refused(99, [101, 0]).starts_with("101 ingress rules"));
        assert_eq!(
            Order::last([0, 101]).unwrap_err().to_string(),
            "101 egress rules are more than the 100 that there is room for"
        );
    }
}
