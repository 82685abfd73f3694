//! From what is wanted to the units that make it so. Pure: it reads nothing and starts nothing.

pub mod unit;

mod control;
mod dns;
mod node;
mod outside;
mod ovn;
mod plugin;
mod pool;
mod underlay;

use crate::address::{self, Family};
use crate::boot::{INSIDE, VOLATILE};
use crate::folder::Folder;
use crate::programs::Programs;
use crate::wanted::{Datapath, Node, Plugin, Wanted};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use unit::{Body, Command, Task, Unit};

/// The port of the API server in the sandbox.
const API_PORT: u16 = 6443;
/// The network namespace of the control plane.
pub const CONTROL: &str = "control";
/// The network namespace of the host outside of the cluster.
pub const OUTSIDE: &str = "outside";
/// The network namespace of a router behind that one, with a small MTU between the two.
pub const NARROWS: &str = "narrows";
/// The network namespace of a host behind the router.
pub const FAR: &str = "far";

/// Where a plan's programs and files are, seen from inside.
#[derive(Clone, Debug)]
pub struct Places {
    /// Those that `scripts/setup` brings, for Kubernetes and OVN.
    pub programs: Programs,
    /// This program.
    pub own: PathBuf,
    /// The folder of the sandbox.
    pub folder: Folder,
    /// What goes when a node is switched off.
    pub volatile: PathBuf,
}

impl Places {
    /// The places in the mount namespace of a sandbox.
    pub fn inside(programs: Programs, own: PathBuf) -> Places {
        Places { programs, own, folder: Folder::at(INSIDE), volatile: VOLATILE.into() }
    }

    fn program(&self, name: &str) -> String {
        self.programs.program(name).display().to_string()
    }

    fn text(&self, relative: &str) -> String {
        self.folder.path(relative).display().to_string()
    }

    /// kubectl, ready to read manifests.
    fn apply(&self) -> Command {
        self.kubectl(["apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-"])
    }

    fn certificate(&self, name: &str) -> String {
        self.text(&format!("certificates/{name}"))
    }

    /// kubectl as the administrator, from inside.
    fn kubectl<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let config = format!("--kubeconfig={}", self.certificate("admin.kubeconfig"));
        let cache = format!("--cache-dir={}", self.volatile.join("kubectl").display());
        let start = [self.program("kubectl"), config, cache];
        Command::new(start.into_iter().chain(words.into_iter().map(str::to_owned))).within(CONTROL)
    }
}

/// A running node with all that follows from its number.
struct Site<'a> {
    name: &'a str,
    node: &'a Node,
    families: &'a [Family],
    datapath: Datapath,
    plugin: Plugin,
}

impl Site<'_> {
    fn id(&self, part: &str) -> String {
        format!("{}/{part}", self.name)
    }

    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let host = address::node_host(self.node.index);
        self.families.iter().map(move |family| address::underlay(*family, host).addr())
    }

    /// The address where tunnels end.
    fn tunnel(&self) -> String {
        self.addresses().next().map(|address| address.to_string()).unwrap_or_default()
    }

    fn unit(&self, part: &str, step: &str, body: Body) -> Unit {
        let node = Some(self.name.to_owned());
        Unit { node, ..Unit::new(self.id(part), format!("{}: {step}", self.name), body) }
    }
}

fn site<'a>(name: &'a str, node: &'a Node, wanted: &'a Wanted) -> Site<'a> {
    Site { name, node, families: &wanted.families, datapath: wanted.datapath, plugin: wanted.plugin }
}

/// All units of a sandbox, in the order in which people like to see them.
pub fn plan(wanted: &Wanted, places: &Places) -> Vec<Unit> {
    let sites: Vec<Site<'_>> = wanted.running().map(|(name, node)| site(name, node, wanted)).collect();
    let mut units = vec![
        control::certificates(wanted, places),
        Unit::new("network", "network", Body::Task(Task::Network(underlay::network(wanted)))),
    ];
    units.extend(control::units(wanted, places));
    units.extend(outside::units(wanted, places));
    if wanted.plugin == Plugin::Causeway {
        units.push(plugin::cluster_manager(wanted, places));
        units.extend(dns::cluster(wanted, places));
        units.extend(pool::units(places));
    }
    for site in &sites {
        units.extend(ovn::units(site, &sites, places));
        units.extend(node::units(wanted, site, places));
        if site.plugin == Plugin::Causeway {
            units.push(plugin::node(wanted, site, places));
        }
    }
    units.extend(
        wanted.nodes.iter().filter(|(_, node)| !node.running).map(|(name, _)| off(wanted, name, places)),
    );
    units
}

