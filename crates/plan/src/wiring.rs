//! What a pod of this node is to be connected with: the one answer that the CNI server waits for.
//!
//! Owns the rules of who gets into which network here. Everything it looks at is in the zone's index; what it says is a
//! value, and whoever lays cables has no rules of its own.

use std::fmt;

use causeway_api::annotations::{Attachment, PodNetwork, PodNetworks, PodRole, keys};
use causeway_api::crd::Role;
use causeway_record::ObjectKey;
use causeway_types::{Cidr, NetworkName};
use causeway_zone::{Change, Local, Zone};

/// What can be said of a pod now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wiring {
    /// The pod as the API has it.
    pub pod: Local,
    /// What it is to be connected with.
    pub verdict: Verdict,
}

/// What a pod is to be connected with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// These networks, the default one first.
    Connect(Vec<Attached>),
    /// Not yet.
    Wait(Missing),
    /// Never like this.
    Refuse(Refusal),
}

/// One network that a pod is to be connected with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attached {
    /// The attachment, as the pod's annotation names it.
    pub attachment: Attachment,
    /// The network behind it.
    pub network: NetworkName,
    /// The MTU of its interfaces.
    pub mtu: u32,
    /// The pod's addresses and routes on it.
    pub address: PodNetwork,
}

/// What a pod waits for. Everything here can still come.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Missing {
    /// The cluster manager has not given addresses.
    Addresses,
    /// The annotation is unreadable.
    Annotation(String),
    /// The namespace's pods need a primary network, and there is none.
    PrimaryNetwork,
    /// There is one, and the pod has no addresses on it.
    PrimaryAddresses,
    /// An attachment's network is not there on this node, with the reason if one is known.
    Network(Attachment, Option<String>),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses => f.write_str("it has no addresses"),
            Self::Annotation(problem) => f.write_str(problem),
            Self::PrimaryNetwork => f.write_str("its namespace has no primary network"),
            Self::PrimaryAddresses => f.write_str("it has no addresses on its namespace's primary network"),
            Self::Network(attachment, None) => write!(f, "the network of {attachment} is not known"),
            Self::Network(attachment, Some(why)) => {
                write!(f, "the network of {attachment} is not known: {why}")
            }
        }
    }
}

/// Why a pod is not connected like this.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// What can be said of a pod of this node; nothing if it is not one.
pub fn wiring(zone: &Zone, key: &ObjectKey) -> Option<Wiring> {
    let pod = zone.local(key)?;
    Some(Wiring { pod: pod.clone(), verdict: verdict(zone, key, pod) })
}

/// The pods whose wiring may differ after a change.
pub fn follows(zone: &Zone, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::Everything => zone.locals().cloned().collect(),
        Change::Local(pod) => vec![pod.clone()],
        Change::Pod { pod, .. } => zone.local(pod).map(|_| pod.clone()).into_iter().collect(),
        Change::Network(name) => {
            zone.pods_of(name).into_iter().filter(|pod| zone.local(pod).is_some()).collect()
        }
        Change::Namespace(namespace) | Change::Sibling { namespace, .. } => {
            zone.locals().filter(|pod| pod.namespace == *namespace).cloned().collect()
        }
        _ => Vec::new(),
    }
}

fn verdict(zone: &Zone, key: &ObjectKey, pod: &Local) -> Verdict {
    let networks = match &pod.networks {
        Ok(Some(networks)) => networks,
        Ok(None) => return Verdict::Wait(Missing::Addresses),
        Err(problem) => return Verdict::Wait(Missing::Annotation(problem.clone())),
    };
    if let Some(refusal) = misfit(zone, key, networks) {
        return Verdict::Refuse(refusal);
    }
    match attached(zone, key, networks) {
        Ok(attached) => overlap(zone, key, networks).map_or(Verdict::Connect(attached), Verdict::Refuse),
        Err(missing) => Verdict::Wait(missing),
    }
}

fn attached(zone: &Zone, key: &ObjectKey, networks: &PodNetworks) -> Result<Vec<Attached>, Missing> {
    let default = networks.0.get(&Attachment::Default).ok_or(Missing::Addresses)?;
    let locked = default.role == Some(PodRole::InfrastructureLocked);
    let primary = primary(networks);
    if primary.is_none() && (locked || zone.demands_primary(&key.namespace)) {
        let has_primary = !zone.primaries(&key.namespace).is_empty();
        return Err(if has_primary { Missing::PrimaryAddresses } else { Missing::PrimaryNetwork });
    }
    let first = (&Attachment::Default, default);
    std::iter::once(first)
        .chain(primary)
        .map(|(attachment, address)| attach(zone, attachment, address))
        .collect()
}

