//! Networks that cannot live side by side: OVN objects, ports or VRFs of one would be called like those of another, or they would have one
//! place on the fabric.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::crd::Topology;
use causeway_api::intent::{
    EvpnInstance, FabricClaim, Named, Network, Problem, VrfClaim, fabric_clashes, name_clashes,
    target_number, vrf_clashes,
};
use causeway_types::{NetworkId, NetworkName, NodeName, OvnPrefix, VrfName};

/// The names that networks claim, and which networks are refused because of others.
#[derive(Debug, Default)]
pub(super) struct Clashes {
    claims: BTreeMap<NetworkName, Claim>,
    prefixes: BTreeMap<String, usize>,
    vrfs: BTreeMap<VrfName, usize>,
    /// Places on the fabric: VNIs, and the numbers of route targets.
    places: BTreeMap<String, usize>,
    refused: BTreeMap<NetworkName, Problem>,
    /// Whether everybody must be compared with everybody.
    doubtful: bool,
    /// How many networks have been compared so far: the work that new networks make.
    compared: usize,
}

/// What a network claims.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Claim {
    created: i64,
    node_ports: bool,
    /// A name made from an id is nobody else's, so only names that somebody chose are claimed.
    vrf: Option<VrfName>,
    /// Its instances on the fabric.
    instances: Vec<EvpnInstance>,
}

impl Claim {
    fn of(created: i64, network: &Network) -> Self {
        let vrf = || {
            let vrf = network.vrf_name(NetworkId::FIRST).ok().filter(|_| network.is_primary())?;
            (network.vrf_name(NetworkId::LAST).ok()? == vrf).then_some(vrf)
        };
        let instances = network.evpn().into_iter().flat_map(|evpn| evpn.instances()).cloned().collect();
        Self { created, node_ports: network.topology == Topology::Layer3, vrf: vrf(), instances }
    }

    /// Each once: what a network shares with itself is no clash.
    fn places(&self) -> BTreeSet<String> {
        let vni = |instance: &EvpnInstance| format!("vni {}", instance.vni);
        let target = |instance: &EvpnInstance| {
            Some(format!("target {}", target_number(instance.route_target.as_deref()?)))
        };
        self.instances.iter().flat_map(|one| [Some(vni(one)), target(one)]).flatten().collect()
    }
}

impl Clashes {
    /// What is in the network's way.
    pub(super) fn of(&self, network: &NetworkName) -> Option<&Problem> {
        self.refused.get(network)
    }

    /// A network is wanted, with the age of its object, or is not wanted any more.
    pub(super) fn set(&mut self, name: &NetworkName, wanted: Option<(i64, &Network)>) {
        self.compared += 1;
        let claim = wanted.map(|(created, network)| Claim::of(created, network));
        if self.claims.get(name) == claim.as_ref() {
            return;
        }
        self.doubtful |= self.refused.contains_key(name) || self.meets_others(name);
        if let Some(before) = self.claims.remove(name) {
            self.count(name, &before, false);
        }
        if let Some(claim) = claim {
            self.count(name, &claim, true);
            self.claims.insert(name.clone(), claim);
            self.doubtful |= self.meets_others(name);
        }
    }

    /// Nodes have come or gone.
    pub(super) fn nodes_changed(&mut self) {
        self.doubtful = true;
    }

    fn count(&mut self, name: &NetworkName, claim: &Claim, add: bool) {
        count(&mut self.prefixes, OvnPrefix::of(name).to_string(), add);
        if let Some(vrf) = &claim.vrf {
            count(&mut self.vrfs, vrf.clone(), add);
        }
        claim.places().into_iter().for_each(|place| count(&mut self.places, place, add));
    }

    /// Whether the network may have a name of another one; then all are compared by the rules.
    fn meets_others(&self, name: &NetworkName) -> bool {
        let Some(claim) = self.claims.get(name) else { return false };
        let several = |count: Option<&usize>| count.is_some_and(|count| *count > 1);
        several(self.prefixes.get(&OvnPrefix::of(name).to_string()))
            || claim.vrf.as_ref().is_some_and(|vrf| several(self.vrfs.get(vrf)))
            || claim.places().iter().any(|place| several(self.places.get(place)))
            || self.begins_like_another(name.as_str())
    }

