//! Whose an address of a node is. The cluster manager and the zones judge endpoints by it, so that they judge alike.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::NodeName;

use crate::Node;

/// The addresses of all nodes.
///
/// Two questions are asked, and neither has *one* owner of an address for an answer, because a kubelet's word would decide who that is:
/// whether an address is one of a certain node's, and whether it is settled that some node has it.
#[derive(Debug, Default)]
pub struct NodeAddresses {
    nodes: BTreeMap<NodeName, Account>,
    /// By a settled address, the nodes that have it: one, but for records of hands other than the cluster manager's.
    settled: BTreeMap<IpAddr, BTreeSet<NodeName>>,
}

/// What is known of one node.
#[derive(Debug, Default)]
struct Account {
    /// By its kubelet's account, which is a claim.
    named: BTreeSet<IpAddr>,
    /// By the cluster manager's record.
    settled: BTreeSet<IpAddr>,
}

impl Account {
    fn of(node: &Node) -> Self {
        let record = node.settled();
        let settled =
            record.into_iter().flat_map(|record| record.node_ips.iter().flatten().chain(&record.encap_ips));
        Self { named: node.addresses.iter().copied().collect(), settled: settled.copied().collect() }
    }
}

impl NodeAddresses {
    /// A node is there or has changed, or is gone. The answer is the addresses about which something else is true than before.
    pub fn set(&mut self, name: &NodeName, node: Option<&Node>) -> BTreeSet<IpAddr> {
        let new = node.map(Account::of).unwrap_or_default();
        let old = self.nodes.remove(name).unwrap_or_default();
        for address in old.settled.difference(&new.settled) {
            if let Some(names) = self.settled.get_mut(address) {
                names.remove(name);
                if names.is_empty() {
                    self.settled.remove(address);
                }
            }
        }
        for address in new.settled.difference(&old.settled) {
            self.settled.entry(*address).or_default().insert(name.clone());
        }
        let named = old.named.symmetric_difference(&new.named);
        let changed = named.chain(old.settled.symmetric_difference(&new.settled)).copied().collect();
        if node.is_some() {
            self.nodes.insert(name.clone(), new);
        }
        changed
    }

    /// Whether an address is one of this node's: it is settled, or its kubelet names it and it is not settled that another has it.
    pub fn is_of(&self, node: &NodeName, address: IpAddr) -> bool {
        let Some(account) = self.nodes.get(node) else { return false };
        account.settled.contains(&address)
            || account.named.contains(&address) && !self.settled.contains_key(&address)
    }

    /// Whether it is settled that an address is a node's. What a kubelet alone says takes no address from anybody.
    pub fn is_settled(&self, address: IpAddr) -> bool {
        self.settled.contains_key(&address)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::trimmed;

    fn node(name: &str, named: &[&str], node_ips: &[&str], tunnels: &[&str]) -> Node {
        let named: Vec<_> =
            named.iter().map(|address| json!({"type": "InternalIP", "address": address})).collect();
        let record = json!({"uid": "u", "node-ips": node_ips, "encap-ips": tunnels}).to_string();
        let annotations = json!({"k8s.ovn.org/node-chassis-record": record});
        trimmed(json!({"metadata": {"name": name, "uid": "u", "annotations": annotations}, "spec": {},
                       "status": {"addresses": named}}))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The liar's name comes before the victim's or after it, and he is seen before it or after it.
    #[test]
    fn a_node_that_names_anothers_address_takes_nothing() {
        for (liar, victim) in [("n1", "n3"), ("n3", "n1")] {
            let lie = node(liar, &["172.18.0.9", "172.18.0.1", "192.0.2.7"], &["172.18.0.9"], &[]);
            let truth = node(victim, &["172.18.0.1", "fc00::1"], &["172.18.0.1", "fc00::1"], &["10.9.0.1"]);
            for seen in [[&lie, &truth], [&truth, &lie]] {
                let mut all = NodeAddresses::default();
                seen.iter().for_each(|node| drop(all.set(&node.name, Some(node))));
                for own in ["172.18.0.1", "fc00::1", "10.9.0.1"] {
                    assert!(all.is_of(&truth.name, ip(own)) && all.is_settled(ip(own)), "{own} of {victim}");
                    assert!(!all.is_of(&lie.name, ip(own)), "{own} of {liar}");
                }
                // What nobody has is not taken from those who are outside by a kubelet's word.
                assert!(!all.is_settled(ip("192.0.2.7")) && all.is_of(&lie.name, ip("192.0.2.7")));
            }
        }
    }

    #[test]
    fn what_changes_is_named() {
        let mut all = NodeAddresses::default();
        let set = |texts: &[&str]| texts.iter().map(|text| ip(text)).collect::<BTreeSet<_>>();
        let first = node("n1", &["172.18.0.1"], &[], &[]);
        assert_eq!(all.set(&first.name, Some(&first)), set(&["172.18.0.1"]));
        assert_eq!(all.set(&first.name, Some(&first)), set(&[]));
        let settled = node("n1", &["172.18.0.1"], &["172.18.0.1"], &["10.9.0.1"]);
        assert_eq!(all.set(&first.name, Some(&settled)), set(&["172.18.0.1", "10.9.0.1"]));
        assert_eq!(all.set(&first.name, None), set(&["172.18.0.1", "10.9.0.1"]));
        assert!(!all.is_settled(ip("10.9.0.1")) && !all.is_of(&first.name, ip("172.18.0.1")));
    }
}