/// One that is neither primary nor the default network is not connected here.
fn attach(zone: &Zone, attachment: &Attachment, address: &PodNetwork) -> Result<Attached, Missing> {
    let missing = |why| Missing::Network(attachment.clone(), why);
    let network = name_of(zone, attachment).ok_or_else(|| missing(None))?;
    let active = zone.active(&network).ok_or_else(|| missing(why_not(zone, &network)))?;
    let (mtu, address) = (active.mtu, address.clone());
    Ok(Attached { attachment: attachment.clone(), network, mtu, address })
}

fn why_not(zone: &Zone, network: &NetworkName) -> Option<String> {
    let subject = causeway_zone::Subject::Network(network.clone());
    zone.problems().get(&subject).map(|problem| problem.message.clone())
}

fn name_of(zone: &Zone, attachment: &Attachment) -> Option<NetworkName> {
    match attachment {
        Attachment::Default => Some(NetworkName::default_network()),
        Attachment::Nad(nad) => zone.definition(nad).map(|network| network.name.clone()),
    }
}

fn primary(networks: &PodNetworks) -> Option<(&Attachment, &PodNetwork)> {
    networks.0.iter().find(|(attachment, network)| {
        **attachment != Attachment::Default && network.role == Some(PodRole::Primary)
    })
}

/// The cluster manager gives a pod only primary networks of its own namespace. Whoever wrote something else wants into
/// a network that is not theirs.
fn misfit(zone: &Zone, key: &ObjectKey, networks: &PodNetworks) -> Option<Refusal> {
    let (Attachment::Nad(nad), _) = primary(networks)? else { return None };
    let problem = if nad.namespace() != key.namespace.as_str() {
        "is in another namespace"
    } else if zone.definition(nad).is_some_and(|network| network.role != Role::Primary) {
        "is not a primary network"
    } else {
        return None;
    };
    Some(Refusal {
        message: format!("pod {key} names {nad} as its primary network, which {problem}"),
        advice: format!("only the cluster manager writes {}: find out who else did", keys::POD_NETWORKS),
    })
}

/// Two networks of one pod whose subnets overlap: packets for one would leave by the other.
fn overlap(zone: &Zone, key: &ObjectKey, networks: &PodNetworks) -> Option<Refusal> {
    let mut all: Vec<(String, Vec<Cidr>)> = Vec::new();
    let default = networks.0.get_key_value(&Attachment::Default);
    let others = networks.0.iter().filter(|(attachment, _)| **attachment != Attachment::Default);
    for (attachment, network) in default.into_iter().chain(others) {
        let (name, mut subnets) = subnets_of(zone, attachment);
        subnets.extend(network.ip_addresses.iter().map(|address| Cidr::masked(*address)));
        // Two attachments to one network share its subnets, and that is meant.
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.extend(subnets),
            None => all.push((name, subnets)),
        }
    }
    let pairs =
        all.iter().enumerate().flat_map(|(at, one)| all.iter().skip(at + 1).map(move |other| (one, other)));
    pairs.into_iter().find_map(|((one, ones), (other, others))| {
        let (a, b) = ones.iter().find_map(|a| others.iter().find(|b| a.overlaps(b)).map(|b| (a, b)))?;
        Some(Refusal {
            message: format!(
                "pod {key} cannot be on networks {one} and {other}: their subnets {a} and {b} overlap"
            ),
            advice: "give one of the networks other subnets, or take the pod off one of them".into(),
        })
    })
}

fn subnets_of(zone: &Zone, attachment: &Attachment) -> (String, Vec<Cidr>) {
    match attachment {
        Attachment::Default => {
            (NetworkName::default_network().to_string(), zone.config().cluster.cluster_subnets.clone())
        }
        Attachment::Nad(nad) => match zone.definition(nad) {
            Some(network) => (network.name.to_string(), network.pod_cidrs().collect()),
            None => (attachment.to_string(), Vec::new()),
        },
    }
}
