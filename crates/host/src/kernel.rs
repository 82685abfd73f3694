//! The kernel itself, by netlink and /proc/sys.

use crate::drive::bring;
use crate::error::{Error, Result};
use crate::filter;
use crate::host::{Host, LinkState, PodInterface, Route};
use crate::messages::{
    SeenLink, address, cable, indexed, named, route, seen_address, seen_link, seen_route, with_flags,
};
use crate::namespace::{in_namespace, inside, open};
use crate::netlink::{Netlink, is_missing};
use crate::output::{Applied, Problem};
use crate::rtnetlink::{KernelOutput, Mark};
use crate::settings;
use causeway_types::host::HostPlan;
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkFlags;
use netlink_packet_route::route::{RouteHeader, RouteMessage, RouteProtocol};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

/// The kernel of the namespace that the calling thread is in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Host for Kernel {
    fn attach(&self, netns: &Path, interfaces: &[PodInterface]) -> Result<Vec<String>> {
        let namespace = open(netns)?;
        let mut host = Node(Netlink::open()?);
        let mut fresh = Vec::new();
        for interface in interfaces {
            if host.create_cable(interface, namespace.as_raw_fd())? {
                fresh.push(interface);
            } else if !host.is_laid(interface, netns)? {
                host.replace_cable(interface, namespace.as_raw_fd())?;
                fresh.push(interface);
            }
        }
        for interface in &fresh {
            host.switch_on_host_end(&interface.host_name)?;
        }
        inside(&namespace, netns, || {
            let mut pod = Node(Netlink::open()?);
            fresh.iter().try_for_each(|interface| pod.configure(interface))
        })?;
        Ok(fresh.into_iter().map(|interface| interface.host_name.clone()).collect())
    }

    fn detach(&self, host_names: &[String]) -> Result<()> {
        let mut host = Node(Netlink::open()?);
        host_names.iter().try_for_each(|name| host.remove_cable(name))
    }

    fn inspect(&self, netns: &Path, name: &str) -> Result<Option<LinkState>> {
        in_namespace(netns, || Node(Netlink::open()?).state(name))
    }

    fn present(&self, names: &[String]) -> Result<BTreeSet<String>> {
        let mut host = Node(Netlink::open()?);
        let mut present = BTreeSet::new();
        for name in names {
            if host.link(name)?.is_some() {
                present.insert(name.clone());
            }
        }
        Ok(present)
    }

    fn apply_host(&self, plan: &HostPlan) -> Applied {
        match KernelOutput::open(Mark::NODE) {
            Ok(mut output) => bring(&mut output, plan),
            Err(error) => Applied { writes: 0, problems: vec![Problem { key: None, owner: None, error }] },
        }
    }
}

/// One namespace.
struct Node(Netlink);

impl Node {
    fn link(&mut self, name: &str) -> Result<Option<SeenLink>> {
        match self.0.get(RouteNetlinkMessage::GetLink(named(name))) {
            Ok(answers) => Ok(answers.iter().find_map(seen_link)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(source) => Err(Error::Refused { doing: format!("looking for link {name}"), source }),
        }
    }

    /// Whether an earlier attempt for the same pod has done it all: the host's end has the sandbox's name.
    fn is_laid(&mut self, interface: &PodInterface, netns: &Path) -> Result<bool> {
        let Some(host_end) = self.link(&interface.host_name)? else { return Ok(false) };
        let pod_end = in_namespace(netns, || Node(Netlink::open()?).state(&interface.name))?;
        Ok(host_end.up && pod_end.is_some_and(|end| end.differences(interface).is_empty()))
    }

    /// A new cable is cheaper than finding out in which state an old one was left.
    fn replace_cable(&mut self, interface: &PodInterface, namespace: RawFd) -> Result<()> {
        self.remove_cable(&interface.host_name)?;
        if self.create_cable(interface, namespace)? {
            return Ok(());
        }
        Err(Error::Foreign { name: interface.name.clone() })
    }

    fn switch_on_host_end(&mut self, name: &str) -> Result<()> {
        for setting in settings::of_host_end(name) {
            setting.ensure()?;
        }
        let up = with_flags(named(name), LinkFlags::Up | LinkFlags::Noarp);
        self.change(RouteNetlinkMessage::SetLink(up), 0, || format!("switching on {name}"))
    }

    /// Whether both names were free.
    fn create_cable(&mut self, interface: &PodInterface, namespace: RawFd) -> Result<bool> {
        let message = RouteNetlinkMessage::NewLink(cable(interface, namespace));
        match self.0.change(message, NLM_F_CREATE | NLM_F_EXCL) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(source) => {
                let doing = format!("laying the cable {} to {}", interface.host_name, interface.name);
                Err(Error::Refused { doing, source })
            }
        }
    }

