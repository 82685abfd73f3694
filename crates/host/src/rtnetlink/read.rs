//! What the kernel has, as items.

use super::messages::{family_of, seen_neighbour, seen_route, seen_rule};
use super::{KernelOutput, Links, Maker};
use crate::error::{Error, Result};
use crate::messages::{SeenLink, seen_address, seen_link};
use crate::namespace;
use crate::output::{Actual, Seen, Wanted, Whose};
use crate::settings;
use causeway_types::Family;
use causeway_types::host::{
    Address, Item, Key, Link, LinkKind, LinkState, Neighbour, Owner, Route, Setting, Target,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressFlags, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourFlags, NeighbourMessage};
use netlink_packet_route::route::{RouteMessage, RouteProtocol};
use netlink_packet_route::rule::RuleMessage;
use std::net::Ipv4Addr;

/// What is found, beside what is wanted.
struct Reading<'a> {
    wanted: &'a Wanted,
    links: Links,
    actual: Actual,
}

impl Reading<'_> {
    fn add(&mut self, item: Item, whose: Whose) {
        self.actual.insert(item.key(), Seen { item, whose });
    }

    fn name(&self, index: u32) -> Option<String> {
        self.links.names.get(&index).cloned()
    }
}

impl KernelOutput {
    pub(super) fn read_all(&mut self, wanted: &Wanted) -> Result<Actual> {
        let mut reading = Reading { wanted, links: self.links()?, actual: Actual::new() };
        read_unmarked(&mut reading)?;
        self.read_links(&mut reading);
        self.read_addresses(&mut reading)?;
        self.read_routes(&mut reading)?;
        self.read_rules(&mut reading)?;
        self.read_neighbours(&mut reading)?;
        Ok(reading.actual)
    }

    pub(super) fn dump(
        &mut self,
        what: &str,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        let answers = self.netlink.dump(message);
        answers.map_err(|source| Error::Refused { doing: format!("listing {what}"), source })
    }

