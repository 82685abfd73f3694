//! What the specifications of network policies say: a small reading of the manifests, written from the specifications and not from
//! the planner, and manifests by chance. Tests hold rows and packets against it.

#![allow(clippy::unwrap_used, reason = "manifests here were made by tests")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A pod, as far as policies look at it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Person {
    /// Where it is.
    pub namespace: String,
    /// What it is called there.
    pub name: String,
    /// What selectors of policies look at.
    pub labels: BTreeMap<String, String>,
    /// Its ports that have names: name, protocol in small letters, number.
    pub ports: Vec<(String, String, u16)>,
}

impl Person {
    /// Whether it calls the port that a packet asks for so.
    fn calls(&self, packet: &Packet<'_>, name: &str) -> bool {
        let is = |(named, protocol, port): &(String, String, u16)| {
            (named.as_str(), protocol.as_str(), *port) == (name, packet.protocol, packet.port)
        };
        self.ports.iter().any(is)
    }
}

/// A packet that begins a connection.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Who begins.
    pub from: &'a Person,
    /// Who is asked.
    pub to: &'a Person,
    /// The address of who begins.
    pub source: IpAddr,
    /// The address of who is asked.
    pub target: IpAddr,
    /// In small letters.
    pub protocol: &'a str,
    /// The port that is asked for.
    pub port: u16,
}

fn labels_match(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut equal = equal.map(|(key, value)| (labels.get(key).map(String::as_str), value.as_str()));
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.all(|(has, wanted)| has == wanted)
        && expressions.all(|asked| {
            let value = labels.get(asked["key"].as_str().unwrap());
            let listed = value.is_some_and(|value| {
                asked["values"].as_array().is_some_and(|all| all.contains(&json!(value)))
            });
            match asked["operator"].as_str().unwrap() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                other => panic!("{other}"),
            }
        })
}

/// The policies and namespaces as they were written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Labels of namespaces.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Specs of NetworkPolicies by `namespace/name`.
    pub policies: BTreeMap<String, Value>,
    /// Specs of ClusterNetworkPolicies by name.
    pub cluster: BTreeMap<String, Value>,
}

impl Written {
    fn namespace_matches(&self, selector: &Value, pod: &Person) -> bool {
        labels_match(selector, &self.namespaces[&pod.namespace])
    }

    /// Whether a peer of a NetworkPolicy is the other end.
    fn is_peer(&self, policy_namespace: &str, peer: &Value, other: &Person, address: IpAddr) -> bool {
        if let Some(cidr) = peer["ipBlock"]["cidr"].as_str() {
            let within = |text: &str| text.parse::<IpNet>().unwrap().contains(&address);
            let mut except = peer["ipBlock"]["except"].as_array().into_iter().flatten();
            return within(cidr) && !except.any(|text| within(text.as_str().unwrap()));
        }
        let namespace = match &peer["namespaceSelector"] {
            Value::Null => other.namespace == policy_namespace,
            selector => self.namespace_matches(selector, other),
        };
        namespace && (peer["podSelector"].is_null() || labels_match(&peer["podSelector"], &other.labels))
    }

    fn port_allows(port: &Value, packet: &Packet<'_>) -> bool {
        if port["protocol"].as_str().unwrap_or("TCP").to_lowercase() != packet.protocol {
            return false;
        }
        match &port["port"] {
            Value::Null => true,
            Value::String(name) => packet.to.calls(packet, name),
            number => {
                let (first, last) = (number.as_u64().unwrap(), port["endPort"].as_u64());
                (first..=last.unwrap_or(first)).contains(&u64::from(packet.port))
            }
        }
    }

