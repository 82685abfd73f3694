//! A cluster in memory: objects as JSON, changed by what the manager writes, and shown to it as events. It stands next to
//! the tests on a real API server, for speed.

use std::collections::{BTreeMap, VecDeque};

use causeway_alloc::Reuse;
use causeway_api::crd::policy as crd;
use causeway_api::intent::ClusterConfig;
use causeway_cluster::{Config, Features, Input, Manager, Output};
use causeway_record::recording::{line, messages};
use causeway_record::{Action, Ended, Kind, Outcome, Request, Target};
use causeway_record::{Event, OfKind, PolicyObject, Watched};
use causeway_types::{ConnectName, NodeId};
use serde_json::{Value, json};

pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) manager: Manager,
    pub(crate) objects: BTreeMap<Target, Value>,
    /// Namespaces by their names: nobody writes them, so no write names their kind.
    pub(crate) namespaces: BTreeMap<String, Value>,
    /// Events, as `kind namespace/name reason: message`.
    pub(crate) said: Vec<String>,
    /// Writes, as `kind namespace/name part`.
    pub(crate) writes: Vec<String>,
    /// Writes that were taken back, as `kind namespace/name part`.
    pub(crate) withdrawn: Vec<String>,
    /// Writes whose target contains this text fail.
    pub(crate) failing: Option<String>,
    /// Writes are kept back.
    pub(crate) paused: bool,
    pub(crate) held: VecDeque<Request>,
    queue: VecDeque<Request>,
    busy: bool,
    clock: i64,
    /// What the manager was last told that the time is.
    now_ms: i64,
    versions: u64,
}

pub(crate) fn cidr<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

pub(crate) fn config(subnets: &[(&str, u8)], services: &[&str]) -> Config {
    let cluster: Vec<_> = subnets.iter().map(|(text, _)| cidr(text)).collect();
    let services = services.iter().map(|text| cidr(text)).collect();
    let subnet = |(text, host): &(&str, u8)| causeway_api::intent::PodSubnet {
        cidr: cidr(text),
        host_prefix: Some(*host),
    };
    Config {
        cluster: ClusterConfig::new(cluster, services, NodeId::new(1001).unwrap()),
        default_subnets: subnets.iter().map(subnet).collect(),
        max_nodes: 1000,
        namespace: "causeway".into(),
        fence_after_ms: 600_000,
        connect_topology: causeway_types::ConnectTopology::Transit,
        no_overlay: false,
        features: Features { network_connect: true, ..Features::default() },
    }
}

pub(crate) fn ipv4() -> Config {
    config(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"])
}

pub(crate) fn dual() -> Config {
    config(&[("10.244.0.0/16", 24), ("fd00:10:244::/48", 64)], &["10.96.0.0/16", "fd00:10:96::/112"])
}

pub(crate) fn target(kind: Kind, path: &str) -> Target {
    match path.split_once('/') {
        Some((namespace, name)) => Target { kind, namespace: Some(namespace.into()), name: name.into() },
        None => Target { kind, namespace: None, name: path.into() },
    }
}

fn kind(object: &Value) -> Kind {
    match object["kind"].as_str().unwrap() {
        "Pod" => Kind::Pod,
        "Node" => Kind::Node,
        "NetworkAttachmentDefinition" => Kind::NetworkAttachmentDefinition,
        "UserDefinedNetwork" => Kind::UserDefinedNetwork,
        "ClusterUserDefinedNetwork" => Kind::ClusterUserDefinedNetwork,
        "ClusterNetworkConnect" => Kind::ClusterNetworkConnect,
        "ZoneReport" => Kind::ZoneReport,
        "VTEP" => Kind::Vtep,
        "ConfigMap" => Kind::ConfigMap,
        "EndpointSlice" => Kind::EndpointSlice,
        "ClusterNetworkPolicy" => Kind::ClusterNetworkPolicy,
        "AdminNetworkPolicy" => Kind::AdminNetworkPolicy,
        "BaselineAdminNetworkPolicy" => Kind::BaselineAdminNetworkPolicy,
        other => panic!("{other}"),
    }
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key.as_str()], value);
        }
    }
}

