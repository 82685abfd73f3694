//! What of a database is not as planned, and who is to be told: the same for reports and for what counts as rendered.

use std::collections::BTreeMap;

use causeway_ovn::Str;
use causeway_ovn::apply::Engine;
use causeway_types::host::Owner;
use causeway_zone::{Subject, Zone};

use crate::room::House;

/// A slice that is not as planned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trouble {
    /// Its path, or `host:` and the owner of something on the node.
    pub slice: Str,
    /// Who is not as it was asked for; the first is the one to tell.
    pub blame: Vec<Subject>,
    /// In one word.
    pub reason: &'static str,
    /// In a sentence, with the slice.
    pub message: String,
}

/// The host's part of it cannot be made.
const HOST: &str = "HostRefused";

/// A slice is held because its input is incomplete. Whoever wrote that input is told by the index itself.
pub(super) const HELD: &str = "Held";

/// Slices of a database with rows that wait for other rows. On the way many wait for a moment, so only who still waits when nothing is
/// left to do is in trouble, and that is said until there is nothing left to do again.
#[derive(Debug, Default)]
pub struct Waits(BTreeMap<Str, String>);

impl Waits {
    /// Takes who waits, where the database is as planned as far as it can be.
    pub fn look(&mut self, settled: bool, waiting: &BTreeMap<Str, String>) {
        if settled && self.0 != *waiting {
            self.0.clone_from(waiting);
        }
    }

    /// The slices, with what they wait for.
    pub fn all(&self) -> &BTreeMap<Str, String> {
        &self.0
    }
}

impl Trouble {
    /// All troubles of a database.
    pub fn of(house: &House<'_, Zone>, engine: &Engine, waits: &Waits) -> Vec<Trouble> {
        let trouble = |slice: &Str, reason, text: &str| Trouble {
            slice: slice.clone(),
            blame: house.blame(slice),
            reason,
            message: format!("{slice} {text}"),
        };
        let failed = engine.failures().iter().map(|(slice, f)| trouble(slice, "DatabaseRefused", &f.error));
        let waiting = waits.0.iter().map(|(slice, text)| trouble(slice, "Waiting", text));
        let held = engine.held().iter().map(|(slice, text)| trouble(slice, HELD, text));
        failed.chain(waiting).chain(held).collect()
    }

    /// What an owner asks for of the host, and does not get. What is the node's own is told by its readiness.
    pub fn of_host(owner: &Owner, text: &str) -> Option<Trouble> {
        let blame = vec![crate::host::blame(owner)?];
        Some(Trouble { slice: format!("host:{owner}").into(), blame, reason: HOST, message: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::intent::ClusterConfig;
    use causeway_ovn::apply::Options;
    use causeway_ovn::declare::NORTHBOUND;
    use causeway_record::ObjectKey;
    use causeway_types::{NetworkName, NodeId};
    use causeway_zone::ZoneConfig;

    /// Whose network, service or pod it is hears of it, and nobody else.
    #[test]
    fn what_the_host_refuses_is_blamed_on_its_owner() {
        let blamed = |owner: Owner| Trouble::of_host(&owner, "no").map(|trouble| trouble.blame);
        let red: NetworkName = "cluster_udn_red".parse().unwrap();
        let web: ObjectKey = "ns1/web".parse().unwrap();
        assert_eq!(blamed(Owner::network(&red)), Some(vec![Subject::Network(red)]));
        assert_eq!(blamed(Owner::new("service:ns1/web")), Some(vec![Subject::Service(web.clone())]));
        assert_eq!(blamed(Owner::new("host-port:ns1/web")), Some(vec![Subject::Pod(web)]));
        assert_eq!(blamed(Owner::node("tunnels")), None);
    }

    /// What waits in the middle of a round is no trouble; what waits at its end is, until the next end.
    #[test]
    fn who_waits_on_the_way_is_not_in_trouble() {
        let cluster = ClusterConfig::new(vec!["10.244.0.0/16".parse().unwrap()], Vec::new(), NodeId::FIRST);
        let zone = Zone::new(ZoneConfig::new("n1".parse().unwrap(), cluster));
        let house = crate::northbound(&zone);
        let engine = Engine::new(&NORTHBOUND, Options::default());
        let troubles = |waits: &Waits| Trouble::of(&house, &engine, waits);
        let some = [(Str::from("cnc:main:link:blue:n1:"), "waits for a router".to_owned())].into();
        let mut waits = Waits::default();
        waits.look(false, &some);
        assert_eq!(troubles(&waits), []);
        waits.look(true, &some);
        assert_eq!(troubles(&waits)[0].blame, [Subject::Connect("main".parse().unwrap())]);
        waits.look(false, &BTreeMap::new());
        assert_eq!((troubles(&waits).len(), waits.all().len()), (1, 1), "the way is not over");
        waits.look(true, &BTreeMap::new());
        assert_eq!(troubles(&waits), []);
    }
}
