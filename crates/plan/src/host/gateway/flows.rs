//! The flows of the node's bridge that are there whatever networks and services there are.
//!
//! Who comes from OVN is told by MAC: a user-defined network's router sends to the exit's, the default network's has the node's own.
//! Priorities of a table are read from above: who may, then who may not, then the usual way.

use causeway_types::host::{GENEVE_PORT, Item};
use causeway_types::{Family, MasqueradeRole};

use super::bridge::{
    ABOUT_ANSWERS, ANSWERED, ARRIVED, ASKED_AT_NODE, Bridge, EXPOSED, FROM_WIRE, HOST_ZONE, MARK_HOST,
    MARK_OVN, OWN_ENDPOINT, OWN_ZONE, PARTS_ZONE, SERVICE_ZONE, SHARED_ZONE, Side, TO_HOST, TO_SERVICE,
};

/// A connection that is known, and errors about one.
const KNOWN: [&str; 2] = ["+trk+est", "+trk+rel"];

/// All of them, for services that pods of every network reach at these addresses.
pub(super) fn flows(bridge: &Bridge, open: &[std::net::IpAddr]) -> Vec<Item> {
    let mut flows = whatever_family(bridge);
    for side in &bridge.sides {
        flows.extend(parts(bridge, side));
        flows.extend(tunnels(bridge, side));
        flows.extend(from_host(bridge, side));
        flows.extend(from_users(bridge, side));
        flows.extend(from_default(bridge, side));
        flows.extend(from_wire(bridge, side));
        flows.extend(later_tables(bridge, side));
        let open = open.iter().filter(|address| Family::of(address) == side.family);
        flows.extend(open.flat_map(|address| open_service(bridge, side, *address)));
    }
    flows
}

/// What is no packet of IP, and what is left over.
fn whatever_family(bridge: &Bridge) -> Vec<Item> {
    let (ovn, wire, mac) = (bridge.to_ovn(), bridge.to_wire(), bridge.mac);
    let from_wire = |rest: &str| format!("{},{rest}", bridge.sent_by_wire());
    let hear = bridge.off_wire(&format!("LOCAL,set_field:{mac}->eth_dst,{ovn}"));
    let mut flows = vec![
        bridge.flow(ARRIVED, 149, from_wire("arp,arp_op=1"), bridge.off_wire("LOCAL")),
        bridge.flow(ARRIVED, 148, from_wire("arp"), hear.clone()),
        bridge.flow(ARRIVED, 120, format!("{},arp", bridge.sent_by_default()), wire.clone()),
        bridge.flow(ARRIVED, 110, format!("{},arp", bridge.sent_by_host()), wire.clone()),
        bridge.flow(ARRIVED, 20, bridge.sent_by_ovn(), "drop"),
        bridge.flow(ARRIVED, 10, bridge.sent_by_wire(), bridge.off_wire("LOCAL")),
        bridge.flow(ARRIVED, 10, bridge.sent_by_host(), wire),
        // Ports that nobody has told of do not pass by what the switch does on its own (NORMAL, priority 0), which stays below.
        bridge.flow(ARRIVED, 1, "", "drop"),
        bridge.flow(FROM_WIRE, 10, format!("dl_dst={mac}"), "LOCAL"),
        bridge.flow(FROM_WIRE, 0, "", "drop"),
        bridge.flow(ANSWERED, 0, "", "drop"),
    ];
    // A next hop that has moved says so by asking: the router must hear it.
    let hops = bridge.next_hops.iter().filter(|hop| hop.is_ipv4());
    let asking = |hop: &std::net::IpAddr| from_wire(&format!("arp,arp_op=1,arp_spa={hop}"));
    flows.extend(hops.map(|hop| bridge.flow(ARRIVED, 151, asking(hop), hear.clone())));
    flows
}

