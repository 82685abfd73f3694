//! Names of port groups and address sets. OVN takes no free text there, so the name is a hash.

use std::hash::Hasher;

/// `a` and the decimal FNV-1a-64 of an object's identity text.
pub fn hashed_name(identity: &str) -> String {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(identity.as_bytes());
    format!("a{}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// udn-ovn-cases A19, A20, J02 and the vectors printed in the layer2 specification.
    #[test]
    fn a19_a20_j02_hashed_names() {
        let table = [
            ("udn-enabled-svc:UDNEnabledService:udn-enabled-svc-cluster-ips:v4", "a3613486944346402462"),
            ("udn-enabled-svc:UDNEnabledService:udn-enabled-svc-cluster-ips:v6", "a3613484745323146040"),
            ("default-network-controller:UDNIsolation:SecondaryPods", "a8747502060113802905"),
            ("cluster_udn_blue-network-controller:Cluster:clusterPortGroup", "a11995131262919241784"),
            ("cluster_udn_blue-network-controller:NetpolNamespace:ns1:Ingress", "a5012631053833599744"),
            ("cluster_udn_blue-network-controller:NetworkPolicy:ns1:allow-web", "a3585760500498221456"),
            (
                "cluster_udn_blue-network-controller:PodSelector:ns1_LS{ML:{app: web,},}:v4",
                "a5633788312442309836",
            ),
        ];
        for (identity, name) in table {
            assert_eq!(hashed_name(identity), name, "{identity}");
        }
    }
}
