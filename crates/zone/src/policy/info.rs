//! A policy as a zone keeps it: one form for all kinds, with equal selectors as equal values.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use causeway_api::policy::{self, ClusterPolicy, ClusterRule, Peer, Pods, PolicyId, PolicyKind, PortMatch};
use causeway_api::selector::{LabelMatch, Labels};
use causeway_record::{self as record, Logging, ObjectKey, PolicyPort, Protocol};
use causeway_types::{Cidr, NamespaceName};

use super::sets::mark;

/// Which policy.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PolicyKey {
    /// A NetworkPolicy.
    Network(ObjectKey),
    /// A cluster-scoped policy.
    Cluster(PolicyId),
}

impl PolicyKey {
    /// The short name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Network(_) => "NP",
            Self::Cluster(id) => id.kind.short(),
        }
    }

    /// The namespace of a policy that is about one alone.
    pub fn namespace(&self) -> Option<&NamespaceName> {
        match self {
            Self::Network(key) => Some(&key.namespace),
            Self::Cluster(_) => None,
        }
    }

    /// `metadata.name` of the object.
    pub fn name(&self) -> &str {
        match self {
            Self::Network(key) => &key.name,
            Self::Cluster(id) => &id.name,
        }
    }

    /// The policy of this kind, namespace and name, as they are written by the other functions.
    pub fn of(kind: &str, namespace: Option<NamespaceName>, name: &str) -> Option<Self> {
        match (kind, namespace) {
            ("NP", Some(namespace)) => Some(Self::Network(ObjectKey { namespace, name: name.to_owned() })),
            (short, None) => {
                let kind = PolicyKind::ALL.into_iter().find(|kind| kind.short() == short)?;
                Some(Self::Cluster(PolicyId { kind, name: name.to_owned() }))
            }
            _ => None,
        }
    }
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(key) => write!(f, "NetworkPolicy {key}"),
            Self::Cluster(id) => write!(f, "{id}"),
        }
    }
}

/// Which way connections go, seen from the pods that a policy is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Direction {
    /// To them.
    Ingress,
    /// From them.
    Egress,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Ingress, Self::Egress];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "Ingress",
            Self::Egress => "Egress",
        }
    }
}

/// What a rule does with what it is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Lets it through.
    Allow,
    /// Drops it.
    Deny,
    /// Leaves it to later tiers.
    Pass,
}

/// Where a policy stands among others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// The tier of its ACLs.
    pub tier: i64,
    /// The priority of its first rule.
    pub priority: i64,
    /// Whether each later rule stands below the one before it.
    pub ordered: bool,
}

/// A NetworkPolicy or a cluster-scoped policy, as zones render it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyInfo {
    /// Which it is.
    pub key: PolicyKey,
    /// Where it stands among others.
    pub standing: Standing,
    /// The pods that it is about.
    pub subject: PodSelector,
    /// Rules for connections to them; none if it says nothing of these.
    pub ingress: Option<Vec<RuleInfo>>,
    /// The same for connections from them.
    pub egress: Option<Vec<RuleInfo>>,
    /// Whether its author wants no connections tracked.
    pub stateless: bool,
    /// What is logged of it; for a policy of a namespace the namespace says that.
    pub logging: Logging,
    /// What of it cannot be rendered as it stands.
    pub unreadable: Vec<String>,
}

/// Which connections it is about, and what is done with them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleInfo {
    /// What it does.
    pub action: Action,
    /// With whom; none is with anybody.
    pub peers: Option<Peers>,
    /// On which ports; none is everything, also what has no ports.
    pub ports: Option<BTreeSet<PolicyPort>>,
}

/// The other ends of a rule; nobody if it is empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peers {
    /// Pods and nodes by their labels.
    pub selected: BTreeSet<Who>,
    /// Subnets, the fewest.
    pub blocks: Vec<Cidr>,
}

/// Pods by their labels and those of their namespaces.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PodSelector {
    /// Where to look for pods: in one namespace, or in those with such labels.
    pub namespaces: Scope,
    /// By the pods' own labels.
    pub pods: LabelMatch,
    /// Whether pods that use their node's own network count, by the node's addresses.
    pub hosts: bool,
}

/// Namespaces that a selector looks at.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Scope {
    One(NamespaceName),
    /// Those with such labels.
    Matching(LabelMatch),
}

/// Whose addresses are in a set.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Who {
    /// Those of pods, by their labels and their namespaces'.
    Pods(PodSelector),
    /// Nodes', by their labels.
    Nodes(LabelMatch),
}

