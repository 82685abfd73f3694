//! Addresses for services of type LoadBalancer, as a cloud or MetalLB would give them: from a range of the underlay, one
//! for each family of the service, answered for (ARP, NDP) by one node.
//!
//! Which address a service has stands in its status and nowhere else, so a restart forgets nothing. Which node answers
//! follows from who is there.

mod announce;
mod decide;
mod packet;
mod records;

use crate::boot::INSIDE;
use crate::error::{Error, Result};
use crate::folder::Folder;
use announce::Announcer;
use causeway_record::{Event, EventNote, ObjectKey, Regarding};
use causeway_runtime::watch::{Selection, Watches};
use causeway_runtime::{Health, Permit, Recorder, Tasks, client};
use decide::{Decision, decide};
use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use prometheus_client::registry::Registry;
use records::{Backends, Host, Service};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How often is looked whether everything is as it shall be, events aside: nodes are switched on and off without one.
const LOOK: Duration = Duration::from_secs(1);
/// How long the API server may take for a write.
const ANSWER: Duration = Duration::from_secs(3);
/// Messages that wait.
const WAITING: usize = 256;

/// Works until the process ends.
pub(crate) fn serve(kubeconfig: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::file("the runtime of the pool"))?;
    runtime.block_on(run(kubeconfig))
}

enum Message {
    Service(Event<Service, ObjectKey>),
    Backends(Event<Backends, ObjectKey>),
    Host(Event<Host, String>),
}

async fn run(kubeconfig: &Path) -> Result<()> {
    let client = client(Some(kubeconfig), "sandbox-pool").await.map_err(|e| Error::Request(e.to_string()))?;
    let mut registry = Registry::default();
    let health = Health::waiting("starting");
    let mut tasks = Tasks::new(&health, &mut registry);
    let recorder = Recorder::new(&mut registry);
    recorder.start(&mut tasks, client.clone(), Permit::always(), "causeway-sandbox", "pool");
    let (sender, mut messages) = mpsc::channel(WAITING);
    let mut watches = Watches { tasks: &mut tasks, health: &health, sender };
    watches.everywhere(&client, Selection::default(), Message::Service);
    watches.everywhere(&client, Selection::default(), Message::Backends);
    watches.everywhere(&client, Selection::default(), Message::Host);
    drop(watches);
    let mut pool = Pool {
        client,
        recorder,
        known: Known::default(),
        announcer: Announcer::new(),
        told: BTreeMap::new(),
    };
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Some(message) => pool.known.learn(message),
                None => return Err(Error::Request("all watches have ended".into())),
            },
            _ = look.tick() => {}
        }
        while let Ok(message) = messages.try_recv() {
            pool.known.learn(message);
        }
        pool.turn().await;
    }
}

/// What the API server has.
#[derive(Default)]
struct Known {
    services: Seen<ObjectKey, Service>,
    backends: Seen<ObjectKey, Backends>,
    hosts: Seen<String, Host>,
}

/// Objects of a kind, and whether all of them were said.
struct Seen<K, T> {
    all: BTreeMap<K, T>,
    whole: bool,
}

impl<K, T> Default for Seen<K, T> {
    fn default() -> Self {
        Seen { all: BTreeMap::new(), whole: false }
    }
}

impl<K: Ord, T> Seen<K, T> {
    fn learn(&mut self, event: Event<T, K>, key: impl Fn(&T) -> K) {
        match event {
            Event::Applied(object) => drop(self.all.insert(key(&object), object)),
            Event::Deleted(key) => drop(self.all.remove(&key)),
            Event::Synced => self.whole = true,
            // What was said stays true as far as anybody knows.
            Event::Unsynced(_) => {}
        }
    }
}

impl Known {
    fn learn(&mut self, message: Message) {
        match message {
            Message::Service(event) => self.services.learn(event, |service| service.key.clone()),
            Message::Backends(event) => self.backends.learn(event, |backends| backends.key.clone()),
            Message::Host(event) => self.hosts.learn(event, |host| host.name.clone()),
        }
    }

    /// Half a picture decides nothing.
    fn is_whole(&self) -> bool {
        self.services.whole && self.backends.whole && self.hosts.whole
    }
}

struct Pool {
    client: Client,
    recorder: Recorder,
    known: Known,
    announcer: Announcer,
    /// Which problem of a service was told last.
    told: BTreeMap<ObjectKey, String>,
}

impl Pool {
    async fn turn(&mut self) {
        if !self.known.is_whole() {
            return;
        }
        let running = running_nodes();
        let fit = self.known.hosts.all.values().filter(|host| host.fit && running.contains(&host.name));
        let fit: BTreeSet<&str> = fit.map(|host| host.name.as_str()).collect();
        let decisions = decide(&self.known.services.all, self.known.backends.all.values(), &fit);
        for (key, decision) in &decisions {
            self.tell(key, decision);
            self.write(key, decision).await;
        }
        self.told.retain(|key, _| decisions.get(key).is_some_and(|decision| decision.problem.is_some()));
        let mut wanted: BTreeMap<String, BTreeSet<IpAddr>> =
            running.into_iter().map(|node| (node, BTreeSet::new())).collect();
        for decision in decisions.into_values() {
            let node = decision.announcer.and_then(|node| wanted.get_mut(&node));
            node.into_iter().for_each(|addresses| addresses.extend(&decision.addresses));
        }
        self.announcer.announce(wanted).await;
    }

    /// The service's status has the addresses.
    async fn write(&self, key: &ObjectKey, decision: &Decision) {
        let Some(service) = self.known.services.all.get(key) else { return };
        if service.given == decision.addresses {
            return;
        }
        let ingress: Vec<_> =
            decision.addresses.iter().map(|address| json!({"ip": address, "ipMode": "VIP"})).collect();
        let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        let api: Api<core::Service> = Api::namespaced(self.client.clone(), key.namespace.as_str());
        let params = PatchParams::default();
        let patch = Patch::Merge(&status);
        // What was not written is seen and written at the next look.
        let _later = timeout(ANSWER, api.patch_status(&key.name, &params, &patch)).await;
    }

    fn tell(&mut self, key: &ObjectKey, decision: &Decision) {
        let Some(problem) = &decision.problem else { return };
        if self.told.get(key) == Some(problem) {
            return;
        }
        self.told.insert(key.clone(), problem.clone());
        let uid = self.known.services.all.get(key).map(|service| service.uid.clone()).unwrap_or_default();
        self.recorder.say(EventNote {
            regarding: Regarding {
                api_version: "v1".into(),
                kind: "Service".into(),
                namespace: Some(key.namespace.to_string()),
                name: key.name.clone(),
                uid,
            },
            warning: true,
            reason: "NoAddress".into(),
            message: problem.clone(),
        });
    }
}

/// The nodes that are switched on and not cut off. A node that is neither is lost at once, as its neighbours would see.
fn running_nodes() -> BTreeSet<String> {
    let Ok(wanted) = Folder::at(INSIDE).wanted() else { return BTreeSet::new() };
    let reachable = wanted.running().filter(|(_, node)| !node.partitioned);
    reachable.map(|(name, _)| name.to_owned()).collect()
}
