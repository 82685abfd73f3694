//! What a sandbox shall be. Commands change this value; nothing here touches the world.

use crate::address::Family;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Addresses of nodes are 10 + index in a /24, below those of services of type LoadBalancer.
pub(crate) const MAX_NODES: u8 = 180;
/// Names of links and cgroups hold it.
const MAX_NAME: usize = 32;

/// Who carries the packets of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// Open vSwitch's own process: works with every kernel
    #[default]
    Userspace,
    /// The kernel's module openvswitch
    Kernel,
}

/// Who wires pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Plugin {
    /// Causeway: a cluster manager, and a node role on each node
    #[default]
    Causeway,
    /// The reference bridge plugin: no networks of users, for comparison
    Bridge,
}

/// Flags of Causeway's roles, beside those that follow from the sandbox itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags {
    /// Words for `causeway cluster-manager`, last on its command line.
    #[serde(default)]
    pub cluster_manager: Vec<String>,
    /// For the node role, the same on every node.
    #[serde(default)]
    pub node: Vec<String>,
}

/// What a sandbox shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Grows with every change, so that a waiting command knows when its change was seen.
    pub generation: u64,
    /// The sandbox's name.
    pub name: String,
    /// The address families of nodes, pods and services; the first one is preferred.
    pub families: Vec<Family>,
    /// Who carries packets on the nodes.
    #[serde(default)]
    pub datapath: Datapath,
    /// Who wires pods.
    #[serde(default)]
    pub plugin: Plugin,
    /// More flags for Causeway's roles.
    #[serde(default)]
    pub flags: Flags,
    /// The port on the machine's loopback address where the API server answers.
    pub api_port: u16,
    /// By name, from `n1`; those that are switched off stay listed.
    pub nodes: BTreeMap<String, Node>,
    /// Image archives, by the name of their file in the folder `images`.
    pub images: Vec<String>,
    /// The process with which the sandbox ends; none: it stays until it is removed.
    pub owner: Option<Owner>,
}

/// A process, told apart from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks of the kernel.
    pub started: u64,
}

/// What a node shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// From 1; its addresses follow from it.
    pub index: u8,
    /// Whether it is switched on.
    pub running: bool,
    /// Whether it is cut off from all others.
    pub partitioned: bool,
}

impl Wanted {
    /// A sandbox with nodes `n1`, `n2`, ….
    pub fn new(name: &str, nodes: u8, families: Vec<Family>, api_port: u16) -> Result<Wanted> {
        check_name(name)?;
        if families.is_empty() {
            return Err(Error::Request("a sandbox needs at least one address family".into()));
        }
        let mut wanted = Wanted {
            generation: 1,
            name: name.to_owned(),
            families,
            datapath: Datapath::default(),
            plugin: Plugin::default(),
            flags: Flags::default(),
            api_port,
            nodes: BTreeMap::new(),
            images: Vec::new(),
            owner: None,
        };
        for _ in 0..nodes {
            wanted.add_node()?;
        }
        Ok(wanted)
    }

    /// Adds a node with the lowest free number; says its name.
    pub fn add_node(&mut self) -> Result<String> {
        let taken = |index| self.nodes.values().any(|node| node.index == index);
        let index = (1..=MAX_NODES)
            .find(|index| !taken(*index))
            .ok_or_else(|| Error::Request(format!("a sandbox has at most {MAX_NODES} nodes")))?;
        let name = format!("n{index}");
        self.nodes.insert(name.clone(), Node { index, running: true, partitioned: false });
        Ok(name)
    }

    /// A node to change.
    pub fn node_mut(&mut self, name: &str) -> Result<&mut Node> {
        let names = self.nodes.keys().cloned().collect::<Vec<_>>().join(", ");
        self.nodes
            .get_mut(name)
            .ok_or_else(|| Error::Request(format!("there is no node {name}; the nodes are: {names}")))
    }

    /// The nodes that are switched on.
    pub fn running(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.running).map(|(name, node)| (name.as_str(), node))
    }
}

/// Refuses names that cannot be part of paths, cgroups and host names.
pub fn check_name(name: &str) -> Result<()> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME;
    let clean = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if fits && clean && !name.starts_with('-') {
        return Ok(());
    }
    Err(Error::Request(format!(
        "{name:?} cannot be the name of a sandbox: use 1 to {MAX_NAME} of a-z, 0-9 and -, not first"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(nodes: u8) -> Wanted {
        Wanted::new("test", nodes, vec![Family::Ipv4], 1).unwrap()
    }

    #[test]
    fn a_new_node_takes_the_place_that_is_free() {
        let mut wanted = sandbox(3);
        wanted.nodes.remove("n2");
        assert_eq!(wanted.add_node().unwrap(), "n2");
        assert_eq!(wanted.add_node().unwrap(), "n4");
    }

    #[test]
    fn an_unknown_node_is_named_with_those_that_exist() {
        let message = sandbox(2).node_mut("n7").unwrap_err().to_string();
        assert_eq!(message, "there is no node n7; the nodes are: n1, n2");
    }

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        for bad in ["", "..", "a/b", "Big", "-x", &"x".repeat(33)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        check_name("my-test-2").unwrap();
    }
}