fn off(wanted: &Wanted, node: &str, places: &Places) -> Unit {
    let task =
        Task::Off { node: node.to_owned(), cgroup: cgroup(&wanted.name), folder: places.volatile.join(node) };
    Unit::new(format!("{node}/off"), format!("{node}: off"), Body::Task(task))
}

/// The cgroup of a sandbox; each node has one below it.
pub fn cgroup(sandbox: &str) -> String {
    format!("causeway-{sandbox}")
}

/// What a command that runs on a node finds in its environment: `ovn-nbctl show` needs no options.
pub fn node_environment(node: &str, places: &Places) -> BTreeMap<String, String> {
    let mut environment = ovn::environment(node, places);
    let mut set = |key: &str, value: String| environment.insert(key.to_owned(), value);
    set("PATH", places.programs.search_path());
    set("KUBECONFIG", places.certificate("admin.kubeconfig"));
    set("CONTAINERD_ADDRESS", node::socket(node, places).display().to_string());
    set("CONTAINERD_NAMESPACE", "k8s.io".into());
    environment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted::MAX_NODES;
    use std::collections::BTreeSet;

    fn places() -> Places {
        Places::inside(Programs::at("/programs/bin"), "/programs/causeway".into())
    }

    fn wanted(nodes: u8) -> Wanted {
        Wanted::new("test", nodes, vec![Family::Ipv4, Family::Ipv6], 6000).unwrap()
    }

    #[test]
    fn every_unit_waits_only_for_units_that_exist() {
        let units = plan(&wanted(3), &places());
        let ids: BTreeSet<&str> = units.iter().map(|unit| unit.id.as_str()).collect();
        assert_eq!(ids.len(), units.len(), "ids are unique");
        for unit in &units {
            for before in &unit.after {
                assert!(ids.contains(before.as_str()), "{} waits for {before}", unit.id);
            }
        }
    }

    #[test]
    fn another_node_leaves_the_processes_of_others_alone() {
        let (before, after) = (plan(&wanted(2), &places()), plan(&wanted(3), &places()));
        let changed: Vec<&str> = before
            .iter()
            .filter(|unit| matches!(unit.body, Body::Process(_)))
            .filter(|unit| !after.contains(unit))
            .map(|unit| unit.id.as_str())
            .collect();
        assert_eq!(changed, [""; 0]);
    }

    #[test]
    fn of_a_node_that_is_off_only_that_is_planned() {
        let mut wanted = wanted(2);
        wanted.node_mut("n2").unwrap().running = false;
        let units = plan(&wanted, &places());
        let of_n2: Vec<&str> =
            units.iter().map(|u| u.id.as_str()).filter(|id| id.starts_with("n2")).collect();
        assert_eq!(of_n2, ["n2/off"]);
    }

    #[test]
    fn the_kernel_carries_packets_where_it_is_asked_to() {
        let words = |datapath: Datapath| {
            let units = plan(&Wanted { datapath, ..wanted(1) }, &places());
            let lines = units.into_iter().flat_map(|unit| match unit.body {
                Body::Process(process) => vec![process.command.words.join(" ")],
                Body::Task(Task::Run(commands)) => commands.into_iter().map(|c| c.words.join(" ")).collect(),
                Body::Task(_) => Vec::new(),
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let (userspace, kernel) = (words(Datapath::Userspace), words(Datapath::Kernel));
        for word in
            ["datapath_type=netdev", "ovn-bridge-datapath-type=netdev", "userspace-tso", "--disable-system"]
        {
            assert!(userspace.contains(word) && !kernel.contains(word), "{word}");
        }
        assert!(
            kernel.contains("ovn-bridge-datapath-type=system") && kernel.contains("datapath_type=system")
        );
    }

    #[test]
    fn sockets_fit_into_an_address() {
        for unit in plan(&wanted(MAX_NODES), &places()) {
            let Body::Process(process) = unit.body else { continue };
            for word in process.command.words.iter().filter(|word| word.contains(".sock")) {
                let path = word.rsplit(':').next().unwrap();
                assert!(path.len() < 100, "{path}");
            }
        }
    }
}
