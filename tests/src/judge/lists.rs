//! What must pass, and what does not run, each with its reason.

use std::collections::BTreeMap;

use super::{Judge, Network, Outcome};

/// The lists of a judge.
pub struct Lists {
    passing: &'static str,
    excluded: &'static str,
}

impl Lists {
    /// Those of a judge.
    pub fn of(judge: Judge) -> Self {
        let (passing, excluded) = match judge {
            Judge::E2e => (
                include_str!("../../conformance/passing.txt"),
                include_str!("../../conformance/excluded.txt"),
            ),
            Judge::Netpol => (
                include_str!("../../conformance/netpol.txt"),
                include_str!("../../conformance/netpol-not.txt"),
            ),
            Judge::Cyclonus => (
                include_str!("../../conformance/cyclonus.txt"),
                include_str!("../../conformance/cyclonus-not.txt"),
            ),
            Judge::Cnp => {
                (include_str!("../../conformance/cnp.txt"), include_str!("../../conformance/cnp-not.txt"))
            }
            Judge::Anp => {
                (include_str!("../../conformance/anp.txt"), include_str!("../../conformance/anp-not.txt"))
            }
        };
        Self { passing, excluded }
    }

    /// What must pass on a network: a line without a remark everywhere, one that ends in ` @ one three` there.
    pub fn must_pass(&self, network: Network) -> impl Iterator<Item = &'static str> {
        entries(self.passing).filter_map(move |line| match line.split_once(" @ ") {
            None => Some(line),
            Some((name, networks)) => networks.split(' ').any(|one| one == network.name()).then_some(name),
        })
    }

    /// Parts of the names of what does not run.
    pub fn excluded(&self) -> impl Iterator<Item = &'static str> {
        entries(self.excluded)
    }

    /// All lines about what does not run, reasons too.
    pub fn excluded_text(&self) -> &'static str {
        self.excluded
    }

    /// What must pass and did not, with the reason that was given.
    pub fn broken(&self, network: Network, outcomes: &[Outcome]) -> Vec<String> {
        let found: BTreeMap<&str, &Outcome> = outcomes.iter().map(|one| (one.name.as_str(), one)).collect();
        let broken = self.must_pass(network).filter_map(|name| match found.get(name) {
            Some(outcome) if outcome.passed() => None,
            Some(outcome) => Some(format!("{name}: {} {}", outcome.state, outcome.message)),
            None => Some(format!("{name}: did not run")),
        });
        broken.collect()
    }
}

/// The lines that are no remarks.
pub fn entries(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// An expression that matches any of these texts.
pub fn any_of<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let special = |c: char| if "\\.+*?()|[]{}^$".contains(c) { format!("\\{c}") } else { c.to_string() };
    texts.map(|text| text.chars().map(special).collect::<String>()).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_must_pass_is_left_out() {
        for judge in Judge::ALL {
            let lists = Lists::of(judge);
            let left_out: Vec<&str> = lists.excluded().collect();
            for network in Network::ALL {
                let both =
                    lists.must_pass(network).find(|name| left_out.iter().any(|part| name.contains(part)));
                assert_eq!(both, None, "{}", judge.name());
            }
        }
    }

    #[test]
    fn each_exclusion_has_a_reason() {
        for judge in Judge::ALL {
            let mut reason = false;
            for line in Lists::of(judge).excluded_text().lines() {
                reason = line.starts_with('#') || (reason && !line.trim().is_empty());
                assert!(line.trim().is_empty() || reason, "{line}");
            }
        }
    }

    #[test]
    fn special_characters_are_taken_as_they_are() {
        assert_eq!(any_of(["[a] b.c", "d"].into_iter()), r"\[a\] b\.c|d");
    }

    #[test]
    fn a_line_may_be_about_some_networks_only() {
        let lists = Lists { passing: "# why\na\nb @ one three\n", excluded: "" };
        let on = |network| lists.must_pass(network).collect::<Vec<_>>();
        assert_eq!((on(Network::Default), on(Network::Three)), (vec!["a"], vec!["a", "b"]));
        let outcome = |name: &str, state: &str| Outcome {
            name: name.into(),
            state: state.into(),
            seconds: 0.0,
            message: "why".into(),
        };
        let broken = lists.broken(Network::One, &[outcome("a", "failed"), outcome("c", "passed")]);
        assert_eq!(broken, ["a: failed why", "b: did not run"]);
    }
}
