//! What a node's role knows: which kinds have listed, the zone, the own Node, freed numbers. Its step is synchronous and
//! total; what goes in serialises, so that it can be recorded and played again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway_alloc::Reuse;
use causeway_api::policy::{PolicyId, PolicyKind};
use causeway_record::{
    Cause, ClusterPolicy, Connect, EndpointSlice, Event, FreedNumbers, Nad, Namespace, NetworkPolicy, Node,
    ObjectKey, Pod, Service,
};
use causeway_types::{ConnectName, NamespaceName, NodeName};
use serde::{Deserialize, Serialize};

use crate::{BridgePorts, Changes, Processes, Zone, ZoneConfig};

/// One message to the role.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs, reason = "they are called like the kinds that they are about")]
#[allow(clippy::large_enum_variant, reason = "few wait at once, and each is taken apart at once")]
pub enum Input {
    Node(Event<Node, NodeName>),
    Namespace(Event<Namespace, NamespaceName>),
    Nad(Event<Nad, ObjectKey>),
    Pod(Event<Pod, ObjectKey>),
    Connect(Box<Event<Connect, ConnectName>>),
    Service(Box<Event<Service, ObjectKey>>),
    EndpointSlice(Event<EndpointSlice, ObjectKey>),
    NetworkPolicy(Box<Event<NetworkPolicy, ObjectKey>>),
    ClusterPolicy(PolicyKind, Box<Event<ClusterPolicy, PolicyId>>),
    Freed(Box<Event<FreedNumbers, ObjectKey>>),
    /// The ports of the bridge to the outside, once there is one.
    Bridge(Option<BridgePorts>),
    /// By what processes of the node are known.
    Processes(Processes),
    /// The time, in milliseconds since the role began.
    Tick(u64),
}

/// The kinds that must have listed before anything is written.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Nodes,
    Namespaces,
    Nads,
    Pods,
    Services,
    EndpointSlices,
    NetworkPolicies,
    /// Clusters may do without these.
    Policies(PolicyKind),
}

const KINDS: [Kind; 10] = [
    Kind::Nodes,
    Kind::Namespaces,
    Kind::Nads,
    Kind::Pods,
    Kind::Services,
    Kind::EndpointSlices,
    Kind::NetworkPolicies,
    Kind::Policies(PolicyKind::Cluster),
    Kind::Policies(PolicyKind::Admin),
    Kind::Policies(PolicyKind::Baseline),
];

/// So often a kind must be said not to be installed before that is believed: an API server that has just begun says so of all custom
/// resources, and pods would be opened.
const BELIEVED: u8 = 3;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policies(kind) => write!(f, "{kind}"),
            kind => write!(f, "{}", format!("{kind:?}").to_lowercase()),
        }
    }
}

/// What a message means to others than the zone.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Effect {
    /// Which facts are others now.
    pub changes: Changes,
    /// Whether the last kind has just listed.
    pub became_ready: bool,
}

/// What the role knows.
#[derive(Debug)]
pub struct Knowledge {
    /// The index of the zone.
    pub zone: Zone,
    /// The own Node as it was last seen.
    pub own: Option<Node>,
    /// Numbers that were freed, once that is known.
    pub freed: Option<Reuse>,
    name: NodeName,
    listed: BTreeSet<Kind>,
    /// Kinds that were said not to be installed, and how often.
    missed: BTreeMap<PolicyKind, u8>,
}

impl Knowledge {
    /// Knowledge of nothing yet. Where connections are watched, what is there of them stays until they are listed.
    pub fn new(config: ZoneConfig) -> Knowledge {
        let (name, connects) = (config.node.clone(), config.connects);
        let mut zone = Zone::new(config);
        if connects {
            zone.await_connects();
        }
        Knowledge { zone, own: None, freed: None, name, listed: BTreeSet::new(), missed: BTreeMap::new() }
    }

    /// Whether every kind has listed once.
    pub fn is_ready(&self) -> bool {
        self.listed.len() == KINDS.len()
    }

    /// What is still missing, for people.
    pub fn missing(&self) -> Option<String> {
        let missing: Vec<String> =
            KINDS.iter().filter(|kind| !self.listed.contains(kind)).map(|kind| kind.to_string()).collect();
        (!missing.is_empty()).then(|| format!("not listed yet: {}", missing.join(", ")))
    }

