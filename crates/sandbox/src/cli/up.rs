//! `up`: makes a sandbox, or brings an existing one back to what it shall be.

use super::{Which, say, show};
use crate::address::Family;
use crate::boot::{own_program, start_keeper};
use crate::error::{Error, Result};
use crate::find;
use crate::folder::Folder;
use crate::programs::Programs;
use crate::supervisor::status::Status;
use crate::wanted::{Datapath, Owner, Plugin, Wanted};
use clap::Args;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The first port that is tried for the API server.
const FIRST_PORT: u16 = 16443;

/// Make a sandbox, or bring an existing one back
#[derive(Args)]
pub(super) struct Up {
    #[command(flatten)]
    which: Which,
    /// How many nodes [3]
    #[arg(long)]
    nodes: Option<u8>,
    /// Address families of nodes, pods and services; the first one is preferred [ipv4,ipv6]
    #[arg(long, value_delimiter = ',')]
    ip_families: Option<Vec<Family>>,
    /// Who carries the packets of the nodes [userspace]
    #[arg(long, value_enum)]
    datapath: Option<Datapath>,
    /// Who wires pods
    #[arg(long, value_enum)]
    plugin: Option<Plugin>,
    /// A flag for the cluster manager, such as `--connect-topology=compact`; once for each
    #[arg(long = "cluster-manager-flag", value_name = "FLAG", allow_hyphen_values = true)]
    cluster_manager_flags: Option<Vec<String>>,
    /// A flag for the node role, such as `--render=used`; once for each
    #[arg(long = "node-flag", value_name = "FLAG", allow_hyphen_values = true)]
    node_flags: Option<Vec<String>>,
    /// How long to wait for it, in seconds
    #[arg(long, default_value_t = 240)]
    timeout: u64,
}

/// What is asked of a sandbox.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) nodes: Option<u8>,
    pub(crate) families: Option<Vec<Family>>,
    pub(crate) datapath: Option<Datapath>,
    pub(crate) plugin: Option<Plugin>,
    pub(crate) cluster_manager_flags: Option<Vec<String>>,
    pub(crate) node_flags: Option<Vec<String>>,
    pub(crate) owner: Option<Owner>,
}

impl Request {
    /// What is not said stays.
    fn set_flags(&self, wanted: &mut Wanted) {
        let set = |flags: &mut Vec<String>, said: &Option<Vec<String>>| {
            if let Some(said) = said {
                flags.clone_from(said);
            }
        };
        set(&mut wanted.flags.cluster_manager, &self.cluster_manager_flags);
        set(&mut wanted.flags.node, &self.node_flags);
    }
}

impl Up {
    pub(super) fn run(self) -> Result<()> {
        let start = Instant::now();
        let folder = self.which.folder()?;
        let request = Request {
            nodes: self.nodes,
            families: self.ip_families,
            datapath: self.datapath,
            plugin: self.plugin,
            cluster_manager_flags: self.cluster_manager_flags,
            node_flags: self.node_flags,
            owner: None,
        };
        let wanted = bring_up(&folder, &self.which.name, &request, &own_program()?)?;
        say(format!("Sandbox {} with {} nodes", wanted.name, wanted.nodes.len()));
        if let Some(kept) = kept(&wanted, self.nodes) {
            say(kept);
        }
        let mut steps = Steps::default();
        let limit = Duration::from_secs(self.timeout);
        wait_settled(&folder, wanted.generation, limit, |status| steps.show(status, start))?;
        say(format!("  up in {:.1} s\n", start.elapsed().as_secs_f64()));
        show::print(&folder)?;
        say(next(&own_program()?, &wanted.name));
        Ok(())
    }
}

