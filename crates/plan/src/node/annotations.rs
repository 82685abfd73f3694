//! What this node says of itself on its own Node object. Others build their side of tunnels and links from it.

use std::collections::BTreeMap;

use causeway_api::annotations::{
    Annotation, ChassisId, EncapIps, Layer2TopologyVersion, ManagementMacs, MasqueradeSubnets, PerFamily,
};
use causeway_record::{Node, Texts};
use causeway_types::around::SwitchFacts;
use causeway_types::{Cidr, Family, Mac, NetworkName};
use serde_json::{Value, json};

use super::underlay::Underlay;

/// The annotations that follow.
pub fn wanted(switch: &SwitchFacts, masquerade: &[Cidr], management: Option<Mac>) -> Texts {
    let mut texts = BTreeMap::new();
    let chassis = switch.chassis.as_deref().and_then(|name| ChassisId::parse(name).ok());
    if let Some(chassis) = chassis {
        write(&mut texts, &chassis);
        write(&mut texts, &EncapIps(switch.encap_ips.clone()));
    }
    write(&mut texts, &Layer2TopologyVersion::TRANSIT_ROUTER);
    let of = |family: Family| masquerade.iter().copied().find(|cidr| cidr.family() == family);
    write(&mut texts, &MasqueradeSubnets(PerFamily { ipv4: of(Family::Ipv4), ipv6: of(Family::Ipv6) }));
    if let Some(mac) = management {
        write(&mut texts, &ManagementMacs(BTreeMap::from([(NetworkName::default_network(), mac)])));
    }
    texts
}

/// What the node's own network is.
pub fn add_underlay(texts: &mut Texts, underlay: &Underlay) {
    if let Some(mtu) = &underlay.mtu {
        write(texts, mtu);
    }
    if let Some(primary) = &underlay.primary {
        write(texts, primary);
    }
    if !underlay.all.0.is_empty() {
        write(texts, &underlay.all);
    }
}

fn write<A: Annotation>(texts: &mut Texts, value: &A) {
    texts.insert(A::KEY.to_owned(), value.text());
}

/// A patch that brings them onto the Node; none if they are there.
pub fn patch(node: &Node, wanted: &Texts) -> Option<Value> {
    let missing: Texts = wanted
        .iter()
        .filter(|(key, text)| node.published.get(*key) != Some(text))
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect();
    (!missing.is_empty()).then(|| json!({"metadata": {"uid": node.uid, "annotations": missing}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(annotations: Texts) -> Node {
        let mut node = Node { uid: "u".into(), ..Node::new("n1".parse().unwrap()) };
        annotations.iter().for_each(|(key, text)| node.annotate(key, Some(text)));
        node
    }

    #[test]
    fn what_is_there_is_not_written_again() {
        let switch = SwitchFacts {
            chassis: Some("c-1".into()),
            encap_ips: vec!["172.18.0.2".parse().unwrap()],
            ..SwitchFacts::default()
        };
        let masquerade = ["169.254.0.0/17".parse().unwrap()];
        let wanted = wanted(&switch, &masquerade, Some("0a:58:0a:f4:00:02".parse().unwrap()));
        let patch_of_new = patch(&node(BTreeMap::new()), &wanted).unwrap();
        assert_eq!(
            patch_of_new,
            json!({"metadata": {"uid": "u", "annotations": {
                "k8s.ovn.org/layer2-topology-version": "2.0",
                "k8s.ovn.org/node-chassis-id": "c-1",
                "k8s.ovn.org/node-encap-ips": r#"["172.18.0.2"]"#,
                "k8s.ovn.org/node-masquerade-subnet": r#"{"ipv4":"169.254.0.0/17"}"#,
                "k8s.ovn.org/node-mgmt-port-mac-addresses": r#"{"default":"0a:58:0a:f4:00:02"}"#,
            }}})
        );
        assert_eq!(patch(&node(wanted.clone()), &wanted), None);
    }

    #[test]
    fn a_switch_without_a_name_has_no_chassis() {
        let texts = wanted(&SwitchFacts::default(), &[], None);
        assert_eq!(
            texts.keys().collect::<Vec<_>>(),
            ["k8s.ovn.org/layer2-topology-version", "k8s.ovn.org/node-masquerade-subnet"]
        );
    }
}
