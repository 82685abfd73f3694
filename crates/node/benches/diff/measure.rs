//! Wall time, CPU of client and server, memory.

use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::fs;
use std::time::Instant;

/// Begins at one moment and tells what passed since.
pub struct Meter {
    wall: Instant,
    client: f64,
    server: f64,
    pid: u32,
}

impl Meter {
    pub fn start(pid: u32) -> Meter {
        Meter { client: own_cpu(), server: cpu(pid), wall: Instant::now(), pid }
    }

    pub fn row(&self, name: &str) -> Value {
        let wall = self.wall.elapsed().as_secs_f64();
        json!({
            "name": name,
            "wall_s": wall,
            "client_cpu_s": own_cpu() - self.client,
            "server_cpu_s": cpu(self.pid) - self.server,
            "peak_rss_mb": memory("VmHWM"),
        })
    }
}

fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Time on a CPU of all threads of a process, in nanoseconds of resolution.
pub fn cpu(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanoseconds = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// A field of `/proc/self/status` in megabytes.
pub fn memory(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// What a process has in memory, in megabytes.
#[allow(dead_code, reason = "not every benchmark looks at other processes")]
pub fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// The row with the median of each time.
pub fn median(rows: Vec<Value>) -> Value {
    let mut row = rows[0].clone();
    for field in ["wall_s", "client_cpu_s", "server_cpu_s"] {
        let mut values: Vec<f64> = rows.iter().map(|r| r[field].as_f64().unwrap()).collect();
        values.sort_by(f64::total_cmp);
        row[field] = values[values.len() / 2].into();
    }
    row["peak_rss_mb"] = rows[rows.len() - 1]["peak_rss_mb"].clone();
    row
}
