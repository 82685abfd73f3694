//! NetworkPolicies: whom they isolate, and who is let through.
//!
//! What cannot be read fails closed: a subject that cannot be read is everybody in the namespace, a peer that cannot be read is nobody,
//! and so is a port. So does what is more than a node does for one policy (`bounds`).

mod bounds;

use std::collections::BTreeSet;

use causeway_api::annotations::keys;
use causeway_api::selector::LabelMatch;
use causeway_types::Cidr;
use ipnet::IpNet;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::{ApiResource, Object};
use serde::{Deserialize, Serialize};

use crate::meta::{Unread, created, object_key, uid};
use crate::service::{port, protocol};
use crate::{ObjectKey, Protocol, Watched};

pub use bounds::MOST_SUBNETS;

/// A policy of `networking.k8s.io/v1`, with its selectors and subnets read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NetworkPolicy {
    /// What it is called.
    pub key: ObjectKey,
    /// Tells it from another policy of the same name.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// The pods of its namespace that it is about.
    pub pods: LabelMatch,
    /// Who may come in; none if it says nothing about that.
    pub ingress: Option<Vec<PolicyRule>>,
    /// Where they may go; none if it says nothing about that.
    pub egress: Option<Vec<PolicyRule>>,
    /// Whether its author wants no connections tracked: both directions must be allowed then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stateless: bool,
    /// What of it cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

/// What one rule lets through.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PolicyRule {
    /// With whom; none is with anybody.
    pub peers: Option<Vec<PolicyPeer>>,
    /// On which ports; none is everything, also what has no ports.
    pub ports: Option<Vec<PolicyPort>>,
}

/// Somebody at the other end.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum PolicyPeer {
    /// Pods by their labels.
    Pods {
        /// Their namespaces; none is the policy's own.
        namespaces: Option<LabelMatch>,
        /// The pods; none is all pods of these namespaces.
        pods: Option<LabelMatch>,
    },
    /// Addresses.
    Block {
        /// These,
        cidr: Cidr,
        /// but not these.
        except: Vec<Cidr>,
    },
}

/// A port at the destination.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum PolicyPort {
    /// Ports by number, with the first and the last; all of them are 0 to 65535.
    Numbers(Protocol, u16, u16),
    /// The port that the destination's containers call so.
    Named(Protocol, String),
}

impl PolicyPort {
    /// Everything of a protocol.
    pub fn all(protocol: Protocol) -> Self {
        Self::Numbers(protocol, 0, u16::MAX)
    }
}

impl Watched for NetworkPolicy {
    type Object = Object<networking::NetworkPolicySpec, Unread>;
    type Key = ObjectKey;
    const KIND: &'static str = "networkpolicies";

    fn kind() -> ApiResource {
        ApiResource::erase::<networking::NetworkPolicy>(&())
    }

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        object_key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let (meta, spec) = (object.metadata, object.spec);
        let mut reader = Reader::default();
        let types = spec.policy_types.unwrap_or_else(|| defaulted(spec.egress.as_ref()));
        let has = |direction: &str| types.iter().any(|one| one == direction);
        let ingress = spec.ingress.unwrap_or_default().into_iter();
        let egress = spec.egress.unwrap_or_default().into_iter();
        let mut ingress = ingress.map(|rule| reader.rule(rule.from, rule.ports)).collect();
        let mut egress = egress.map(|rule| reader.rule(rule.to, rule.ports)).collect();
        reader.problems.extend(bounds::keep(&mut ingress, &mut egress));
        Self {
            key,
            uid: uid(&meta),
            created: created(&meta),
            pods: spec.pod_selector.and_then(|selector| reader.selector(&selector)).unwrap_or_default(),
            ingress: has("Ingress").then_some(ingress),
            egress: has("Egress").then_some(egress),
            stateless: meta
                .annotations
                .unwrap_or_default()
                .get(keys::ACL_STATELESS)
                .is_some_and(|text| text == "true"),
            unreadable: reader.problems.into_iter().collect(),
        }
    }
}

