//! What the tasks of a node ask of its kernel.

use crate::error::Result;
use crate::output::Applied;
use causeway_types::host::HostPlan;
use causeway_types::{Cidr, Mac};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// One cable between the host and a pod, and what the pod's end shall be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodInterface {
    /// The name of the host's end.
    pub host_name: String,
    /// The name of the pod's end.
    pub name: String,
    /// The MAC address of the pod's end.
    pub mac: Mac,
    /// The MTU of both ends.
    pub mtu: u32,
    /// The pod's addresses, with the prefix lengths of their subnets.
    pub addresses: Vec<IpNet>,
    /// The pod's routes, default routes included.
    pub routes: BTreeSet<Route>,
    /// Whose router advertisements may pass; `None` has no opinion.
    pub router: Option<Ipv6Addr>,
    /// Whether the pod's kernel cuts what it sends into packets of the MTU itself. A switch in userspace takes a larger one, which cards
    /// would cut, for one that is too large.
    pub cut: bool,
}

/// One route of a pod.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Route {
    /// Where to.
    pub dest: Cidr,
    /// Through whom; nobody means on the link itself.
    pub via: Option<IpAddr>,
}

/// What an interface of a pod is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkState {
    /// Its MAC address.
    pub mac: Mac,
    /// Its MTU.
    pub mtu: u32,
    /// Whether it is switched on.
    pub up: bool,
    /// Its addresses, but for the kernel's own link-local one.
    pub addresses: BTreeSet<IpNet>,
    /// The routes that go through it, but for the kernel's own.
    pub routes: BTreeSet<Route>,
}

impl LinkState {
    /// In what the interface is not as it shall be; further routes are the pod's own business.
    pub fn differences(&self, wanted: &PodInterface) -> Vec<String> {
        let mut found = Vec::new();
        if self.mac != wanted.mac {
            found.push(format!("its MAC is {}, not {}", self.mac, wanted.mac));
        }
        if self.mtu != wanted.mtu {
            found.push(format!("its MTU is {}, not {}", self.mtu, wanted.mtu));
        }
        if !self.up {
            found.push("it is switched off".to_owned());
        }
        let missing = wanted.addresses.iter().filter(|address| !self.addresses.contains(address));
        found.extend(missing.map(|address| format!("it lacks the address {address}")));
        found.extend(wanted.routes.difference(&self.routes).map(|route| format!("it lacks {route}")));
        found
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the route to {}", self.dest)?;
        self.via.map_or(Ok(()), |via| write!(f, " via {via}"))
    }
}

/// A node's kernel. All calls block.
pub trait Host: Send + Sync + 'static {
    /// Lays the cables and makes the pod's ends what they shall be. What is there already stays, so that repeating it
    /// is harmless. Says which cables are new, by the names of the host's ends.
    ///
    /// # Errors
    /// If the namespace is gone, a name is taken, or the kernel refuses. Cables that were laid stay.
    fn attach(&self, netns: &Path, interfaces: &[PodInterface]) -> Result<Vec<String>>;

    /// Takes the cables away, by the names of the host's ends. What is gone is gone.
    ///
    /// # Errors
    /// If the kernel refuses, or a name belongs to another kind of link.
    fn detach(&self, host_names: &[String]) -> Result<()>;

    /// What an interface of a pod is; `None` if it is not there.
    ///
    /// # Errors
    /// If the namespace is gone or the kernel refuses.
    fn inspect(&self, netns: &Path, name: &str) -> Result<Option<LinkState>>;

    /// Which of these links are on the host.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn present(&self, names: &[String]) -> Result<BTreeSet<String>>;

    /// Makes the kernel's part of the plan true: links, settings, addresses, routes, rules, neighbours. What carries the
    /// node's mark and is not planned goes; nothing else is touched.
    fn apply_host(&self, plan: &HostPlan) -> Applied;
}
