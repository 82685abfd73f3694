//! Host subnets: which part of a layer3 network's subnets a node has. They are derived from the node's
//! id, so nothing is stored and a new network writes nothing on any node.

use causeway_types::{Cidr, Families, Family, NodeId};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// One of a network's subnets and the length of a node's part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRange {
    /// The subnet.
    pub cidr: Cidr,
    /// The prefix length of a host subnet.
    pub host_prefix: u8,
}

/// The subnets of a layer3 network, ready to be asked for a node's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSubnets {
    ranges: Vec<HostRange>,
    families: Families,
}

impl HostSubnets {
    /// Checks that each subnet can be split as it says.
    pub fn new(ranges: Vec<HostRange>) -> Result<Self> {
        for HostRange { cidr, host_prefix } in &ranges {
            if *host_prefix < cidr.prefix_len() || *host_prefix >= cidr.family().bits() {
                return Err(Error::HostPrefix { cidr: *cidr, prefix: *host_prefix });
            }
        }
        let families = ranges.iter().map(|range| range.cidr.family()).collect();
        Ok(Self { ranges, families })
    }

    /// The node's subnets, IPv4 first: number id − 2 of each family, counted through the family's
    /// subnets in their order. A node has one of every family or none.
    pub fn of(&self, node: NodeId) -> Result<Vec<Cidr>> {
        self.families.iter().map(|family| self.of_family(family, node)).collect()
    }

    /// How many nodes have a subnet.
    pub fn capacity(&self) -> u128 {
        self.families.iter().map(|family| self.capacity_of(family)).min().unwrap_or(0)
    }

    /// The first of these nodes, by id, that has none.
    pub fn first_without(&self, nodes: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
        let capacity = self.capacity();
        nodes.into_iter().filter(|node| u128::from(node.position()) >= capacity).min()
    }

    fn of_family(&self, family: Family, node: NodeId) -> Result<Cidr> {
        let mut number = u128::from(node.position());
        for range in self.ranges_of(family) {
            let last = last_number(range);
            if number <= last {
                let error = |_| Error::HostPrefix { cidr: range.cidr, prefix: range.host_prefix };
                return range.cidr.subnet(range.host_prefix, number).map_err(error);
            }
            number -= last + 1;
        }
        Err(Error::NoHostSubnet { family, node, capacity: self.capacity() })
    }

    fn capacity_of(&self, family: Family) -> u128 {
        self.ranges_of(family)
            .fold(0, |sum: u128, range| sum.saturating_add(last_number(range).saturating_add(1)))
    }

    fn ranges_of(&self, family: Family) -> impl Iterator<Item = &HostRange> {
        self.ranges.iter().filter(move |range| range.cidr.family() == family)
    }
}

/// The constructor has checked the length, so the question always has an answer.
fn last_number(range: &HostRange) -> u128 {
    range.cidr.last_subnet(range.host_prefix).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnets(ranges: &[(&str, u8)]) -> HostSubnets {
        let range = |(cidr, host_prefix): &(&str, u8)| HostRange {
            cidr: cidr.parse().unwrap(),
            host_prefix: *host_prefix,
        };
        HostSubnets::new(ranges.iter().map(range).collect()).unwrap()
    }

    fn node(id: u32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn text(result: Result<Vec<Cidr>>) -> Vec<String> {
        result.unwrap().iter().map(Cidr::to_string).collect()
    }

    /// udn-cases G001. G002, G004, G005, G007 skip and rotate numbers; ours count linearly.
    #[test]
    fn g001_g002_g004_g005_g007_subnets_count_linearly() {
        let table = [
            ("10.1.0.0/16", 24, 2, "10.1.0.0/24"),
            ("10.1.0.0/16", 24, 257, "10.1.255.0/24"),
            ("fd01::/48", 64, 2, "fd01::/64"),
            ("fd01::/48", 64, 3, "fd01:0:0:1::/64"),
            ("10.1.0.0/16", 26, 3, "10.1.0.64/26"),
            ("10.0.0.0/14", 22, 3, "10.0.4.0/22"),
            ("10.128.0.0/14", 23, 3, "10.128.2.0/23"),
        ];
        for (cidr, host_prefix, id, expected) in table {
            assert_eq!(text(subnets(&[(cidr, host_prefix)]).of(node(id))), [expected]);
        }
        assert_eq!(
            subnets(&[("10.1.0.0/16", 24)]).of(node(258)).unwrap_err().to_string(),
            "no IPv4 host subnet is left for node id 258: the network's subnets hold 256 nodes; add a subnet"
        );
    }

    /// udn-cases G008: one of each family or none, and IPv4 first whatever the order of the list.
    #[test]
    fn g008_both_families_or_none() {
        let dual = subnets(&[("fd01::/62", 64), ("10.1.0.0/16", 24)]);
        assert_eq!(text(dual.of(node(5))), ["10.1.3.0/24", "fd01:0:0:3::/64"]);
        assert_eq!(
            dual.of(node(6)),
            Err(Error::NoHostSubnet { family: Family::Ipv6, node: node(6), capacity: 4 })
        );
        assert_eq!(dual.capacity(), 4);
    }

    /// udn-cases G011, E008: a list goes on where the one before ends.
    #[test]
    fn g011_e008_subnets_continue_in_the_next_range() {
        let two = subnets(&[("10.1.0.0/24", 25), ("10.2.0.0/24", 25)]);
        let got: Vec<String> = (2..=4).flat_map(|id| text(two.of(node(id)))).collect();
        assert_eq!(got, ["10.1.0.0/25", "10.1.0.128/25", "10.2.0.0/25"]);
        let one = subnets(&[("10.10.100.0/24", 25)]);
        assert_eq!(one.first_without([node(5), node(4), node(2), node(3)]), Some(node(4)));
        assert_eq!(two.first_without([node(2), node(5)]), None);
    }

    #[test]
    fn appending_a_range_moves_nobody() {
        let before = subnets(&[("10.1.0.0/24", 25), ("fd01::/64", 66)]);
        let after = subnets(&[("10.1.0.0/24", 25), ("fd01::/64", 66), ("10.0.0.0/24", 25)]);
        for id in 2..=3 {
            assert_eq!(before.of(node(id)), after.of(node(id)));
        }
        assert!(before.of(node(4)).is_err());
        assert_eq!(text(after.of(node(4))), ["10.0.0.0/25", "fd01::8000:0:0:0/66"]);
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        let range = |cidr: &str, host_prefix| HostRange { cidr: cidr.parse().unwrap(), host_prefix };
        assert!(HostSubnets::new(vec![range("10.0.0.0/24", 23)]).is_err());
        assert!(HostSubnets::new(vec![range("10.0.0.0/24", 32)]).is_err());
        assert!(HostSubnets::new(vec![range("fd00::/64", 128)]).is_err());
        assert_eq!(HostSubnets::new(vec![range("::/0", 127)]).unwrap().capacity(), 1 << 127);
    }
}