/// Only the first part of a packet says to which port it goes, if any does (of IPv6 the switch does not read it there), so packets are put together before anybody looks at ports. The kernel
/// goes on with whole packets. The userspace datapath hands their parts on one by one; all of them know of which connection they are,
/// by which those are told here that nobody may send.
fn parts(bridge: &Bridge, side: &Side) -> [Item; 4] {
    let whole = format!("ct(zone={PARTS_ZONE},table={ARRIVED})");
    let of = |who: &str, rest: &str| format!("{who},{},{rest}", side.ip());
    let (ovn, wire) = (bridge.sent_by_ovn(), format!("{},dl_dst={}", bridge.sent_by_wire(), bridge.mac));
    let (part, known) = ("nw_frag=yes,ct_state=-trk", "nw_frag=yes,ct_state=+trk");
    let geneve = format!("{known}-inv,ct_nw_proto=17,ct_tp_dst={GENEVE_PORT}");
    [
        bridge.flow(ARRIVED, 340, of(&wire, part), whole.clone()),
        bridge.flow(ARRIVED, 340, of(&ovn, part), whole),
        bridge.flow(ARRIVED, 320, of(&ovn, &geneve), "drop"),
        bridge.flow(ARRIVED, 320, of(&ovn, "nw_frag=later,ct_state=+trk+inv"), "drop"),
    ]
}

/// Tunnels end at the host; nobody behind the patch port makes any, or he would speak for the node.
fn tunnels(bridge: &Bridge, side: &Side) -> Vec<Item> {
    let geneve = format!("{},tp_dst={GENEVE_PORT}", side.protocol(causeway_zone::Protocol::Udp));
    let mut flows = vec![
        bridge.flow(ARRIVED, 320, format!("{},{geneve}", bridge.sent_by_ovn()), "drop"),
        bridge.flow(ARRIVED, 310, format!("{},{geneve}", bridge.sent_by_host()), bridge.to_wire()),
    ];
    flows.extend(side.own.iter().map(|own| {
        let matches = format!("{},{geneve},{}", bridge.sent_by_wire(), side.to(own));
        bridge.flow(ARRIVED, 310, matches, bridge.off_wire("LOCAL"))
    }));
    flows
}

/// What the host sends to cluster addresses of services.
fn host_to_service(bridge: &Bridge, side: &Side, to: &str) -> [Item; 3] {
    let host = side.role(MasqueradeRole::Host);
    let of = |rest: String| format!("{},{},{rest}", bridge.sent_by_host(), side.ip());
    let as_host = format!("ct(commit,zone={HOST_ZONE},nat(src={host}),table={TO_SERVICE})");
    // A pod's packet that was turned round by the host keeps its source.
    let bounced = of(format!("{},{to}", side.source(side.masquerade)));
    [
        bridge.flow(ARRIVED, 551, of(format!("{},{to}", side.source(host))), as_host.clone()),
        bridge.flow(ARRIVED, 550, bounced, format!("resubmit(,{TO_SERVICE})")),
        bridge.flow(ARRIVED, 500, of(to.to_owned()), as_host),
    ]
}

fn from_host(bridge: &Bridge, side: &Side) -> Vec<Item> {
    let (ip, masked) = (side.ip(), side.masquerade);
    let of = |rest: String| format!("{},{ip},{rest}", bridge.sent_by_host());
    let mut flows = vec![
        bridge.flow(
            ARRIVED,
            500,
            of(side.to(side.role(MasqueradeRole::Ovn))),
            format!("ct(zone={OWN_ZONE},nat,table={OWN_ENDPOINT})"),
        ),
        // The host answers a pod that came to it by its masquerade address.
        bridge.flow(
            ARRIVED,
            490,
            of(side.to(masked)),
            format!("{},{}", side.to_owner(bridge), bridge.to_ovn()),
        ),
        bridge.flow(
            ARRIVED,
            99,
            format!("{},{ip}", bridge.sent_by_host()),
            format!(
                "ct(commit,zone={SHARED_ZONE},exec(set_field:{MARK_HOST:#x}->ct_mark)),{}",
                bridge.to_wire()
            ),
        ),
    ];
    // Pods leave by their own router. Who has the node forward his packets instead would be seen outside as nobody is.
    flows.extend(side.closed().map(|cidr| bridge.flow(ARRIVED, 105, of(side.source(cidr)), "drop")));
    flows.extend(side.services.iter().flat_map(|service| host_to_service(bridge, side, &side.to(service))));
    // Through the same table of connections as the networks, so that equal ports are told apart.
    // A node with several addresses answers with the one that it was asked at.
    flows.extend(side.own.iter().map(|own| {
        bridge.flow(ARRIVED, 100, of(side.source(own)), side.leave(bridge, MARK_HOST, Some(own)))
    }));
    if side.family == Family::Ipv6 {
        let discovery =
            ["icmp_type=135", "icmp_type=136"].map(|kind| format!("{},icmp6,{kind}", bridge.sent_by_host()));
        flows.extend(discovery.map(|kind| bridge.flow(ARRIVED, 110, kind, bridge.to_wire())));
    }
    flows
}

