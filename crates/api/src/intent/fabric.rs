//! Who has which place on the fabric: VNIs and route targets.

use causeway_types::NetworkName;

use super::network::{Evpn, EvpnInstance, Network, Transport};
use super::problem::{Problem, Reason};

impl Network {
    /// The network's place on the fabric, if EVPN carries it.
    pub fn evpn(&self) -> Option<&Evpn> {
        match &self.transport {
            Transport::Evpn(evpn) => Some(evpn),
            _ => None,
        }
    }
}

impl Evpn {
    /// Both instances, as far as they are there.
    pub fn instances(&self) -> impl Iterator<Item = &EvpnInstance> {
        [&self.mac_vrf, &self.ip_vrf].into_iter().flatten()
    }
}

/// A network and its instances on the fabric. Claims are compared by age, then by the network's name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FabricClaim {
    /// Whose place on the fabric it is; decides between claims of equal age.
    pub network: NetworkName,
    /// When its object was created, in seconds since 1970.
    pub created: i64,
    /// MAC-VRF and IP-VRF, as far as it has them.
    pub instances: Vec<EvpnInstance>,
}

/// The networks that must do without, and what they are told. With an equal VNI or route target each would take the other's routes,
/// and what keeps networks apart on the fabric is nothing else.
pub fn fabric_clashes(claims: &[FabricClaim]) -> Vec<(NetworkName, Problem)> {
    let mut by_age: Vec<&FabricClaim> = claims.iter().collect();
    by_age.sort_by(|a, b| (a.created, &a.network).cmp(&(b.created, &b.network)));
    let mut holders: Vec<&FabricClaim> = Vec::new();
    let mut clashes = Vec::new();
    for claim in by_age {
        match holders.iter().find_map(|older| clash(claim, older)) {
            Some(problem) => clashes.push((claim.network.clone(), problem)),
            None => holders.push(claim),
        }
    }
    clashes
}

fn clash(younger: &FabricClaim, older: &FabricClaim) -> Option<Problem> {
    let network = &older.network;
    younger.instances.iter().find_map(|own| {
        older.instances.iter().find_map(|other| {
            if own.vni == other.vni {
                let message = format!("VNI {} belongs to network {network}: choose another one", own.vni);
                return Some(Problem::new(Reason::VniConflict, message));
            }
            let target = own.route_target.as_deref()?;
            meet(target, other.route_target.as_deref()?).then(|| {
                let message =
                    format!("route target {target} belongs to network {network}: choose another one");
                Problem::new(Reason::RouteTargetConflict, message)
            })
        })
    })
}

/// The number of a route target after the colon: targets with different ones never meet.
pub fn target_number(target: &str) -> &str {
    target.rsplit_once(':').map_or(target, |(_, number)| number)
}

/// Whether one takes routes that are marked with the other.
fn meet(one: &str, other: &str) -> bool {
    let is_any = |target: &str| target.starts_with("*:");
    one == other || ((is_any(one) || is_any(other)) && target_number(one) == target_number(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, created: i64, instances: &[(u32, Option<&str>)]) -> FabricClaim {
        let instance = |(vni, target): &(u32, Option<&str>)| EvpnInstance {
            vni: *vni,
            route_target: target.map(str::to_owned),
        };
        FabricClaim {
            network: name.parse().unwrap(),
            created,
            instances: instances.iter().map(instance).collect(),
        }
    }

    #[test]
    fn the_older_network_has_its_place() {
        let claims = [
            claim("ns_c", 3, &[(100, None)]),
            claim("ns_a", 1, &[(100, Some("65000:1")), (101, None)]),
            claim("ns_b", 2, &[(200, Some("*:1"))]),
            claim("ns_d", 4, &[(400, Some("65001:1"))]),
            claim("ns_e", 5, &[(500, Some("*:1"))]),
            claim("ns_f", 6, &[(102, None), (101, None)]),
        ];
        let found = fabric_clashes(&claims);
        let said: Vec<String> = found
            .iter()
            .map(|(name, problem)| format!("{name}: {}: {problem}", problem.reason.as_str()))
            .collect();
        assert_eq!(
            said,
            [
                "ns_b: RouteTargetConflict: route target *:1 belongs to network ns_a: choose another one",
                "ns_c: VNIConflict: VNI 100 belongs to network ns_a: choose another one",
                "ns_e: RouteTargetConflict: route target *:1 belongs to network ns_a: choose another one",
                "ns_f: VNIConflict: VNI 101 belongs to network ns_a: choose another one",
            ]
        );
    }
}
