//! The role's one task, and the children that own its sockets.

mod looking;

use std::io;
use std::time::Duration;

use anyhow::Context as _;
use causeway_host::{Kernel, Mark};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::{Declarations, NORTHBOUND, SOUTHBOUND};
use causeway_ovsdb_client::{Remote, TlsFiles};
use causeway_plan::Dirty;
use causeway_plan::host::{HostDirty, HostKeeper, INTEGRATION_BRIDGE};
use causeway_plan::node::annotations;
use causeway_plan::progress::{Component, Moment, Signs, Silence};
use causeway_record::recording::Header;
use causeway_record::{Action, Ended, Event, Kind, Outcome, OwnReport, Part, Priority, Request, Target};
use causeway_runtime::watch::Watches;
use causeway_runtime::write::Writer;
use causeway_runtime::{Health, Permit, Recording, Tasks, describe, serve};
use causeway_types::host::{Item, Key, Planned};
use causeway_types::{Cidr, Mac, NetworkId, NodeName, management_port_device};
use causeway_zone::{Change, Changes, Input, Knowledge, ZoneConfig};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::endings::Endings;
use super::flags::NodeFlags;
use super::host::{HostTask, memory, programs};
use super::local_endpoints::LocalEndpointPorts;
use super::messages::{Message, start_watches};
use super::metrics::Metrics;
use super::outside::Outside;
use super::processes::ProcessWatch;
use super::wiring::Wiring;
use crate::kernel_events::kernel_events;
use crate::ovs::{Ovs, OvsConfig};
use crate::{Applier, ApplierConfig};
use looking::{Found, Said, silence};

/// Two processes must not write one zone.
const LOCK: &str = "causeway_zone";
/// Messages that wait for the task.
const QUEUE: usize = 4096;
/// How many messages are taken before the databases get their turn.
const BATCH: usize = 2000;
/// Where ovn-controller says in the southbound database how far it is.
const ANSWERS: &str = "Chassis_Private";
/// How often the zone is looked over as a whole while things happen, for reports and metrics: what an event costs must
/// not grow with what it does not touch. While nothing happens nobody looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// While nothing happens.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);
/// How long links outlive their road: by then every zone that can be reached has heard that nobody sends there any more.
const LINGER_MS: u64 = 5_000;
/// A look that is due and cannot be done yet is not tried in a busy loop.
const SHORTEST_SLEEP: Duration = Duration::from_millis(20);

