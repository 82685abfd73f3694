//! The look at the zone as a whole: which freed numbers are gone, which connections are rendered, what the report says.

use std::time::Duration;

use causeway_ovsdb_client::ovsdb::RowRef;
use causeway_plan::own_ports;
use causeway_record::{Action, Kind, Part, Priority, Request, Target};
use tokio::time::Instant;

use super::super::freed::InUse;
use super::super::rendered::{Keys, Ports, Progress};
use super::super::report;
use super::super::trouble::{Trouble, Waits};
use super::Task;

/// How long the first report waits until it is known what is rendered.
const FIRST_REPORT: Duration = Duration::from_secs(10);
/// How long the predecessor is believed while the databases do not say the same yet.
const SUCCESSION: Duration = Duration::from_secs(60);
/// Where the southbound database has the keys of ports.
const BINDINGS: &str = "Port_Binding";

/// How far a database is, as far as connections are concerned: whether nothing is left to do; counted changes; slices held, failing,
/// waiting.
pub(super) type Pulse = (bool, Option<i64>, [usize; 3]);

/// Who waits in each of the two databases.
#[derive(Debug, Default)]
pub(super) struct WaitsOf {
    northbound: Waits,
    southbound: Waits,
}

impl Task {
    /// Looks the zone over, after something has happened.
    pub(super) fn look(&mut self) {
        self.looked = Instant::now();
        let Task { northbound: nb, southbound: sb, waits, .. } = self;
        let settled = [nb.is_settled(), sb.is_settled()];
        waits.northbound.look(settled[0], nb.engine().waiting());
        waits.southbound.look(settled[1], sb.engine().waiting());
        if settled == [true, true] {
            self.look_for_freed();
        }
        let engine = self.northbound.engine();
        let troubled = [engine.held().len(), engine.failures().len(), self.waits.northbound.len()];
        let pulse = (settled[0], self.northbound.counted(), troubled);
        let open = self.rendered.is_undecided() || self.rendered.is_unproven();
        if self.roads_stirred || open || self.pulse != pulse {
            (self.roads_stirred, self.pulse) = (false, pulse);
            self.look_for_rendered();
        }
        self.report();
        self.measure();
        // Until the first report is out and proven, time alone is a reason to look.
        self.stirred = self.reported.is_none() || self.rendered.is_unproven();
    }

    /// Numbers are gone when nothing here has them, number by number: no row, no plan, and then not the switch.
    fn look_for_freed(&mut self) {
        let signs = self.signs();
        let listed = self.state.freed.as_ref().filter(|record| self.gone.wants_look(record));
        let Some(record) = listed.filter(|_| self.succeeded) else { return };
        let mut in_use = InUse::of(&self.state.zone);
        in_use.add_rows(self.northbound.replica());
        in_use.add_tunnels(self.southbound.replica(), record);
        let nb = causeway_plan::northbound(&self.state.zone);
        in_use.add_troubled(
            self.northbound.replica(),
            &Trouble::of(&nb, self.northbound.engine(), &self.waits.northbound),
        );
        if self.gone.look(record, &in_use, &signs) {
            self.northbound.count();
        }
    }

    fn look_for_rendered(&mut self) {
        if !self.state.zone.knows_connects() {
            return;
        }
        let carried_out = self.northbound.is_settled() && self.signs().all_installed();
        let zone = &self.state.zone;
        let ports: Ports = zone.connects().map(|name| (name.clone(), own_ports(zone, name))).collect();
        if self.ports != ports {
            let names = ports.values().flatten().map(|port| port.name.as_str());
            self.southbound.ask(BINDINGS, names);
            self.ports = ports;
        }
        let keys = self.keys();
        let progress = Progress {
            troubles: &self.troubles(),
            carried_out,
            succeeds: self.listed.elapsed() < SUCCESSION,
            ports: &self.ports,
            keys: &keys,
        };
        self.rendered.look(&zone.connect_reports(), &progress);
    }

    /// What of the two databases is not as planned, and who is to be told.
    fn troubles(&self) -> Vec<Trouble> {
        let zone = &self.state.zone;
        let (nb, sb) = (causeway_plan::northbound(zone), causeway_plan::southbound(zone));
        let mut troubles = Trouble::of(&nb, self.northbound.engine(), &self.waits.northbound);
        troubles.extend(Trouble::of(&sb, self.southbound.engine(), &self.waits.southbound));
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
        let known = self.state.zone.knows_connects() && !self.rendered.is_undecided();
        let waits = !known && self.listed.elapsed() < FIRST_REPORT;
        if !self.succeeded || (self.reported.is_none() && waits) {
            return;
        }
        let troubles = self.troubles();
        let silent = self.silent.as_deref();
        let progress = report::Progress {
            troubles: &troubles,
            cleared: self.gone.said(),
            rendered: &self.rendered,
            policies: &self.carried_out,
            silent,
        };
        let spec = report::report(&self.state.zone, progress);
        if self.reported.as_ref() == Some(&spec) {
            return;
        }
        self.writer.send(Request {
            target: Target { kind: Kind::ZoneReport, namespace: None, name: own.name.to_string() },
            part: Part::Report,
            priority: Priority::Status,
            action: Action::Apply {
                subresource: None,
                manager: "causeway-node",
                body: report::object(own, &spec),
            },
            token: 0,
        });
        self.reported = Some(spec);
    }

    fn measure(&self) {
        self.metrics.database("northbound", self.northbound.engine().stats());
        self.metrics.database("southbound", self.southbound.engine().stats());
        let zone = &self.state.zone;
        let failures = self.northbound.engine().failures().len() + self.southbound.engine().failures().len();
        self.metrics.zone(zone.rendered().count(), zone.pod_count(), zone.problems().len() + failures);
        self.metrics.policies(zone);
        self.metrics.host(self.host.writes());
        self.metrics.gateway(self.outside.word());
    }
}