/// Says what is wanted and makes sure that somebody makes it so: `own`, as the keeper.
pub(crate) fn bring_up(folder: &Folder, name: &str, request: &Request, own: &Path) -> Result<Wanted> {
    let programs = Programs::find();
    programs.check()?;
    folder.create()?;
    let wanted = if folder.exists() { grow(folder, request)? } else { make(folder, name, request)? };
    if folder.try_lock("keeper.lock")?.is_some() {
        if find::init(folder.root()).is_none() {
            // What a sandbox that is gone said of itself is not true any more.
            let _none = fs::remove_file(folder.path("status.json"));
        }
        start_keeper(folder, &programs, own)?;
    }
    Ok(wanted)
}

fn make(folder: &Folder, name: &str, request: &Request) -> Result<Wanted> {
    let families = request.families.clone().unwrap_or_else(|| vec![Family::Ipv4, Family::Ipv6]);
    // Until it is written, nobody else sees which port is taken.
    let _one_at_a_time = crate::folder::lock_all()?;
    let mut wanted = Wanted::new(name, request.nodes.unwrap_or(3), families, free_port()?)?;
    wanted.owner = request.owner.clone();
    wanted.datapath = request.datapath.unwrap_or_default();
    wanted.plugin = request.plugin.unwrap_or_default();
    request.set_flags(&mut wanted);
    check_datapath(wanted.datapath)?;
    folder.write_wanted(&wanted)?;
    Ok(wanted)
}

/// The sandbox loads no modules: they would stay behind.
fn check_datapath(datapath: Datapath) -> Result<()> {
    let there = |module: &&str| Path::new("/sys/module").join(module).exists();
    let missing: Vec<&str> = ["openvswitch", "geneve"].into_iter().filter(|module| !there(module)).collect();
    if datapath == Datapath::Userspace || missing.is_empty() {
        return Ok(());
    }
    Err(Error::Request(format!(
        "the kernel datapath needs the modules {m}: run `modprobe -a {m}`, or leave out `--datapath kernel`",
        m = missing.join(" ")
    )))
}

/// An existing sandbox can get more nodes and other flags; nothing else of it changes.
fn grow(folder: &Folder, request: &Request) -> Result<Wanted> {
    folder.change(|wanted| {
        let other = [
            ("address families", request.families.as_ref().is_some_and(|other| *other != wanted.families)),
            ("a datapath", request.datapath.is_some_and(|other| other != wanted.datapath)),
            ("a plugin", request.plugin.is_some_and(|other| other != wanted.plugin)),
        ];
        if let Some((what, _)) = other.into_iter().find(|(_, differs)| *differs) {
            return Err(Error::Request(format!(
                "sandbox {name} was made with other values for {what}; remove it with `causeway sandbox down --name {name}` first",
                name = wanted.name
            )));
        }
        let nodes = usize::from(request.nodes.unwrap_or(0));
        while wanted.nodes.len() < nodes {
            wanted.add_node()?;
        }
        request.set_flags(wanted);
        Ok(())
    })
}

