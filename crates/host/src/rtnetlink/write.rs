//! One change of the kernel.

use super::messages::{as_proxy, neighbour, new_link, route, rule, with_lifetime, with_mac, with_protocol};
use super::{KernelOutput, Maker};
use crate::error::{Error, Result};
use crate::messages::{SeenLink, address, indexed, named, seen_link, seen_route, with_flags};
use crate::namespace::{self, named_namespace, open};
use crate::netlink::is_missing;
use crate::settings;
use causeway_types::host::{
    Address, Item, Link, LinkKind, LinkState, Neighbour, Owner, Planned, Route, Rule, Target,
};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteHeader, RouteMessage, RouteProtocol};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsRawFd;

const NEW: u16 = NLM_F_CREATE | NLM_F_EXCL;
const ANEW: u16 = NLM_F_CREATE | NLM_F_REPLACE;
/// What makes a router of a node.
const FORWARDING: (&str, &str) = ("ipv6/conf/all/forwarding", "1");

impl KernelOutput {
    /// Makes an item; what is there under its key already is known.
    pub(super) fn make(&mut self, from: Option<&Item>, planned: &Planned) -> Result<()> {
        let flags = if from.is_some() { ANEW } else { NEW };
        let protocol = self.mark.protocol;
        match &planned.item {
            Item::Namespace(name) => namespace::create_named(name),
            Item::Link(link) => self.make_link(from, link, &planned.owner),
            Item::Setting(setting) => {
                if (setting.path.as_str(), setting.value.as_str()) == FORWARDING {
                    self.hear_routers_on()?;
                }
                settings::write(&setting.path, &setting.value)
            }
            Item::Address(wanted) => self.make_address(from, wanted),
            Item::State(state) => self.make_state(state),
            Item::Route(wanted) => {
                let message = route(wanted, self.device_of(wanted)?, protocol);
                self.change(RouteNetlinkMessage::NewRoute(message), flags, &planned.item)
            }
            Item::Rule(wanted) => self.make_rule(from, wanted),
            Item::Neighbour(wanted) => {
                let message = neighbour(wanted.address, self.index(&wanted.device)?, protocol);
                let message = with_mac(message, wanted);
                self.change(RouteNetlinkMessage::NewNeighbour(message), ANEW, &planned.item)
            }
            Item::Proxy { device, address } => {
                let message = as_proxy(neighbour(*address, self.index(device)?, protocol));
                self.change(RouteNetlinkMessage::NewNeighbour(message), ANEW, &planned.item)
            }
            Item::Port(_)
            | Item::BridgePort(_)
            | Item::Table(_)
            | Item::Element(_)
            | Item::Flow(_)
            | Item::Section(_) => Err(Error::Unsupported),
        }
    }

