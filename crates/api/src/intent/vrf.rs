//! Who has which VRF name.

use std::collections::BTreeMap;

use causeway_types::{NetworkId, NetworkName, NetworkOrigin, VrfName};

use super::network::Network;
use super::problem::{Problem, Reason};

impl Network {
    /// The name of the network's VRF: the one that is written, else the name of its ClusterUserDefinedNetwork where
    /// a device can have it, else one made from the id.
    ///
    /// # Errors
    /// [`Reason::InvalidVrfName`] when no device may have the name.
    pub fn vrf_name(&self, id: NetworkId) -> Result<VrfName, Problem> {
        let origin = self.name.origin();
        let cluster_udn = match &origin {
            NetworkOrigin::Cluster(name) => Some(name),
            _ => None,
        };
        VrfName::of(self.vrf.as_deref(), cluster_udn, id)
            .map_err(|error| Problem::new(Reason::InvalidVrfName, error.to_string()))
    }
}

/// A network and the name of its VRF. Claims are compared by age, then by the network's name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VrfClaim {
    /// Who wants the VRF name; decides between claims of equal age.
    pub network: NetworkName,
    /// When its object was created, in seconds since 1970.
    pub created: i64,
    /// The name of its VRF.
    pub vrf: VrfName,
}

/// Two networks that want one VRF name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VrfClash {
    /// The network that does not get it.
    pub younger: NetworkName,
    /// The network that has it.
    pub older: NetworkName,
    /// What the younger one is told.
    pub problem: Problem,
}

/// The networks that must do without: of equal names, the oldest network has it.
pub fn vrf_clashes(claims: &[VrfClaim]) -> Vec<VrfClash> {
    let mut by_age: Vec<&VrfClaim> = claims.iter().collect();
    by_age.sort_by(|a, b| (a.created, &a.network).cmp(&(b.created, &b.network)));
    let mut holders: BTreeMap<&VrfName, &NetworkName> = BTreeMap::new();
    let mut clashes = Vec::new();
    for claim in by_age {
        match holders.get(&claim.vrf) {
            Some(older) => clashes.push(clash(claim, older)),
            None => {
                holders.insert(&claim.vrf, &claim.network);
            }
        }
    }
    clashes
}

fn clash(claim: &VrfClaim, older: &NetworkName) -> VrfClash {
    let message = format!(
        "VRF name {:?} belongs to network {older}: choose another one in the field vrf",
        claim.vrf.as_str()
    );
    VrfClash {
        younger: claim.network.clone(),
        older: older.clone(),
        problem: Problem::new(Reason::VrfNameConflict, message),
    }
}
