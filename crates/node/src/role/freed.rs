//! Freed numbers: which of them are gone from this zone. A number goes to another network only when every zone
//! has said so: a node that was cut off must never meet another tenant under an old number.

use std::collections::BTreeSet;

use causeway_alloc::{Cleared, Reuse};
use causeway_ovn::Str;
use causeway_ovsdb_client::ovsdb::Replica;
use causeway_types::{ConnectName, DatapathKey, NetworkId, NodeName};
use causeway_zone::{ConnectInfo, Connecting, Place, Subject, Zone};

use super::trouble::Trouble;

/// The option by which switches and routers ask for the number that all zones know them by.
const REQUESTED_KEY: &str = "requested-tnl-key";

/// Numbers that this zone plans with.
#[derive(Debug, Default)]
pub(super) struct InUse {
    network_ids: BTreeSet<u32>,
    tunnel_keys: BTreeSet<u32>,
    /// Blocks and slices of connections.
    places: BTreeSet<(ConnectName, u32, Option<u32>)>,
    /// Connections of which something is not as planned: their rows may be in any place that they ever had.
    uncertain: BTreeSet<ConnectName>,
    /// Nodes that tunnels lead to.
    tunnels: BTreeSet<NodeName>,
}

impl InUse {
    pub(super) fn of(zone: &Zone) -> InUse {
        let network_ids = zone.rendered().map(|network| network.id.get()).collect();
        // Links that linger are in places that nobody plans with any more.
        let uncertain = zone.lingering().cloned().collect();
        let mut all = InUse { network_ids, uncertain, ..InUse::default() };
        for name in zone.connects() {
            match zone.connecting(name) {
                Some(Connecting::Settled(info)) => all.add(info),
                Some(Connecting::Broken(_)) => drop(all.uncertain.insert(name.clone())),
                Some(Connecting::Unsettled) | None => {}
            }
        }
        all
    }

    /// Numbers that rows here have, planned or not: what could not be deleted still has them.
    pub(super) fn add_rows(&mut self, replica: &Replica) {
        for (table, column) in [("Logical_Switch", "other_config"), ("Logical_Router", "options")] {
            let rows = replica.table(table).into_iter().flat_map(|table| replica.rows(table));
            let keys = rows.filter_map(|row| row.get(column)?.get(REQUESTED_KEY)?.parse::<u32>().ok());
            self.tunnel_keys.extend(keys);
        }
    }

    /// The nodes that tunnels lead to, by the southbound database.
    pub(super) fn add_tunnels(&mut self, southbound: &Replica, record: &Reuse) {
        let there = |node: &&NodeName| has_rows(southbound, &causeway_plan::chassis_slice(node));
        self.tunnels.extend(record.away.keys().filter(there).cloned());
    }

    /// A slice that is held, fails or waits may keep a connection's rows where they were; one without rows keeps nothing.
    pub(super) fn add_troubled(&mut self, replica: &Replica, troubles: &[Trouble]) {
        for trouble in troubles.iter().filter(|trouble| has_rows(replica, &trouble.slice)) {
            self.uncertain.extend(trouble.blame.iter().filter_map(|subject| match subject {
                Subject::Connect(connect) => Some(connect.clone()),
                _ => None,
            }));
        }
    }

    fn has_network(&self, id: u32) -> bool {
        let key = NetworkId::new(id).ok().map(|id| DatapathKey::of_network(id).get());
        self.network_ids.contains(&id) || key.is_some_and(|key| self.tunnel_keys.contains(&key))
    }

    fn has_place(&self, connect: &ConnectName, index: u32, slice: Option<u32>) -> bool {
        self.uncertain.contains(connect) || self.places.contains(&(connect.clone(), index, slice))
    }

    fn add(&mut self, connect: &ConnectInfo) {
        self.tunnel_keys.extend(connect.router_key.map(|key| key.get()));
        let positions = connect.places.values().flatten().map(Place::position);
        self.places.extend(positions.map(|(index, slice)| (connect.name.clone(), index, slice)));
    }
}

fn has_rows(replica: &Replica, slice: &str) -> bool {
    let here =
        |path: &Str| if slice.ends_with(':') { path.starts_with(slice) } else { path.as_str() == slice };
    replica.tables().any(|table| replica.range(table, slice).next().is_some_and(|(path, _)| here(path)))
}

