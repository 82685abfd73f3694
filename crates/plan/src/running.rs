//! Connections that run already: through which ports, and which of them are over.

use std::collections::{BTreeMap, BTreeSet};

use causeway_record::ObjectKey;
use causeway_types::{NetworkName, Tracked};
use causeway_zone::Zone;

use crate::network::port_name;

/// The logical ports of this node's pods on their primary networks; of these networks alone, where some are given.
pub fn ports(zone: &Zone, on: Option<&BTreeSet<NetworkName>>) -> BTreeMap<String, ObjectKey> {
    let named = |pod: &ObjectKey| {
        let port = zone.primary(pod)?;
        let network = zone.network_of(port)?;
        let name = port_name(pod, port).ok().filter(|_| on.is_none_or(|on| on.contains(network)))?;
        Some((name, pod.clone()))
    };
    zone.locals().filter_map(named).collect()
}

/// Those of these pods' connections that could not begin any more.
pub fn over<'a>(zone: &'a Zone, running: impl IntoIterator<Item = (&'a ObjectKey, Tracked)>) -> Vec<Tracked> {
    let over = running.into_iter().filter(|(pod, tracked)| zone.is_over(pod, tracked));
    over.map(|(_, tracked)| tracked).collect()
}
