//! `causeway evpn-agent`: the EVPN agent, and what it knows.

use std::io::Write as _;

use causeway_node::evpn::{EvpnFlags, Report, dry_run, run, status, withdraw};

use crate::role;

/// Run on nodes that may host gateways of OVN: exposes annotated tenant networks over EVPN
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EvpnAgent {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: EvpnFlags,
    /// Print what shall be on this node (devices, routes, flows, FRR's text), and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    log: role::LogFlags,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print who is exposed here, who is not and why, what FRR says, and what is not as planned
    Status {
        #[command(flatten)]
        flags: Box<EvpnFlags>,
        /// How: lines for people, or JSON
        #[arg(long, short, value_enum, default_value = "text")]
        output: Output,
        #[command(flatten)]
        log: role::LogFlags,
    },
    /// Take everything of the agent's off this node; stop the agent before
    Withdraw {
        #[command(flatten)]
        flags: Box<EvpnFlags>,
        #[command(flatten)]
        log: role::LogFlags,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

impl EvpnAgent {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            None if self.dry_run => role::run(&self.log, async { print(&dry_run(self.flags).await?) }),
            None => role::run(&self.log, run(self.flags)),
            Some(Command::Status { flags, output, log }) => role::run(&log, async move {
                let report = status(*flags).await?;
                match output {
                    Output::Json => print(&serde_json::to_string_pretty(&report)?),
                    Output::Text => print(&text(&report)),
                }
            }),
            Some(Command::Withdraw { flags, log }) => role::run(&log, async move {
                let gone = withdraw(*flags).await?;
                print(&format!("{gone} things of the agent's are gone"))
            }),
        }
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", text.trim_end())?;
    Ok(())
}

fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    lines.extend(report.status.held.iter().map(|reason| format!("nothing is planned: {reason}")));
    for vni in &report.status.vnis {
        let known = report.fabric.get(&vni.vni.number());
        let state = known.map_or("unknown to FRR", |fabric| fabric.state.as_str());
        let tag = vni.tag.map(|tag| format!(", VLAN {tag}")).unwrap_or_default();
        lines.push(format!(
            "VNI {} ({state}): {} AS {} on {}{tag}, RD {}",
            vni.vni, vni.vrf, vni.asn, vni.bridge, vni.rd
        ));
        for gateway in &vni.gateways {
            lines.push(format!("  gateway {}: {} {}", gateway.port, gateway.mac, list(&gateway.addresses)));
        }
        for subnet in &vni.subnets {
            lines.push(format!("  subnet {}: {}", subnet.port, subnet.cidr));
            subnet.machines.iter().for_each(|machine| lines.push(format!("    {machine}")));
        }
        lines.extend(vni.waits.iter().map(|wait| format!("  waits: {wait}")));
    }
    let refused = report.status.refused.iter();
    lines.extend(refused.map(|one| format!("not exposed: {}: {}", one.port, one.reason)));
    lines.extend(report.missing.iter().map(|line| format!("not as planned: {line}")));
    if lines.is_empty() {
        lines.push("nothing is exposed here".to_owned());
    }
    lines.join("\n")
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
