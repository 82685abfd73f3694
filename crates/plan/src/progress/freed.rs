//! Freed numbers: which of them are gone from this zone. A number goes to another network only when every zone
//! has said so: a node that was cut off must never meet another tenant under an old number.

use std::collections::BTreeSet;

use causeway_alloc::{Cleared, Reuse};
use causeway_ovn::Str;
use causeway_ovsdb::Replica;
use causeway_types::{ConnectName, DatapathKey, NetworkId, NodeName};
use causeway_zone::{ConnectInfo, Connecting, Place, Subject, Zone};

use super::silence::Signs;
use super::trouble::Trouble;

/// The option by which switches and routers ask for the number that all zones know them by.
const REQUESTED_KEY: &str = "requested-tnl-key";

/// Numbers that this zone plans with.
#[derive(Debug, Default)]
pub struct InUse {
    network_ids: BTreeSet<u32>,
    tunnel_keys: BTreeSet<u32>,
    /// Blocks and parcels of connections.
    places: BTreeSet<(ConnectName, u32, Option<u32>)>,
    /// Connections of which something is not as planned: their rows may be in any place that they ever had.
    uncertain: BTreeSet<ConnectName>,
    /// Nodes that tunnels lead to.
    tunnels: BTreeSet<NodeName>,
}

