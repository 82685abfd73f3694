//! J029 on packets: between nodes, a packet is in the tunnels of the network that it goes to, and of no other.

use std::collections::BTreeMap;

use causeway_sandbox::harness::Sandbox;

/// So many of each kind are sent; of the other network there may be a few, for neighbours are looked for.
const PINGS: u64 = 40;
const FEW: u64 = PINGS / 4;

/// Two networks by the numbers that their packets bear between nodes: these are in them, and those are not.
type Bears = (u32, u32);

/// The number of a switch that all zones share, as a node's southbound database says.
fn number_of(sandbox: &Sandbox, switch: &str) -> u32 {
    let name = format!("external_ids:name={switch}");
    let words = [
        "ovn-sbctl",
        "--no-leader-only",
        "--bare",
        "--columns=tunnel_key",
        "find",
        "datapath_binding",
        &name,
    ];
    let said = sandbox.exec("n1", &words).unwrap();
    said.trim().parse().unwrap_or_else(|error| panic!("{switch}: {said:?}: {error}"))
}

/// How many packets a node has put into tunnels, by the number that they bear.
fn sent(sandbox: &Sandbox, node: &str) -> BTreeMap<u32, u64> {
    let words = ["ovs-ofctl", "-OOpenFlow15", "--no-names", "dump-flows", "br-int"];
    let mut sent = BTreeMap::new();
    for (number, packets) in sandbox.exec(node, &words).unwrap().lines().filter_map(tunnelled) {
        *sent.entry(number).or_default() += packets;
    }
    sent
}

/// The number that a flow writes on packets, and how many it has had.
fn tunnelled(flow: &str) -> Option<(u32, u64)> {
    let (_, packets) = flow.split_once("n_packets=")?;
    let (before, _) = flow.split_once("->tun_id").or_else(|| flow.split_once("->NXM_NX_TUN_ID"))?;
    let value = before.rsplit(':').next()?.split('/').next()?;
    let number = u32::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
    Some((number, packets.split(',').next()?.parse().ok()?))
}

/// Two pods on different nodes.
fn apart<'a>(sandbox: &Sandbox, from: &'a [String], to: &'a [String]) -> (&'a str, &'a str) {
    let mut pairs = from.iter().flat_map(|one| to.iter().map(move |other| (one.as_str(), other.as_str())));
    let found = pairs.find(|(one, other)| super::node_of(sandbox, one) != super::node_of(sandbox, other));
    found.unwrap_or_else(|| panic!("all of {from:?} and {to:?} are on one node"))
}

/// Sends packets by both families, and counts those of either network that each of the two nodes has sent meanwhile.
fn check(sandbox: &Sandbox, (from, to): (&str, &str), there: Bears, back: Bears) {
    let sides = [(super::node_of(sandbox, from), there), (super::node_of(sandbox, to), back)];
    for address in sandbox.pod(to).addresses().unwrap() {
        let before: Vec<_> = sides.iter().map(|(node, _)| sent(sandbox, node)).collect();
        let count = PINGS.to_string();
        sandbox.pod(from).exec(&["ping", "-q", "-c", &count, "-i", "0.05", &address]).unwrap();
        for ((node, (own, other)), before) in sides.iter().zip(before) {
            // Counters follow packets within a second.
            let counted = || {
                let now = sent(sandbox, node);
                let more = |number: &u32| {
                    let of = |sent: &BTreeMap<u32, u64>| sent.get(number).copied().unwrap_or_default();
                    of(&now).saturating_sub(of(&before))
                };
                Ok((more(own) >= PINGS).then(|| (more(own), more(other))))
            };
            let what =
                format!("packets between {from} and {to} ({address}) to leave {node} with number {own}");
            let (own_packets, others) = sandbox.wait_for(&what, counted).unwrap();
            println!(
                "{from} to {to} at {address}: {node} sent {own_packets} with number {own}, {others} with {other}"
            );
            assert!(others < FEW, "{others} packets left {node} in the tunnels of the sibling");
        }
    }
}

/// Pods of one network by its own tunnels; pods of two by those of the network that each packet goes to.
pub(crate) fn carry_their_own(sandbox: &Sandbox, old: &[String], new: &[String]) {
    let first = number_of(sandbox, "cluster_udn_first_ovn_layer2_switch");
    let second = number_of(sandbox, "cluster_udn_second_transit_switch");
    assert_ne!(first, second);
    check(sandbox, apart(sandbox, old, old), (first, second), (first, second));
    check(sandbox, apart(sandbox, new, new), (second, first), (second, first));
    check(sandbox, apart(sandbox, old, new), (second, first), (first, second));
}
