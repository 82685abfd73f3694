//! The look at the zone as a whole: which freed numbers are gone, which connections are rendered, what the report says.

use std::hash::{Hash as _, Hasher as _};
use std::time::Duration;

use causeway_api::crd::ZoneReportSpec;
use causeway_ovn::apply::Engine;
use causeway_ovsdb_client::ovsdb::RowRef;
use causeway_plan::own_ports;
use causeway_plan::progress::{
    CarriedOut, Component, Gone, InUse, Keys, Ports, Progress, Rendered, RoadProgress, Trouble, Waits,
    object, report,
};
use causeway_record::{Action, Kind, Part, Priority, Request, Target};
use causeway_types::NodeName;
use jiff::Timestamp;
use rustc_hash::FxHasher;
use serde_json::Value;
use tokio::time::Instant;

use super::Task;

/// How long the first report waits until it is known what is rendered.
const FIRST_REPORT: Duration = Duration::from_secs(10);
/// How long the predecessor is believed while the databases do not say the same yet.
const SUCCESSION: Duration = Duration::from_secs(60);
/// Where the southbound database has the keys of ports.
const BINDINGS: &str = "Port_Binding";

/// What looks go on from, and what they have found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The ports whose keys are looked at.
    ports: Ports,
    /// The connections that are installed.
    pub(super) rendered: Rendered,
    /// The cluster-scoped policies that are carried out.
    pub(super) carried_out: CarriedOut,
    /// Which freed numbers are gone from here.
    pub(super) gone: Gone,
    /// Who waits for rows that nobody is about to write.
    waits: [Waits; 2],
    /// What the host could not be made.
    of_host: Vec<Trouble>,
    /// Whether something else may be wanted of connections.
    pub(super) roads_stirred: bool,
    /// How far the databases were when connections were looked at.
    pulse: Option<Pulse>,
    /// Whether everything was carried out by then.
    seen_carried_out: bool,
    /// How often all connections were looked at.
    looks: u64,
    /// Whether there may be something else to report.
    pub(super) news: bool,
}

/// What was told to others.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The report that was sent last.
    pub(super) reported: Option<ZoneReportSpec>,
    /// Whether it is known what the predecessor has reported.
    pub(super) succeeded: bool,
    /// The annotations that were sent last, against what they were sent.
    pub(super) annotated: Option<Value>,
    /// Who has owed an answer for too long, for people.
    pub(super) silent: Option<String>,
}

/// How far the databases are, as far as connections are concerned. While nothing of it moves, nobody looks at any of them, whatever
/// else is written.
#[derive(Debug, Eq, PartialEq)]
struct Pulse {
    /// How often the keys of ports have changed.
    bindings: u64,
    /// Stands for the slices that are held, fail or wait.
    troubles: [u64; 2],
}

/// Who has not answered since when. The text stays the same as long as that is so.
pub(super) fn silence(node: &NodeName, who: Component, since: Instant) -> String {
    let clock = Timestamp::now().checked_sub(since.elapsed()).unwrap_or_default().strftime("%FT%TZ");
    format!("{} on {node} has not answered since {clock}: {}", who.name(), who.advice())
}

/// Stands for the slices of a database that are held, fail or wait.
fn print_of(engine: &Engine, waits: &Waits) -> u64 {
    let mut print = FxHasher::default();
    engine.held().keys().for_each(|slice| (0, slice.as_str()).hash(&mut print));
    engine
        .failures()
        .iter()
        .for_each(|(slice, failure)| (1, slice.as_str(), &failure.error).hash(&mut print));
    waits.all().iter().for_each(|(slice, text)| (2, slice.as_str(), text).hash(&mut print));
    print.finish()
}

impl Task {
    /// Looks the zone over, after something has happened.
    pub(super) fn look(&mut self) {
        self.looked = Instant::now();
        let settled = [self.northbound.is_settled(), self.southbound.is_settled()];
        let engines = [self.northbound.engine(), self.southbound.engine()];
        for ((waits, engine), settled) in self.found.waits.iter_mut().zip(engines).zip(settled) {
            waits.look(settled, engine.waiting());
        }
        if settled == [true, true] {
            self.look_for_freed();
        }
        let carried_out = settled[0] && self.signs().all_installed();
        if self.wants_roads(carried_out) {
            self.found.looks += 1;
            self.look_for_rendered(carried_out);
            self.found.news = true;
        }
        let of_host = self.host.troubles();
        self.found.news |= self.found.of_host != of_host;
        self.found.of_host = of_host;
        if self.found.news || self.said.reported.is_none() {
            self.found.news = false;
            self.report();
        }
        self.measure();
        // Until the first report is out and proven, time alone is a reason to look.
        self.stirred = self.said.reported.is_none() || self.found.rendered.is_unproven();
    }