/// The API server fills this in; a policy that did not come by it has the same meaning.
fn defaulted<T>(egress: Option<&Vec<T>>) -> Vec<String> {
    let egress = egress.filter(|rules| !rules.is_empty()).map(|_| "Egress".to_owned());
    std::iter::once("Ingress".to_owned()).chain(egress).collect()
}

/// Reads the parts of a policy and keeps what it cannot read.
#[derive(Default)]
struct Reader {
    problems: BTreeSet<String>,
}

impl Reader {
    fn rule(
        &mut self,
        peers: Option<Vec<networking::NetworkPolicyPeer>>,
        ports: Option<Vec<networking::NetworkPolicyPort>>,
    ) -> PolicyRule {
        let peers = peers.filter(|peers| !peers.is_empty());
        let ports = ports.filter(|ports| !ports.is_empty());
        PolicyRule {
            peers: peers.map(|peers| peers.into_iter().filter_map(|peer| self.peer(peer)).collect()),
            ports: ports.map(|ports| ports.into_iter().filter_map(|port| self.port(port)).collect()),
        }
    }

    fn peer(&mut self, peer: networking::NetworkPolicyPeer) -> Option<PolicyPeer> {
        match (peer.ip_block, peer.namespace_selector, peer.pod_selector) {
            (Some(block), None, None) => self.block(&block),
            (None, namespaces, pods) if namespaces.is_some() || pods.is_some() => {
                let namespaces = namespaces.map(|selector| self.selector(&selector).ok_or(())).transpose();
                let pods = pods.map(|selector| self.selector(&selector).ok_or(())).transpose();
                namespaces.and_then(|namespaces| Ok(PolicyPeer::Pods { namespaces, pods: pods? })).ok()
            }
            _ => self.unreadable("a peer is of a kind that is not known here: it is nobody"),
        }
    }

    fn block(&mut self, block: &networking::IPBlock) -> Option<PolicyPeer> {
        let read = |text: &String| text.parse::<IpNet>().map(Cidr::masked).map_err(|_| text.clone());
        let except = block.except.iter().flatten().map(read).collect::<Result<Vec<Cidr>, String>>();
        match read(&block.cidr).and_then(|cidr| Ok((cidr, except?))) {
            Ok((cidr, except)) => Some(PolicyPeer::Block { cidr, except }),
            Err(text) => self.unreadable(format!("{text:?} is no subnet: the peer is nobody")),
        }
    }

    fn port(&mut self, given: networking::NetworkPolicyPort) -> Option<PolicyPort> {
        let Some(protocol) = protocol(given.protocol.as_deref()) else {
            return self.unreadable(format!(
                "the protocol {:?} is not known here",
                given.protocol.unwrap_or_default()
            ));
        };
        match (given.port, given.end_port) {
            (None, None) => Some(PolicyPort::all(protocol)),
            (Some(IntOrString::String(name)), None) => Some(PolicyPort::Named(protocol, name)),
            (Some(IntOrString::Int(first)), last) => match (port(first), port(last.unwrap_or(first))) {
                (Some(first), Some(last)) if first <= last => {
                    Some(PolicyPort::Numbers(protocol, first, last))
                }
                _ => self.unreadable(format!("the ports {first} to {last:?} are none")),
            },
            _ => self.unreadable("endPort stands without a port by number"),
        }
    }

    fn selector(&mut self, selector: &LabelSelector) -> Option<LabelMatch> {
        LabelMatch::read(selector).map_err(|error| self.problems.insert(error)).ok()
    }

