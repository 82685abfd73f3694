//! From each kind to the one form.
//!
//! A field that is not known here is lost on the way in, so a peer or a port without any field said something that nobody here
//! can read: the definition in the cluster is newer. A rule with such a part, or with one that cannot be carried out, fails
//! closed as the API says.

use causeway_types::Protocol;
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Action, ClusterPolicy, ClusterRule, LabelMatch, Order, Peer, Pods, PolicyId, PolicyKind, PortMatch,
    Refusal, Remark, Tier,
};
use crate::crd::policy::{
    AdminAction, AdminEgressPeer, AdminEgressRule, AdminIngressRule, AdminNetworkPolicySpec, AdminPort,
    BaselineAction, BaselineAdminNetworkPolicySpec, BaselineEgressPeer, ClusterAction, ClusterEgressPeer,
    ClusterNetworkPolicySpec, ClusterTier, DestinationPort, DestinationPorts, IngressPeer, NamespacedPod,
    PolicySubject, ProtocolMatch,
};

const NO_FIELD: &str =
    "none of its fields is known here: the definition in the cluster is newer than this Causeway";
const TWO_FIELDS: &str = "exactly one field is allowed";
const NO_PEER: &str = "there is no peer";

impl ClusterPolicy {
    /// What a spec means, as it was written.
    ///
    /// # Errors
    /// Why it cannot be carried out at all; [`Refusal::Unreadable`] if nobody here knows what it says.
    pub fn read(kind: PolicyKind, name: &str, spec: &Value) -> Result<Self, Refusal> {
        match kind {
            PolicyKind::Cluster => Self::of_cluster(name, &typed(spec)?),
            PolicyKind::Admin => Self::of_admin(name, &typed(spec)?),
            PolicyKind::Baseline => Self::of_baseline(name, &typed(spec)?),
        }
    }

    /// What a ClusterNetworkPolicy means.
    ///
    /// # Errors
    /// Why it cannot be carried out at all.
    pub fn of_cluster(name: &str, spec: &ClusterNetworkPolicySpec) -> Result<Self, Refusal> {
        let tier = match spec.tier {
            ClusterTier::Admin => Tier::Admin,
            ClusterTier::Baseline => Tier::Baseline,
        };
        let order = Order::of(tier, spec.priority, [spec.ingress.len(), spec.egress.len()])?;
        let mut policy = Self::begin(PolicyKind::Cluster, name, order, &spec.subject)?;
        for rule in &spec.ingress {
            let from = rule.from.iter().map(ingress_peer).collect();
            policy.come(&rule.name, rule.action.into(), from, protocols(rule.protocols.as_deref()));
        }
        for rule in &spec.egress {
            let to = rule.to.iter().map(EgressPeer::peer).collect();
            policy.go(&rule.name, rule.action.into(), to, protocols(rule.protocols.as_deref()));
        }
        Ok(policy)
    }

    /// What an AdminNetworkPolicy means.
    ///
    /// # Errors
    /// Why it cannot be carried out at all.
    pub fn of_admin(name: &str, spec: &AdminNetworkPolicySpec) -> Result<Self, Refusal> {
        let order = Order::of(Tier::Admin, spec.priority, [spec.ingress.len(), spec.egress.len()])?;
        let mut policy = Self::begin(PolicyKind::Admin, name, order, &spec.subject)?;
        policy.admin_rules(&spec.ingress, &spec.egress);
        Ok(policy)
    }

    /// What the BaselineAdminNetworkPolicy means.
    ///
    /// # Errors
    /// Why it cannot be carried out at all.
    pub fn of_baseline(name: &str, spec: &BaselineAdminNetworkPolicySpec) -> Result<Self, Refusal> {
        let order = Order::last([spec.ingress.len(), spec.egress.len()])?;
        let mut policy = Self::begin(PolicyKind::Baseline, name, order, &spec.subject)?;
        policy.admin_rules(&spec.ingress, &spec.egress);
        Ok(policy)
    }

    fn begin(kind: PolicyKind, name: &str, order: Order, subject: &PolicySubject) -> Result<Self, Refusal> {
        let subject = pods(subject.namespaces.as_ref(), subject.pods.as_ref()).map_err(Refusal::Subject)?;
        let id = PolicyId { kind, name: name.to_owned() };
        Ok(Self { id, order, subject, ingress: Vec::new(), egress: Vec::new(), remarks: Vec::new() })
    }