impl World {
    pub(crate) fn empty(config: Config) -> Self {
        let manager = Manager::new(config.clone()).unwrap();
        Self {
            config,
            manager,
            objects: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            said: Vec::new(),
            writes: Vec::new(),
            withdrawn: Vec::new(),
            failing: None,
            paused: false,
            held: VecDeque::new(),
            queue: VecDeque::new(),
            busy: false,
            clock: 0,
            now_ms: 0,
            versions: 0,
        }
    }

    /// A cluster with nodes, in which everything has been listed.
    pub(crate) fn new(config: Config, nodes: &[&str]) -> Self {
        let mut world = Self::empty(config);
        world.listed(Reuse::default());
        for node in nodes {
            world.node(node);
        }
        world
    }

    pub(crate) fn listed(&mut self, reuse: Reuse) {
        for input in synced(reuse) {
            let outputs = self.step(input);
            self.take(outputs);
        }
    }

    pub(crate) fn node(&mut self, name: &str) {
        self.put(json!({"kind": "Node", "metadata": {"name": name}, "spec": {}}));
    }

    pub(crate) fn namespace(&mut self, name: &str, labels: Value) {
        let mut namespace = json!({"kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        self.stamp(&mut namespace);
        self.namespaces.insert(name.to_owned(), namespace);
        self.show_namespace(name);
    }

    /// Gives a namespace labels, or takes some away.
    pub(crate) fn label(&mut self, namespace: &str, labels: Value) {
        self.change_namespace(namespace, &json!({"metadata": {"labels": labels}}));
    }

    pub(crate) fn change_namespace(&mut self, name: &str, patch: &Value) {
        merge(self.namespaces.get_mut(name).unwrap(), patch);
        self.show_namespace(name);
    }

    pub(crate) fn delete_namespace(&mut self, name: &str) {
        let namespace = self.namespaces.remove(name).unwrap();
        self.tell(&namespace, true);
    }

    fn show_namespace(&mut self, name: &str) {
        let namespace = self.namespaces[name].clone();
        self.tell(&namespace, false);
    }

    /// One event of an object.
    fn tell(&mut self, object: &Value, deleted: bool) {
        let outputs = event(object, deleted).map(|input| self.step(input)).unwrap_or_default();
        self.take(outputs);
    }

    /// A namespace whose pods use a primary network of its own.
    pub(crate) fn tenant(&mut self, name: &str) {
        self.namespace(name, json!({"k8s.ovn.org/primary-user-defined-network": ""}));
    }

    pub(crate) fn pod(&mut self, path: &str, node: &str) {
        self.pod_with(path, node, json!({}));
    }

    pub(crate) fn pod_with(&mut self, path: &str, node: &str, annotations: Value) {
        let (namespace, name) = path.split_once('/').unwrap();
        self.put(json!({
            "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "annotations": annotations},
            "spec": {"nodeName": node},
        }));
    }

    pub(crate) fn udn(&mut self, path: &str, spec: Value) {
        let (namespace, name) = path.split_once('/').unwrap();
        let metadata = json!({"namespace": namespace, "name": name});
        self.put(json!({"kind": "UserDefinedNetwork", "metadata": metadata, "spec": spec}));
    }

    pub(crate) fn layer2(&mut self, path: &str, subnets: &[&str]) {
        self.udn(path, json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": subnets}}));
    }

    pub(crate) fn layer3(&mut self, path: &str, cidr: &str, host: u8) {
        let subnets = json!([{"cidr": cidr, "hostSubnet": host}]);
        self.udn(path, json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}}));
    }

    pub(crate) fn cudn(&mut self, name: &str, selector: Value, network: Value) {
        self.put(json!({
            "kind": "ClusterUserDefinedNetwork", "metadata": {"name": name},
            "spec": {"namespaceSelector": selector, "network": network},
        }));
    }