/// A port that nobody has, and that no other sandbox has been given.
fn free_port() -> Result<u16> {
    let taken: BTreeSet<u16> = crate::folder::names()
        .iter()
        .filter_map(|name| Some(Folder::named(name).ok()?.wanted().ok()?.api_port))
        .collect();
    (FIRST_PORT..u16::MAX)
        .find(|port| !taken.contains(port) && TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .ok_or_else(|| Error::Request("no port of 127.0.0.1 is free for the API server".into()))
}

/// Waits until everything is as wanted.
pub(crate) fn wait_settled(
    folder: &Folder,
    generation: u64,
    limit: Duration,
    mut progress: impl FnMut(&Status),
) -> Result<()> {
    let end = Instant::now() + limit;
    loop {
        let status = folder.status()?.unwrap_or_default();
        if status.generation >= generation {
            progress(&status);
            if status.settled {
                return Ok(());
            }
        }
        if Instant::now() > end {
            return Err(Error::Timeout {
                what: "the sandbox".into(),
                seconds: limit.as_secs(),
                state: unfinished(folder, &status),
            });
        }
        sleep(Duration::from_millis(50));
    }
}

/// What is not ready, why, and the last lines of its log.
fn unfinished(folder: &Folder, status: &Status) -> String {
    let mut text = String::new();
    for unit in status.units.iter().filter(|unit| !unit.ready) {
        text += &format!("not ready: {}", unit.id);
        if let Some(trouble) = &unit.trouble {
            text += &format!(": {trouble}");
        }
        text += "\n";
        let log = fs::read_to_string(folder.log(&unit.id)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(5)) {
            text += &format!("    {line}\n");
        }
    }
    if status.units.is_empty() {
        text += &fs::read_to_string(folder.log("keeper")).unwrap_or_default();
    }
    text + "It goes on in the background: see `causeway sandbox status` and `causeway sandbox logs`."
}

/// Shows each step once, when all of it is ready.
#[derive(Default)]
struct Steps {
    shown: BTreeSet<String>,
}

impl Steps {
    fn show(&mut self, status: &Status, start: Instant) {
        for step in self.finished(status) {
            say(format!("  ✓ {step:<28} {:5.1} s", start.elapsed().as_secs_f64()));
        }
    }

    fn finished(&mut self, status: &Status) -> Vec<String> {
        let mut done: Vec<String> = Vec::new();
        for unit in &status.units {
            let whole = status.units.iter().filter(|other| other.step == unit.step).all(|other| other.ready);
            if whole && self.shown.insert(unit.step.clone()) {
                done.push(unit.step.clone());
            }
        }
        done
    }
}

/// `up` never takes nodes away: pods may be on them.
fn kept(wanted: &Wanted, asked: Option<u8>) -> Option<String> {
    let (there, asked) = (wanted.nodes.len(), usize::from(asked?));
    let last = wanted.nodes.keys().next_back().filter(|_| asked < there)?;
    let name = &wanted.name;
    Some(format!(
        "  it has {there} nodes and keeps them; to have {asked}, remove others: causeway sandbox node remove --name {name} {last}"
    ))
}

/// Commands that run as they are printed: the first one makes `causeway`, `kubectl` and the sandbox known to the shell.
fn next(own: &Path, name: &str) -> String {
    let option = if name == "default" { String::new() } else { format!(" --name {name}") };
    format!(
        "\nTry:\n\
         \x20 eval \"$({} sandbox env{option})\"\n\
         \x20 kubectl run a --image=localhost/causeway-tools:1\n\
         \x20 kubectl wait --for=condition=Ready pod/a\n\
         \x20 kubectl exec a -- curl -s localhost:8080/hostname\n\
         \x20 causeway sandbox node exec n1 -- ovn-nbctl show\n\
         \x20 causeway sandbox status\n\
         \x20 causeway sandbox down",
        super::look::quoted(own)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::status::UnitStatus;

    fn unit(id: &str, step: &str, ready: bool) -> UnitStatus {
        UnitStatus {
            id: id.into(),
            step: step.into(),
            node: None,
            process: true,
            ready,
            pid: None,
            deaths: 0,
            trouble: None,
            since: 0,
        }
    }

    #[test]
    fn fewer_nodes_than_there_are_is_answered() {
        let wanted = Wanted::new("x", 2, vec![Family::Ipv4], 1).unwrap();
        assert_eq!(kept(&wanted, None), None);
        assert_eq!(kept(&wanted, Some(3)), None);
        let kept = kept(&wanted, Some(1)).unwrap();
        assert!(kept.contains("has 2 nodes and keeps them"), "{kept}");
        assert!(kept.ends_with("causeway sandbox node remove --name x n2"), "{kept}");
    }

    #[test]
    fn a_step_is_shown_once_and_only_whole() {
        let mut steps = Steps::default();
        let half = Status { units: vec![unit("a", "x", true), unit("b", "x", false)], ..Status::default() };
        let whole = Status { units: vec![unit("a", "x", true), unit("b", "x", true)], ..Status::default() };
        assert_eq!(steps.finished(&half), [""; 0]);
        assert_eq!(steps.finished(&whole), ["x"]);
        assert_eq!(steps.finished(&whole), [""; 0]);
    }
}
