//! What the internal object holds: freed numbers and cursors, which no annotation has.

use std::collections::BTreeMap;

use causeway_types::{ConnectName, NamespaceName, NodeName};
use serde::{Deserialize, Serialize};

use crate::{ConnectRecord, Epoch, IdRecord};

/// The record of all pools. It is written before an owner's finalizer goes, so that no number is ever free
/// while a node that was cut off may still use it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reuse {
    /// The epoch under which numbers are listed from now on.
    pub epoch: Epoch,
    /// Cursor and freed numbers of the ids of user-defined networks.
    pub network_ids: IdRecord,
    /// Tunnel keys of routers.
    pub tunnel_keys: IdRecord,
    /// Blocks and parcels of connections.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub connects: BTreeMap<ConnectName, ConnectRecord>,
    /// Nodes that are away, and the epoch from which on no zone may listen to them: freed numbers no longer wait for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub away: BTreeMap<NodeName, Epoch>,
    /// The namespaces that freed network ids are counted for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub payers: BTreeMap<u32, NamespaceName>,
}

impl Epoch {
    /// The next epoch, for numbers that are freed after the record was written.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_reads_back() {
        let record = Reuse {
            epoch: Epoch(3),
            network_ids: IdRecord { cursor: 8, quarantined: BTreeMap::from([(7, Epoch(2))]) },
            tunnel_keys: IdRecord { cursor: 16_715_780, quarantined: BTreeMap::new() },
            connects: BTreeMap::from([(
                ConnectName::new("c").unwrap(),
                ConnectRecord { quarantined: vec![(0, None, Epoch(2)), (1, Some(4), Epoch(3))] },
            )]),
            away: BTreeMap::from([("n3".parse().unwrap(), Epoch(3))]),
            payers: BTreeMap::from([(7, "blue".parse().unwrap())]),
        };
        let text = serde_json::to_string(&record).unwrap();
        let expected = r#"{"epoch":3,"networkIds":{"cursor":8,"quarantined":{"7":2}},"tunnelKeys":{"cursor":16715780},"connects":{"c":[[0,null,2],[1,4,3]]},"away":{"n3":3},"payers":{"7":"blue"}}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Reuse>(&text).unwrap(), record);
        assert_eq!(serde_json::from_str::<Reuse>("{}").unwrap(), Reuse::default());
    }
}