/// Runs the role until it is told to end.
///
/// # Errors
/// What it cannot start without.
pub async fn run(flags: NodeFlags) -> anyhow::Result<()> {
    flags.cluster.check()?;
    let tls = flags.tls()?;
    let client = causeway_runtime::client(flags.cluster.kubeconfig.as_deref(), "node").await?;
    let (sender, messages) = mpsc::channel(QUEUE);
    let mut registry = Registry::default();
    describe(&mut registry, "node");
    let health = Health::waiting("starting");
    registry.register_collector(Box::new(health.clone()));
    let mut tasks = Tasks::new(&health, &mut registry);
    let writer = Writer::new(&mut registry);
    writer.start(&mut tasks, client.clone(), Permit::always(), sender.clone(), Message::Written);
    start_watches(&client, Watches { tasks: &mut tasks, health: &health, sender }, &flags);
    let metrics = Metrics::registered(&mut registry);
    let mut task = Task::new(&flags, tls, &mut tasks, writer, metrics, health.clone(), &mut registry)
        .with_context(|| flags.cni_socket.display().to_string())?;
    serve(&mut tasks, flags.metrics_address, registry, health).await?;
    info!(node = %flags.node_name, "the node role has started");
    tokio::select! {
        () = task.work(messages) => {}
        ended = tasks.ended() => return Err(ended.into()),
        () = told_to_end() => info!("ending; pods keep their network"),
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

/// Connections are the only thing whose rendering somebody waits for; their groups of load balancers are part of them.
const COUNTED: &[&str] = &["cnc", "Load_Balancer_Group"];

fn applier(
    declarations: &'static Declarations,
    remote: &Remote,
    tls: &Option<TlsFiles>,
    counted: &'static [&'static str],
) -> Applier {
    Applier::new(ApplierConfig {
        declarations,
        remotes: vec![remote.clone()],
        tls: tls.clone(),
        options: Options { lock: Some(LOCK.into()), counted, ..Options::default() },
    })
}

struct Task {
    state: Knowledge,
    recording: Recording,
    northbound: Applier,
    southbound: Applier,
    host: HostTask,
    host_plan: HostKeeper,
    local_endpoints: LocalEndpointPorts,
    wiring: Wiring,
    outside: Outside,
    processes: ProcessWatch,
    endings: Endings,
    writer: Writer,
    metrics: Metrics,
    health: Health,
    masquerade: Vec<Cidr>,
    /// The MAC address of the default network's management port.
    management: Option<Mac>,
    /// What looks have found.
    found: Found,
    /// What was told to others.
    said: Said,
    /// Who owes an answer.
    silence: Silence,
    /// The chassis whose answers are read.
    chassis: Option<String>,
    born: Instant,
    /// When everything had been listed once.
    listed: Instant,
    looked: Instant,
    /// Whether anything has happened since the last look.
    stirred: bool,
}

/// A zone of which nothing is known yet, and what writes down what comes in.
fn begin(flags: &NodeFlags) -> io::Result<(Knowledge, Recording)> {
    let config = ZoneConfig {
        pod_subnets: flags.cluster.cluster_subnets.clone(),
        render: flags.rendering(),
        connects: flags.enable_network_connect,
        ipsec: flags.enable_ipsec,
        default_services: flags.udn_allowed_default_services.clone(),
        all_services: flags.isolation.all_services(),
        stateless_policies: flags.isolation.enable_stateless_netpol,
        icmp_through_policies: flags.isolation.allow_icmp_network_policy,
        log_rate: flags.isolation.acl_logging_rate_limit,
        linger_ms: LINGER_MS,
        evpn_asn: flags.evpn_as,
        ..ZoneConfig::new(flags.node_name.clone(), flags.cluster.config())
    };
    let header = Header::new(causeway_plan::replay::ROLE, &config);
    let recording = Recording::begin(flags.record.as_deref(), &header).map_err(io::Error::other)?;
    Ok((Knowledge::new(config), recording))
}

/// Who has woken the task.
enum Woken {
    Event,
    Northbound,
    Southbound,
    Time,
}

impl Task {
    fn new(
        flags: &NodeFlags,
        tls: Option<TlsFiles>,
        tasks: &mut Tasks,
        writer: Writer,
        metrics: Metrics,
        health: Health,
        registry: &mut Registry,
    ) -> io::Result<Task> {
        let (state, recording) = begin(flags)?;
        let remotes = vec![flags.vswitch.clone()];
        let switch = OvsConfig { remotes, tls: tls.clone(), bridge: INTEGRATION_BRIDGE.into() };
        let (ovs, events) = (Ovs::start(tasks, switch), kernel_events(tasks, Mark::NODE));
        Ok(Task {
            state,
            recording,
            northbound: applier(&NORTHBOUND, &flags.northbound, &tls, COUNTED),
            southbound: applier(&SOUTHBOUND, &flags.southbound, &tls, &[]),
            host: HostTask::start(
                tasks,
                ovs.clone(),
                Kernel,
                programs(&flags.vswitch, flags.frr_folder.as_deref()),
                events.clone(),
            ),
            host_plan: HostKeeper::default(),
            outside: Outside::start(tasks, flags, ovs.clone(), events),
            processes: ProcessWatch::start(tasks, flags.isolation.told()),
            endings: Endings::start(tasks, ovs.clone(), memory(&flags.vswitch), registry),
            local_endpoints: LocalEndpointPorts::start(tasks),
            wiring: Wiring::start(tasks, flags, &health, ovs, registry)?,
            writer,
            metrics,
            health,
            masquerade: flags.cluster.config().masquerade_subnets,
            management: None,
            found: Found::default(),
            said: Said::default(),
            silence: Silence::new(Moment::ZERO),
            chassis: None,
            born: Instant::now(),
            listed: Instant::now(),
            looked: Instant::now(),
            stirred: true,
        })
    }

    async fn work(&mut self, mut messages: mpsc::Receiver<Message>) {
        loop {
            let ready = self.state.is_ready();
            let wake = self.wake();
            let Task { state, northbound, southbound, host, outside, processes, endings, wiring, .. } = self;
            let (nb, sb) = (causeway_plan::northbound(&state.zone), causeway_plan::southbound(&state.zone));
            let (woken, message) = tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => (Woken::Event, Some(message)),
                    None => return,
                },
                () = northbound.turn(&nb), if ready => (Woken::Northbound, None),
                () = southbound.turn(&sb), if ready => (Woken::Southbound, None),
                () = host.changed() => (Woken::Event, None),
                () = wiring.connected() => (Woken::Event, None),
                () = outside.changed() => (Woken::Event, None),
                () = processes.changed() => (Woken::Event, None),
                () = endings.changed() => (Woken::Event, None),
                () = sleep_until(wake) => (Woken::Time, None),
            };
            self.stirred |= !matches!(woken, Woken::Time);
            let unheard = self.state.freed.as_ref().is_some_and(|record| !record.away.is_empty());
            if matches!(woken, Woken::Northbound) || (unheard && matches!(woken, Woken::Southbound)) {
                self.found.gone.stir();
            }
            let mut dirty = self.tick();
            let more = std::iter::from_fn(|| messages.try_recv().ok()).take(BATCH);
            for message in message.into_iter().chain(more) {
                dirty.merge(self.take(message));
            }
            dirty.merge(self.look_outside());
            dirty.merge(self.look_at_processes());
            self.follow(dirty);
        }
    }

    /// When there is something to do without any event.
    fn wake(&self) -> Instant {
        let tick = self.state.zone.deadline().map(|ms| self.born + Duration::from_millis(ms));
        let look = (self.stirred && self.state.is_ready()).then(|| self.looked + LOOK_INTERVAL);
        let listen = self.state.is_ready().then(|| self.born + self.silence.next(self.born.elapsed()));
        let next = tick.into_iter().chain(look).chain(listen).chain(self.endings.next()).min();
        next.unwrap_or_else(|| Instant::now() + LONGEST_SLEEP).max(Instant::now() + SHORTEST_SLEEP)
    }

    fn tick(&mut self) -> Dirty {
        if !self.state.zone.keeps_time() {
            return Dirty::default();
        }
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.step(Input::Tick(now))
    }

    /// What follows from changes: pods hear of their wiring at once, the rest is looked at.
    fn changed(&mut self, changes: &Changes) -> Dirty {
        self.stirred |= !changes.is_empty();
        self.found.news |= !changes.is_empty();
        self.found.roads_stirred |= changes.iter().any(Change::concerns_connections);
        self.endings.narrowed(&self.state.zone, changes);
        self.found.carried_out.changed(changes);
        if self.state.is_ready() {
            self.wiring.publish(&self.state.zone, changes);
        }
        Dirty::after(&self.state.zone, changes)
    }

    /// Which ports lead outside now.
    fn look_outside(&mut self) -> Dirty {
        let ports = self.outside.look(self.state.own.as_ref());
        match self.state.zone.bridge() == ports.as_ref() {
            true => Dirty::default(),
            false => self.step(Input::Bridge(ports)),
        }
    }

    /// By what the kubelet and confined pods are known now.
    fn look_at_processes(&mut self) -> Dirty {
        let known = self.processes.look(&self.state.zone);
        match self.state.zone.processes() == known.as_ref() {
            true => Dirty::default(),
            false => known.map_or_else(Dirty::default, |known| self.step(Input::Processes(known))),
        }
    }

    fn step(&mut self, input: Input) -> Dirty {
        self.recording.take(std::slice::from_ref(&input));
        let listed = matches!(input, Input::Freed(..));
        // An object may say something else of itself, and ask for what is there already: then nothing changes, and it is reported.
        self.found.news |= !matches!(input, Input::Tick(_));
        self.found.roads_stirred |= matches!(input, Input::Connect(_));
        let effect = self.state.step(input);
        if listed || !effect.changes.is_empty() {
            self.found.gone.stir();
        }
        if effect.became_ready {
            info!("everything has been listed once");
            self.listed = Instant::now();
            self.wiring.publish(&self.state.zone, &Changes::everything());
            self.wiring.set_listed();
            self.endings.narrowed(&self.state.zone, &Changes::everything());
            self.found.carried_out.changed(&Changes::everything());
            return Dirty::everything();
        }
        self.changed(&effect.changes)
    }

    fn take(&mut self, message: Message) -> Dirty {
        match message {
            Message::Input(input) => self.step(input),
            Message::Written(outcome) => {
                self.written(outcome);
                Dirty::default()
            }
            Message::Reported(event) => {
                self.seen_report(event);
                Dirty::default()
            }
        }
    }

    /// What is there at first is the predecessor's. A report that somebody has deleted or changed is written again.
    fn seen_report(&mut self, event: Event<OwnReport, NodeName>) {
        let there = match event {
            Event::Applied(report) => Some(report.spec),
            Event::Deleted(_) => None,
            Event::Synced => return self.said.succeeded = true,
            Event::Unsynced(_) => return,
        };
        if let Some(spec) = there.as_ref().filter(|_| !self.said.succeeded) {
            self.found.rendered.inherit(&spec.connects);
            self.found.carried_out.inherit(&spec.policies);
            self.found.gone.inherit(causeway_record::cleared(spec));
        }
        if self.said.reported != there {
            self.said.reported = None;
            self.stirred = true;
        }
    }

    fn written(&mut self, outcome: Outcome) {
        match outcome.result {
            Ended::Done => debug!(target = %outcome.target, "written"),
            Ended::Failed(problem) => {
                warn!(target = %outcome.target, problem, "a write failed; it is tried again")
            }
            // What it was about has changed meanwhile: the next look at it decides again.
            Ended::NotFound | Ended::Conflict(_) => {
                self.said.annotated = None;
                self.said.reported = None;
            }
        }
    }

    /// Brings what has changed to those who carry it out.
    fn follow(&mut self, dirty: Dirty) {
        if !self.state.is_ready() {
            self.health.set(self.state.missing().map_or(Ok(()), Err));
            return;
        }
        for prefix in &dirty.northbound {
            self.northbound.dirty(prefix);
        }
        for prefix in &dirty.southbound {
            self.southbound.dirty(prefix);
        }
        if dirty.host.any() {
            self.plan_host(&dirty.host);
        }
        self.annotate();
        self.wiring.statuses().into_iter().for_each(|status| self.writer.send(status));
        self.listen();
        self.follow_policies();
        if self.stirred && self.looked.elapsed() >= LOOK_INTERVAL {
            self.look();
        }
        let health = self.zone_ready().and_then(|()| self.host.health());
        if health.is_ok() {
            self.wiring.announce();
        }
        // Without a gateway pods have their networks, and nothing beyond.
        self.health.set(health.and_then(|()| self.outside.health()));
    }

    /// Hears who answers, asks where it is time to, and tells who has been silent for too long.
    fn listen(&mut self) {
        let (now, signs) = (self.born.elapsed(), self.signs());
        self.silence.look(&signs, now);
        let questions = self.silence.questions(now);
        if questions.count {
            self.northbound.count();
        }
        if questions.databases {
            self.northbound.ask_alive();
            self.southbound.ask_alive();
        }
        let silent = self.silence.silent(now).map(|(who, since)| (who, self.born + since));
        for component in Component::ALL {
            match silent.filter(|(who, _)| *who == component) {
                Some((_, since)) => self.health.silent(component.name(), since, component.advice()),
                None => self.health.answers(component.name()),
            }
        }
        let known = self.said.silent.take();
        let news = known.is_some() != silent.is_some();
        self.stirred |= news;
        self.found.news |= news;
        self.said.silent = match (silent, known) {
            (None, _) => None,
            (Some((who, _)), Some(known)) if known.starts_with(who.name()) => Some(known),
            (Some((who, since)), _) => Some(silence(&self.state.zone.config().node, who, since)),
        };
        self.wiring.set_silent(self.said.silent.as_deref());
    }

    /// Ends connections that run already and are not allowed any more, and hears which policies are carried out.
    fn follow_policies(&mut self) {
        let (settled, signs) = (self.northbound.is_settled(), self.signs());
        let ends = self.endings.turn(&self.state.zone, settled, &signs);
        let (count, news) = self.found.carried_out.turn(&self.state.zone, settled, &signs);
        let news = news | self.found.gone.hear(&signs);
        self.stirred |= news;
        self.found.news |= news;
        if ends || count {
            self.northbound.count();
        }
    }

    /// How far a counted change has come.
    fn signs(&mut self) -> Signs {
        let chassis = self.outside.switch().chassis;
        if self.chassis != chassis {
            self.southbound.ask(ANSWERS, chassis.as_deref());
            self.chassis = chassis;
        }
        let replica = self.southbound.replica();
        let mut rows = replica.table(ANSWERS).into_iter().flat_map(|table| replica.rows(table));
        let own = rows.find(|row| {
            let name = row.get("name").and_then(|name| name.one()?.as_str());
            name.map(|name| name.as_str()) == self.chassis.as_deref()
        });
        let moment = |since: Instant| since.saturating_duration_since(self.born);
        Signs {
            northbound: self.northbound.owes_since().map(moment),
            southbound: self.southbound.owes_since().map(moment),
            asked: self.northbound.counted(),
            northd: self.southbound.counted(),
            controller: own.and_then(|row| row.get("nb_cfg")?.one()?.as_integer()),
        }
    }

    /// Whether pods can be wired: the default network is there.
    fn zone_ready(&mut self) -> Result<(), String> {
        self.state.zone.here().map_err(|problem| problem.message)?;
        if self.northbound.engine().stats().rounds == 0 && !self.northbound.is_settled() {
            return Err("the northbound database is not as planned yet".into());
        }
        self.state.zone.known_to_others().map_err(|problem| problem.message)
    }

    fn plan_host(&mut self, dirty: &HostDirty) {
        let update = self.host_plan.follow(&self.state.zone, dirty);
        let port = update.items.get(&Key::Port(management_port_device(NetworkId::DEFAULT)));
        if let Some(Some(Planned { item: Item::Port(port), .. })) = port {
            self.management = Some(port.mac);
        }
        self.host.update(update);
        self.local_endpoints.set(causeway_plan::local_endpoints(&self.state.zone));
    }

    /// The node says of itself what others must know.
    fn annotate(&mut self) {
        let Some(own) = &self.state.own else { return };
        let mut wanted = annotations::wanted(&self.outside.switch(), &self.masquerade, self.management);
        annotations::add_underlay(&mut wanted, &self.outside.underlay());
        self.outside.annotate(&mut wanted, own);
        let Some(patch) = annotations::patch(own, &wanted) else { return self.said.annotated = None };
        if self.said.annotated.as_ref() == Some(&patch) {
            return;
        }
        self.writer.send(Request {
            target: Target { kind: Kind::Node, namespace: None, name: own.name.to_string() },
            part: Part::Annotations,
            priority: Priority::Network,
            action: Action::Merge { subresource: Some("status"), body: patch.clone() },
            token: 0,
        });
        self.said.annotated = Some(patch);
    }
}
