//! From what is known of a pod to the interfaces that it shall have, or to what is missing for that.

use super::attachment::{Owner, PRIMARY_INTERFACE, Wanted};
use super::pods::{Glimpse, PodFacts};
use causeway_api::annotations::{Attachment, PodNetwork, PodNetworks, PodRole, keys};
use causeway_api::crd::Role;
use causeway_cni::{ErrorCode, ErrorObject};
use causeway_record::ObjectKey;
use causeway_types::{Cidr, NamespaceName, ObjectName};
use std::collections::BTreeMap;

/// Which pod, in which sandbox, with which first interface.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) key: ObjectKey,
    pub(super) name: ObjectName,
    /// The UID that the kubelet tells; empty if it tells none.
    pub(super) uid: String,
    pub(super) sandbox: String,
    pub(super) ifname: String,
}

impl Subject {
    /// Checks what the runtime says.
    pub(super) fn new(call: &causeway_cni::Invocation) -> Result<Subject, ErrorObject> {
        let missing = |e: causeway_types::Error| {
            let msg = format!("CNI_ARGS does not name a pod: {e}");
            ErrorObject::new(ErrorCode::InvalidEnvironment, msg).advise(
                "causeway-cni connects pods of Kubernetes; K8S_POD_NAMESPACE and K8S_POD_NAME must be there",
            )
        };
        let namespace = NamespaceName::new(call.pod.namespace.clone()).map_err(missing)?;
        let name = ObjectName::new(call.pod.name.clone()).map_err(missing)?;
        if call.ifname == PRIMARY_INTERFACE {
            let msg =
                format!("CNI_IFNAME is {PRIMARY_INTERFACE}, which is the interface of primary networks");
            return Err(ErrorObject::new(ErrorCode::InvalidEnvironment, msg));
        }
        Ok(Subject {
            key: ObjectKey { namespace, name: call.pod.name.clone() },
            name,
            uid: call.pod.uid.clone(),
            sandbox: call.container_id.clone(),
            ifname: call.ifname.clone(),
        })
    }
}

/// What a pod waits for. Everything here can still come.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Missing {
    /// The pod is not known on this node.
    Pod,
    /// Another pod of the same name is known: the old one, or already the next.
    OtherPod(String),
    /// The cluster manager has not given addresses.
    Addresses,
    /// The annotation is unreadable.
    Annotation(String),
    /// The namespace's pods need a primary network, and there is none.
    PrimaryNetwork,
    /// There is one, and the pod has no addresses on it.
    PrimaryAddresses,
    /// An attachment's network is not known on this node.
    Network(Attachment),
}

impl Missing {
    /// Whether only somebody's action helps, so that they should hear of it soon.
    pub(super) fn needs_somebody(&self) -> bool {
        matches!(self, Missing::PrimaryNetwork)
    }