    fn remove_cable(&mut self, host_name: &str) -> Result<()> {
        let Some(link) = self.link(host_name)? else { return Ok(()) };
        if !link.is_cable() {
            return Err(Error::Foreign { name: host_name.to_owned() });
        }
        match self.0.change(RouteNetlinkMessage::DelLink(indexed(link.index)), 0) {
            // The other end can take it away at the same moment.
            Err(error) if is_missing(&error) => Ok(()),
            other => other.map_err(|source| Error::Refused {
                doing: format!("removing the cable {host_name}"),
                source,
            }),
        }
    }

    /// Makes the pod's end of a fresh cable what it shall be.
    fn configure(&mut self, interface: &PodInterface) -> Result<()> {
        let name = &interface.name;
        let link = self.link(name)?.ok_or_else(|| Error::NoLink(name.clone()))?;
        if interface.addresses.iter().any(|a| a.addr().is_ipv6()) {
            for setting in settings::of_pod_end(name) {
                setting.ensure()?;
            }
        }
        if let Some(router) = interface.router {
            filter::only_from(router, name)?;
        }
        for wanted in &interface.addresses {
            self.add_address(link.index, name, wanted)?;
        }
        let up = with_flags(indexed(link.index), LinkFlags::Up);
        self.change(RouteNetlinkMessage::SetLink(up), 0, || format!("switching on {name}"))?;
        // A route on the link itself may be the way to the next hop of another.
        let (direct, via): (Vec<&Route>, Vec<&Route>) =
            interface.routes.iter().partition(|r| r.via.is_none());
        for wanted in direct.into_iter().chain(via) {
            self.add_route(link.index, name, wanted, RouteProtocol::Static)?;
        }
        Ok(())
    }

    fn add_address(&mut self, index: u32, name: &str, wanted: &IpNet) -> Result<()> {
        let message = RouteNetlinkMessage::NewAddress(address(index, wanted));
        self.change(message, NLM_F_CREATE | NLM_F_REPLACE, || format!("giving {name} the address {wanted}"))
    }

    fn add_route(&mut self, index: u32, name: &str, wanted: &Route, protocol: RouteProtocol) -> Result<()> {
        let message = RouteNetlinkMessage::NewRoute(route(index, wanted, protocol));
        self.change(message, NLM_F_CREATE | NLM_F_REPLACE, || format!("adding to {name} {wanted}"))
    }

    fn change(&mut self, message: RouteNetlinkMessage, flags: u16, doing: impl Fn() -> String) -> Result<()> {
        self.0.change(message, flags).map_err(|source| Error::Refused { doing: doing(), source })
    }

    fn state(&mut self, name: &str) -> Result<Option<LinkState>> {
        let Some(link) = self.link(name)? else { return Ok(None) };
        let Some(mac) = link.mac else { return Ok(None) };
        let addresses = self.addresses()?.remove(&link.index).unwrap_or_default();
        let routes = self.routes()?.into_iter().filter(|(index, protocol, _)| {
            *index == link.index && *protocol != RouteProtocol::Kernel && *protocol != RouteProtocol::Ra
        });
        let routes = routes.map(|(_, _, route)| route).collect();
        Ok(Some(LinkState { mac, mtu: link.mtu, up: link.up, addresses, routes }))
    }

    fn addresses(&mut self) -> Result<BTreeMap<u32, BTreeSet<IpNet>>> {
        let answers = self.0.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()));
        let answers =
            answers.map_err(|source| Error::Refused { doing: "listing addresses".into(), source })?;
        let mut addresses: BTreeMap<u32, BTreeSet<IpNet>> = BTreeMap::new();
        for seen in answers.iter().filter_map(seen_address).filter(|seen| !seen.local) {
            addresses.entry(seen.index).or_default().insert(seen.net);
        }
        Ok(addresses)
    }

    fn routes(&mut self) -> Result<Vec<(u32, RouteProtocol, Route)>> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            message.header.table = RouteHeader::RT_TABLE_MAIN;
            let answers = self.0.dump(RouteNetlinkMessage::GetRoute(message));
            let answers =
                answers.map_err(|source| Error::Refused { doing: "listing routes".into(), source })?;
            routes.extend(answers.iter().filter_map(seen_route));
        }
        Ok(routes)
    }
}