/// What a user-defined network's router sends.
fn from_users(bridge: &Bridge, side: &Side) -> Vec<Item> {
    let (ip, masked) = (side.ip(), side.masquerade);
    let of = |rest: String| format!("{},{ip},{rest}", bridge.sent_by_users());
    let from = side.source(masked);
    let host = side.to(side.role(MasqueradeRole::Host));
    let mut flows = vec![
        bridge.flow(ARRIVED, 259, of(host), format!("ct(zone={HOST_ZONE},nat,table={TO_HOST})")),
        bridge.flow(ARRIVED, 244, of(format!("{from},{}", side.to(masked))), "drop"),
        // The default network's router knows the neighbours of everybody.
        bridge.flow(ARRIVED, 240, of(from), turn_round(bridge)),
        // Answers of services, and errors about them; whatever else has a source of its own is lost in there.
        bridge.flow(
            ARRIVED,
            230,
            format!("{},{ip}", bridge.sent_by_users()),
            format!("ct(zone={SERVICE_ZONE},nat,table={ANSWERED})"),
        ),
    ];
    let own = side.own.iter().map(|own| of(side.to(own)));
    let to_own = format!("load:1->NXM_NX_REG0[],resubmit(,{EXPOSED})");
    flows.extend(own.map(|own| bridge.flow(ARRIVED, 260, own, to_own.clone())));
    let closed = side.inside.iter().chain(&side.services).map(|cidr| of(side.to(cidr)));
    flows.extend(closed.map(|closed| bridge.flow(ARRIVED, 245, closed, "drop")));
    flows
}

fn turn_round(bridge: &Bridge) -> String {
    format!("{},{},in_port", bridge.towards_default(), bridge.as_exit())
}

/// To the router of the user-defined network that has the masquerade address.
fn back_to_owner(bridge: &Bridge, side: &Side) -> String {
    format!("{},{},in_port", side.to_owner(bridge), bridge.as_exit())
}

/// What the default network's router sends, for itself and for everybody.
fn from_default(bridge: &Bridge, side: &Side) -> Vec<Item> {
    let (ip, masked) = (side.ip(), side.masquerade);
    let of = |rest: String| format!("{},{ip},{rest}", bridge.sent_by_default());
    let host = side.to(side.role(MasqueradeRole::Host));
    let mut flows = vec![
        bridge.flow(ARRIVED, 208, of(side.to(masked)), "drop"),
        bridge.flow(
            ARRIVED,
            200,
            format!("{},{ip}", bridge.sent_by_default()),
            side.leave(bridge, MARK_OVN, side.own.first()),
        ),
    ];
    for service in &side.services {
        let from = side.source(service);
        let to_host = format!("ct(zone={HOST_ZONE},nat,table={TO_HOST})");
        flows.push(bridge.flow(ARRIVED, 211, of(format!("{from},{host}")), to_host));
        let answered = format!("ct(zone={SERVICE_ZONE},nat,table={ANSWERED})");
        flows.push(bridge.flow(ARRIVED, 209, of(format!("{from},{}", side.to(masked))), answered));
        flows.push(bridge.flow(ARRIVED, 208, of(side.to(service)), "drop"));
        // Clients outside who came by what an owner says himself.
        let answered = format!("ct(zone={SERVICE_ZONE},nat,table={ANSWERED})");
        flows.push(bridge.flow(ARRIVED, 207, of(from), answered));
    }
    flows.extend(side.own.iter().map(|own| own_endpoint(bridge, side, *own)));
    flows.extend(side.errors().iter().map(|kind| {
        let matches =
            format!("{},{},icmp_type={kind},{}", bridge.sent_by_default(), side.icmp(), side.to(masked));
        bridge.flow(ARRIVED, 209, matches, back_to_owner(bridge, side))
    }));
    if side.family == Family::Ipv6 {
        let discovery = ["icmp_type=135", "icmp_type=136"];
        let discovery = discovery.map(|kind| format!("{},icmp6,{kind}", bridge.sent_by_default()));
        flows.extend(discovery.map(|kind| bridge.flow(ARRIVED, 216, kind, bridge.to_wire())));
    }
    flows
}