    /// Makes an address on a link of ours, or takes it away, without a look at anything else; `false` if there is no such link. It is for
    /// one change among very many things: who listens to the kernel hears of it, and looks at them all later.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn touch_address(&mut self, wanted: &Address, present: bool) -> Result<bool> {
        let mark = self.mark;
        let ours = self.link(&wanted.device)?.is_some_and(|link| mark.is_on(&link.alias));
        match (ours, present) {
            (false, _) => return Ok(false),
            (true, true) => self.make_address(None, wanted)?,
            (true, false) => self.remove(&Item::Address(wanted.clone()))?,
        }
        Ok(true)
    }

    /// Takes an item away that is ours. What is gone is gone.
    pub(super) fn remove(&mut self, item: &Item) -> Result<()> {
        let protocol = self.mark.protocol;
        let message = match item {
            Item::Link(Link { kind: LinkKind::Given, name, .. }) => {
                let mut message = named(name);
                message.attributes.push(LinkAttribute::IfAlias(String::new()));
                RouteNetlinkMessage::SetLink(message)
            }
            Item::Link(link) => RouteNetlinkMessage::DelLink(named(&link.name)),
            Item::Address(gone) => match self.link(&gone.device)? {
                Some(link) => RouteNetlinkMessage::DelAddress(address(link.index, &gone.net)),
                None => return Ok(()),
            },
            Item::Route(gone) => RouteNetlinkMessage::DelRoute(route(gone, None, protocol)),
            Item::Rule(gone) => RouteNetlinkMessage::DelRule(rule(gone, protocol)),
            Item::Neighbour(Neighbour { device, address, .. }) | Item::Proxy { device, address } => {
                let Some(link) = self.link(device)? else { return Ok(()) };
                let message = neighbour(*address, link.index, protocol);
                let is_proxy = matches!(item, Item::Proxy { .. });
                RouteNetlinkMessage::DelNeighbour(if is_proxy { as_proxy(message) } else { message })
            }
            _ => return Err(Error::Unsupported),
        };
        match self.netlink.change(message, 0) {
            Err(source) if !is_gone(&source) => {
                Err(Error::Refused { doing: format!("removing {}", item.key()), source })
            }
            _ => Ok(()),
        }
    }

    /// A node that forwards IPv6 forgets at once what routers have told it and hears no more of them, unless it is told to go on.
    fn hear_routers_on(&mut self) -> Result<()> {
        let mut all = RouteMessage::default();
        all.header.address_family = AddressFamily::Inet6;
        all.header.table = RouteHeader::RT_TABLE_MAIN;
        let routes = self.dump("routes", RouteNetlinkMessage::GetRoute(all))?;
        let told = routes.iter().filter_map(seen_route);
        let told: BTreeSet<u32> = told
            .filter(|(_, protocol, route)| *protocol == RouteProtocol::Ra && route.dest.prefix_len() == 0)
            .map(|(device, _, _)| device)
            .collect();
        for index in told {
            let answers = self.netlink.get(RouteNetlinkMessage::GetLink(indexed(index)));
            let Some(link) = answers.iter().flatten().find_map(seen_link) else { continue };
            let path = format!("ipv6/conf/{}/accept_ra", link.name);
            if settings::read(&path)?.as_deref() == Some("1") {
                settings::write(&path, "2")?;
            }
        }
        Ok(())
    }

    fn change(&mut self, message: RouteNetlinkMessage, flags: u16, item: &Item) -> Result<()> {
        self.netlink.change(message, flags).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Taken(item.key()),
            _ => Error::Refused { doing: format!("making {item}"), source },
        })
    }

    pub(super) fn link(&mut self, name: &str) -> Result<Option<SeenLink>> {
        match self.netlink.get(RouteNetlinkMessage::GetLink(named(name))) {
            Ok(answers) => Ok(answers.iter().find_map(seen_link)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(source) => Err(Error::Refused { doing: format!("looking for link {name}"), source }),
        }
    }

    fn index(&mut self, name: &str) -> Result<u32> {
        self.link(name)?.map(|link| link.index).ok_or_else(|| Error::NoLink(name.to_owned()))
    }

    fn device_of(&mut self, route: &Route) -> Result<Option<u32>> {
        match &route.target {
            Target::Forward { device: Some(device), .. } => self.index(device).map(Some),
            _ => Ok(None),
        }
    }

    /// An address that is only for show is there before the kernel's routes to it go: a moment in between is harmless, and the next look
    /// sees them.
    fn make_address(&mut self, from: Option<&Item>, wanted: &Address) -> Result<()> {
        let item = Item::Address(wanted.clone());
        let is_there = matches!(from, Some(Item::Address(from)) if from.preferred == wanted.preferred);
        if !is_there || wanted.delivered {
            let message =
                with_protocol(address(self.index(&wanted.device)?, &wanted.net), self.mark.protocol);
            let message = with_lifetime(message, wanted.preferred);
            self.change(RouteNetlinkMessage::NewAddress(message), ANEW, &item)?;
        }
        if wanted.delivered { Ok(()) } else { self.stop_delivery(&wanted.device, &item, wanted.net.addr()) }
    }

    fn make_state(&mut self, state: &LinkState) -> Result<()> {
        let index = self.index(&state.device)?;
        let mut message = with_flags(indexed(index), LinkFlags::Up);
        if !state.up {
            message.header.flags = LinkFlags::empty();
        }
        let item = Item::State(state.clone());
        self.change(RouteNetlinkMessage::SetLink(message), 0, &item)
    }

    /// Rules cannot be changed in place.
    fn make_rule(&mut self, from: Option<&Item>, wanted: &Rule) -> Result<()> {
        if let Some(from) = from {
            self.remove(from)?;
        }
        let message = RouteNetlinkMessage::NewRule(rule(wanted, self.mark.protocol));
        self.change(message, NEW, &Item::Rule(wanted.clone()))
    }

    fn make_link(&mut self, from: Option<&Item>, wanted: &Link, owner: &Owner) -> Result<()> {
        let is_other = matches!(from, Some(Item::Link(from)) if from.kind != wanted.kind);
        if let Some(from) = from.filter(|_| is_other) {
            self.remove(from)?;
        }
        let created = (from.is_none() || is_other) && self.create_link(wanted)?;
        let outcome = self.set_link(wanted, owner);
        if created && outcome.is_err() {
            // Without its mark it would be taken for somebody else's.
            let _unremovable = self.remove(&Item::Link(wanted.clone()));
        }
        outcome
    }

    /// Whether there was something to create.
    fn create_link(&mut self, wanted: &Link) -> Result<bool> {
        let far = match &wanted.kind {
            LinkKind::Cable { namespace: Some(name), .. } => Some(open(&named_namespace(name))?),
            _ => None,
        };
        if let LinkKind::Vrf { table } = wanted.kind {
            self.is_free(table)?;
        }
        let far_end = far.as_ref().map(AsRawFd::as_raw_fd);
        let Some(message) = new_link(&wanted.name, &wanted.kind, far_end) else { return Ok(false) };
        let item = Item::Link(wanted.clone());
        self.change(RouteNetlinkMessage::NewLink(message), NEW, &item).map(|()| true)
    }

    /// The kernel lets two VRFs share a table, and FRR ends when it sees that.
    fn is_free(&mut self, table: u32) -> Result<()> {
        let answers = self.netlink.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()));
        let links = answers.map_err(|source| Error::Refused { doing: "listing links".into(), source })?;
        match links.iter().filter_map(seen_link).find(|link| link.table == Some(table)) {
            Some(link) => Err(Error::TableTaken { table, by: link.name }),
            None => Ok(()),
        }
    }

    /// Alias, MAC, MTU and master, as far as they differ.
    fn set_link(&mut self, wanted: &Link, owner: &Owner) -> Result<()> {
        let is = self.link(&wanted.name)?.ok_or_else(|| Error::NoLink(wanted.name.clone()))?;
        let maker = if wanted.kind == LinkKind::Given { Maker::Others } else { Maker::Us };
        let alias = self.mark.alias(maker, owner);
        let mut message = indexed(is.index);
        if is.alias != alias {
            message.attributes.push(LinkAttribute::IfAlias(alias));
        }
        if let Some(mac) = wanted.mac.filter(|mac| is.mac != Some(*mac)) {
            message.attributes.push(LinkAttribute::Address(mac.bytes().to_vec()));
        }
        if let Some(mtu) = wanted.mtu.filter(|mtu| is.mtu != *mtu) {
            message.attributes.push(LinkAttribute::Mtu(mtu));
        }
        if let Some(master) = &wanted.master {
            let master = self.index(master)?;
            if is.master != Some(master) {
                message.attributes.push(LinkAttribute::Controller(master));
            }
        }
        self.change(RouteNetlinkMessage::SetLink(message), 0, &Item::Link(wanted.clone()))
    }
}

/// The device, route, rule, address or neighbour went away at the same moment.
fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::ENODEV | Errno::ESRCH | Errno::ENOENT | Errno::EADDRNOTAVAIL))
}
