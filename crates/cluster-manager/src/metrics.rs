//! What the manager counts.

use std::collections::BTreeMap;

use causeway_record::Ended;
use causeway_types::NetworkId;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use causeway_cluster::{AddressUse, Input, Manager};

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Written {
    result: &'static str,
}

/// The counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) leader: Gauge,
    inputs: Counter,
    writes: Family<Written, Counter>,
    networks: Gauge,
    pods: Gauge,
    waiting: Gauge,
    connects: Family<Connected, Gauge>,
    addresses: Family<Addresses, Gauge>,
    /// The names under which networks are shown.
    names: BTreeMap<NetworkId, String>,
    numbers_wait: Family<WaitedFor, Gauge>,
}

/// A node whose zone has not said that it has nothing of freed numbers.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct WaitedFor {
    node: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Addresses {
    network: String,
    what: &'static str,
}

/// Whether connections are accepted, and their outcome in one word; nothing before there is one.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Connected {
    accepted: &'static str,
    status: &'static str,
}

impl Metrics {
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("causeway_clustermanager");
        registry.register("leader", "Whether this manager works", metrics.leader.clone());
        registry.register("inputs", "Messages taken", metrics.inputs.clone());
        registry.register("writes", "Attempts of writes, by how they ended", metrics.writes.clone());
        registry.register("networks", "Networks besides the default one", metrics.networks.clone());
        registry.register("pods", "Pods known", metrics.pods.clone());
        registry.register(
            "pods_waiting",
            "Pods without addresses that wait for something",
            metrics.waiting.clone(),
        );
        registry.register(
            "connects",
            "ClusterNetworkConnects, by whether they are accepted and by their status",
            metrics.connects.clone(),
        );
        registry.register(
            "addresses",
            "Pods that have an address on a network (used), and that could have one (total)",
            metrics.addresses.clone(),
        );
        registry.register(
            "numbers_wait_seconds",
            "For how long freed numbers have been waiting for a node's zone",
            metrics.numbers_wait.clone(),
        );
        metrics
    }

    /// Shows how many addresses of networks are in use, where that has changed.
    pub(crate) fn show_addresses(&mut self, moved: BTreeMap<NetworkId, Option<AddressUse>>) {
        let lines =
            |network: &str| ["used", "total"].map(|what| Addresses { network: network.to_owned(), what });
        for (id, line) in moved {
            if let Some(before) = self.names.remove(&id) {
                for line in lines(&before) {
                    self.addresses.remove(&line);
                }
            }
            let Some(AddressUse { network, used, total }) = line else { continue };
            for (labels, count) in lines(&network).iter().zip([used, total]) {
                self.addresses.get_or_create(labels).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
            self.names.insert(id, network);
        }
    }

    pub(crate) fn saw(&self, input: &Input) {
        self.inputs.inc();
        let Input::Written(outcome) = input else { return };
        let result = match outcome.result {
            Ended::Done => "done",
            Ended::NotFound => "not_found",
            Ended::Conflict(_) => "conflict",
            Ended::Failed(_) => "failed",
        };
        self.writes.get_or_create(&Written { result }).inc();
    }

    pub(crate) fn count(&self, manager: &Manager) {
        let set = |gauge: &Gauge, count: usize| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        let counts = manager.counts();
        set(&self.networks, counts.networks);
        set(&self.pods, counts.pods);
        set(&self.waiting, counts.waiting);
        self.numbers_wait.clear();
        for (node, ms) in manager.numbers_wait() {
            self.numbers_wait.get_or_create(&WaitedFor { node: node.to_string() }).set(ms / 1000);
        }
        for ((accepted, status), count) in counts.connects {
            set(&self.connects.get_or_create(&Connected { accepted, status }), count);
        }
    }
}
