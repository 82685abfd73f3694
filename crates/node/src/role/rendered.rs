//! Which connections this zone has rendered: what the report names, and the cluster manager waits for.
//!
//! A connection is rendered as it is wanted now when the northbound database is as planned, northd has carried out every
//! counted change, and nothing of the connection is in trouble. It stays so until something else is wanted of it.

use std::collections::BTreeMap;

use causeway_api::crd::{ConnectReport, MAX_REPORTED_CONNECTS};
use causeway_model::zone::{self, Reason, paths};
use causeway_ovn::apply::Engine;
use causeway_types::ConnectName;

/// The hash of what is rendered, for each connection.
#[derive(Debug, Default)]
pub(super) struct Rendered(BTreeMap<ConnectName, String>);

impl Rendered {
    /// Compares what is wanted of each connection with how far the databases are.
    pub(super) fn look(&mut self, wanted: &[zone::ConnectReport], northbound: &Engine, carried_out: bool) {
        let mut now = BTreeMap::new();
        for connect in wanted.iter().filter(|connect| is_whole(connect, northbound)) {
            let before = self.0.remove(&connect.name);
            let hash = if carried_out { Some(connect.hash.clone()) } else { before };
            now.extend(hash.map(|hash| (connect.name.clone(), hash)));
        }
        self.0 = now;
    }

    /// What the report says, sorted by name.
    pub(super) fn reports(&self) -> Vec<ConnectReport> {
        let report = |(name, hash): (&ConnectName, &String)| ConnectReport {
            name: name.to_string(),
            hash: hash.clone(),
        };
        self.0.iter().take(MAX_REPORTED_CONNECTS).map(report).collect()
    }
}

/// Whether nothing is missing that does not come by itself.
fn is_whole(connect: &zone::ConnectReport, northbound: &Engine) -> bool {
    let prefix = paths::connect(&connect.name);
    let in_trouble =
        northbound.failures().keys().chain(northbound.held().keys()).chain(northbound.waiting().keys());
    missing(connect).next().is_none() && !in_trouble.into_iter().any(|slice| slice.starts_with(&prefix))
}

/// What keeps a connection from being rendered. Nodes that are only joining do not.
pub(super) fn missing(connect: &zone::ConnectReport) -> impl Iterator<Item = &zone::Problem> {
    connect.problems.iter().filter(|problem| problem.reason != Reason::NodeNotReady)
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_model::zone::Problem;
    use causeway_ovn::apply::Options;
    use causeway_ovn::declare::NORTHBOUND;

    fn wanted(hash: &str, problem: Option<Reason>) -> [zone::ConnectReport; 1] {
        let problems = problem.map(|reason| Problem::new(reason, "so it is")).into_iter().collect();
        [zone::ConnectReport { name: "main".parse().unwrap(), hash: hash.into(), problems }]
    }

    fn hashes(rendered: &Rendered) -> Vec<String> {
        rendered.reports().into_iter().map(|report| report.hash).collect()
    }

    #[test]
    fn a_connection_is_rendered_once_northd_has_carried_it_out() {
        let engine = Engine::new(&NORTHBOUND, Options::default());
        let mut rendered = Rendered::default();
        rendered.look(&wanted("one", None), &engine, false);
        assert_eq!(hashes(&rendered), [""; 0]);
        rendered.look(&wanted("one", None), &engine, true);
        assert_eq!(hashes(&rendered), ["one"]);
        // Something else is wanted: what is there is still the former.
        rendered.look(&wanted("two", None), &engine, false);
        assert_eq!(hashes(&rendered), ["one"]);
        rendered.look(&wanted("two", None), &engine, true);
        assert_eq!(hashes(&rendered), ["two"]);
        rendered.look(&[], &engine, true);
        assert_eq!(hashes(&rendered), [""; 0]);
    }

    #[test]
    fn what_is_missing_counts_unless_it_is_a_node_that_is_joining() {
        let engine = Engine::new(&NORTHBOUND, Options::default());
        let mut rendered = Rendered::default();
        rendered.look(&wanted("one", Some(Reason::NodeNotReady)), &engine, true);
        assert_eq!(hashes(&rendered), ["one"]);
        rendered.look(&wanted("one", Some(Reason::NoLink)), &engine, true);
        assert_eq!(hashes(&rendered), [""; 0]);
    }
}
