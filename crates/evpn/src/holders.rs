//! Who has a VNI on this node. Where two want the same, who has it keeps it: a port's name is no right to anything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::Cidr;
use causeway_types::host::{Route, Target};

use crate::annotation::Vpn;
use crate::part::Leg;
use crate::southbound::Gateway;

/// Who has what of a VNI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    /// The annotated ports of the gateways that are exposed.
    gateways: BTreeSet<String>,
    /// What all of them say of the VRF, and where it is connected.
    seat: Option<(Vpn, Leg)>,
    /// The gateway behind which a range is.
    ranges: BTreeMap<Cidr, String>,
}

impl Holders {
    pub(crate) fn new(
        gateways: impl IntoIterator<Item = String>,
        seat: (Vpn, Leg),
        ranges: BTreeMap<Cidr, String>,
    ) -> Self {
        Self { gateways: gateways.into_iter().collect(), seat: Some(seat), ranges }
    }

    /// What an earlier process has left in the VRF's table: a way leads through its gateway, or to it.
    pub(crate) fn of_routes(routes: &[Route], gateways: &[Gateway<'_>]) -> Self {
        let mut holders = Self::default();
        for route in routes {
            let Target::Forward { via, .. } = &route.target else { continue };
            let address: IpAddr = via.unwrap_or_else(|| route.dest.base());
            if let Some(gateway) = gateways.iter().find(|one| one.addresses.contains(&address)) {
                holders.gateways.insert(gateway.port.to_owned());
                holders.ranges.insert(route.dest, gateway.port.to_owned());
            }
        }
        holders
    }

    /// The lower comes first. Who has changed his mind comes after those who have not.
    pub(crate) fn rank(&self, gateway: &Gateway<'_>, leg: &Leg) -> u8 {
        let seated = self.seat.as_ref().is_none_or(|(vpn, there)| vpn == gateway.vpn && there == leg);
        match (self.gateways.contains(gateway.port), seated) {
            (true, true) => 0,
            (true, false) => 1,
            (false, _) => 2,
        }
    }

    /// Behind which gateway each of these ranges is; of several that want one who has it, else the first.
    pub(crate) fn settle<'a>(&self, wants: impl Iterator<Item = (Cidr, &'a str)>) -> BTreeMap<Cidr, String> {
        let mut settled: BTreeMap<Cidr, String> = BTreeMap::new();
        for (range, gateway) in wants {
            if self.ranges.get(&range).is_some_and(|holder| holder == gateway) {
                settled.insert(range, gateway.to_owned());
            } else {
                settled.entry(range).or_insert_with(|| gateway.to_owned());
            }
        }
        settled
    }
}
