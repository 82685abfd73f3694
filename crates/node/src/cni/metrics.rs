//! What the server counts.

use causeway_cni::Command;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// From a millisecond to the kubelet's limit.
const BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 120.0];

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Labels {
    command: Command,
    failed: bool,
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        let failed = if self.failed { "true" } else { "false" };
        [("command", self.command.as_str()), ("err", failed)].encode(encoder)
    }
}

/// How long calls took, by command and whether they failed.
#[derive(Clone, Debug)]
pub struct CniMetrics {
    durations: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for CniMetrics {
    fn default() -> CniMetrics {
        CniMetrics { durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)) }
    }
}

impl CniMetrics {
    /// Shows the numbers in a registry.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Duration of calls of the container runtime, in seconds";
        registry.register("causeway_cni_request_duration_seconds", help, self.durations.clone());
    }

    pub(super) fn count(&self, command: Command, failed: bool, took: Duration) {
        self.durations.get_or_create(&Labels { command, failed }).observe(took.as_secs_f64());
    }
}
