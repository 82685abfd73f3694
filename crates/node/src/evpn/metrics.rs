//! What the agent counts.

use std::sync::atomic::AtomicU64;

use causeway_evpn::Status;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The agent's numbers.
#[derive(Clone, Default)]
pub(super) struct Metrics {
    vnis: Gauge,
    gateways: Gauge,
    subnets: Gauge,
    machines: Gauge,
    refused: Gauge,
    /// What is not as planned.
    pub(super) problems: Gauge,
    /// Changes of the host.
    pub(super) writes: Counter<u64, AtomicU64>,
}

impl Metrics {
    pub(super) fn registered(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        for (name, help, gauge) in [
            ("causeway_evpn_vnis", "VNIs that are exposed here", &metrics.vnis),
            ("causeway_evpn_gateways", "Gateways that are exposed here", &metrics.gateways),
            ("causeway_evpn_subnets", "Subnets that are exposed here", &metrics.subnets),
            ("causeway_evpn_machines", "Addresses of machines that others are told of", &metrics.machines),
            ("causeway_evpn_refused", "Ports that are annotated and cannot be exposed", &metrics.refused),
            ("causeway_evpn_problems", "Things of the host that are not as planned", &metrics.problems),
        ] {
            registry.register(name, help, gauge.clone());
        }
        let help = "Changes of the host since the start";
        registry.register("causeway_evpn_host_writes", help, metrics.writes.clone());
        metrics
    }

    pub(super) fn status(&self, status: &Status) {
        let sum = |count: fn(&causeway_evpn::VniStatus) -> usize| {
            status.vnis.iter().map(count).sum::<usize>() as i64
        };
        self.vnis.set(status.vnis.len() as i64);
        self.gateways.set(sum(|vni| vni.gateways.len()));
        self.subnets.set(sum(|vni| vni.subnets.len()));
        self.machines.set(sum(|vni| vni.subnets.iter().map(|subnet| subnet.machines.len()).sum()));
        self.refused.set(status.refused.len() as i64);
    }
}
