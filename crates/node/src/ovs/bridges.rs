//! The bridges to the outside as the database has them, and how OVN is told of one.

use super::look::{INTERFACE, PORT, Switch, text};
use causeway_ovsdb_client::ovsdb::{
    Atom, Condition, Datum, Mutation, Mutator, Op, RowRef, Str, Transaction, Uuid,
};
use causeway_types::around::{BridgePort, BridgeSeen, Bridges, PortKind};

/// Where ovn-controller reads which bridge leads to which physical network.
const MAPPINGS: &str = "ovn-bridge-mappings";
/// Where whoever installs the node may say which port of a bridge is the card.
const UPLINK: &str = "bridge-uplink";

/// Which bridge leads to a physical network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping {
    /// The physical network.
    pub network: String,
    /// Its name in Open vSwitch, such as `br-ex`.
    pub bridge: String,
    /// Whether it does; otherwise it did, and shall not any more.
    pub leads: bool,
}

impl Mapping {
    /// The whole text with this mapping, or without it: those of other physical networks stay.
    fn among(&self, known: &str) -> String {
        let is_other = |pair: &&str| {
            pair.split_once(':').is_some_and(|(network, bridge)| {
                network != self.network || (!self.leads && bridge != self.bridge)
            })
        };
        let others = known.split(',').map(str::trim).filter(is_other).map(str::to_owned);
        let own = self.leads.then(|| format!("{}:{}", self.network, self.bridge));
        others.chain(own).collect::<Vec<_>>().join(",")
    }

    /// Whether the text is as wanted.
    fn is_settled(&self, known: &str) -> bool {
        let pairs = known.split(',').map(str::trim).filter_map(|pair| pair.split_once(':'));
        let ours = pairs.filter(|(network, _)| *network == self.network);
        let bridges: Vec<&str> = ours.map(|(_, bridge)| bridge).collect();
        if self.leads { bridges == [self.bridge.as_str()] } else { !bridges.contains(&self.bridge.as_str()) }
    }
}

impl Switch<'_> {
    /// What tells OVN of a bridge to the outside, or that it is none any more; nothing if it knows.
    pub(super) fn mapping(&self, wanted: &Mapping) -> Option<Transaction> {
        let row = self.own()?;
        let known = row.get("external_ids").and_then(|ids| ids.get(MAPPINGS)).cloned().unwrap_or_default();
        if wanted.is_settled(&known) {
            return None;
        }
        let mutation = |mutator, value| Mutation { column: "external_ids".into(), mutator, value };
        let text = wanted.among(&known);
        let insert = mutation(Mutator::Insert, Datum::str_map([(MAPPINGS, text.as_str())]));
        Some(Transaction::new(vec![Op::Mutate {
            table: super::look::SWITCH.into(),
            conditions: vec![Condition::uuid(row.uuid)],
            mutations: [mutation(Mutator::Delete, Datum::set([Atom::from(MAPPINGS)]))]
                .into_iter()
                .chain((!text.is_empty()).then_some(insert))
                .collect(),
        }]))
    }

    /// All bridges but one, which has very many ports.
    pub(super) fn bridges(&self, but: &str) -> Bridges {
        let others = self.bridge_rows().filter_map(|row| {
            let name = text(row, "name").filter(|name| name != but)?;
            Some((name.to_string(), self.bridge_seen(row)))
        });
        others.collect()
    }

    fn bridge_seen(&self, bridge: RowRef<'_>) -> BridgeSeen {
        let uplink = bridge.get("external_ids").and_then(|ids| ids.get(UPLINK)).map(Str::to_string);
        let ports = members(bridge, "ports").filter_map(|port| {
            let row = self.row(PORT, port)?;
            Some((text(row, "name")?.to_string(), self.port_seen(row)?))
        });
        BridgeSeen { id: bridge.uuid.to_string(), uplink, ports: ports.collect() }
    }

    fn port_seen(&self, port: RowRef<'_>) -> Option<BridgePort> {
        let interfaces: Vec<Uuid> = members(port, "interfaces").collect();
        let [interface] = interfaces.as_slice() else {
            return Some(BridgePort { kind: PortKind::Bond, number: None });
        };
        let interface = self.row(INTERFACE, *interface)?;
        let number = interface.get("ofport").and_then(Datum::one).and_then(Atom::as_integer);
        let number = number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
        Some(BridgePort { kind: kind(&text(interface, "type").unwrap_or_default()), number })
    }
}

fn members<'a>(row: RowRef<'a>, column: &str) -> impl Iterator<Item = Uuid> + use<'a> {
    row.get(column).into_iter().flat_map(Datum::atoms).filter_map(Atom::as_uuid)
}

fn kind(word: &str) -> PortKind {
    match word {
        "" | "system" | "dpdk" | "afxdp" | "afxdp-nonpmd" => PortKind::Card,
        "internal" => PortKind::Internal,
        "patch" => PortKind::Patch,
        _ => PortKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_other_networks_stay() {
        let wanted = Mapping { network: "physnet".into(), bridge: "br-ex".into(), leads: true };
        for (known, there, after) in [
            ("", false, "physnet:br-ex"),
            ("physnet:br-ex", true, "physnet:br-ex"),
            ("physnet:br0", false, "physnet:br-ex"),
            ("storage:br-s, physnet:br0,lab:br-l", false, "storage:br-s,lab:br-l,physnet:br-ex"),
            ("storage:br-s,physnet:br-ex", true, "storage:br-s,physnet:br-ex"),
            ("physnet:br-ex,physnet:br0", false, "physnet:br-ex"),
            ("physnet2:br0", false, "physnet2:br0,physnet:br-ex"),
        ] {
            assert_eq!((wanted.is_settled(known), wanted.among(known).as_str()), (there, after), "{known:?}");
        }
        let unwanted = Mapping { leads: false, ..wanted };
        for (known, gone, after) in [
            ("", true, ""),
            ("physnet:br-ex", false, ""),
            ("physnet:br0,lab:br-ex", true, "physnet:br0,lab:br-ex"),
            ("storage:br-s,physnet:br-ex", false, "storage:br-s"),
        ] {
            assert_eq!(
                (unwanted.is_settled(known), unwanted.among(known).as_str()),
                (gone, after),
                "{known:?}"
            );
        }
    }
}