impl InUse {
    /// Those of the zone's plan, before a look at any rows.
    pub fn of(zone: &Zone) -> InUse {
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
    pub fn add_rows(&mut self, replica: &Replica) {
        for (table, column) in [("Logical_Switch", "other_config"), ("Logical_Router", "options")] {
            let rows = replica.table(table).into_iter().flat_map(|table| replica.rows(table));
            let keys = rows.filter_map(|row| row.get(column)?.get(REQUESTED_KEY)?.parse::<u32>().ok());
            self.tunnel_keys.extend(keys);
        }
    }

    /// The nodes that tunnels lead to, by the southbound database.
    pub fn add_tunnels(&mut self, southbound: &Replica, record: &Reuse) {
        let there = |node: &&NodeName| has_rows(southbound, &crate::chassis_slice(node));
        self.tunnels.extend(record.away.keys().filter(there).cloned());
    }

    /// A slice that is held, fails or waits may keep a connection's rows where they were; one without rows keeps nothing.
    pub fn add_troubled(&mut self, replica: &Replica, troubles: &[Trouble]) {
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

    fn has_place(&self, connect: &ConnectName, index: u32, parcel: Option<u32>) -> bool {
        self.uncertain.contains(connect) || self.places.contains(&(connect.clone(), index, parcel))
    }

    fn add(&mut self, connect: &ConnectInfo) {
        self.tunnel_keys.extend(connect.router_key.map(|key| key.get()));
        let positions = connect.places.values().flatten().map(Place::position);
        self.places.extend(positions.map(|(index, parcel)| (connect.name.clone(), index, parcel)));
    }
}

fn has_rows(replica: &Replica, slice: &str) -> bool {
    let here =
        |path: &Str| if slice.ends_with(':') { path.starts_with(slice) } else { path.as_str() == slice };
    replica.tables().any(|table| replica.range(table, slice).next().is_some_and(|(path, _)| here(path)))
}

/// Which listed numbers are gone, where these are still in use.
fn cleared(record: &Reuse, in_use: &InUse) -> Cleared {
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

/// Which freed numbers this zone says are gone from it: those that no row and no plan has, and that ovn-controller has taken out of the
/// switch. A number that left the rows is gone when a change that was counted after that is installed.
#[derive(Debug, Default)]
pub struct Gone {
    said: Cleared,
    /// What no row had when a change was counted, and how far the count was before.
    counted: Option<(Cleared, Option<i64>)>,
    /// Whether rows, plans or the list may have changed since the last look.
    stirred: bool,
}

impl Gone {
    /// What the report says.
    pub fn said(&self) -> &Cleared {
        &self.said
    }

    /// Takes over what the predecessor's report says: what was gone then is gone, unless a look finds it.
    pub fn inherit(&mut self, said: Cleared) {
        self.said = said;
    }

    /// Rows, plans or the list may have changed.
    pub fn stir(&mut self) {
        self.stirred = true;
    }

    /// Whether a look may find something else than the last one.
    pub fn wants_look(&self, record: &Reuse) -> bool {
        self.stirred && (self.said.whole() < record.epoch || self.is_of_other_list(record))
    }

    /// Whether what was said is about a list that is no more.
    fn is_of_other_list(&self, record: &Reuse) -> bool {
        self.said.upto() > record.epoch
    }

    /// Takes what no row and no plan has now, and says whether a change has to be counted. What somebody has again is not said any
    /// more, at once.
    pub fn look(&mut self, record: &Reuse, in_use: &InUse, signs: &Signs) -> bool {
        let gone = cleared(record, in_use);
        if self.is_of_other_list(record) {
            *self = Self::default();
        }
        self.said = std::mem::take(&mut self.said).and(&gone);
        if let Some((counted, _)) = &mut self.counted {
            *counted = std::mem::take(counted).and(&gone);
        }
        let more = self.said != gone;
        let count = more && self.counted.is_none() && signs.asked.is_some();
        // What has left the rows while others are on their way out of the switch waits for its turn.
        self.stirred = more && !count;
        if count {
            self.counted = Some((gone, signs.asked));
        }
        count
    }

    /// Hears how far ovn-controller is, and says whether more is gone than before.
    pub fn hear(&mut self, signs: &Signs) -> bool {
        let installed = self.counted.take_if(|(_, before)| signs.have_installed_since(*before));
        let news = installed.map(|(gone, _)| std::mem::replace(&mut self.said, gone));
        news.is_some_and(|before| before != self.said)
    }
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

    /// What no row has is gone only when the switch has nothing of it either; what comes back is not gone, at once.
    #[test]
    fn a_number_is_gone_when_the_switch_has_followed() {
        let signs = |asked: i64, controller: i64| Signs {
            northbound: None,
            southbound: None,
            asked: Some(asked),
            northd: Some(asked),
            controller: Some(controller),
        };
        let said =
            |gone: &Gone| (gone.said().upto().0, gone.said().held().map(|epoch| epoch.0).collect::<Vec<_>>());
        let ids = |number| IdRecord {
            cursor: 9,
            quarantined: (1..=number).map(|n| (10 + n as u32, Epoch(n))).collect(),
        };
        let record = |epoch| Reuse { epoch: Epoch(epoch), network_ids: ids(epoch), ..Reuse::default() };
        let in_use = |ids: &[u32]| InUse { network_ids: ids.iter().copied().collect(), ..InUse::default() };
        let mut gone = Gone::default();
        assert!(!gone.wants_look(&record(2)), "nothing has happened");
        gone.stir();
        assert!(gone.wants_look(&record(2)));
        assert!(gone.look(&record(2), &in_use(&[]), &signs(7, 7)), "all earlier counts say nothing of it");
        assert!(!gone.hear(&signs(7, 7)) && !gone.hear(&signs(8, 7)));
        assert_eq!(said(&gone), (0, vec![]), "ovn-controller stands still");
        // More leaves the rows meanwhile, and something that had left them is back.
        gone.stir();
        assert!(!gone.look(&record(3), &in_use(&[11]), &signs(8, 7)));
        assert!(gone.hear(&signs(8, 8)));
        assert_eq!(said(&gone), (2, vec![1]));
        assert!(gone.wants_look(&record(3)) && gone.look(&record(3), &in_use(&[11]), &signs(8, 8)));
        assert!(gone.hear(&signs(9, 9)));
        assert_eq!(said(&gone), (3, vec![1]));
        assert!(!gone.wants_look(&record(3)), "nothing has changed: whoever has it still does");
        gone.stir();
        assert!(
            !gone.look(&record(3), &in_use(&[11, 12]), &signs(9, 9)),
            "nobody has to be asked what is there"
        );
        assert_eq!(said(&gone), (3, vec![1, 2]));

        // A process that begins counts nothing if nothing is new, and believes nothing about another list.
        let mut gone = Gone::default();
        gone.inherit(Cleared::new(Epoch(3), [Epoch(1)]));
        gone.stir();
        assert!(!gone.look(&record(3), &in_use(&[11]), &signs(9, 9)));
        assert_eq!(said(&gone), (3, vec![1]));
        gone.stir();
        assert!(gone.wants_look(&record(2)) && gone.look(&record(2), &in_use(&[]), &signs(9, 9)));
        assert_eq!(said(&gone), (0, vec![]));
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