    fn links(&mut self) -> Result<Links> {
        let answers = self.dump("links", RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let mut links = Links::default();
        for link in answers.iter().filter_map(seen_link) {
            links.names.insert(link.index, link.name.clone());
            links.by_name.insert(link.name.clone(), link);
        }
        Ok(links)
    }

    fn read_links(&self, reading: &mut Reading<'_>) {
        let mut found = Vec::new();
        for link in reading.links.by_name.values() {
            let wanted = match reading.wanted.get(&Key::Link(link.name.clone())) {
                Some(planned) => match &planned.item {
                    Item::Link(wanted) => Some(wanted),
                    _ => None,
                },
                None => None,
            };
            found.extend(self.link_item(link, wanted, &reading.links));
        }
        for (link, whose) in found {
            reading.add(Item::Link(link), whose);
        }
    }

    /// A link as far as the wanted one speaks of it; of the rest those that are ours.
    fn link_item(&self, link: &SeenLink, wanted: Option<&Link>, links: &Links) -> Option<(Link, Whose)> {
        let mark = self.mark.read(&link.alias);
        let name = link.name.clone();
        let Some(wanted) = wanted else {
            let (maker, owner) = mark?;
            let kind = if maker == Maker::Us { kind_of(link) } else { LinkKind::Given };
            return Some((Link { name, kind, mac: None, mtu: None, master: None }, Whose::Owner(owner)));
        };
        let given = wanted.kind == LinkKind::Given;
        let kind = if is_of_kind(link, &wanted.kind) { wanted.kind.clone() } else { kind_of(link) };
        let master = link.master.and_then(|index| links.names.get(&index).cloned());
        let item = Link {
            name,
            kind,
            mac: wanted.mac.and(link.mac),
            mtu: wanted.mtu.map(|_| link.mtu),
            master: wanted.master.as_ref().and(master),
        };
        let whose = match mark {
            Some((_, owner)) => Whose::Owner(owner),
            None if given => Whose::Unmarked,
            None => Whose::Foreign,
        };
        Some((item, whose))
    }

    /// For whom a device is: what its alias says, or who plans it.
    fn owner_of(&self, device: &str, reading: &Reading<'_>) -> Option<Owner> {
        let planned = reading.wanted.get(&Key::Link(device.to_owned()));
        let alias = reading.links.by_name.get(device).and_then(|link| self.mark.read(&link.alias));
        alias.map(|(_, owner)| owner).or_else(|| planned.map(|planned| planned.owner.clone()))
    }

    /// All addresses of our links are ours; of other links those that carry our mark, and those that are wanted are looked
    /// at.
    fn read_addresses(&mut self, reading: &mut Reading<'_>) -> Result<()> {
        let all = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.dump("addresses", all)?;
        let shown = self.shown(reading.wanted, &reading.links)?;
        for seen in answers.iter().filter_map(seen_address) {
            let Some(device) = reading.name(seen.index) else { continue };
            let owner = self.owner_of(&device, reading).filter(|_| !seen.local);
            let preferred = !seen.flags.contains(AddressFlags::Deprecated);
            let delivered = !shown.contains(&(seen.index, seen.net.addr()));
            let item = Item::Address(Address { device, net: seen.net, preferred, delivered });
            match owner {
                Some(owner) => reading.add(item, Whose::Owner(owner)),
                None if seen.protocol == self.mark.protocol => reading.add(item, Whose::Ours),
                None if reading.wanted.contains_key(&item.key()) => reading.add(item, Whose::Unmarked),
                None => {}
            }
        }
        Ok(())
    }

    /// Routes of our protocol, in all tables. The kernel picks them out, since others may have very many.
    fn read_routes(&mut self, reading: &mut Reading<'_>) -> Result<()> {
        for family in Family::ALL {
            let mut message = RouteMessage::default();
            message.header.address_family = family_of(family);
            message.header.protocol = RouteProtocol::from(self.mark.protocol);
            let answers = self.dump("routes", RouteNetlinkMessage::GetRoute(message))?;
            for seen in answers.iter().filter_map(|answer| seen_route(answer, self.mark.protocol)) {
                let device = seen.device.and_then(|index| reading.name(index));
                let owner = device.as_deref().and_then(|device| self.owner_of(device, reading));
                let item = Item::Route(with_device(seen.route, device, reading.wanted));
                reading.add(item, owner.map_or(Whose::Ours, Whose::Owner));
            }
        }
        Ok(())
    }

    fn read_rules(&mut self, reading: &mut Reading<'_>) -> Result<()> {
        for family in Family::ALL {
            let mut message = RuleMessage::default();
            message.header.family = family_of(family);
            let answers = self.dump("rules", RouteNetlinkMessage::GetRule(message))?;
            for rule in answers.iter().filter_map(|answer| seen_rule(answer, self.mark.protocol)) {
                reading.add(Item::Rule(rule), Whose::Ours);
            }
        }
        Ok(())
    }

    fn read_neighbours(&mut self, reading: &mut Reading<'_>) -> Result<()> {
        for flags in [NeighbourFlags::empty(), NeighbourFlags::Proxy] {
            for family in Family::ALL {
                let mut message = NeighbourMessage::default();
                message.header.family = family_of(family);
                message.header.flags = flags;
                let answers = self.dump("neighbours", RouteNetlinkMessage::GetNeighbour(message))?;
                answers.iter().for_each(|answer| self.read_neighbour(answer, reading));
            }
        }
        Ok(())
    }

    fn read_neighbour(&self, answer: &RouteNetlinkMessage, reading: &mut Reading<'_>) {
        let Some(seen) = seen_neighbour(answer, self.mark.protocol) else { return };
        let Some(device) = reading.name(seen.device) else { return };
        let owner = self.owner_of(&device, reading);
        let item = match seen.mac {
            _ if seen.is_proxy => Item::Proxy { device, address: seen.address },
            Some(mac) => Item::Neighbour(Neighbour { device, address: seen.address, mac }),
            None => return,
        };
        match owner {
            Some(owner) if seen.is_ours => reading.add(item, Whose::Owner(owner)),
            None if seen.is_ours => reading.add(item, Whose::Ours),
            _ => reading.add(item, Whose::Foreign),
        }
    }
}

/// A route's device counts where the wanted route names one.
fn with_device(mut route: Route, device: Option<String>, wanted: &Wanted) -> Route {
    let planned = wanted.get(&Item::Route(route.clone()).key()).map(|planned| &planned.item);
    let unnamed =
        matches!(planned, Some(Item::Route(Route { target: Target::Forward { device: None, .. }, .. })));
    if let Target::Forward { device: by, .. } = &mut route.target {
        *by = device.filter(|_| !unnamed);
    }
    route
}

fn is_of_kind(link: &SeenLink, kind: &LinkKind) -> bool {
    match kind {
        LinkKind::Given => true,
        LinkKind::Cable { .. } => link.is_cable(),
        other => kind_of(link) == *other,
    }
}

fn kind_of(link: &SeenLink) -> LinkKind {
    match link.kind {
        Some(InfoKind::Veth) => LinkKind::Cable { peer: String::new(), namespace: None },
        Some(InfoKind::Bridge) => LinkKind::Bridge,
        Some(InfoKind::Dummy) => LinkKind::Dummy,
        Some(InfoKind::Vxlan) => {
            let (id, port, local) = link.vxlan.unwrap_or((0, 0, Ipv4Addr::UNSPECIFIED.into()));
            LinkKind::Vxlan { id, port, local }
        }
        Some(InfoKind::Vrf) => LinkKind::Vrf { table: link.table.unwrap_or_default() },
        _ => LinkKind::Given,
    }
}

/// What cannot carry a mark is looked at where it is wanted.
fn read_unmarked(reading: &mut Reading<'_>) -> Result<()> {
    let wants_namespace = |key: &Key| matches!(key, Key::Namespace(_));
    let namespaces = match reading.wanted.keys().any(wants_namespace) {
        true => namespace::named()?,
        false => Default::default(),
    };
    let mut found = Vec::new();
    for key in reading.wanted.keys() {
        found.extend(match key {
            Key::Namespace(name) => namespaces.get(name).cloned().map(Item::Namespace),
            Key::State(device) => {
                let link = reading.links.by_name.get(device);
                link.map(|link| Item::State(LinkState { device: device.clone(), up: link.up }))
            }
            // One that cannot be read is written, and that says why.
            Key::Setting(path) => settings::read(path)
                .ok()
                .flatten()
                .map(|value| Item::Setting(Setting { path: path.clone(), value })),
            _ => None,
        });
    }
    for item in found {
        reading.add(item, Whose::Unmarked);
    }
    Ok(())
}