    fn admin_rules<A: Copy + Into<Action>, P: EgressPeer>(
        &mut self,
        ingress: &[AdminIngressRule<A>],
        egress: &[AdminEgressRule<A, P>],
    ) {
        for rule in ingress {
            let from = rule.from.iter().map(ingress_peer).collect();
            self.come(&rule.name, rule.action.into(), from, admin_ports(rule.ports.as_deref()));
        }
        for rule in egress {
            let to = rule.to.iter().map(EgressPeer::peer).collect();
            self.go(&rule.name, rule.action.into(), to, admin_ports(rule.ports.as_deref()));
        }
    }

    /// One more rule about what comes in.
    fn come(&mut self, name: &Option<String>, action: Action, from: Vec<Read<Peer>>, ports: Ports) {
        let at = format!("ingress[{}]", self.ingress.len());
        let rule = self.rule(name, action, (&format!("{at}.from"), from), (&at, ports));
        self.ingress.push(rule);
    }

    /// One more rule about what goes out.
    fn go(&mut self, name: &Option<String>, action: Action, to: Vec<Read<Peer>>, ports: Ports) {
        let at = format!("egress[{}]", self.egress.len());
        let rule = self.rule(name, action, (&format!("{at}.to"), to), (&at, ports));
        self.egress.push(rule);
    }

    fn rule(
        &mut self,
        name: &Option<String>,
        action: Action,
        (peers_at, peers): (&str, Vec<Read<Peer>>),
        (at, ports): (&str, Ports),
    ) -> ClusterRule {
        let before = self.remarks.len();
        if peers.is_empty() {
            self.remarks.push(Remark { at: peers_at.to_owned(), why: NO_PEER.into() });
        }
        let peers = self.keep(peers_at, peers);
        let ports = ports.map(|(field, ports)| self.keep(&format!("{at}.{field}"), ports));
        if self.remarks.len() > before {
            return closed(name, action);
        }
        ClusterRule { name: name.clone(), action, peers, ports }
    }

    /// What could be read; a remark about each that could not.
    fn keep<T>(&mut self, at: &str, parts: Vec<Read<T>>) -> Vec<T> {
        let mut kept = Vec::with_capacity(parts.len());
        for (index, part) in parts.into_iter().enumerate() {
            match part {
                Ok(part) => kept.push(part),
                Err(why) => self.remarks.push(Remark { at: format!("{at}[{index}]"), why }),
            }
        }
        kept
    }
}

fn typed<T: DeserializeOwned>(spec: &Value) -> Result<T, Refusal> {
    T::deserialize(spec).map_err(|error| Refusal::Unreadable(error.to_string()))
}