/// A service of the node's own endpoint: the host must not see its own address as the source. Both translations in one go, since
/// the packet has no turns left in the datapath.
fn own_endpoint(bridge: &Bridge, side: &Side, own: std::net::IpAddr) -> Item {
    let (host, ovn) = (side.role(MasqueradeRole::Host), side.role(MasqueradeRole::Ovn));
    let matches =
        format!("{},{},{},{}", bridge.sent_by_default(), side.ip(), side.source(own), side.to(host));
    let actions = format!(
        "ct(commit,zone={HOST_ZONE},nat(dst={own})),ct(commit,zone={OWN_ZONE},nat(src={ovn})),{}",
        bridge.to_host()
    );
    bridge.flow(ARRIVED, 211, matches, actions)
}

fn from_wire(bridge: &Bridge, side: &Side) -> Vec<Item> {
    let (ip, mac) = (side.ip(), bridge.mac);
    let of = |rest: String| format!("{},dl_dst={mac},{ip},{rest}", bridge.sent_by_wire());
    let mut flows = vec![bridge.flow(
        ARRIVED,
        140,
        format!("{},dl_dst={mac},{ip}", bridge.sent_by_wire()),
        bridge.off_wire(&format!("resubmit(,{EXPOSED})")),
    )];
    // Who answers a question of the node or of a pod is heard by whoever asked, whatever else is at that port.
    flows.extend(side.own.iter().map(|own| {
        let asked = format!("ct(zone={SHARED_ZONE},nat,table={ASKED_AT_NODE})");
        bridge.flow(ARRIVED, 141, of(side.to(own)), bridge.off_wire(&asked))
    }));
    // Nobody outside has a way to these, however he routes his packets.
    flows.extend(side.closed().map(|cidr| bridge.flow(ARRIVED, 145, of(side.to(cidr)), "drop")));
    // Nobody outside has one of these addresses, whatever his packets say: policies would believe them. Whose addresses the cluster
    // tells its neighbours itself would stand above.
    flows.extend(side.closed().map(|cidr| bridge.flow(ARRIVED, 146, of(side.source(cidr)), "drop")));
    match side.family {
        Family::Ipv4 => flows.extend(side.own.iter().map(|own| {
            let asked = format!("{},arp,arp_op=1,arp_tpa={own}", bridge.sent_by_wire());
            bridge.flow(ARRIVED, 150, asked, bridge.off_wire("LOCAL"))
        })),
        Family::Ipv6 => flows.extend(discovery(bridge)),
    }
    flows
}

/// Neighbour discovery from the wire: the host answers, the default network's router listens.
fn discovery(bridge: &Bridge) -> Vec<Item> {
    let of = |kind: u8| format!("{},icmp6,icmp_type={kind}", bridge.sent_by_wire());
    let both = format!("LOCAL,{},{}", bridge.towards_default(), bridge.to_ovn());
    vec![
        bridge.flow(ARRIVED, 149, of(135), bridge.off_wire("LOCAL")),
        bridge.flow(ARRIVED, 149, of(136), bridge.off_wire(&both)),
        bridge.flow(ARRIVED, 149, of(134), bridge.off_wire("LOCAL")),
    ]
}