    /// The words for the pod's events.
    pub(super) fn error(&self, subject: &Subject) -> ErrorObject {
        let (pod, namespace) = (&subject.key, &subject.key.namespace);
        let annotation = keys::POD_NETWORKS;
        let (msg, advice) = match self {
            Missing::Pod => (
                format!("pod {pod} is not known on this node"),
                "the API server may be out of reach for causeway node: look at its log".to_owned(),
            ),
            Missing::OtherPod(uid) => (
                format!("pod {pod} has UID {uid} in the API, not {}", subject.uid),
                "the pod was replaced; nothing to do, the kubelet starts the new one".to_owned(),
            ),
            Missing::Addresses => (
                format!("pod {pod} has no addresses: the annotation {annotation} is not there"),
                "look at the pod's events for ErrorAllocatingPod (no address left, a bad request), and whether the \
                 cluster manager runs"
                    .to_owned(),
            ),
            Missing::Annotation(problem) => (
                format!("pod {pod}: {problem}"),
                format!("only the cluster manager writes {annotation}: find out who else did, then delete the pod"),
            ),
            Missing::PrimaryNetwork => (
                format!("namespace {namespace} is labelled {} but has no primary network", keys::PRIMARY_NETWORK_LABEL),
                format!(
                    "create a UserDefinedNetwork with role Primary in {namespace}, or a ClusterUserDefinedNetwork that \
                     selects it; then the pod starts by itself"
                ),
            ),
            Missing::PrimaryAddresses => (
                format!("pod {pod} has no addresses on the primary network of namespace {namespace}"),
                "look at the pod's events for ErrorAllocatingPod (no address left, a bad request), at the network's \
                 conditions, and whether the cluster manager runs"
                    .to_owned(),
            ),
            Missing::Network(Attachment::Default) => (
                "the default network is not known on this node".to_owned(),
                "the node waits for its subnet: look at the log of causeway node and whether the cluster manager runs"
                    .to_owned(),
            ),
            Missing::Network(Attachment::Nad(nad)) => (
                format!("the network of {nad} is not known on this node"),
                format!("look at the NetworkAttachmentDefinition {nad} and at its network's conditions"),
            ),
        };
        ErrorObject::new(ErrorCode::NotConnected, msg).advise(advice)
    }
}

/// What can be said of a pod now.
#[derive(Debug)]
pub(super) enum Verdict {
    /// These interfaces.
    Connect(Vec<Wanted>),
    /// Not yet.
    Wait(Missing),
    /// Never like this.
    Refuse(ErrorObject),
}

/// Decides on one moment of what is known.
pub(super) fn decide(subject: &Subject, glimpse: &Glimpse) -> Verdict {
    match interfaces(subject, glimpse) {
        Ok(interfaces) => match misfit(subject, glimpse).or_else(|| overlap(subject, glimpse)) {
            Some(error) => Verdict::Refuse(error),
            None => Verdict::Connect(interfaces),
        },
        Err(missing) => Verdict::Wait(missing),
    }
}

fn interfaces(subject: &Subject, glimpse: &Glimpse) -> Result<Vec<Wanted>, Missing> {
    let pod = glimpse.pod.as_deref().ok_or(Missing::Pod)?;
    if !pod.is(&subject.uid) {
        return Err(Missing::OtherPod(pod.uid.clone()));
    }
    let networks = networks(pod)?;
    let default = networks.0.get(&Attachment::Default).ok_or(Missing::Addresses)?;
    let locked = default.role == Some(PodRole::InfrastructureLocked);
    let primary = primary(networks);
    if primary.is_none() && (locked || glimpse.needs_primary) {
        return Err(if glimpse.has_primary { Missing::PrimaryAddresses } else { Missing::PrimaryNetwork });
    }
    let owner = Owner { key: &subject.key, name: &subject.name, uid: &pod.uid, sandbox: &subject.sandbox };
    let first = ((subject.ifname.as_str(), 0), (&Attachment::Default, default));
    let second = primary.map(|network| ((PRIMARY_INTERFACE, 1), network));
    std::iter::once(first)
        .chain(second)
        .map(|(interface, network)| {
            let facts = glimpse.networks.get(network.0).ok_or_else(|| Missing::Network(network.0.clone()))?;
            Ok(Wanted::new(&owner, interface, network, facts))
        })
        .collect()
}

fn networks(pod: &PodFacts) -> Result<&PodNetworks, Missing> {
    match &pod.networks {
        Ok(Some(networks)) => Ok(networks),
        Ok(None) => Err(Missing::Addresses),
        Err(problem) => Err(Missing::Annotation(problem.clone())),
    }
}

fn primary(networks: &PodNetworks) -> Option<(&Attachment, &PodNetwork)> {
    networks.0.iter().find(|(attachment, network)| {
        **attachment != Attachment::Default && network.role == Some(PodRole::Primary)
    })
}

