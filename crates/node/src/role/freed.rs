//! Freed numbers: up to which epoch they are gone from this zone. A number goes to another network only when every zone
//! has said so: a node that was cut off must never meet another tenant under an old number.

use std::collections::BTreeSet;

use causeway_alloc::Reuse;
use causeway_record::FreedNumbers;
use causeway_types::ConnectName;
use causeway_zone::{ConnectInfo, Connecting, Place, Zone};
use tracing::warn;

/// The record as the cluster manager has written it; nothing while it cannot be read.
pub(super) fn read(record: FreedNumbers) -> Option<Reuse> {
    let unreadable =
        |error| warn!(error, "the record of freed numbers cannot be read; no number is said to be gone");
    record.numbers.map_err(unreadable).ok().flatten()
}

/// Numbers that this zone plans with.
#[derive(Debug, Default)]
pub(super) struct InUse {
    network_ids: BTreeSet<u32>,
    tunnel_keys: BTreeSet<u32>,
    /// Blocks and slices of connections.
    places: BTreeSet<(ConnectName, u32, Option<u32>)>,
}

impl InUse {
    pub(super) fn of(zone: &Zone) -> InUse {
        let network_ids = zone.rendered().map(|network| network.id.get()).collect();
        let mut all = InUse { network_ids, ..InUse::default() };
        for name in zone.connects() {
            // What cannot be read is held, and where something is held nothing is said to be gone.
            if let Some(Connecting::Settled(info)) = zone.connecting(name) {
                all.add(info);
            }
        }
        all
    }

    fn add(&mut self, connect: &ConnectInfo) {
        self.tunnel_keys.extend(connect.router_key.map(|key| key.get()));
        let positions = connect.places.values().flatten().map(Place::position);
        self.places.extend(positions.map(|(index, slice)| (connect.name.clone(), index, slice)));
    }
}

/// Up to which epoch all listed numbers are gone, where these are still in use and everything that is planned is done.
pub(super) fn cleared(record: &Reuse, in_use: &InUse) -> i64 {
    let networks = record.network_ids.quarantined.iter().filter(|(id, _)| in_use.network_ids.contains(id));
    let keys = record.tunnel_keys.quarantined.iter().filter(|(key, _)| in_use.tunnel_keys.contains(key));
    let places = record.connects.iter().flat_map(|(name, connect)| {
        let held = connect.quarantined.iter();
        let in_use = |(index, slice, _): &&_| in_use.places.contains(&(name.clone(), *index, *slice));
        held.filter(in_use).map(|(.., epoch)| epoch)
    });
    let held = networks.chain(keys).map(|(_, epoch)| epoch).chain(places);
    let first = held.map(|epoch| epoch.0.saturating_sub(1)).min();
    i64::try_from(first.unwrap_or(record.epoch.0)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_alloc::{ConnectRecord, Epoch, IdRecord};

    #[test]
    fn a_number_in_use_holds_its_epoch_back() {
        let ids = IdRecord { cursor: 9, quarantined: [(4, Epoch(2)), (7, Epoch(5))].into() };
        let record = Reuse { epoch: Epoch(6), network_ids: ids, ..Reuse::default() };
        let in_use = |ids: [u32; 2]| InUse { network_ids: ids.into(), ..InUse::default() };
        assert_eq!(cleared(&record, &in_use([1, 2])), 6);
        assert_eq!(cleared(&record, &in_use([1, 7])), 4);
        assert_eq!(cleared(&record, &in_use([4, 7])), 1);
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
        assert_eq!(cleared(&record, &in_use(&[1], &[(4, Some(3))])), 6);
        assert_eq!(cleared(&record, &in_use(&[16_715_780], &[])), 4);
        assert_eq!(cleared(&record, &in_use(&[16_715_780], &[(3, None)])), 3);
        assert_eq!(cleared(&record, &in_use(&[], &[(4, Some(2))])), 1);
    }
}