    /// A primary layer3 ClusterUserDefinedNetwork for the namespace of its name, with labels.
    pub(crate) fn island(&mut self, name: &str, cidr: &str, labels: Value) {
        self.tenant(name);
        self.label(name, json!({"name": name}));
        let subnets = json!([{"cidr": cidr, "hostSubnet": 24}]);
        self.put(json!({
            "kind": "ClusterUserDefinedNetwork", "metadata": {"name": name, "labels": labels},
            "spec": {"namespaceSelector": {"matchLabels": {"name": name}},
                     "network": {"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}}},
        }));
    }

    /// A connection of pods, over these subnets, of what these selectors select.
    pub(crate) fn connect(&mut self, name: &str, subnets: &[(&str, u8)], selectors: Value) {
        let subnets: Vec<Value> =
            subnets.iter().map(|(cidr, prefix)| json!({"cidr": cidr, "networkPrefix": prefix})).collect();
        self.put(json!({"kind": "ClusterNetworkConnect", "metadata": {"name": name}, "spec": {
            "networkSelectors": selectors, "connectSubnets": subnets, "connectivity": ["PodNetwork"]}}));
    }

    /// What every zone reports when it has rendered all connections as they are now, and has cleared all freed numbers.
    pub(crate) fn zones_follow(&mut self) {
        let nodes = self.objects.keys().filter(|target| target.kind == Kind::Node);
        for node in nodes.map(|target| target.name.clone()).collect::<Vec<_>>() {
            self.zone_follows(&node);
        }
    }

    pub(crate) fn zone_follows(&mut self, node: &str) {
        let connects = self.objects.iter().filter(|(target, _)| target.kind == Kind::ClusterNetworkConnect);
        let rendered: Vec<Value> =
            connects.map(|(target, object)| json!({"name": target.name, "hash": hash(object)})).collect();
        let epoch = self.reuse().epoch;
        self.report(node, json!({"epoch": epoch, "connects": rendered}));
    }

    pub(crate) fn report(&mut self, node: &str, spec: Value) {
        self.objects.remove(&target(Kind::ZoneReport, node));
        self.put(json!({"kind": "ZoneReport", "metadata": {"name": node}, "spec": spec}));
    }

    /// Who has which block or parcel, as the annotation says it.
    pub(crate) fn blocks(&self, name: &str) -> Value {
        self.annotation(Kind::ClusterNetworkConnect, name, "k8s.ovn.org/network-subnets")
    }

    pub(crate) fn accepted(&self, name: &str) -> String {
        self.condition(Kind::ClusterNetworkConnect, name, "Accepted")
    }

    pub(crate) fn nad(&mut self, path: &str, config: &str) {
        let (namespace, name) = path.split_once('/').unwrap();
        let metadata = json!({"namespace": namespace, "name": name});
        self.put(
            json!({"kind": "NetworkAttachmentDefinition", "metadata": metadata, "spec": {"config": config}}),
        );
    }

    /// Creates an object.
    pub(crate) fn put(&mut self, mut object: Value) {
        self.stamp(&mut object);
        let key = key_of(&object);
        self.objects.insert(key.clone(), object);
        self.show(&key);
    }

    /// What the API server adds to a new object.
    fn stamp(&mut self, object: &mut Value) {
        self.clock += 1;
        let at = format!("1970-01-01T00:{:02}:{:02}Z", self.clock / 60, self.clock % 60);
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            meta["uid"] = format!("uid-{}", self.clock).into();
        }
        if meta["creationTimestamp"].is_null() {
            meta["creationTimestamp"] = at.into();
        }
        meta["generation"] = 1.into();
        object["apiVersion"] = "any".into();
    }

    /// Changes an object.
    pub(crate) fn change(&mut self, kind: Kind, path: &str, patch: &Value) {
        let key = target(kind, path);
        merge(self.objects.get_mut(&key).unwrap(), patch);
        self.show(&key);
    }

    /// Deletes an object; finalizers hold it.
    pub(crate) fn delete(&mut self, kind: Kind, path: &str) {
        let key = target(kind, path);
        self.delete_key(&key);
    }

    fn delete_key(&mut self, key: &Target) {
        let Some(object) = self.objects.get_mut(key) else { return };
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if held {
            object["metadata"]["deletionTimestamp"] = "1970-01-02T00:00:00Z".into();
            self.show(key);
        } else {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: &Target) {
        if let Some(object) = self.objects.remove(key) {
            self.tell(&object, true);
        }
    }

    /// One message to the manager, as it comes out of a recording.
    pub(crate) fn step(&mut self, input: Input) -> Vec<Output> {
        let written = line(1, &input).unwrap();
        let (_, read) = messages::<Input>([written.as_str()]).next().unwrap().unwrap();
        assert_eq!(read, input);
        self.manager.step(read)
    }

    /// Tells the manager what the object is now.
    pub(crate) fn show(&mut self, key: &Target) {
        self.versions += 1;
        let object = self.objects.get_mut(key).unwrap();
        object["metadata"]["resourceVersion"] = self.versions.to_string().into();
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if deleting && !held {
            return self.remove(key);
        }
        let object = object.clone();
        self.tell(&object, false);
    }

    /// A second passes: what can wait is written.
    pub(crate) fn second(&mut self) {
        self.tick(self.now_ms + 1_000);
    }

    pub(crate) fn tick(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        let outputs = self.step(Input::Tick(now_ms));
        self.take(outputs);
    }

    pub(crate) fn take(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Event(note) => {
                    let about = note.regarding;
                    let namespace = about.namespace.map(|ns| format!("{ns}/")).unwrap_or_default();
                    let text =
                        format!("{} {namespace}{} {}: {}", about.kind, about.name, note.reason, note.message);
                    self.said.push(text);
                }
                Output::Withdraw { target, part } => {
                    self.queue.retain(|request| request.target != target || request.part != part);
                    self.held.retain(|request| request.target != target || request.part != part);
                    self.withdrawn.push(format!("{target} {part}"));
                }
                Output::Write(request) if self.paused => self.held.push_back(request),
                Output::Write(request) => self.queue.push_back(request),
            }
        }
        self.work_off();
    }

