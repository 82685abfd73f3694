//! What looks once and ends: the plan, how things stand, and the end of everything.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use causeway_evpn::{Agent, Status};
use causeway_host::Frr;
use causeway_ovsdb_client::Remote;
use causeway_types::host::{HostPlan, Item};
use serde::Serialize;
use serde_json::Value;

use super::flags::EvpnFlags;
use super::outputs::{Look, Outputs, ways};
use super::{rows, switch, vtep};

/// How long a database may take to be read.
const PATIENCE: Duration = Duration::from_secs(30);

/// How things stand.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What is exposed, what is not, and why.
    #[serde(flatten)]
    pub status: Status,
    /// What the running agent still has to change, one line each: nothing if the node is as planned.
    pub missing: Vec<String>,
    /// What FRR says of each VNI.
    pub fabric: BTreeMap<u32, Fabric>,
}

/// What FRR says of a VNI.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fabric {
    /// `Up` or `Down`.
    pub state: String,
    /// The MAC address of its router here.
    pub router_mac: String,
}

/// What two databases say at one moment.
struct Seen {
    agent: Agent,
    outputs: Outputs,
}

impl Seen {
    async fn look(flags: &EvpnFlags) -> anyhow::Result<Seen> {
        let tls = flags.tls()?;
        let failed = anyhow::Error::msg::<String>;
        flags.check(std::slice::from_ref(&flags.vswitch), tls.as_ref()).map_err(failed)?;
        let mut client = switch::client(flags.vswitch.clone(), tls.clone());
        client.synced(PATIENCE).await.map_err(failed).context("the Open vSwitch database")?;
        let seen = switch::look(client.replica());
        let remotes = match (flags.southbound.is_empty(), &seen.southbound) {
            (false, _) => flags.southbound.clone(),
            (true, Some(text)) => Remote::list(text)?,
            (true, None) => {
                bail!("Open vSwitch has no external_ids:ovn-remote; name the database with --southbound")
            }
        };
        flags.check(&remotes, tls.as_ref()).map_err(failed)?;
        let mut client = rows::client(remotes, tls);
        client.synced(PATIENCE).await.map_err(failed).context("the southbound database")?;
        let mut agent = Agent::default();
        agent.remember(ways()?);
        rows::tell_all(client.replica(), &mut agent);
        agent.set_node(vtep::node(flags, &seen));
        agent.follow();
        let mut outputs = Outputs::new(flags);
        outputs.set_bridges(seen.numbers.keys().cloned().collect());
        Ok(Seen { agent, outputs })
    }
}

/// What shall be on this node: a line for each item, FRR's sections in full.
///
/// # Errors
/// If a database cannot be read.
pub async fn dry_run(flags: EvpnFlags) -> anyhow::Result<String> {
    let seen = Seen::look(&flags).await?;
    let plan = seen.agent.plan();
    let mut text = plan.to_string();
    for planned in plan.items().values() {
        if let Item::Section(section) = &planned.item {
            text.push_str(&format!("\n{}\n", section.first));
            section.lines.lines().for_each(|line| text.push_str(&format!(" {line}\n")));
        }
    }
    for refused in seen.agent.status().refused {
        text.push_str(&format!("\nnot exposed: {}: {}", refused.port, refused.reason));
    }
    Ok(text)
}

/// How things stand.
///
/// # Errors
/// If a database cannot be read.
pub async fn status(flags: EvpnFlags) -> anyhow::Result<Report> {
    let mut seen = Seen::look(&flags).await?;
    let (status, plan) = (seen.agent.status(), seen.agent.plan());
    let frr = flags.frr_folder.clone();
    let numbers: Vec<u32> = status.vnis.iter().map(|vni| vni.vni.number()).collect();
    let looked =
        tokio::task::spawn_blocking(move || (seen.outputs.compare(&plan), fabric(frr.as_deref(), &numbers)));
    let (found, fabric) = looked.await?;
    let mut missing = Vec::new();
    for outcome in found {
        match outcome {
            Ok(ops) => missing.extend(ops.iter().map(ToString::to_string)),
            Err(problem) => missing.push(problem.to_string()),
        }
    }
    Ok(Report { status, missing, fabric })
}

/// What FRR says; a VNI that it does not know is not in it.
fn fabric(folder: Option<&Path>, vnis: &[u32]) -> BTreeMap<u32, Fabric> {
    let frr = Frr::new("vtysh", Frr::EVPN);
    let frr = folder.map_or(frr, |folder| Frr::new("vtysh", Frr::EVPN).at(folder));
    let ask = |vni: &u32| {
        let said: Value = serde_json::from_str(&frr.ask(&format!("show evpn vni {vni} json")).ok()?).ok()?;
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        (said["vni"] == *vni).then(|| (*vni, Fabric { state: text("state"), router_mac: text("routerMac") }))
    };
    vnis.iter().filter_map(ask).collect()
}

/// Takes everything of the agent's away; how many things there were.
///
/// # Errors
/// If something cannot be taken away.
pub async fn withdraw(flags: EvpnFlags) -> anyhow::Result<usize> {
    let tls = flags.tls()?;
    let failed = anyhow::Error::msg::<String>;
    let mut client = switch::client(flags.vswitch.clone(), tls);
    client.synced(PATIENCE).await.map_err(failed).context("the Open vSwitch database")?;
    let mut outputs = Outputs::new(&flags);
    outputs.set_bridges(switch::look(client.replica()).numbers.into_keys().collect());
    let done = tokio::task::spawn_blocking(move || outputs.apply(&HostPlan::default(), Look::ALL)).await?.0;
    match done.problems.first() {
        Some(problem) => bail!("{problem}"),
        None => Ok(done.writes),
    }
}
