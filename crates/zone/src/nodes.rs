//! The nodes of a zone, and who of them has which id, chassis and tunnel address.
//!
//! The cluster manager sees to it that no two records name the same; where they do all the same, the one with the
//! larger id is left out. This zone's own node is always right: no record can talk it out of its place here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::{NodeId, NodeName};

use super::node::NodeInfo;
use super::problem::{Problem, Reason};

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Claim {
    Id(NodeId),
    Chassis(String),
    Encap(IpAddr),
}

#[derive(Debug)]
pub(super) struct Nodes {
    here: NodeName,
    entries: BTreeMap<NodeName, NodeInfo>,
    claims: BTreeMap<Claim, BTreeSet<(u32, NodeName)>>,
}

impl Nodes {
    pub(super) fn new(here: NodeName) -> Self {
        Self { here, entries: BTreeMap::new(), claims: BTreeMap::new() }
    }

    pub(super) fn get(&self, name: &NodeName) -> Option<&NodeInfo> {
        self.entries.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeInfo> {
        self.entries.values()
    }

    /// Puts, replaces or removes a node and names all nodes that this concerns.
    pub(super) fn set(&mut self, name: &NodeName, info: Option<NodeInfo>) -> BTreeSet<NodeName> {
        let mut concerned = BTreeSet::from([name.clone()]);
        if let Some(old) = self.entries.remove(name) {
            for claim in claims_of(&old) {
                let Some(claimants) = self.claims.get_mut(&claim) else { continue };
                claimants.remove(&(rank(&old), name.clone()));
                concerned.extend(claimants.iter().map(|(_, name)| name.clone()));
                if claimants.is_empty() {
                    self.claims.remove(&claim);
                }
            }
        }
        if let Some(info) = info {
            for claim in claims_of(&info) {
                let claimants = self.claims.entry(claim).or_default();
                claimants.insert((rank(&info), name.clone()));
                concerned.extend(claimants.iter().map(|(_, name)| name.clone()));
            }
            self.entries.insert(name.clone(), info);
        }
        concerned
    }

    /// The node that has a tunnel address.
    pub(super) fn with_encap(&self, address: IpAddr) -> Option<&NodeName> {
        self.holder(&Claim::Encap(address))
    }

    /// Who has what several claim: this zone's own node if it does, else who came first.
    fn holder(&self, claim: &Claim) -> Option<&NodeName> {
        let claimants = self.claims.get(claim)?;
        let own = claimants.iter().find(|(_, name)| *name == self.here);
        own.or(claimants.first()).map(|(_, name)| name)
    }

    /// Which other node has what this one claims.
    pub(super) fn clash(&self, name: &NodeName) -> Option<Problem> {
        let node = self.entries.get(name).filter(|_| *name != self.here)?;
        claims_of(node).into_iter().find_map(|claim| {
            let first = self.holder(&claim)?;
            (first != name).then(|| {
                let what = match claim {
                    Claim::Id(id) => format!("id {id}"),
                    Claim::Chassis(chassis) => format!("chassis {chassis}"),
                    Claim::Encap(address) => format!("tunnel address {address}"),
                };
                Problem::new(Reason::NumberClash, format!("node {name} has the {what} of node {first}"))
            })
        })
    }
}

/// Smaller ids were given out first.
fn rank(node: &NodeInfo) -> u32 {
    node.id.as_ref().ok().and_then(Option::as_ref).map_or(u32::MAX, |id| id.get())
}

fn claims_of(node: &NodeInfo) -> Vec<Claim> {
    let id = node.id.as_ref().ok().and_then(Option::as_ref).map(|id| Claim::Id(*id));
    let chassis = node.chassis.as_ref().ok().and_then(Option::as_ref).map(|id| Claim::Chassis(id.clone()));
    let encaps = node.encaps.as_ref().ok().and_then(Option::as_ref).into_iter().flatten();
    id.into_iter().chain(chassis).chain(encaps.map(|address| Claim::Encap(*address))).collect()
}