    /// Takes an input.
    pub fn step(&mut self, input: Input) -> Effect {
        match input {
            Input::Node(event) => self.node(event),
            Input::Freed(event) => {
                self.freed(*event);
                // Without a record nobody is known to be away; who was stays so until the record is there again.
                let away = self.freed.as_ref().map(|record| record.away.keys().cloned().collect());
                let changes = away.map_or_else(Changes::default, |away| self.zone.set_away(away));
                Effect { changes, became_ready: false }
            }
            Input::Tick(now_ms) => Effect { changes: self.zone.tick(now_ms), became_ready: false },
            Input::Bridge(ports) => Effect { changes: self.zone.set_bridge(ports), became_ready: false },
            Input::Processes(known) => {
                Effect { changes: self.zone.set_processes(known), became_ready: false }
            }
            Input::Connect(event) => Effect { changes: self.connect(*event), became_ready: false },
            Input::Namespace(event) => {
                self.take(Kind::Namespaces, event, Zone::apply_namespace, Zone::delete_namespace)
            }
            Input::Nad(event) => self.take(Kind::Nads, event, Zone::apply_nad, Zone::delete_nad),
            Input::Service(event) => {
                self.take(Kind::Services, *event, Zone::apply_service, Zone::delete_service)
            }
            Input::EndpointSlice(event) => self.take(
                Kind::EndpointSlices,
                event,
                Zone::apply_endpoint_slice,
                Zone::delete_endpoint_slice,
            ),
            Input::NetworkPolicy(event) => {
                self.take(Kind::NetworkPolicies, *event, Zone::apply_policy, Zone::delete_policy)
            }
            Input::ClusterPolicy(kind, event) => self.cluster_policy(kind, *event),
            Input::Pod(event) => self.take(Kind::Pods, event, Zone::apply_pod, Zone::delete_pod),
        }
    }

    fn cluster_policy(&mut self, kind: PolicyKind, event: Event<ClusterPolicy, PolicyId>) -> Effect {
        let missing = matches!(&event, Event::Unsynced(broken) if broken.cause == Cause::NotInstalled);
        let known = Kind::Policies(kind);
        let effect = self.take(known, event, Zone::apply_cluster_policy, Zone::delete_cluster_policy);
        if !missing {
            self.missed.remove(&kind);
            return effect;
        }
        let times = self.missed.entry(kind).or_default();
        *times = times.saturating_add(1);
        let became_ready = *times >= BELIEVED && self.listed.insert(known) && self.is_ready();
        Effect { became_ready, ..effect }
    }

    /// Nobody waits for connections: a cluster need not have them. Until they are listed, their rows stay.
    fn connect(&mut self, event: Event<Connect, ConnectName>) -> Changes {
        match event {
            Event::Applied(connect) => self.zone.apply_connect(&connect),
            Event::Deleted(name) => self.zone.delete_connect(&name),
            Event::Synced => self.zone.connects_listed(),
            // Those that are known stay as they are.
            Event::Unsynced(_) => Changes::default(),
        }
    }

    fn freed(&mut self, event: Event<FreedNumbers, ObjectKey>) {
        match event {
            // A record that cannot be read says of no number that it is gone.
            Event::Applied(object) => self.freed = object.numbers.ok().flatten(),
            // A cluster in which nothing was ever freed has no record.
            Event::Synced if self.freed.is_none() => self.freed = Some(Reuse::default()),
            Event::Synced | Event::Unsynced(_) => {}
            Event::Deleted(_) => self.freed = None,
        }
    }

    fn node(&mut self, event: Event<Node, NodeName>) -> Effect {
        match &event {
            Event::Applied(node) if node.name == self.name => self.own = Some(node.clone()),
            Event::Deleted(name) if *name == self.name => self.own = None,
            _ => {}
        }
        self.take(Kind::Nodes, event, Zone::apply_node, Zone::delete_node)
    }