    /// Does what was asked for in the order in which it was asked for, as the queue of writes does: what an event of one write
    /// leads to comes after what is waiting already.
    fn work_off(&mut self) {
        if std::mem::replace(&mut self.busy, true) {
            return;
        }
        while let Some(request) = self.queue.pop_front() {
            self.write(request);
        }
        self.busy = false;
    }

    /// Lets writes through that were kept back.
    pub(crate) fn resume(&mut self) {
        self.paused = false;
        self.queue.append(&mut self.held);
        self.work_off();
    }

    fn write(&mut self, request: Request) {
        let text = format!("{} {}", request.target, request.part);
        let failing = self.failing.as_ref().is_some_and(|failing| text.contains(failing.as_str()));
        self.writes.push(text);
        let result = if failing { Ended::Failed("the server is sad".into()) } else { self.perform(&request) };
        let written = Input::Written(Outcome {
            target: request.target,
            part: request.part,
            token: request.token,
            result,
        });
        let outputs = self.step(written);
        self.take(outputs);
    }

    /// A write happens, but nobody hears of it any more.
    pub(crate) fn perform_only(&mut self, request: &Request) {
        self.paused = true;
        self.perform(request);
        self.held.retain(|held| held.token <= request.token);
        self.paused = false;
    }

    fn perform(&mut self, request: &Request) -> Ended {
        let key = &request.target;
        match &request.action {
            Action::Create(body) => {
                if self.objects.contains_key(key) {
                    return Ended::Conflict("already exists".into());
                }
                self.put(body.clone());
            }
            Action::Delete { uid } => match self.objects.get(key) {
                None => return Ended::NotFound,
                Some(object) if object["metadata"]["uid"] != *uid => {
                    return Ended::Conflict("the UID is another".into());
                }
                Some(_) => self.delete_key(key),
            },
            Action::Apply { body, subresource, .. } | Action::Merge { body, subresource } => {
                let apply = matches!(request.action, Action::Apply { .. });
                let Some(object) = self.objects.get_mut(key) else {
                    if !apply || subresource.is_some() {
                        return Ended::NotFound;
                    }
                    self.put(body.clone());
                    return Ended::Done;
                };
                let version = &body["metadata"]["resourceVersion"];
                if !version.is_null() && *version != object["metadata"]["resourceVersion"] {
                    return Ended::Conflict("the object has been modified".into());
                }
                let uid = &body["metadata"]["uid"];
                if !uid.is_null() && *uid != object["metadata"]["uid"] {
                    return Ended::Conflict("the UID is another".into());
                }
                let before = object.clone();
                let mut body = body.clone();
                if apply && !body["status"].is_null() {
                    object["status"] = json!({"conditions": foreign(&before)});
                    let own = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
                    let all: Vec<Value> = foreign(&before).into_iter().chain(own).collect();
                    body["status"]["conditions"] = all.into();
                }
                merge(object, &body);
                let changed = *object != before;
                if changed {
                    self.show(key);
                }
            }
        }
        Ended::Done
    }