    fn unreadable<T>(&mut self, problem: impl Into<String>) -> Option<T> {
        self.problems.insert(problem.into());
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    fn policy(spec: serde_json::Value) -> NetworkPolicy {
        trimmed(json!({"metadata": {"name": "p", "namespace": "x"}, "spec": spec}))
    }

    #[test]
    fn a_policy_keeps_what_rules_are_made_of() {
        let policy = policy(json!({
            "podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{
                "from": [
                    {"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"team": "a"}}},
                    {"ipBlock": {"cidr": "10.1.2.3/8", "except": ["10.1.0.0/16"]}},
                ],
                "ports": [{"port": 80}, {"protocol": "UDP", "port": 100, "endPort": 200}, {"port": "http"}, {"protocol": "SCTP"}],
            }, {}],
        }));
        let team =
            LabelSelector { match_labels: Some([("team".into(), "a".into())].into()), ..Default::default() };
        let team = LabelMatch::read(&team).unwrap();
        let peers = vec![
            PolicyPeer::Pods { namespaces: None, pods: Some(LabelMatch::everything()) },
            PolicyPeer::Pods { namespaces: Some(team), pods: None },
            PolicyPeer::Block {
                cidr: "10.0.0.0/8".parse().unwrap(),
                except: vec!["10.1.0.0/16".parse().unwrap()],
            },
        ];
        let ports = vec![
            PolicyPort::Numbers(Protocol::Tcp, 80, 80),
            PolicyPort::Numbers(Protocol::Udp, 100, 200),
            PolicyPort::Named(Protocol::Tcp, "http".into()),
            PolicyPort::all(Protocol::Sctp),
        ];
        let rules = vec![
            PolicyRule { peers: Some(peers), ports: Some(ports) },
            PolicyRule { peers: None, ports: None },
        ];
        assert_eq!((&policy.ingress, &policy.egress), (&Some(rules), &Some(Vec::new())));
        assert_eq!(policy.unreadable, [] as [String; 0]);
        assert_eq!(replayed(&policy), policy);
    }

    /// POL-027, and the defaults of the API server.
    #[test]
    fn types_that_are_not_given_are_those_of_kubernetes() {
        let isolates = |spec| {
            let policy = policy(spec);
            (policy.ingress.is_some(), policy.egress.is_some())
        };
        assert_eq!(isolates(json!({"podSelector": {}})), (true, false));
        assert_eq!(isolates(json!({"podSelector": {}, "egress": []})), (true, false));
        assert_eq!(isolates(json!({"podSelector": {}, "egress": [{}]})), (true, true));
        assert_eq!(isolates(json!({"podSelector": {}, "policyTypes": ["Egress"]})), (false, true));
    }

    /// POL-141: a tenant hears of it, since it stands among what cannot be read.
    #[test]
    fn too_many_subnets_are_none() {
        let rule = |blocks: u32| {
            let block = |n| json!({"ipBlock": {"cidr": format!("10.{}.{}.0/24", n / 256, n % 256)}});
            let peers: Vec<_> = (0..blocks).map(block).chain([json!({"podSelector": {}})]).collect();
            policy(json!({"podSelector": {}, "ingress": [{"from": peers}]}))
        };
        let peers = |policy: &NetworkPolicy| policy.ingress.as_ref().unwrap()[0].peers.clone().unwrap().len();
        let (fits, many) = (rule(4096), rule(4097));
        assert_eq!((peers(&fits), fits.unreadable.len()), (4097, 0));
        assert_eq!((peers(&many), many.unreadable.len()), (1, 1), "pods are selected all the same");
        assert!(many.unreadable[0].contains("more than 4096 subnets"), "{:?}", many.unreadable);
        // Exceptions make several subnets of one.
        let holed = json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.1/32"]}});
        let of = |count: usize| {
            policy(json!({"podSelector": {}, "ingress": [{"from": vec![holed.clone(); count]}]}))
        };
        assert_eq!((of(128).unreadable.len(), of(129).unreadable.len()), (0, 1), "each is 32 subnets");
    }

    #[test]
    fn what_cannot_be_read_lets_nobody_through() {
        let policy = policy(json!({
            "podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            "ingress": [{
                "from": [
                    {}, {"ipBlock": {"cidr": "10.0.0.0/33"}},
                    {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
                ],
                "ports": [{"protocol": "QUIC"}, {"port": "http", "endPort": 7}, {"port": 9, "endPort": 7}],
            }],
        }));
        assert!(policy.pods.is_everything());
        let nobody = PolicyRule { peers: Some(Vec::new()), ports: Some(Vec::new()) };
        assert_eq!(policy.ingress, Some(vec![nobody]));
        assert_eq!(policy.unreadable.len(), 6, "{:?}", policy.unreadable);
    }
}