/// A set of addresses that rules name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SetSpec {
    /// Whose.
    pub who: Who,
    /// Only of those that have a port of this name; their addresses are apart by the number it has.
    pub port: Option<(Protocol, String)>,
}

impl PodSelector {
    /// All pods there are.
    pub fn everybody() -> Self {
        Self {
            namespaces: Scope::Matching(LabelMatch::everything()),
            pods: LabelMatch::everything(),
            hosts: true,
        }
    }

    /// Whether it selects a pod, by its labels and those of its namespace, as far as they are known.
    pub(super) fn selects(
        &self,
        namespace: &NamespaceName,
        of_namespace: Option<&Labels>,
        labels: &Labels,
    ) -> bool {
        let here = match &self.namespaces {
            Scope::One(name) => name == namespace,
            Scope::Matching(selector) => of_namespace.is_some_and(|labels| selector.selects(labels)),
        };
        here && self.pods.selects(labels)
    }
}

impl fmt::Display for PodSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespaces {
            Scope::One(name) => write!(f, "{name}")?,
            Scope::Matching(selector) => write!(f, "{selector}")?,
        }
        write!(f, " {}{}", self.pods, if self.hosts { " and hosts" } else { "" })
    }
}

impl fmt::Display for SetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Who::Pods(selector) => write!(f, "pods {selector}")?,
            Who::Nodes(selector) => write!(f, "nodes {selector}")?,
        }
        self.port.iter().try_for_each(|(protocol, name)| write!(f, " with {protocol} {name:?}"))
    }
}

impl PolicyInfo {
    /// The rules of a direction, if the policy says anything about it.
    pub fn rules(&self, direction: Direction) -> Option<&[RuleInfo]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    /// Whether pods that it is about are closed in a direction to what nobody allows.
    pub fn isolates(&self, direction: Direction) -> bool {
        matches!(self.key, PolicyKey::Network(_)) && self.rules(direction).is_some()
    }

    /// Stands for whom it is about.
    pub fn subject_mark(&self) -> Arc<str> {
        mark(&self.subject.to_string())
    }

    /// Names of ports that its rules look for at the pods that it is about.
    pub fn names_at_subjects(&self) -> BTreeSet<(Protocol, &str)> {
        let rules = self.ingress.iter().flatten();
        rules.flat_map(RuleInfo::named).collect()
    }

    /// The sets that its rules name.
    pub fn sets(&self) -> BTreeSet<SetSpec> {
        let rules = Direction::BOTH
            .into_iter()
            .flat_map(|way| self.rules(way).into_iter().flatten().map(move |rule| (way, rule)));
        rules.flat_map(|(way, rule)| rule.sets(way)).collect()
    }

    /// A NetworkPolicy.
    pub(super) fn of(policy: &record::NetworkPolicy) -> Self {
        let namespace = &policy.key.namespace;
        let read = |rules: &Option<Vec<record::PolicyRule>>| -> Option<Vec<RuleInfo>> {
            Some(rules.as_ref()?.iter().map(|rule| rule_of(namespace, rule)).collect())
        };
        let (ingress, egress) = (read(&policy.ingress), read(&policy.egress));
        let namespaces = Scope::One(namespace.clone());
        Self {
            key: PolicyKey::Network(policy.key.clone()),
            standing: Standing { tier: 2, priority: 1001, ordered: false },
            subject: PodSelector { namespaces, pods: policy.pods.clone(), hosts: false },
            ingress,
            egress,
            stateless: policy.stateless,
            logging: Logging::default(),
            unreadable: policy.unreadable.clone(),
        }
    }
}

impl PolicyInfo {
    /// A cluster-scoped policy.
    pub(super) fn of_cluster(policy: &ClusterPolicy, logging: Logging) -> Self {
        let rules = |rules: &[ClusterRule]| Some(rules.iter().map(cluster_rule).collect());
        let Pods { namespaces, pods } = policy.subject.clone();
        Self {
            key: PolicyKey::Cluster(policy.id.clone()),
            standing: Standing {
                tier: policy.order.tier.acl_tier().into(),
                priority: policy.order.base.into(),
                ordered: true,
            },
            subject: PodSelector { namespaces: Scope::Matching(namespaces), pods, hosts: false },
            ingress: rules(&policy.ingress),
            egress: rules(&policy.egress),
            stateless: false,
            logging,
            unreadable: policy.remarks.iter().map(ToString::to_string).collect(),
        }
    }
}