/// Which listed numbers are gone, where these are still in use.
pub(super) fn cleared(record: &Reuse, in_use: &InUse) -> Cleared {
    let networks = record.network_ids.quarantined.iter().filter(|(id, _)| in_use.has_network(**id));
    let keys = record.tunnel_keys.quarantined.iter().filter(|(key, _)| in_use.tunnel_keys.contains(key));
    let places = record.connects.iter().flat_map(|(name, connect)| {
        let held = connect.quarantined.iter();
        let in_use = |(index, slice, _): &&_| in_use.has_place(name, *index, *slice);
        held.filter(in_use).map(|(.., epoch)| epoch)
    });
    let heard = record.away.iter().filter(|(node, _)| in_use.tunnels.contains(*node));
    let held =
        networks.chain(keys).map(|(_, epoch)| epoch).chain(places).chain(heard.map(|(_, epoch)| epoch));
    Cleared::new(record.epoch, held.copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_alloc::{ConnectRecord, Epoch, IdRecord};

    /// The epochs that hold something that is still in use; all are looked at.
    fn held(record: &Reuse, in_use: &InUse) -> Vec<u64> {
        let cleared = cleared(record, in_use);
        assert_eq!(cleared.upto(), record.epoch);
        cleared.held().map(|epoch| epoch.0).collect()
    }

    #[test]
    fn a_number_in_use_holds_its_epoch_back_and_no_later_one() {
        let ids = IdRecord { cursor: 9, quarantined: [(4, Epoch(2)), (7, Epoch(5))].into() };
        let record = Reuse { epoch: Epoch(6), network_ids: ids, ..Reuse::default() };
        let in_use = |ids: [u32; 2]| InUse { network_ids: ids.into(), ..InUse::default() };
        assert_eq!(held(&record, &in_use([1, 2])), [0; 0]);
        assert_eq!(held(&record, &in_use([1, 7])), [5]);
        assert_eq!(held(&record, &in_use([4, 7])), [2, 5]);
    }

    #[test]
    fn keys_and_places_of_connections_hold_their_epochs_back_too() {
        let main: ConnectName = "main".parse().unwrap();
        let keys = IdRecord { cursor: 9, quarantined: [(16_715_780, Epoch(5))].into() };
        let places = ConnectRecord { quarantined: vec![(3, None, Epoch(4)), (4, Some(2), Epoch(2))] };
        let connects = [(main.clone(), places)].into();
        let record = Reuse { epoch: Epoch(6), tunnel_keys: keys, connects, ..Reuse::default() };
        let in_use = |keys: &[u32], places: &[(u32, Option<u32>)]| InUse {
            tunnel_keys: keys.iter().copied().collect(),
            places: places.iter().map(|(index, slice)| (main.clone(), *index, *slice)).collect(),
            ..InUse::default()
        };
        assert_eq!(held(&record, &in_use(&[1], &[(4, Some(3))])), [0; 0]);
        assert_eq!(held(&record, &in_use(&[16_715_780], &[])), [5]);
        assert_eq!(held(&record, &in_use(&[16_715_780], &[(3, None)])), [4, 5]);
        assert_eq!(held(&record, &in_use(&[], &[(4, Some(2))])), [2]);
    }

    /// A zone that has not yet cut the tunnel to a node that is away does not confirm it.
    #[test]
    fn a_tunnel_to_a_node_that_is_away_holds_its_epoch_back() {
        let away = [("n3".parse().unwrap(), Epoch(4))].into();
        let record = Reuse { epoch: Epoch(6), away, ..Reuse::default() };
        let in_use = |nodes: &[&str]| InUse {
            tunnels: nodes.iter().map(|node| node.parse().unwrap()).collect(),
            ..InUse::default()
        };
        assert_eq!(held(&record, &in_use(&["n2"])), [0; 0]);
        assert_eq!(held(&record, &in_use(&["n2", "n3"])), [4]);
    }

    /// A freed number is confirmed by itself: whatever is held elsewhere, only who may still have it holds it back.
    #[test]
    fn numbers_are_gone_one_by_one() {
        let ids = IdRecord { cursor: 9, quarantined: [(4, Epoch(2)), (7, Epoch(5))].into() };
        let main: ConnectName = "main".parse().unwrap();
        let places = ConnectRecord { quarantined: vec![(3, None, Epoch(4))] };
        let connects = [(main.clone(), places)].into();
        let record = Reuse { epoch: Epoch(6), network_ids: ids, connects, ..Reuse::default() };
        let row_of = |id: u32| DatapathKey::of_network(NetworkId::new(id).unwrap()).get();
        assert_eq!(held(&record, &InUse::default()), [0; 0]);
        let undeleted = InUse { tunnel_keys: [row_of(7)].into(), ..InUse::default() };
        assert_eq!(held(&record, &undeleted), [5], "a row that could not be deleted has number 7");
        let other = InUse { uncertain: ["other".parse().unwrap()].into(), ..InUse::default() };
        assert_eq!(held(&record, &other), [0; 0], "another connection's trouble is not its own");
        let own = InUse { uncertain: [main].into(), ..InUse::default() };
        assert_eq!(held(&record, &own), [4]);
    }
}
