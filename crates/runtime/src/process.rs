//! What every role serves about itself as a process: version, memory, processor time, open files.
//!
//! Owns the names that dashboards expect of any process. Reads `/proc` only when somebody asks.

use std::fmt;
use std::fs;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// In how many parts of a second the kernel counts processor time for programs: the same on every machine.
const TICKS: f64 = 100.0;

/// Adds the metrics of the process to those of a role.
pub fn describe(registry: &mut Registry, role: &'static str) {
    let version = Info::new([("version", env!("CARGO_PKG_VERSION")), ("role", role)]);
    registry.register("causeway_build", "Which Causeway this is", version);
    registry.register_collector(Box::new(Process { started: Timestamp::now() }));
}

#[derive(Debug)]
struct Process {
    started: Timestamp,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let started = ConstGauge::new(self.started.as_millisecond() as f64 / 1000.0);
        put(&mut encoder, "process_start_time_seconds", "When the process started, since 1970", &started)?;
        if let Some(seconds) = cpu_seconds() {
            let help = "Processor time that was used";
            put(&mut encoder, "process_cpu_seconds", help, &ConstCounter::new(seconds))?;
        }
        if let Some(bytes) = resident_bytes() {
            put(&mut encoder, "process_resident_memory_bytes", "Memory in use", &ConstGauge::new(bytes))?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // One of them is the folder itself.
            let count = files.count().saturating_sub(1) as f64;
            put(&mut encoder, "process_open_fds", "Open files and sockets", &ConstGauge::new(count))?;
        }
        Ok(())
    }
}

fn put(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> Result<(), fmt::Error> {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// User and system time: the 14th and 15th field. The second one is a name in brackets that may contain anything.
fn cpu_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok());
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

fn resident_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok().map(|kib| kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_says_what_it_uses() {
        let mut registry = Registry::default();
        describe(&mut registry, "test");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(
            text.contains(&format!("causeway_build_info{{version=\"{version}\",role=\"test\"}} 1")),
            "{text}"
        );
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_start_time_seconds") > 1.7e9);
    }
}
