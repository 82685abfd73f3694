//! The agent's own task: databases in, updates of the plan out.

use causeway_evpn::{Agent, Node, Refused};
use causeway_host::Mark;
use causeway_ovsdb_client::ovsdb::Event;
use causeway_ovsdb_client::{Client, ClientEvent, Remote, TlsFiles};
use causeway_runtime::{Health, Tasks, describe, serve};
use prometheus_client::registry::Registry;
use std::collections::BTreeSet;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::{info, warn};

use super::flags::EvpnFlags;
use super::host::{Order, SETTLE, Work};
use super::metrics::Metrics;
use super::outputs::{Outputs, ways};
use super::switch::SwitchSeen;
use super::{rows, switch, vtep};
use crate::kernel_events::{address_events, kernel_events};

/// Runs the agent until it is told to end.
///
/// # Errors
/// What it cannot start without.
pub async fn run(flags: EvpnFlags) -> anyhow::Result<()> {
    let tls = flags.tls()?;
    flags.check(std::slice::from_ref(&flags.vswitch), tls.as_ref()).map_err(anyhow::Error::msg)?;
    flags.check(&flags.southbound, tls.as_ref()).map_err(anyhow::Error::msg)?;
    let mut registry = Registry::default();
    describe(&mut registry, "evpn-agent");
    let health = Health::waiting("starting");
    registry.register_collector(Box::new(health.clone()));
    let mut tasks = Tasks::new(&health, &mut registry);
    let metrics = Metrics::registered(&mut registry);
    // Without a bound: an order says what differs from the last one, so none may be lost, and whoever carries them out takes all that
    // wait before each look at the node. What waits is no more than what has changed during one look.
    let (orders, received) = mpsc::unbounded_channel();
    let (said, state) = watch::channel(Err("nothing is planned yet".to_owned()));
    let work = Work::new(Outputs::new(&flags), &flags.frr(), metrics.clone(), said);
    let kernel = kernel_events(&mut tasks, Mark::EVPN);
    tasks.start("host", work.run(received, kernel));
    // Whoever was told the end of the tunnels need not look for it.
    let told = flags.vtep.is_none();
    let addresses = told.then(|| address_events(&mut tasks, &flags.vtep_device, Mark::EVPN));
    serve(&mut tasks, flags.metrics_address, registry, health.clone()).await?;
    let mut task = Task::new(flags, tls, orders, metrics, health, state);
    task.agent.remember(ways()?);
    info!("the EVPN agent has started");
    tokio::select! {
        () = task.work(addresses) => {}
        ended = tasks.ended() => return Err(ended.into()),
        () = told_to_end() => info!("ending; what is exposed stays so"),
    }
    Ok(())
}

async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

struct Task {
    flags: EvpnFlags,
    tls: Option<TlsFiles>,
    agent: Agent,
    switch: Client,
    seen: Option<SwitchSeen>,
    /// The southbound database with the address at which it is, once that is known.
    southbound: Option<(Vec<Remote>, Client)>,
    /// Why there is no southbound database.
    missing: Option<String>,
    /// Whether the southbound database was read whole since it was found.
    complete: bool,
    /// Whether what the node says of itself is to be looked at again.
    stale: bool,
    /// What is missing of the node.
    node: Result<(), String>,
    orders: mpsc::UnboundedSender<Order>,
    metrics: Metrics,
    health: Health,
    host: watch::Receiver<Result<(), String>>,
    refused: Vec<Refused>,
}

impl Task {
    fn new(
        flags: EvpnFlags,
        tls: Option<TlsFiles>,
        orders: mpsc::UnboundedSender<Order>,
        metrics: Metrics,
        health: Health,
        host: watch::Receiver<Result<(), String>>,
    ) -> Task {
        let switch = switch::client(flags.vswitch.clone(), tls.clone());
        let missing = Some("the Open vSwitch database has not answered yet".to_owned());
        Task {
            flags,
            tls,
            agent: Agent::default(),
            switch,
            seen: None,
            southbound: None,
            missing,
            complete: false,
            stale: true,
            node: Err("starting".into()),
            orders,
            metrics,
            health,
            host,
            refused: Vec::new(),
        }
    }

    async fn work(&mut self, mut addresses: Option<watch::Receiver<u64>>) {
        loop {
            tokio::select! {
                event = self.switch.next() => self.on_switch(event),
                event = next(&mut self.southbound) => self.on_southbound(event),
                () = changed(&mut addresses) => {
                    sleep(SETTLE).await;
                    addresses.iter_mut().for_each(|events| drop(events.borrow_and_update()));
                    self.stale = true;
                }
                Ok(()) = self.host.changed() => {}
            }
            while let Some(event) = self.southbound.as_mut().and_then(|(_, client)| client.poll_event()) {
                self.on_southbound(event);
            }
            self.follow();
        }
    }

