//! What the role counts.

use std::sync::atomic::Ordering;

use causeway_ovn::apply::Stats;
use causeway_ovsdb_client::ovsdb::Replica;
use causeway_zone::Zone;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Labels {
    database: &'static str,
    what: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Table {
    table: &'static str,
}

/// The role's numbers.
#[derive(Clone, Default)]
pub(super) struct Metrics {
    rows: Family<Labels, Counter>,
    networks: Gauge,
    pods: Gauge,
    policies: Family<State, Gauge>,
    peer_sets: Gauge,
    policy_rules: Gauge,
    policy_rows: Family<Table, Gauge>,
    problems: Gauge,
    looks: Counter,
    host_writes: Counter,
    gateway: Family<State, Gauge>,
}

impl Metrics {
    pub(super) fn registered(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        registry.register(
            "causeway_zone_engine",
            "What the engine of a database has done since the start",
            metrics.rows.clone(),
        );
        registry.register(
            "causeway_zone_networks",
            "Networks that are rendered here",
            metrics.networks.clone(),
        );
        registry.register("causeway_zone_pods", "Pods that the zone keeps", metrics.pods.clone());
        registry.register(
            "causeway_zone_policies",
            "Policies that are known, and those that are about pods of this node",
            metrics.policies.clone(),
        );
        registry.register(
            "causeway_zone_policy_sets",
            "Sets of addresses that rules of policies name here",
            metrics.peer_sets.clone(),
        );
        registry.register(
            "causeway_zone_policy_rules",
            "Rules of the policies that are about pods of this node",
            metrics.policy_rules.clone(),
        );
        registry.register(
            "causeway_zone_policy_rows",
            "Rows of the tables that policies are rendered to",
            metrics.policy_rows.clone(),
        );
        registry.register(
            "causeway_zone_road_looks",
            "How often all connections were looked at",
            metrics.looks.clone(),
        );
        registry.register("causeway_zone_failures", "What the zone could not do", metrics.problems.clone());
        metrics.register_host(registry);
        metrics
    }

    fn register_host(&self, registry: &mut Registry) {
        registry.register(
            "causeway_host_writes",
            "Changes of the host since the start",
            self.host_writes.clone(),
        );
        registry.register(
            "causeway_gateway",
            "How traffic leaves the node, or why it does not; always 1",
            self.gateway.clone(),
        );
    }

    pub(super) fn database(&self, database: &'static str, stats: Stats) {
        let numbers = [
            ("transactions", stats.transactions),
            ("created", stats.created),
            ("modified", stats.modified),
            ("deleted", stats.deleted),
            ("joined", stats.joined),
            ("left", stats.left),
            ("failed", stats.failed),
            ("foreign_changes", stats.foreign_changes),
            ("audit_findings", stats.audit_findings),
        ];
        for (what, number) in numbers {
            self.rows.get_or_create(&Labels { database, what }).inner().store(number, Ordering::Relaxed);
        }
    }

    pub(super) fn zone(&self, networks: usize, pods: usize, problems: usize) {
        self.networks.set(networks as i64);
        self.pods.set(pods as i64);
        self.problems.set(problems as i64);
    }

    pub(super) fn policies(&self, zone: &Zone, northbound: &Replica) {
        let counts = zone.policy_counts();
        self.policies.get_or_create(&State { state: "known" }).set(counts.known as i64);
        self.policies.get_or_create(&State { state: "here" }).set(counts.here as i64);
        self.peer_sets.set(counts.sets as i64);
        self.policy_rules.set(counts.rules as i64);
        for table in ["ACL", "Address_Set", "Port_Group"] {
            let rows = northbound.table(table).map_or(0, |id| northbound.len(id));
            self.policy_rows.get_or_create(&Table { table }).set(rows as i64);
        }
    }

    /// Only the state that is.
    pub(super) fn gateway(&self, state: &'static str) {
        self.gateway.clear();
        self.gateway.get_or_create(&State { state }).set(1);
    }

    pub(super) fn looks(&self, looks: u64) {
        self.looks.inner().store(looks, Ordering::Relaxed);
    }

    pub(super) fn host(&self, writes: u64) {
        self.host_writes.inner().store(writes, Ordering::Relaxed);
    }
}
