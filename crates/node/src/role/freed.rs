//! Freed numbers: up to which epoch they are gone from this zone. A number goes to another network only when every zone
//! has said so: a node that was cut off must never meet another tenant under an old number.

use std::collections::BTreeSet;

use causeway_alloc::Reuse;
use causeway_api::install::FREED_NUMBERS_KEY;
use k8s_openapi::api::core::v1::ConfigMap;
use tracing::warn;

/// The record as the cluster manager has written it; nothing while it cannot be read.
pub(super) fn read(object: &ConfigMap) -> Option<Reuse> {
    let text = object.data.as_ref()?.get(FREED_NUMBERS_KEY)?;
    match serde_json::from_str(text) {
        Ok(reuse) => Some(reuse),
        Err(error) => {
            warn!(%error, "the record of freed numbers cannot be read; no number is said to be gone");
            None
        }
    }
}

/// Up to which epoch all listed numbers are gone, where these network ids are still in use and everything that is
/// planned is done.
pub(super) fn cleared(record: &Reuse, in_use: &BTreeSet<u32>) -> i64 {
    let held = record.network_ids.quarantined.iter().filter(|(id, _)| in_use.contains(id));
    let first = held.map(|(_, epoch)| epoch.0.saturating_sub(1)).min();
    i64::try_from(first.unwrap_or(record.epoch.0)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_alloc::{Epoch, IdRecord};

    #[test]
    fn a_number_in_use_holds_its_epoch_back() {
        let ids = IdRecord { cursor: 9, quarantined: [(4, Epoch(2)), (7, Epoch(5))].into() };
        let record = Reuse { epoch: Epoch(6), network_ids: ids, ..Reuse::default() };
        assert_eq!(cleared(&record, &[1, 2].into()), 6);
        assert_eq!(cleared(&record, &[1, 7].into()), 4);
        assert_eq!(cleared(&record, &[4, 7].into()), 1);
    }
}