/// The cluster manager gives a pod only primary networks of its own namespace. Whoever wrote something else wants into
/// a network that is not theirs.
fn misfit(subject: &Subject, glimpse: &Glimpse) -> Option<ErrorObject> {
    let networks = glimpse.pod.as_deref().and_then(|pod| pod.networks.as_ref().ok()?.as_ref())?;
    let (attachment, _) = primary(networks)?;
    let Attachment::Nad(nad) = attachment else { return None };
    let problem = if nad.namespace() != subject.key.namespace.as_str() {
        "is in another namespace"
    } else if glimpse.networks.get(attachment).is_some_and(|facts| facts.role != Role::Primary) {
        "is not a primary network"
    } else {
        return None;
    };
    let msg = format!("pod {} names {nad} as its primary network, which {problem}", subject.key);
    let advice = format!("only the cluster manager writes {}: find out who else did", keys::POD_NETWORKS);
    Some(ErrorObject::new(ErrorCode::NotConnected, msg).advise(advice))
}

/// Two networks of one pod whose subnets overlap: packets for one would leave by the other.
fn overlap(subject: &Subject, glimpse: &Glimpse) -> Option<ErrorObject> {
    let networks = glimpse.pod.as_deref().and_then(|pod| pod.networks.as_ref().ok()?.as_ref())?;
    let of = |(attachment, network): (&Attachment, &PodNetwork)| {
        let facts = glimpse.networks.get(attachment);
        let known = facts.map(|facts| facts.subnets.clone()).unwrap_or_default();
        let own = network.ip_addresses.iter().map(|address| Cidr::masked(*address));
        let name = facts.map_or_else(|| attachment.to_string(), |facts| facts.name.to_string());
        (attachment.clone(), (name, known.into_iter().chain(own).collect::<Vec<_>>()))
    };
    let subnets: BTreeMap<Attachment, (String, Vec<Cidr>)> = networks.0.iter().map(of).collect();
    let all: Vec<&(String, Vec<Cidr>)> = subnets.values().collect();
    for (at, (one, ones)) in all.iter().enumerate() {
        for (other, others) in &all[at + 1..] {
            // Two attachments to one network share its subnets, and that is meant.
            let clash = ones.iter().find_map(|a| others.iter().find(|b| a.overlaps(b)).map(|b| (a, b)));
            if let Some((a, b)) = clash.filter(|_| one != other) {
                let msg = format!(
                    "pod {} cannot be on networks {one} and {other}: their subnets {a} and {b} overlap",
                    subject.key
                );
                let advice = "give one of the networks other subnets, or take the pod off one of them";
                return Some(ErrorObject::new(ErrorCode::NotConnected, msg).advise(advice));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::pods::{NetworkFacts, Pods};
    use super::*;
    use causeway_api::crd::Topology;
    use causeway_record::Pod;
    use causeway_types::{NetworkName, NodeName};
    use std::slice::from_ref;

    const DEFAULT: &str = r#""default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05"}"#;

    fn entry(nad: &str, address: &str, role: &str) -> String {
        format!(
            r#""{nad}":{{"ip_addresses":["{address}"],"mac_address":"0a:58:00:00:00:05","role":"{role}"}}"#
        )
    }

    fn pod(entries: &[String]) -> Pod {
        let text = format!("{{{}}}", [&[DEFAULT.to_owned()], entries].concat().join(","));
        let key = ObjectKey { namespace: NamespaceName::new("ns1").unwrap(), name: "web".into() };
        let mut pod = Pod { node: Some(NodeName::new("n1").unwrap()), ..Pod::new(key, "u") };
        pod.annotate(keys::POD_NETWORKS, Some(&text));
        pod
    }

    fn view() -> Pods {
        let pods = Pods::new(NodeName::new("n1").unwrap());
        let networks = [
            ("default", "default", "10.244.0.0/16", Role::Primary),
            ("ns1/blue", "ns1_blue", "10.20.0.0/16", Role::Primary),
            ("ns1/more", "ns1_more", "10.30.0.0/16", Role::Secondary),
            ("ns1/wide", "ns1_wide", "10.0.0.0/8", Role::Secondary),
            ("ns2/red", "ns2_red", "10.40.0.0/16", Role::Primary),
        ];
        for (key, name, subnet, role) in networks {
            let attachment = Attachment::try_from(key.to_owned()).unwrap();
            let (name, subnets) = (NetworkName::new(name).unwrap(), vec![subnet.parse().unwrap()]);
            pods.apply_network(
                &attachment,
                NetworkFacts { name, mtu: 1400, topology: Topology::Layer3, role, subnets },
            );
        }
        pods
    }

    fn decided(pods: &Pods, pod: &Pod) -> Result<Vec<String>, String> {
        pods.apply_pod(pod);
        let subject = Subject {
            key: pod.key.clone(),
            name: ObjectName::new("web").unwrap(),
            uid: pod.uid.clone(),
            sandbox: "abcdef0123456789".into(),
            ifname: "eth0".into(),
        };
        match decide(&subject, &pods.glimpse(&pod.key)) {
            Verdict::Connect(interfaces) => {
                Ok(interfaces.into_iter().map(|wanted| wanted.link.name).collect())
            }
            Verdict::Wait(missing) => Err(format!("{missing:?}")),
            Verdict::Refuse(error) => Err(error.msg),
        }
    }

    #[test]
    fn interfaces_follow_from_the_annotation() {
        let blue = entry("ns1/blue", "10.20.1.5/24", "primary");
        let more = entry("ns1/more", "10.30.1.5/24", "secondary");
        let table = [
            (vec![], vec!["eth0"]),
            (vec![blue.clone()], vec!["eth0", "ovn-udn1"]),
            (vec![more.clone()], vec!["eth0"]),
            (vec![blue, more], vec!["eth0", "ovn-udn1"]),
        ];
        for (entries, links) in table {
            assert_eq!(decided(&view(), &pod(&entries)), Ok(links.into_iter().map(str::to_owned).collect()));
        }
    }

    #[test]
    fn nobody_gets_into_a_network_by_the_annotation_alone() {
        let table = [
            ("ns2/red", "pod ns1/web names ns2/red as its primary network, which is in another namespace"),
            ("ns1/more", "pod ns1/web names ns1/more as its primary network, which is not a primary network"),
        ];
        for (nad, words) in table {
            let pod = pod(from_ref(&entry(nad, "10.99.1.5/24", "primary")));
            assert_eq!(decided(&view(), &pod), Err(words.to_owned()));
        }
    }

    #[test]
    fn overlaps_count_between_any_two_networks_of_a_pod() {
        let entries =
            [entry("ns1/blue", "10.20.1.5/24", "primary"), entry("ns1/wide", "10.99.1.5/24", "secondary")];
        let words = "pod ns1/web cannot be on networks default and ns1_wide: their subnets 10.244.0.0/16 and \
                     10.0.0.0/8 overlap";
        assert_eq!(decided(&view(), &pod(&entries)), Err(words.to_owned()));
    }

    #[test]
    fn what_is_missing_is_named() {
        let pods = view();
        let unknown = pod(from_ref(&entry("ns1/new", "10.50.1.5/24", "primary")));
        assert_eq!(decided(&pods, &unknown), Err("Network(Nad(\"ns1/new\"))".to_owned()));
        pods.apply_namespace(&NamespaceName::new("ns1").unwrap(), true);
        assert_eq!(decided(&pods, &pod(&[])), Err("PrimaryAddresses".to_owned()));
        pods.delete_network(&Attachment::try_from("ns1/blue".to_owned()).unwrap());
        assert_eq!(decided(&pods, &pod(&[])), Err("PrimaryNetwork".to_owned()));
        let mut elsewhere = pod(&[]);
        elsewhere.node = Some(NodeName::new("n2").unwrap());
        assert_eq!(decided(&pods, &elsewhere), Err("Pod".to_owned()));
    }
}