    /// Whether a look at all connections may find something else than the last one. That something is not carried out yet takes
    /// nothing back; that all is, may show what was not before.
    fn wants_roads(&mut self, carried_out: bool) -> bool {
        let waits = &self.found.waits;
        let troubles =
            [print_of(self.northbound.engine(), &waits[0]), print_of(self.southbound.engine(), &waits[1])];
        let pulse = Some(Pulse { bindings: self.southbound.changes_of(BINDINGS), troubles });
        let open = self.found.rendered.is_undecided() || self.found.rendered.is_unproven();
        let stirred = std::mem::take(&mut self.found.roads_stirred);
        let wants =
            open || stirred || self.found.pulse != pulse || (carried_out && !self.found.seen_carried_out);
        if wants {
            (self.found.pulse, self.found.seen_carried_out) = (pulse, carried_out);
        }
        wants
    }

    /// Numbers are gone when nothing here has them, number by number: no row, no plan, and then not the switch.
    fn look_for_freed(&mut self) {
        let signs = self.signs();
        let listed = self.state.freed.as_ref().filter(|record| self.found.gone.wants_look(record));
        let Some(record) = listed.filter(|_| self.said.succeeded) else { return };
        let mut in_use = InUse::of(&self.state.zone);
        in_use.add_rows(self.northbound.replica());
        in_use.add_tunnels(self.southbound.replica(), record);
        let nb = causeway_plan::northbound(&self.state.zone);
        in_use.add_troubled(
            self.northbound.replica(),
            &Trouble::of(&nb, self.northbound.engine(), &self.found.waits[0]),
        );
        let before = self.found.gone.said().clone();
        if self.found.gone.look(record, &in_use, &signs) {
            self.northbound.count();
        }
        self.found.news |= before != *self.found.gone.said();
    }

    fn look_for_rendered(&mut self, carried_out: bool) {
        if !self.state.zone.knows_connects() {
            return;
        }
        let zone = &self.state.zone;
        let ports: Ports = zone.connects().map(|name| (name.clone(), own_ports(zone, name))).collect();
        if self.found.ports != ports {
            let names = ports.values().flatten().map(|port| port.name.as_str());
            self.southbound.ask(BINDINGS, names);
            self.found.ports = ports;
        }
        let keys = self.keys();
        let progress = RoadProgress {
            troubles: &self.troubles(),
            carried_out,
            succeeds: self.listed.elapsed() < SUCCESSION,
            ports: &self.found.ports,
            keys: &keys,
        };
        self.found.rendered.look(&zone.connect_reports(), &progress);
    }

    /// What of the two databases and of the host is not as planned, and who is to be told.
    fn troubles(&self) -> Vec<Trouble> {
        let zone = &self.state.zone;
        let (nb, sb) = (causeway_plan::northbound(zone), causeway_plan::southbound(zone));
        let mut troubles = Trouble::of(&nb, self.northbound.engine(), &self.found.waits[0]);
        troubles.extend(Trouble::of(&sb, self.southbound.engine(), &self.found.waits[1]));
        troubles.extend(self.found.of_host.iter().cloned());
        troubles
    }

    /// The keys of the ports that were asked for.
    fn keys(&self) -> Keys {
        let replica = self.southbound.replica();
        let rows = replica.table(BINDINGS).into_iter().flat_map(|table| replica.rows(table));
        let read = |row: RowRef<'_>| {
            Some((
                row.get("logical_port")?.one()?.as_str()?.clone(),
                row.get("tunnel_key")?.one()?.as_integer()?,
            ))
        };
        rows.filter_map(read).collect()
    }

    fn report(&mut self) {
        let Some(own) = &self.state.own else { return };
        // The first report of a process must not take back what the last one of its predecessor said.
        let known = self.state.zone.knows_connects() && !self.found.rendered.is_undecided();
        let waits = !known && self.listed.elapsed() < FIRST_REPORT;
        if !self.said.succeeded || (self.said.reported.is_none() && waits) {
            return;
        }
        let troubles = self.troubles();
        let silent = self.said.silent.as_deref();
        let progress = Progress {
            troubles: &troubles,
            cleared: self.found.gone.said(),
            rendered: &self.found.rendered,
            policies: &self.found.carried_out,
            silent,
        };
        let spec = report(&self.state.zone, progress);
        if self.said.reported.as_ref() == Some(&spec) {
            return;
        }
        self.writer.send(Request {
            target: Target { kind: Kind::ZoneReport, namespace: None, name: own.name.to_string() },
            part: Part::Report,
            priority: Priority::Status,
            action: Action::Apply { subresource: None, manager: "causeway-node", body: object(own, &spec) },
            token: 0,
        });
        self.said.reported = Some(spec);
    }

    fn measure(&self) {
        self.metrics.database("northbound", self.northbound.engine().stats());
        self.metrics.database("southbound", self.southbound.engine().stats());
        let zone = &self.state.zone;
        let refused = self.northbound.engine().failures().len() + self.southbound.engine().failures().len();
        let failures = zone.problems().len() + refused + self.found.of_host.len();
        self.metrics.zone(zone.rendered().count(), zone.pod_count(), failures);
        self.metrics.policies(zone, self.northbound.replica());
        self.metrics.looks(self.found.looks);
        self.metrics.host(self.host.writes());
        self.metrics.gateway(self.outside.word());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_component_is_named_with_its_node() {
        let text = silence(&"n1".parse().unwrap(), Component::Controller, Instant::now());
        assert!(text.starts_with("ovn-controller on n1 has not answered since 2"), "{text}");
    }
}
