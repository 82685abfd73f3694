//! Conditions: their types, and how a new one is put among those that are there.
//!
//! Owns the words and the bounds. Never reads the clock: the time is an argument.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Networks: every namespace has its network.
pub const NETWORK_READY: &str = "NetworkReady";
/// Networks: the NADs exist.
pub const NETWORK_CREATED: &str = "NetworkCreated";
/// Networks: every node has what it needs.
pub const NETWORK_ALLOCATION_SUCCEEDED: &str = "NetworkAllocationSucceeded";
/// Connections: the selected networks can be connected.
pub const ACCEPTED: &str = "Accepted";
/// Connections: what the type of each zone's condition begins with; the node's name follows.
pub const READY_IN_ZONE_PREFIX: &str = "Ready-In-Zone-";
/// Connections: the sum of all zones, where there are too many to list.
pub const READY: &str = "Ready";

/// The API server refuses longer messages, and with them the whole status.
const LONGEST_MESSAGE: usize = 32_768;
const CUT: &str = "…";

/// A condition that somebody has just found out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The condition's type.
    pub kind: String,
    /// Whether it holds; nothing if nobody can tell.
    pub status: Option<bool>,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

/// Puts findings among the conditions: those of the same type are replaced in place, new ones follow, all others
/// stay. A condition keeps its time of transition while its status stays the same.
pub fn merge(
    conditions: &[Condition],
    findings: &[Finding],
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    let mut merged = conditions.to_vec();
    for finding in findings {
        let status = match finding.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let place = merged.iter().position(|condition| condition.type_ == finding.kind);
        let before = place.map(|place| &merged[place]).filter(|condition| condition.status == status);
        let condition = Condition {
            type_: finding.kind.clone(),
            status: status.into(),
            reason: finding.reason.clone(),
            message: bounded(&finding.message),
            observed_generation: generation,
            last_transition_time: before.map_or(now, |condition| &condition.last_transition_time).clone(),
        };
        match place {
            Some(place) => merged[place] = condition,
            None => merged.push(condition),
        }
    }
    merged
}

/// The message of a condition, cut where the API server would refuse it.
pub fn bounded(message: &str) -> String {
    cut(message, LONGEST_MESSAGE)
}

/// A text of at most so many bytes, cut between characters; a mark shows where.
pub fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    format!("{}{CUT}", &text[..text.floor_char_boundary(longest.saturating_sub(CUT.len()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: &str, status: bool, message: &str) -> Finding {
        Finding { kind: kind.into(), status: Some(status), reason: "Because".into(), message: message.into() }
    }

    fn at(seconds: &str) -> Time {
        serde_json::from_value(format!("2026-01-01T00:00:{seconds}Z").into()).unwrap()
    }

    /// udn-cases E007, E016, cnc-cases P17.
    #[test]
    fn only_a_new_status_is_a_transition_and_foreign_conditions_stay() {
        let first =
            merge(&[], &[finding("Foo", true, "theirs"), finding(ACCEPTED, false, "a")], Some(1), &at("01"));
        let second = merge(&first, &[finding(ACCEPTED, false, "b")], Some(2), &at("02"));
        let third = merge(&second, &[finding(ACCEPTED, true, "c")], Some(3), &at("03"));
        let shape = |conditions: &[Condition]| -> Vec<(String, String, Time)> {
            conditions
                .iter()
                .map(|c| (c.type_.clone(), c.message.clone(), c.last_transition_time.clone()))
                .collect()
        };
        let foo = ("Foo".to_owned(), "theirs".to_owned(), at("01"));
        assert_eq!(shape(&second), [foo.clone(), (ACCEPTED.into(), "b".into(), at("01"))]);
        assert_eq!(shape(&third), [foo, (ACCEPTED.into(), "c".into(), at("03"))]);
        assert_eq!(third[1].observed_generation, Some(3));
    }

    /// udn-cases E014.
    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(bounded("short"), "short");
        let cut = bounded(&"ü".repeat(20_000));
        assert!(cut.len() <= LONGEST_MESSAGE && cut.ends_with("ü…"), "{} bytes", cut.len());
    }
}