fn cluster_rule(rule: &ClusterRule) -> RuleInfo {
    let action = match rule.action {
        policy::Action::Accept => Action::Allow,
        policy::Action::Deny => Action::Deny,
        policy::Action::Pass => Action::Pass,
    };
    let ports = rule.ports.as_ref().map(|ports| ports.iter().flat_map(cluster_ports).collect());
    RuleInfo { action, peers: cluster_peers(&rule.peers), ports }
}

fn cluster_peers(peers: &[Peer]) -> Option<Peers> {
    let mut all = Peers::default();
    let mut blocks = Vec::new();
    for peer in peers {
        match peer {
            Peer::Anyone => return None,
            Peer::Pods(Pods { namespaces, pods }) => {
                let (namespaces, pods) = (Scope::Matching(namespaces.clone()), pods.clone());
                all.selected.insert(Who::Pods(PodSelector { namespaces, pods, hosts: false }));
            }
            Peer::Nodes(labels) => drop(all.selected.insert(Who::Nodes(labels.clone()))),
            Peer::Networks(networks) => blocks.extend(networks.iter().copied().map(Cidr::masked)),
        }
    }
    all.blocks = Cidr::merged(blocks);
    Some(all)
}

/// A name stands for whatever protocol the destination gives it.
fn cluster_ports(port: &PortMatch) -> Vec<PolicyPort> {
    match port {
        PortMatch::Port { protocol, first, last } => vec![PolicyPort::Numbers(*protocol, *first, *last)],
        PortMatch::Named(name) => [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
            .into_iter()
            .map(|protocol| PolicyPort::Named(protocol, name.clone()))
            .collect(),
    }
}

impl RuleInfo {
    /// The names of ports that it looks for.
    pub fn named(&self) -> impl Iterator<Item = (Protocol, &str)> {
        self.ports.iter().flatten().filter_map(|port| match port {
            PolicyPort::Named(protocol, name) => Some((*protocol, name.as_str())),
            PolicyPort::Numbers(..) => None,
        })
    }

    /// Whether it lets something through by number, or everything.
    pub fn has_numbers(&self) -> bool {
        self.ports
            .as_ref()
            .is_none_or(|ports| ports.iter().any(|port| matches!(port, PolicyPort::Numbers(..))))
    }

    /// The sets that it names. Names of ports are looked for at the destination.
    fn sets(&self, direction: Direction) -> BTreeSet<SetSpec> {
        let selected = || self.peers.iter().flat_map(|peers| peers.selected.iter().cloned());
        let mut sets = BTreeSet::new();
        if direction == Direction::Ingress || self.has_numbers() {
            sets.extend(selected().map(|who| SetSpec { who, port: None }));
        }
        if direction == Direction::Egress {
            for (protocol, name) in self.named() {
                let port = Some((protocol, name.to_owned()));
                sets.extend(self.bearers().map(|who| SetSpec { who, port: port.clone() }));
            }
        }
        sets
    }

    /// Those at the other end who may have a port of a name: whoever is selected, and anybody where subnets or nobody
    /// are given.
    pub fn bearers(&self) -> impl Iterator<Item = Who> {
        let selected = self.peers.iter().flat_map(|peers| peers.selected.iter().cloned());
        let wide = self.peers.as_ref().is_none_or(|peers| !peers.blocks.is_empty());
        selected.chain(wide.then(|| Who::Pods(PodSelector::everybody())))
    }
}

fn rule_of(namespace: &NamespaceName, rule: &record::PolicyRule) -> RuleInfo {
    let peers = rule.peers.as_ref().map(|peers| peers_of(namespace, peers));
    let ports = rule.ports.as_ref().map(|ports| ports.iter().cloned().collect());
    RuleInfo { action: Action::Allow, peers, ports }
}

fn peers_of(namespace: &NamespaceName, peers: &[record::PolicyPeer]) -> Peers {
    let mut all = Peers::default();
    let mut blocks = Vec::new();
    for peer in peers {
        match peer {
            record::PolicyPeer::Pods { namespaces, pods } => {
                let of = |labels: &LabelMatch| Scope::Matching(labels.clone());
                let namespaces = namespaces.as_ref().map_or_else(|| Scope::One(namespace.clone()), of);
                // Whoever names namespaces alone has never meant what runs in nodes' own networks there.
                let hosts = pods.is_some();
                let pods = pods.clone().unwrap_or_default();
                all.selected.insert(Who::Pods(PodSelector { namespaces, pods, hosts }));
            }
            record::PolicyPeer::Block { cidr, except } => {
                blocks.extend(cidr.without(except, record::MOST_SUBNETS).into_iter().flatten());
            }
        }
    }
    all.blocks = Cidr::merged(blocks);
    all
}