    /// The value of an annotation of a pod, node or attachment, as JSON where it is JSON.
    pub(crate) fn annotation(&self, kind: Kind, path: &str, key: &str) -> Value {
        let text = &self.object(kind, path)["metadata"]["annotations"][key];
        text.as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    }

    /// What a pod has, per attachment.
    pub(crate) fn networks(&self, path: &str) -> Value {
        self.annotation(Kind::Pod, path, "k8s.ovn.org/pod-networks")
    }

    /// The pod's first address on an attachment.
    pub(crate) fn address(&self, path: &str, attachment: &str) -> Value {
        self.networks(path)[attachment]["ip_addresses"][0].clone()
    }

    pub(crate) fn object(&self, kind: Kind, path: &str) -> &Value {
        self.objects.get(&target(kind, path)).unwrap_or(&Value::Null)
    }

    pub(crate) fn has_nad(&self, path: &str) -> bool {
        !self.object(Kind::NetworkAttachmentDefinition, path).is_null()
    }

    /// A condition as `status/reason message`.
    pub(crate) fn condition(&self, kind: Kind, path: &str, name: &str) -> String {
        let conditions = self.object(kind, path)["status"]["conditions"].as_array().cloned();
        let found = conditions.unwrap_or_default().into_iter().find(|c| c["type"] == name);
        found.map_or_else(String::new, |c| {
            let text = |field: &str| c[field].as_str().unwrap_or_default().to_owned();
            format!("{}/{} {}", text("status"), text("reason"), text("message"))
        })
    }

    pub(crate) fn udn_condition(&self, path: &str, name: &str) -> String {
        self.condition(Kind::UserDefinedNetwork, path, name)
    }

    pub(crate) fn cudn_condition(&self, name: &str, condition: &str) -> String {
        self.condition(Kind::ClusterUserDefinedNetwork, name, condition)
    }

    /// What was recorded about freed numbers.
    pub(crate) fn reuse(&self) -> Reuse {
        let map = self.object(Kind::ConfigMap, "causeway/causeway-freed-numbers");
        map["data"]["reuse"].as_str().map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default()
    }

    /// All that a manager is shown when it starts.
    pub(crate) fn everything(&self) -> impl Iterator<Item = &Value> {
        self.namespaces.values().chain(self.objects.values())
    }

    /// Another manager takes over, and nobody has told it yet which VTEPs there are.
    pub(crate) fn restart_without_vteps(&mut self) {
        self.take_over_from(
            |objects| objects.retain(|object| object["kind"] != "VTEP"),
            |input| !matches!(input, Input::Vtep(_)),
        );
    }

    /// Another manager takes over a second later, and sees the objects in the given order.
    pub(crate) fn restart(&mut self, order: impl Fn(&mut Vec<Value>)) {
        self.second();
        self.take_over(order);
    }

    /// Another manager takes over in the middle of something.
    pub(crate) fn take_over(&mut self, order: impl Fn(&mut Vec<Value>)) {
        self.take_over_from(order, |_| true);
    }

    fn take_over_from(&mut self, order: impl Fn(&mut Vec<Value>), is_said: impl Fn(&Input) -> bool) {
        self.manager = Manager::new(self.config.clone()).unwrap();
        self.writes.clear();
        self.said.clear();
        let mut objects: Vec<Value> = self.everything().cloned().collect();
        order(&mut objects);
        let mut outputs = Vec::new();
        self.now_ms = 99_000_000;
        outputs.extend(self.step(Input::Tick(self.now_ms)));
        for object in &objects {
            outputs.extend(event(object, false).map(|input| self.step(input)).unwrap_or_default());
        }
        for input in synced(self.reuse()).into_iter().filter(is_said) {
            outputs.extend(self.step(input));
        }
        self.take(outputs);
    }
}