    /// Whether there is an `a` for this `a-b`, or an `a-b` for this `a`.
    fn begins_like_another(&self, name: &str) -> bool {
        let known = |text: &str| NetworkName::new(text).is_ok_and(|name| self.claims.contains_key(&name));
        let longer = |start: NetworkName| {
            let next = self.claims.range(start.clone()..).next();
            next.is_some_and(|(name, _)| name.as_str().starts_with(start.as_str()))
        };
        NetworkName::new(format!("{name}-")).is_ok_and(longer)
            || name.match_indices('-').any(|(at, _)| known(&name[..at]))
    }

    /// Compares everybody with everybody, if that may find something; the answer is for whom something changed.
    pub(super) fn settle<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeName>) -> BTreeSet<NetworkName> {
        if !std::mem::take(&mut self.doubtful) {
            return BTreeSet::new();
        }
        self.compared += self.claims.len();
        let refused = self.compare(&nodes.cloned().collect());
        let before = std::mem::replace(&mut self.refused, refused);
        let both = before.keys().chain(self.refused.keys());
        both.filter(|name| before.get(*name) != self.refused.get(*name)).cloned().collect()
    }

    fn compare(&self, nodes: &BTreeSet<NodeName>) -> BTreeMap<NetworkName, Problem> {
        let (mut named, mut claims, mut fabric) = (Vec::new(), Vec::new(), Vec::new());
        for (network, claim) in &self.claims {
            let (network, created) = (network.clone(), claim.created);
            let vrf = claim.vrf.clone();
            claims.extend(vrf.map(|vrf| VrfClaim { network: network.clone(), created, vrf }));
            if !claim.instances.is_empty() {
                let (network, instances) = (network.clone(), claim.instances.clone());
                fabric.push(FabricClaim { network, created, instances });
            }
            named.push(Named { network, created, node_ports: claim.node_ports });
        }
        let by_vrf = vrf_clashes(&claims).into_iter().map(|clash| (clash.younger, clash.problem));
        let by_name = name_clashes(&named, nodes).into_iter().map(|clash| (clash.younger, clash.problem));
        fabric_clashes(&fabric).into_iter().chain(by_vrf).chain(by_name).collect()
    }
}

fn count<K: Clone + Ord>(counts: &mut BTreeMap<K, usize>, key: K, add: bool) {
    let count = counts.entry(key.clone()).or_default();
    *count = if add { *count + 1 } else { count.saturating_sub(1) };
    if *count == 0 {
        counts.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::nad::{Attachment, read};

    use super::*;

    /// A primary layer3 network.
    fn network(name: &str) -> Network {
        let config = format!(
            r#"{{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","name":"{name}","topology":"layer3","role":"primary",
                "subnets":"10.20.0.0/16/24"}}"#
        );
        match read("ns/nad", Some(&config)) {
            Attachment::Ours(network) => *network,
            other => panic!("{other:?}"),
        }
    }

    fn want(clashes: &mut Clashes, name: &str, created: i64) -> Vec<String> {
        let network = network(name);
        clashes.set(&network.name, Some((created, &network)));
        settle(clashes)
    }

    fn settle(clashes: &mut Clashes) -> Vec<String> {
        let node: NodeName = "n1".parse().unwrap();
        clashes.settle([&node].into_iter()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whoever_is_in_the_way_is_found_and_forgotten() {
        let mut clashes = Clashes::default();
        assert!(want(&mut clashes, "ns_a.b", 1).is_empty());
        assert_eq!(want(&mut clashes, "ns_a-b", 2), ["ns_a-b"], "both would begin with ns_a.b");
        assert_eq!(want(&mut clashes, "ns_a", 3), [] as [&str; 0], "there is no node b");
        assert_eq!(want(&mut clashes, "ns_a-n1", 4), ["ns_a-n1"], "a port of ns_a on n1 is called like it");
        clashes.set(&"ns_a.b".parse().unwrap(), None);
        assert_eq!(settle(&mut clashes), ["ns_a-b"]);
        assert_eq!(clashes.of(&"ns_a-b".parse().unwrap()), None);
        assert!(clashes.of(&"ns_a-n1".parse().unwrap()).is_some());
    }

    /// A network whose names nobody else can have is not compared with all that are there.
    #[test]
    fn a_new_network_costs_one_look() {
        let mut clashes = Clashes::default();
        (0..2000).for_each(|number| drop(want(&mut clashes, &format!("ns{number}_net"), number)));
        let before = clashes.compared;
        want(&mut clashes, "other_net", 3000);
        assert_eq!(clashes.compared - before, 1);
    }
}