    /// Whether NetworkPolicies close a direction for a packet; nothing if none is about it.
    fn tenants(&self, packet: &Packet<'_>, ingress: bool) -> Option<bool> {
        let (subject, other, address) = if ingress {
            (packet.to, packet.from, packet.source)
        } else {
            (packet.from, packet.to, packet.target)
        };
        let (list, peers, kind) =
            if ingress { ("ingress", "from", "Ingress") } else { ("egress", "to", "Egress") };
        let mut verdict = None;
        for (key, spec) in &self.policies {
            let namespace = key.split('/').next().unwrap();
            let about = subject.namespace == namespace && labels_match(&spec["podSelector"], &subject.labels);
            if !about || !spec["policyTypes"].as_array().unwrap().contains(&json!(kind)) {
                continue;
            }
            let lets = |rule: &Value| {
                let of = |name: &str| rule[name].as_array().filter(|all| !all.is_empty()).cloned();
                let peer = of(peers)
                    .is_none_or(|all| all.iter().any(|peer| self.is_peer(namespace, peer, other, address)));
                let port =
                    of("ports").is_none_or(|all| all.iter().any(|port| Self::port_allows(port, packet)));
                peer && port
            };
            let allowed = spec[list].as_array().into_iter().flatten().any(lets);
            verdict = Some(verdict.unwrap_or(false) || allowed);
        }
        verdict
    }

    /// What cluster-scoped policies of a tier decide: `Accept`, `Deny`, or nothing.
    fn cluster(&self, tier: &str, packet: &Packet<'_>, ingress: bool) -> Option<bool> {
        let (subject, other, address) = if ingress {
            (packet.to, packet.from, packet.source)
        } else {
            (packet.from, packet.to, packet.target)
        };
        let (list, peers) = if ingress { ("ingress", "from") } else { ("egress", "to") };
        let mut specs: Vec<&Value> = self.cluster.values().filter(|spec| spec["tier"] == tier).collect();
        specs.sort_by_key(|spec| spec["priority"].as_u64());
        for spec in specs {
            if !self.namespace_matches(&spec["subject"]["namespaces"], subject) {
                continue;
            }
            for rule in spec[list].as_array().into_iter().flatten() {
                let is_peer = |peer: &Value| {
                    if let Some(networks) = peer["networks"].as_array() {
                        return networks
                            .iter()
                            .any(|net| net.as_str().unwrap().parse::<IpNet>().unwrap().contains(&address));
                    }
                    match &peer["namespaces"] {
                        Value::Null => {
                            self.namespace_matches(&peer["pods"]["namespaceSelector"], other)
                                && labels_match(&peer["pods"]["podSelector"], &other.labels)
                        }
                        selector => self.namespace_matches(selector, other),
                    }
                };
                let is_port = |asked: &Value| match asked["destinationNamedPort"].as_str() {
                    Some(name) => packet.to.calls(packet, name),
                    None => asked[packet.protocol]["destinationPort"]["number"] == packet.port,
                };
                let ports = rule["protocols"].as_array();
                if rule[peers].as_array().unwrap().iter().any(is_peer)
                    && ports.is_none_or(|all| all.iter().any(is_port))
                {
                    match rule["action"].as_str().unwrap() {
                        "Accept" => return Some(true),
                        "Deny" => return Some(false),
                        _ => return None,
                    }
                }
            }
        }
        None
    }

    /// Whether the connection that begins so comes about.
    pub fn passes(&self, packet: &Packet<'_>) -> bool {
        let itself = packet.from == packet.to;
        [false, true].into_iter().all(|ingress| {
            // Tenants' policies let a pod in that comes to itself; administrators' are about it, too.
            let tenants = || self.tenants(packet, ingress).map(|lets| lets || (itself && ingress));
            self.cluster("Admin", packet, ingress)
                .or_else(tenants)
                .or_else(|| self.cluster("Baseline", packet, ingress))
                .unwrap_or(true)
        })
    }
}

/// What manifests by chance are made of.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Where policies are.
    pub namespaces: Vec<&'static str>,
    /// Selectors of pods.
    pub pods: Vec<Value>,
    /// Selectors of namespaces.
    pub selectors: Vec<Value>,
    /// Peers by block.
    pub blocks: Vec<Value>,
    /// Ports of NetworkPolicies.
    pub ports: Vec<Value>,
    /// Lists of protocols of cluster-scoped policies; nothing for all.
    pub protocols: Vec<Value>,
}