/// What a zone reports when it has rendered a connection as it is.
pub(crate) fn hash(object: &Value) -> String {
    let name = ConnectName::new(object["metadata"]["name"].as_str().unwrap()).unwrap();
    let spec = serde_json::from_value(object["spec"].clone()).unwrap();
    let annotations: BTreeMap<String, String> =
        serde_json::from_value(object["metadata"]["annotations"].clone()).unwrap_or_default();
    causeway_api::intent::Connect::of(&name, &spec).unwrap().report_hash(&annotations)
}

/// Selects ClusterUserDefinedNetworks with these labels.
pub(crate) fn cudns(labels: Value) -> Value {
    json!({"networkSelectionType": "ClusterUserDefinedNetworks",
           "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": labels}}})
}

/// Selects the primary networks of namespaces with these labels.
pub(crate) fn namespaces(labels: Value) -> Value {
    json!({"networkSelectionType": "PrimaryUserDefinedNetworks",
           "primaryUserDefinedNetworkSelector": {"namespaceSelector": {"matchLabels": labels}}})
}

fn foreign(object: &Value) -> Vec<Value> {
    let ours = ["NetworkReady", "NetworkCreated", "NetworkAllocationSucceeded", "Accepted", "Ready"];
    let is_ours = |kind: &str| ours.contains(&kind) || kind.starts_with("Ready-In-Zone-");
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().filter(|c| !is_ours(c["type"].as_str().unwrap_or_default())).collect()
}

fn key_of(object: &Value) -> Target {
    let meta = &object["metadata"];
    Target {
        kind: kind(object),
        namespace: meta["namespace"].as_str().map(str::to_owned),
        name: meta["name"].as_str().unwrap().to_owned(),
    }
}

pub(crate) fn synced(reuse: Reuse) -> Vec<Input> {
    vec![
        Input::EndpointSlice(Event::Synced),
        Input::Node(Event::Synced),
        Input::Namespace(Event::Synced),
        Input::Pod(Event::Synced),
        Input::Nad(Event::Synced),
        Input::UserDefinedNetwork(Event::Synced),
        Input::ClusterUserDefinedNetwork(Event::Synced),
        Input::ClusterNetworkConnect(Event::Synced),
        Input::ZoneReport(Event::Synced),
        Input::Vtep(Event::Synced),
        Input::FreedNumbers(Box::new(reuse)),
    ]
}

fn watched<T: Watched>(object: &Value, deleted: bool) -> Event<T, T::Key> {
    let object: T::Object = serde_json::from_value(object.clone()).unwrap();
    let key = T::key(&object).unwrap();
    if deleted { Event::Deleted(key) } else { Event::Applied(T::trim(object, key)) }
}

fn policy<K: PolicyObject>(object: &Value, deleted: bool) -> Input {
    Input::Policy(K::KIND, watched::<OfKind<K>>(object, deleted).map(|read| read.policy))
}

pub(crate) fn event(object: &Value, deleted: bool) -> Option<Input> {
    Some(match object["kind"].as_str().unwrap() {
        "Pod" => Input::Pod(watched(object, deleted)),
        "Node" => Input::Node(watched(object, deleted)),
        "Namespace" => Input::Namespace(watched(object, deleted)),
        "NetworkAttachmentDefinition" => Input::Nad(watched(object, deleted)),
        "UserDefinedNetwork" => Input::UserDefinedNetwork(watched(object, deleted)),
        "ClusterUserDefinedNetwork" => Input::ClusterUserDefinedNetwork(watched(object, deleted)),
        "ClusterNetworkConnect" => Input::ClusterNetworkConnect(watched(object, deleted)),
        "ZoneReport" => Input::ZoneReport(watched(object, deleted)),
        "VTEP" => Input::Vtep(watched(object, deleted)),
        "EndpointSlice" => Input::EndpointSlice(watched(object, deleted)),
        "ClusterNetworkPolicy" => policy::<crd::ClusterNetworkPolicy>(object, deleted),
        "AdminNetworkPolicy" => policy::<crd::AdminNetworkPolicy>(object, deleted),
        "BaselineAdminNetworkPolicy" => policy::<crd::BaselineAdminNetworkPolicy>(object, deleted),
        _ => return None,
    })
}