    fn on_switch(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Session(Event::Synced(_) | Event::Changed(_)) => {
                let seen = switch::look(self.switch.replica());
                if self.seen.as_ref() != Some(&seen) {
                    self.stale = true;
                    let bridges: BTreeSet<String> = seen.numbers.keys().cloned().collect();
                    // The task's end ends the role.
                    let _ended = self.orders.send(Order::Bridges(bridges));
                    self.find_southbound(&seen);
                    self.seen = Some(seen);
                }
            }
            ClientEvent::Disconnected { remote, reason } => {
                warn!(%remote, reason, "the Open vSwitch database is out of reach; what is known of it stays");
            }
            _ => {}
        }
    }

    /// Follows the database that ovn-controller follows, unless another one was named.
    fn find_southbound(&mut self, seen: &SwitchSeen) {
        let remotes = match (self.flags.southbound.is_empty(), &seen.southbound) {
            (false, _) => Ok(self.flags.southbound.clone()),
            (true, Some(text)) => {
                Remote::list(text).map_err(|error| format!("external_ids:ovn-remote: {error}"))
            }
            (true, None) => {
                Err("Open vSwitch has no external_ids:ovn-remote; name the database with --southbound".into())
            }
        };
        let remotes =
            remotes.and_then(|remotes| self.flags.check(&remotes, self.tls.as_ref()).map(|()| remotes));
        match remotes {
            Ok(remotes) if self.southbound.as_ref().is_some_and(|(known, _)| *known == remotes) => {}
            Ok(remotes) => {
                info!(remote = %remotes.iter().map(ToString::to_string).collect::<Vec<_>>().join(","), "following the southbound database");
                let client = rows::client(remotes.clone(), self.tls.clone());
                (self.southbound, self.complete, self.missing) = (Some((remotes, client)), false, None);
            }
            Err(reason) => {
                warn!(reason, "there is no southbound database to follow");
                (self.southbound, self.complete, self.missing) = (None, false, Some(reason));
            }
        }
    }

    fn on_southbound(&mut self, event: ClientEvent) {
        let Some((_, client)) = &self.southbound else { return };
        match event {
            ClientEvent::Session(Event::Synced(_)) => {
                rows::tell_all(client.replica(), &mut self.agent);
                (self.complete, self.stale) = (true, true);
            }
            ClientEvent::Session(Event::Changed(changes)) if self.complete => {
                rows::tell(client.replica(), &changes, &mut self.agent);
            }
            ClientEvent::Disconnected { remote, reason } => {
                warn!(%remote, reason, "the southbound database is out of reach; what is known of it stays");
            }
            _ => {}
        }
    }

    /// Plans again what has changed.
    fn follow(&mut self) {
        if std::mem::take(&mut self.stale) {
            let node = self.look_at_node();
            self.node = node.as_ref().map(|_| ()).map_err(Clone::clone);
            self.agent.set_node(node);
        }
        let update = self.agent.follow();
        if !update.is_empty() {
            let _ended = self.orders.send(Order::Update(update));
            self.tell();
        }
        let host = self.host.borrow_and_update().clone();
        self.health.set(self.node.clone().and(host));
    }

    /// Nothing is planned before everything was read once.
    fn look_at_node(&self) -> Result<Node, String> {
        match (&self.seen, self.complete) {
            (Some(seen), true) => vtep::node(&self.flags, seen),
            (None, true) => Err("the Open vSwitch database has not answered yet".to_owned()),
            (_, false) => {
                let waits = "the southbound database has not been read yet".to_owned();
                Err(self.missing.clone().unwrap_or(waits))
            }
        }
    }

    fn tell(&mut self) {
        let status = self.agent.status();
        self.metrics.status(&status);
        for refused in status.refused.iter().filter(|one| !self.refused.contains(one)) {
            warn!(port = refused.port, reason = refused.reason, "it is annotated and not exposed");
        }
        self.refused = status.refused;
    }
}

/// Whoever has no database waits for ever.
async fn next(southbound: &mut Option<(Vec<Remote>, Client)>) -> ClientEvent {
    match southbound {
        Some((_, client)) => client.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until something has changed.
async fn changed(events: &mut Option<watch::Receiver<u64>>) {
    let Some(events) = events else { return std::future::pending().await };
    if events.changed().await.is_err() {
        std::future::pending().await
    }
}