fn later_tables(bridge: &Bridge, side: &Side) -> Vec<Item> {
    let ip = side.ip();
    let (ovn, exit) = (bridge.to_ovn(), bridge.as_exit());
    let default = side.to(side.role(MasqueradeRole::DefaultNetwork));
    let masked = side.to(side.masquerade);
    let owner = side.to_owner(bridge);
    let to_default = format!("{},{ovn}", bridge.towards_default());
    let mut flows = vec![
        bridge.flow(TO_SERVICE, 10, ip, to_default.clone()),
        bridge.flow(TO_HOST, 0, ip, bridge.to_host()),
        bridge.flow(ASKED_AT_NODE, 0, ip, format!("resubmit(,{EXPOSED})")),
        bridge.flow(EXPOSED, 1, format!("reg0=1,{ip}"), format!("{},LOCAL", bridge.towards_default())),
        bridge.flow(EXPOSED, 0, ip, format!("ct(zone={SHARED_ZONE},nat,table={FROM_WIRE})")),
        bridge.flow(OWN_ENDPOINT, 0, ip, format!("ct(commit,zone={HOST_ZONE},nat,table={TO_SERVICE})")),
    ];
    for state in KNOWN {
        let asked = format!("ct_state={state},{ip}");
        flows.push(bridge.flow(ASKED_AT_NODE, 100, asked, format!("resubmit(,{FROM_WIRE})")));
        let known = |rest: &str| format!("ct_state={state},{ip},{rest}");
        flows.push(bridge.flow(FROM_WIRE, 111, known(&default), to_default.clone()));
        flows.push(bridge.flow(FROM_WIRE, 110, known(&masked), format!("{owner},{exit},{ovn}")));
        flows.push(bridge.flow(FROM_WIRE, 100, known(&format!("ct_mark={MARK_OVN}")), ovn.clone()));
        flows.push(bridge.flow(FROM_WIRE, 100, known(&format!("ct_mark={MARK_HOST}")), "LOCAL"));
    }
    flows.extend(answers(bridge, side));
    flows
}

/// What services answer: back to the client's MAC, or to the router that has asked. And what the client's side says of an answer, that
/// it was too large, say: the router that let it out must hear of it.
fn answers(bridge: &Bridge, side: &Side) -> Vec<Item> {
    let ip = side.ip();
    let (ovn, exit, forget) = (bridge.to_ovn(), bridge.as_exit(), bridge.forget_port());
    let default = side.to(side.role(MasqueradeRole::DefaultNetwork));
    let (masked, owner) = (side.to(side.masquerade), side.to_owner(bridge));
    let client = "move:NXM_NX_CT_LABEL[0..47]->NXM_OF_ETH_DST[]";
    let router = "move:NXM_NX_CT_LABEL[48..95]->NXM_OF_ETH_DST[]";
    let mut flows = Vec::new();
    for state in KNOWN {
        let answer = |rest: &str| format!("ct_state={state}+rpl,{ip}{rest}");
        let back = |mac: &str| format!("{mac},{exit},{forget},{ovn}");
        let to_default = back(&bridge.towards_default());
        flows.push(bridge.flow(ANSWERED, 111, answer(&format!(",{default}")), to_default));
        flows.push(bridge.flow(ANSWERED, 110, answer(&format!(",{masked}")), back(&owner)));
        let out = format!("set_field:{}->eth_src,{client},{}", bridge.mac, bridge.to_wire());
        flows.push(bridge.flow(ANSWERED, 100, answer(""), out));
    }
    for kind in side.errors() {
        let error = format!("reg0=0,{},icmp_type={kind}", side.icmp());
        let look = format!("ct(zone={SERVICE_ZONE},nat,table={ABOUT_ANSWERS})");
        flows.push(bridge.flow(EXPOSED, 80, error, look));
    }
    let about = format!("ct_state=+trk+rel,{ip}");
    flows.push(bridge.flow(ABOUT_ANSWERS, 100, about, format!("{router},{forget},{ovn}")));
    let other = format!("ct(zone={SHARED_ZONE},nat,table={FROM_WIRE})");
    flows.push(bridge.flow(ABOUT_ANSWERS, 0, ip, other));
    flows
}

/// A service of the default network that pods of every network reach: by the default network's router, and back.
fn open_service(bridge: &Bridge, side: &Side, address: std::net::IpAddr) -> [Item; 2] {
    let masked = side.masquerade;
    let asked =
        format!("{},{},{},{}", bridge.sent_by_users(), side.ip(), side.source(masked), side.to(address));
    let answered =
        format!("{},{},{},{}", bridge.sent_by_default(), side.ip(), side.source(address), side.to(masked));
    [
        bridge.flow(ARRIVED, 250, asked, turn_round(bridge)),
        bridge.flow(ARRIVED, 210, answered, back_to_owner(bridge, side)),
    ]
}