/// A part of a rule, or why it cannot be carried out.
type Read<T> = Result<T, String>;
/// The ports of a rule with the field that has them; nothing if the rule is about everything.
type Ports = Option<(&'static str, Vec<Read<PortMatch>>)>;

/// What is left of a rule that cannot be read: one that accepts matches nothing, any other denies everything.
fn closed(name: &Option<String>, action: Action) -> ClusterRule {
    let (action, peers) = match action {
        Action::Accept => (Action::Accept, Vec::new()),
        Action::Deny | Action::Pass => (Action::Deny, vec![Peer::Anyone]),
    };
    ClusterRule { name: name.clone(), action, peers, ports: None }
}

impl From<ClusterAction> for Action {
    fn from(action: ClusterAction) -> Self {
        match action {
            ClusterAction::Accept => Self::Accept,
            ClusterAction::Deny => Self::Deny,
            ClusterAction::Pass => Self::Pass,
        }
    }
}

impl From<AdminAction> for Action {
    fn from(action: AdminAction) -> Self {
        match action {
            AdminAction::Allow => Self::Accept,
            AdminAction::Deny => Self::Deny,
            AdminAction::Pass => Self::Pass,
        }
    }
}

impl From<BaselineAction> for Action {
    fn from(action: BaselineAction) -> Self {
        match action {
            BaselineAction::Allow => Self::Accept,
            BaselineAction::Deny => Self::Deny,
        }
    }
}

fn labels(selector: &LabelSelector) -> Read<LabelMatch> {
    LabelMatch::read(selector).map_err(|why| format!("the label selector cannot be read: {why}"))
}

fn pods(namespaces: Option<&LabelSelector>, pods: Option<&NamespacedPod>) -> Read<Pods> {
    match (namespaces, pods) {
        (Some(namespaces), None) => Ok(Pods { namespaces: labels(namespaces)?, pods: LabelMatch::default() }),
        (None, Some(both)) => {
            Ok(Pods { namespaces: labels(&both.namespace_selector)?, pods: labels(&both.pod_selector)? })
        }
        (None, None) => Err(NO_FIELD.into()),
        (Some(_), Some(_)) => Err(TWO_FIELDS.into()),
    }
}

fn ingress_peer(peer: &IngressPeer) -> Read<Peer> {
    pods(peer.namespaces.as_ref(), peer.pods.as_ref()).map(Peer::Pods)
}

/// Peers of what goes out, of each kind.
trait EgressPeer {
    fn peer(&self) -> Read<Peer>;
}

impl EgressPeer for ClusterEgressPeer {
    fn peer(&self) -> Read<Peer> {
        let Self { namespaces, pods, nodes, networks, domain_names } = self;
        egress_peer(namespaces, pods, nodes, networks, domain_names.is_some())
    }
}

impl EgressPeer for AdminEgressPeer {
    fn peer(&self) -> Read<Peer> {
        let Self { namespaces, pods, nodes, networks, domain_names } = self;
        egress_peer(namespaces, pods, nodes, networks, domain_names.is_some())
    }
}

impl EgressPeer for BaselineEgressPeer {
    fn peer(&self) -> Read<Peer> {
        egress_peer(&self.namespaces, &self.pods, &self.nodes, &self.networks, false)
    }
}

fn egress_peer(
    namespaces: &Option<LabelSelector>,
    by_pods: &Option<NamespacedPod>,
    nodes: &Option<LabelSelector>,
    networks: &Option<Vec<String>>,
    domains: bool,
) -> Read<Peer> {
    match (nodes, networks, domains) {
        (None, None, false) => pods(namespaces.as_ref(), by_pods.as_ref()).map(Peer::Pods),
        _ if namespaces.is_some() || by_pods.is_some() => Err(TWO_FIELDS.into()),
        (Some(nodes), None, false) => labels(nodes).map(Peer::Nodes),
        (None, Some(networks), false) => {
            networks.iter().map(|text| network(text)).collect::<Read<_>>().map(Peer::Networks)
        }
        (None, None, true) => Err("domain names are not resolved here".into()),
        _ => Err(TWO_FIELDS.into()),
    }
}

/// What has bits after its prefix means the whole network.
fn network(text: &str) -> Read<IpNet> {
    text.parse().map(|net: IpNet| net.trunc()).map_err(|_| format!("{text:?} is no CIDR"))
}

fn protocols(all: Option<&[ProtocolMatch]>) -> Ports {
    let all = all.filter(|all| !all.is_empty())?;
    Some(("protocols", all.iter().map(protocol).collect()))
}

fn protocol(of: &ProtocolMatch) -> Read<PortMatch> {
    let port = |protocol, ports: &DestinationPorts| destination(protocol, ports.destination_port.as_ref());
    match (&of.tcp, &of.udp, &of.sctp, &of.destination_named_port) {
        (Some(ports), None, None, None) => port(Protocol::Tcp, ports),
        (None, Some(ports), None, None) => port(Protocol::Udp, ports),
        (None, None, Some(ports), None) => port(Protocol::Sctp, ports),
        (None, None, None, Some(name)) => Ok(PortMatch::Named(name.clone())),
        (None, None, None, None) => Err(NO_FIELD.into()),
        _ => Err(TWO_FIELDS.into()),
    }
}

fn destination(protocol: Protocol, port: Option<&DestinationPort>) -> Read<PortMatch> {
    match port.map(|port| (port.number, &port.range)) {
        Some((Some(number), None)) => span(protocol, number, number),
        Some((None, Some(range))) => span(protocol, range.start, range.end),
        Some((Some(_), Some(_))) => Err(TWO_FIELDS.into()),
        Some((None, None)) | None => Err(NO_FIELD.into()),
    }
}

fn admin_ports(all: Option<&[AdminPort]>) -> Ports {
    let all = all.filter(|all| !all.is_empty())?;
    Some(("ports", all.iter().map(admin_port).collect()))
}

fn admin_port(port: &AdminPort) -> Read<PortMatch> {
    let named =
        |name: &str| Protocol::named(name).ok_or_else(|| format!("{name:?} is no protocol with ports"));
    match (&port.port_number, &port.named_port, &port.port_range) {
        (Some(one), None, None) => span(named(&one.protocol)?, one.port, one.port),
        (None, Some(name), None) => Ok(PortMatch::Named(name.clone())),
        (None, None, Some(range)) => span(named(&range.protocol)?, range.start, range.end),
        (None, None, None) => Err(NO_FIELD.into()),
        _ => Err(TWO_FIELDS.into()),
    }
}

fn span(protocol: Protocol, first: i32, last: i32) -> Read<PortMatch> {
    let port = |number: i32| {
        let port = u16::try_from(number).ok().filter(|port| *port > 0);
        port.ok_or_else(|| format!("{number} is no port"))
    };
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(format!("no port is between {first} and {last}"));
    }
    Ok(PortMatch::Port { protocol, first, last })
}
