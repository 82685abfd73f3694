//! What must be looked at again.

use std::collections::BTreeSet;

use causeway_model::record::ObjectKey;
use causeway_types::NodeName;

use crate::OwnerKey;

/// What became dirty; each set is emptied before `step` returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) nodes: BTreeSet<NodeName>,
    /// Whether names or VRF names may clash now that did not before.
    pub(crate) clashes: bool,
    pub(crate) nads: BTreeSet<ObjectKey>,
    pub(crate) owners: BTreeSet<OwnerKey>,
    pub(crate) pods: BTreeSet<ObjectKey>,
    pub(crate) statuses: BTreeSet<OwnerKey>,
}