impl Choices {
    /// Selectors of pods that have a label `pod`.
    pub fn selectors_of_pods() -> Vec<Value> {
        let asked = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "pod", "operator": operator, "values": values}]});
        vec![
            json!({}),
            json!({"matchLabels": {"pod": "a"}}),
            json!({"matchLabels": {"pod": "b"}}),
            json!({"matchLabels": {"pod": "nobody"}}),
            asked("In", &["a", "c"]),
            asked("NotIn", &["a"]),
            json!({"matchExpressions": [{"key": "pod", "operator": "Exists"}]}),
            json!({"matchExpressions": [{"key": "odd", "operator": "DoesNotExist"}]}),
        ]
    }

    fn pods(&self) -> impl Strategy<Value = Value> + use<> {
        prop::sample::select(self.pods.clone())
    }

    fn of_namespaces(&self) -> impl Strategy<Value = Value> + use<> {
        prop::sample::select(self.selectors.clone())
    }

    fn peers(&self) -> BoxedStrategy<Value> {
        let by_selector = prop_oneof![
            self.pods().prop_map(|pods| json!({"podSelector": pods})),
            self.of_namespaces().prop_map(|namespaces| json!({"namespaceSelector": namespaces})),
            (self.pods(), self.of_namespaces())
                .prop_map(|(pods, namespaces)| json!({"podSelector": pods, "namespaceSelector": namespaces})),
        ];
        match self.blocks.is_empty() {
            true => by_selector.boxed(),
            false => prop_oneof![3 => by_selector, 1 => prop::sample::select(self.blocks.clone())].boxed(),
        }
    }

    /// A NetworkPolicy: its key and its spec.
    pub fn policies(&self) -> impl Strategy<Value = (String, Value)> + use<> {
        let ports = prop::sample::select(self.ports.clone());
        let rule = (prop::collection::vec(self.peers(), 0..3), prop::collection::vec(ports, 0..3));
        let rules = prop::collection::vec(rule, 0..3);
        let types =
            prop::sample::select(vec![json!(["Ingress"]), json!(["Egress"]), json!(["Ingress", "Egress"])]);
        let name = (prop::sample::select(self.namespaces.clone()), 0..3u8);
        (name, self.pods(), types, rules.clone(), rules).prop_map(|((namespace, n), pods, types, into, out)| {
            let of = |peers: &str, rules: Vec<(Vec<Value>, Vec<Value>)>| -> Vec<Value> {
                rules.into_iter().map(|(given, ports)| json!({peers: given, "ports": ports})).collect()
            };
            let spec = json!({"podSelector": pods, "policyTypes": types, "ingress": of("from", into), "egress": of("to", out)});
            (format!("{namespace}/p{n}"), spec)
        })
    }

    /// A ClusterNetworkPolicy: its name and its spec. No two have the same priority: which comes first is not defined then.
    pub fn cluster_policies(&self) -> impl Strategy<Value = (String, Value)> + use<> {
        let peer = prop_oneof![
            self.of_namespaces().prop_map(|namespaces| json!({"namespaces": namespaces})),
            (self.of_namespaces(), self.pods()).prop_map(
                |(namespaces, pods)| json!({"pods": {"namespaceSelector": namespaces, "podSelector": pods}})
            ),
        ];
        let protocols = prop::sample::select(self.protocols.clone());
        let action = prop::sample::select(vec!["Accept", "Deny", "Pass"]);
        let rule = (action, prop::collection::vec(peer, 1..3), protocols);
        let rules = prop::collection::vec(rule, 0..3);
        let tier = prop::sample::select(vec!["Admin", "Baseline"]);
        (0..3u32, tier, self.of_namespaces(), rules.clone(), rules).prop_map(
            |(n, tier, subject, into, out)| {
                let of = |peers: &str, rules: Vec<(&str, Vec<Value>, Value)>| -> Vec<Value> {
                    let rule = |(action, given, protocols): (&str, Vec<Value>, Value)| {
                        let mut rule = json!({"action": action, peers: given});
                        if !protocols.is_null() {
                            rule["protocols"] = protocols;
                        }
                        rule
                    };
                    rules.into_iter().map(rule).collect()
                };
                let spec = json!({"tier": tier, "priority": 10 * n, "subject": {"namespaces": subject},
                "ingress": of("from", into), "egress": of("to", out)});
                (format!("c{n}"), spec)
            },
        )
    }
}
