//! Runs the benchmarks, which print one JSON object per measurement, and puts them into one table and one file.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// Package, benchmark, and whether it takes sizes.
const BENCHES: [(&str, &str, bool); 13] = [
    ("causeway-node", "diff", true),
    ("causeway-node", "set_member", false),
    ("causeway-node", "evpn-vm", false),
    ("causeway-cluster", "connect", false),
    ("causeway-plan", "network-add", false),
    ("causeway-plan", "road", false),
    ("causeway-plan", "road-northd", false),
    ("causeway-plan", "service-endpoint", false),
    ("causeway-plan", "sibling", false),
    ("causeway-plan", "gateway", false),
    ("causeway-plan", "policy", false),
    ("causeway-node", "pod_add", false),
    ("causeway-cluster-manager", "pod_burst", false),
];

/// What every row has, known or not.
const FIELDS: [&str; 13] = [
    "name",
    "topology",
    "n",
    "m",
    "rows",
    "transactions",
    "bytes",
    "wall_s",
    "client_cpu_s",
    "server_cpu_s",
    "limit_wall_s",
    "ratio",
    "peak_rss_mb",
];

pub(crate) fn run(sizes: &str) -> Result<()> {
    let mut rows = Vec::new();
    for (package, bench, sized) in BENCHES {
        rows.extend(measure(package, bench, sized.then_some(sizes))?);
    }
    for row in &mut rows {
        for field in FIELDS {
            row.as_object_mut().context("a measurement is an object")?.entry(field).or_insert(Value::Null);
        }
    }
    print_table(&rows);
    print_northd(&rows);
    print_gateway(&rows);
    print_bounds(&rows);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench.json");
    fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../target"))?;
    fs::write(file, serde_json::to_string_pretty(&rows)? + "\n")?;
    println!(
        "\nwall and CPU in seconds; ratio = wall / limit, where the limit is the server alone with prebuilt rows"
    );
    println!("written to target/bench.json");
    Ok(())
}

fn measure(package: &str, bench: &str, sizes: Option<&str>) -> Result<Vec<Value>> {
    let out = crate::cargo()
        .args(["bench", "--quiet", "--package", package, "--bench", bench, "--"])
        .args(sizes)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(out.status.success(), "the benchmark {bench} of {package} failed");
    let text = String::from_utf8(out.stdout)?;
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

fn print_table(rows: &[Value]) {
    println!(
        "{:<22} {:<14} {:>5} {:>5} {:>8} {:>5} {:>6} {:>10} {:>11} {:>11} {:>10} {:>6} {:>8}",
        "name",
        "topology",
        "n",
        "m",
        "rows",
        "txns",
        "bytes",
        "wall",
        "client CPU",
        "server CPU",
        "limit",
        "ratio",
        "peak MB"
    );
    for row in rows {
        println!(
            "{:<22} {:<14} {:>5} {:>5} {:>8} {:>5} {:>6} {:>10} {:>11} {:>11} {:>10} {:>6} {:>8}",
            row["name"].as_str().unwrap_or_default(),
            row["topology"].as_str().unwrap_or("-"),
            whole(&row["n"]),
            whole(&row["m"]),
            whole(&row["rows"]),
            whole(&row["transactions"]),
            whole(&row["bytes"]),
            decimal(&row["wall_s"], 6),
            decimal(&row["client_cpu_s"], 6),
            decimal(&row["server_cpu_s"], 6),
            decimal(&row["limit_wall_s"], 6),
            decimal(&row["ratio"], 2),
            decimal(&row["peak_rss_mb"], 1),
        );
    }
}

/// From the event to the southbound database: what comes after the commit, in both topologies.
fn print_northd(rows: &[Value]) {
    println!(
        "\n{:<20} {:<15} {:>4} {:>4} {:>7} {:>8} {:>8} {:>11} {:>8} {:>8} {:>17}",
        "until southbound",
        "topology",
        "n",
        "m",
        "rows",
        "commit",
        "sync",
        "northd CPU",
        "SB CPU",
        "flows",
        "MB NB/SB/northd"
    );
    for row in rows.iter().filter(|row| row["sync_s"].is_f64()) {
        let memory = row["rss_mb"].as_array().into_iter().flatten();
        let memory: Vec<String> = memory.map(|megabytes| decimal(megabytes, 0)).collect();
        println!(
            "{:<20} {:<15} {:>4} {:>4} {:>7} {:>8} {:>8} {:>11} {:>8} {:>8} {:>17}",
            row["name"].as_str().unwrap_or_default(),
            row["topology"].as_str().unwrap_or("-"),
            whole(&row["n"]),
            whole(&row["m"]),
            whole(&row["rows"]),
            decimal(&row["wall_s"], 3),
            decimal(&row["sync_s"], 2),
            decimal(&row["northd_cpu_s"], 2),
            decimal(&row["southbound_cpu_s"], 2),
            whole(&row["flows"]),
            memory.join("/"),
        );
    }
}

/// What must not grow with networks or services.
fn print_gateway(rows: &[Value]) {
    let columns =
        ["gateway_rows", "bridge_flows", "patch_ports", "changed_items", "planned_parts", "planning_us"];
    println!(
        "\n{:<22} {:>5} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14}",
        "name",
        "n",
        "rows of it",
        "bridge flows",
        "patch ports",
        "items written",
        "parts planned",
        "planning, us"
    );
    for row in rows.iter().filter(|row| row["bridge_flows"].is_u64()) {
        let cells: Vec<String> =
            columns.iter().map(|column| format!("{:>14}", whole(&row[*column]))).collect();
        println!(
            "{:<22} {:>5} {}",
            row["name"].as_str().unwrap_or_default(),
            whole(&row["n"]),
            cells.join(" ")
        );
    }
}

/// What may take so many times its limit: how many kept to it, and who did not.
fn print_bounds(rows: &[Value]) {
    let bounded: Vec<(&Value, f64, f64)> =
        rows.iter().filter_map(|row| Some((row, row["ratio"].as_f64()?, row["bound"].as_f64()?))).collect();
    let over: Vec<&(&Value, f64, f64)> = bounded.iter().filter(|(_, ratio, bound)| ratio > bound).collect();
    println!("\n{} of {} steps are within their bound", bounded.len() - over.len(), bounded.len());
    for (row, ratio, bound) in over {
        let (name, topology) = (row["name"].as_str(), row["topology"].as_str());
        let (n, m) = (whole(&row["n"]), whole(&row["m"]));
        let (name, topology) = (name.unwrap_or_default(), topology.unwrap_or_default());
        println!("  {name} {topology} {n} x {m}: {ratio:.2} times the limit, bound {bound:.1}");
    }
}

fn whole(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |n| n.to_string())
}

fn decimal(value: &Value, digits: usize) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |x| format!("{x:.digits$}"))
}