    fn take<T, K>(
        &mut self,
        kind: Kind,
        event: Event<T, K>,
        apply: impl FnOnce(&mut Zone, &T) -> Changes,
        delete: impl FnOnce(&mut Zone, &K) -> Changes,
    ) -> Effect {
        match event {
            Event::Applied(object) => Effect { changes: apply(&mut self.zone, &object), became_ready: false },
            Event::Deleted(key) => Effect { changes: delete(&mut self.zone, &key), became_ready: false },
            Event::Synced => {
                let became_ready = self.listed.insert(kind) && self.is_ready();
                Effect { changes: Changes::default(), became_ready }
            }
            // What is known stays as it is.
            Event::Unsynced(_) => Effect::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::intent::ClusterConfig;
    use causeway_record::Broken;
    use causeway_types::NodeId;

    fn state() -> Knowledge {
        let cluster = ClusterConfig::new(vec!["10.244.0.0/16".parse().unwrap()], Vec::new(), NodeId::FIRST);
        Knowledge::new(ZoneConfig::new("n1".parse().unwrap(), cluster))
    }

    fn broken(cause: Cause) -> Broken {
        Broken { cause, message: "broken".into() }
    }

    fn policies(event: Event<ClusterPolicy, PolicyId>) -> [Input; 3] {
        PolicyKind::ALL.map(|kind| Input::ClusterPolicy(kind, Box::new(event.clone())))
    }

    fn all() -> Vec<Input> {
        [
            Input::Node(Event::Synced),
            Input::Namespace(Event::Synced),
            Input::Nad(Event::Synced),
            Input::Service(Box::new(Event::Synced)),
            Input::EndpointSlice(Event::Synced),
            Input::NetworkPolicy(Box::new(Event::Synced)),
            Input::Pod(Event::Synced),
        ]
        .into_iter()
        .chain(policies(Event::Synced))
        .collect()
    }

    /// POL-102: a cluster may do without them, but not because an API server has just begun.
    #[test]
    fn kinds_that_are_not_installed_are_believed_when_that_is_repeated() {
        let mut state = state();
        for input in all().into_iter().filter(|input| !matches!(input, Input::ClusterPolicy(..))) {
            assert!(!state.step(input).became_ready);
        }
        let missing = || policies(Event::Unsynced(broken(Cause::NotInstalled)));
        for input in missing().into_iter().chain(missing()) {
            assert!(!state.step(input).became_ready);
        }
        assert_eq!(missing().map(|input| state.step(input).became_ready), [false, false, true]);
    }

    /// A kind that is not installed, or may not be listed, is not an empty kind.
    #[test]
    fn a_kind_that_cannot_be_listed_keeps_everything_from_being_written() {
        let mut state = state();
        for input in all().into_iter().filter(|input| !matches!(input, Input::Nad(_))) {
            assert!(!state.step(input).became_ready);
        }
        let effect = state.step(Input::Nad(Event::Unsynced(broken(Cause::NotInstalled))));
        assert!(effect.changes.is_empty() && !effect.became_ready);
        assert_eq!((state.is_ready(), state.missing()), (false, Some("not listed yet: nads".into())));
        assert!(state.step(Input::Nad(Event::Synced)).became_ready);
        assert_eq!((state.is_ready(), state.missing()), (true, None));
    }

    /// A watch that breaks later leaves what is known.
    #[test]
    fn a_watch_that_breaks_makes_nothing_dirty() {
        let mut state = state();
        let ready: Vec<bool> = all().into_iter().map(|input| state.step(input).became_ready).collect();
        assert_eq!(ready.iter().position(|ready| *ready), Some(ready.len() - 1));
        let effect = state.step(Input::Pod(Event::Unsynced(broken(Cause::Forbidden))));
        assert!(effect.changes.is_empty() && !effect.became_ready && state.is_ready());
        assert!(!state.step(Input::Pod(Event::Synced)).became_ready);
    }

    #[test]
    fn freed_numbers_are_known_once_they_were_listed() {
        let mut state = state();
        assert_eq!(state.freed, None);
        state.step(Input::Freed(Box::new(Event::Unsynced(broken(Cause::Forbidden)))));
        assert_eq!(state.freed, None);
        state.step(Input::Freed(Box::new(Event::Synced)));
        assert_eq!(state.freed, Some(Reuse::default()));
    }
}
