//! The locked default addresses of this node's pods: of the node's processes only the kubelet reaches them, apart from ports that
//! a pod's owner opens, and nobody's packets are forwarded there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_api::annotations::{OpenPort, Protocol};
use causeway_types::host::Owner;
use causeway_types::{Family, NetworkName};
use causeway_zone::{Cgroup, Change, Kubelet, PodInfo, Zone};

use super::nft::{EARLY, addresses, chain, kind, plain_chain, set, suffix, table, word};
use super::{HostRoom, Touched};

pub(super) static LOCKED: HostRoom = HostRoom {
    name: "locked pods",
    items: |zone, _here, _touched| {
        let kubelet = zone.processes().map(|known| &known.kubelet);
        let table = kubelet.map(|kubelet| vec![table("isolation", body(zone, kubelet))]);
        vec![(Owner::node("isolation"), table.ok_or_else(|| "nobody has looked for the kubelet yet".into()))]
    },
    // Only this node's own pods have something on the default network here.
    follows: |_zone, change| {
        Touched::all_if(match change {
            Change::Processes => true,
            Change::Pod { network, .. } => network.is_default(),
            _ => false,
        })
    },
};

/// What is locked, and what of it is open.
#[derive(Default)]
struct Locked {
    addresses: BTreeSet<IpAddr>,
    /// Address, protocol and port.
    open: BTreeSet<(IpAddr, &'static str, u16)>,
    /// Those that answer echoes.
    echo: BTreeSet<IpAddr>,
}

impl Locked {
    fn of(zone: &Zone) -> Self {
        let mut locked = Self::default();
        for key in zone.pods_of(&NetworkName::default_network()) {
            if let Some(pod) = zone.pod(&key).filter(|pod| pod.is_isolated()) {
                locked.add_pod(pod);
            }
        }
        locked
    }

    fn add_pod(&mut self, pod: &PodInfo) {
        let open = pod.local.as_ref().map(|local| local.open_ports.as_slice()).unwrap_or_default();
        let default = pod.ports.iter().filter(|port| port.attachment.is_none());
        for ip in default.filter_map(|port| port.address.as_ref()).flat_map(|address| address.ips()) {
            self.addresses.insert(ip.addr());
            open.iter().for_each(|port| self.open(ip.addr(), port));
        }
    }

    fn open(&mut self, address: IpAddr, open: &OpenPort) {
        let protocol = match open.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
            Protocol::Icmp | Protocol::Icmpv6 => {
                let is_its = address.is_ipv4() == (open.protocol == Protocol::Icmp);
                return self.echo.extend(is_its.then_some(address));
            }
        };
        self.open.extend(open.port.map(|port| (address, protocol, port)));
    }

    fn sets(&self, family: Family) -> String {
        let open = self.open.iter().filter(|(address, ..)| Family::of(address) == family);
        let open: Vec<String> =
            open.map(|(address, protocol, port)| format!("{address} . {protocol} . {port}")).collect();
        let of_ports = format!("{} . inet_proto . inet_service", kind(family));
        [
            addresses("locked", family, &self.addresses),
            set(&format!("open{}", suffix(family)), &of_ports, &open),
            addresses("echo", family, &self.echo),
        ]
        .concat()
    }
}

fn body(zone: &Zone, kubelet: &Kubelet) -> String {
    let locked = Locked::of(zone);
    let sets: String = Family::ALL.into_iter().map(|family| locked.sets(family)).collect();
    let opened: Vec<String> = Family::ALL.into_iter().flat_map(opened).collect();
    let to_locked = |then: &str| {
        let whom = |family| format!("{} daddr @locked{} jump {then}", word(family), suffix(family));
        Family::ALL.map(whom)
    };
    let chains = [
        plain_chain("opened", &opened),
        plain_chain("from-node", &from_node(kubelet)),
        plain_chain("from-others", &["jump opened".to_owned(), "drop".to_owned()]),
        chain("sent", "output", EARLY, &to_locked("from-node")),
        chain("forwarded", "forward", EARLY, &to_locked("from-others")),
    ];
    sets + &chains.concat()
}

fn opened(family: Family) -> [String; 2] {
    let (word, number) = (word(family), suffix(family));
    let echo = if family == Family::Ipv4 { "icmp" } else { "icmpv6" };
    [
        format!("{word} daddr . meta l4proto . th dport @open{number} accept"),
        format!("meta l4proto {echo} {word} daddr @echo{number} accept"),
    ]
}

/// Packets of the node to a locked address. Those without a socket are the kernel's own: of connections that the kubelet has
/// closed already, answers, errors. Who has a socket gets nothing by a connection that only seems to be an old one.
fn from_node(kubelet: &Kubelet) -> Vec<String> {
    let kubelet = match kubelet {
        Kubelet::Cgroup(cgroup) => Some(format!("{} accept {}", member(cgroup), comment(cgroup))),
        Kubelet::User(user) => Some(format!("meta skuid {user} accept")),
        Kubelet::Away => None,
    };
    let rest = [
        "jump opened",
        // Neighbours are the kernel's: nobody without rights can send that.
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept",
        "meta skuid 0-4294967295 drop",
        "ct state established,related accept",
        "drop",
    ];
    kubelet.into_iter().chain(rest.map(str::to_owned)).collect()
}

/// A socket of a process in a cgroup, or below it.
pub(super) fn member(cgroup: &Cgroup) -> String {
    let level = cgroup.path.split('/').count();
    format!("socket cgroupv2 level {level} \"{}\"", cgroup.path)
}

/// The rule holds a number that the path stands for when it is loaded: with another number it is another rule.
pub(super) fn comment(cgroup: &Cgroup) -> String {
    format!("comment \"cgroup {}\"", cgroup.id)
}
