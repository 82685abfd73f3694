//! Whether the subnets that flags give have room for what the cluster may become: a subnet that turns out too small later cannot
//! be changed any more.

use causeway_api::intent::ClusterConfig;
use causeway_types::{
    Cidr, MasqueradePair, MasqueradeRole, NetworkId, NodeId, TransitPeers, join_address, masquerade_address,
    transit_address,
};

/// Whether a subnet has room for a node.
type HasRoom = fn(&Cidr, NodeId) -> bool;

/// Checks all subnets. The answer is what is good to know all the same.
///
/// # Errors
/// Which subnet is too small, what it has room for, and how large it must be.
pub(crate) fn check(cluster: &ClusterConfig) -> Result<Vec<String>, String> {
    let of_nodes: [(&str, &[Cidr], HasRoom); 3] = [
        ("--join-subnets", &cluster.join_subnets, joins),
        ("--udn-join-subnets", &cluster.udn_join_subnets, joins),
        ("--transit-subnets", &cluster.transit_subnets, links),
    ];
    for (flag, subnets, has_room) in of_nodes {
        subnets.iter().try_for_each(|cidr| check_nodes(flag, cidr, cluster.highest_node, has_room))?;
    }
    let notes = cluster.masquerade_subnets.iter().map(check_masquerade).collect::<Result<Vec<_>, _>>()?;
    Ok(notes.into_iter().flatten().collect())
}

fn joins(cidr: &Cidr, node: NodeId) -> bool {
    join_address(cidr, node).is_ok()
}

/// Layer3 networks need an address for each node, layer2 networks a link.
fn links(cidr: &Cidr, node: NodeId) -> bool {
    transit_address(cidr, node).is_ok() && TransitPeers::of(cidr, node).is_ok()
}

fn check_nodes(flag: &str, cidr: &Cidr, highest: NodeId, has_room: HasRoom) -> Result<(), String> {
    if has_room(cidr, highest) {
        return Ok(());
    }
    let first = NodeId::FIRST.get();
    let ids = (first..=highest.get()).filter_map(|id| NodeId::new(id).ok());
    let room = ids.take_while(|node| has_room(cidr, *node)).count();
    let most = highest.get() - first + 1;
    let larger = larger(cidr, |cidr| has_room(cidr, highest));
    Err(format!(
        "{flag} {cidr} has room for {room} nodes, and --max-nodes is {most}: write {larger}, or fewer nodes"
    ))
}

fn check_masquerade(cidr: &Cidr) -> Result<Option<String>, String> {
    const FLAG: &str = "--masquerade-subnets";
    let larger = larger(cidr, |cidr| MasqueradePair::of(cidr, NetworkId::LAST).is_ok());
    if masquerade_address(cidr, MasqueradeRole::DefaultNetwork).is_err() {
        return Err(format!("{FLAG} {cidr} has no room for what every node needs: write {larger}"));
    }
    let all = NetworkId::LAST.get();
    let ids = (1..=all).filter_map(|id| NetworkId::new(id).ok());
    let room = ids.take_while(|id| MasqueradePair::of(cidr, *id).is_ok()).count();
    let is_small = u32::try_from(room).is_ok_and(|room| room < all);
    Ok(is_small.then(|| {
        format!(
            "{FLAG} {cidr} has room for {room} of {all} user-defined networks; those beyond are not rendered: write {larger}"
        )
    }))
}

/// The length that has room, in words.
fn larger(cidr: &Cidr, has_room: impl Fn(&Cidr) -> bool) -> String {
    let wide = |length: &u8| Cidr::around(cidr.base(), *length).is_ok_and(|cidr| has_room(&cidr));
    match (0..=cidr.prefix_len()).rev().find(wide) {
        Some(length) => format!("a /{length} or larger"),
        None => "a larger one".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(max_nodes: u32) -> ClusterConfig {
        ClusterConfig::new(Vec::new(), Vec::new(), NodeId::new(max_nodes + 1).unwrap())
    }

    fn cidrs(text: &str) -> Vec<Cidr> {
        vec![text.parse().unwrap()]
    }

    #[test]
    fn the_usual_subnets_have_room() {
        assert_eq!(check(&config(1000)), Ok(vec![]));
        assert_eq!(check(&config(16_383)), Ok(vec![]));
        let many = check(&config(16_384)).unwrap_err();
        assert!(many.starts_with("--transit-subnets 100.88.0.0/16 has room for 16383 nodes"), "{many}");
    }

    #[test]
    fn subnets_have_room_for_all_nodes() {
        let join = |text: &str| check(&ClusterConfig { join_subnets: cidrs(text), ..config(1000) });
        let udn = |text: &str| check(&ClusterConfig { udn_join_subnets: cidrs(text), ..config(1000) });
        let transit = |text: &str| check(&ClusterConfig { transit_subnets: cidrs(text), ..config(1000) });
        let words = |flag: &str, length: u8, room: u32, larger: u8| {
            Err(format!(
                "{flag}/{length} has room for {room} nodes, and --max-nodes is 1000: write a /{larger} or larger, or fewer nodes"
            ))
        };
        // Ids go from 2 to 1001, and the last address of an IPv4 subnet is nobody's.
        for good in
            [join("100.70.0.0/22"), udn("fd01::/118"), transit("100.70.0.0/20"), transit("fd01::/117")]
        {
            assert_eq!(good, Ok(vec![]));
        }
        assert_eq!(join("100.70.0.0/24"), words("--join-subnets 100.70.0.0", 24, 253, 22));
        assert_eq!(udn("fd01::/119"), words("--udn-join-subnets fd01::", 119, 510, 118));
        assert_eq!(transit("100.70.0.0/22"), words("--transit-subnets 100.70.0.0", 22, 255, 20));
        assert_eq!(transit("fd01::/118"), words("--transit-subnets fd01::", 118, 510, 117));
    }

    #[test]
    fn small_masquerade_subnets_say_what_they_have_room_for() {
        let with = |text: &str| check(&ClusterConfig { masquerade_subnets: cidrs(text), ..config(1000) });
        assert_eq!(with("169.254.0.0/18"), Ok(vec![]));
        assert_eq!(with("fd69::/114"), Ok(vec![]));
        let note = |text: &str| with(text).unwrap().remove(0);
        let words = note("169.254.0.0/24");
        assert!(words.contains("/24 has room for 122 of 4095 user-defined networks"), "{words}");
        assert!(words.ends_with("write a /18 or larger"), "{words}");
        assert!(note("fd69::/115").contains("has room for 4090 of 4095"), "{}", note("fd69::/115"));
        let none = with("169.254.169.0/29").unwrap_err();
        assert_eq!(
            none,
            "--masquerade-subnets 169.254.169.0/29 has no room for what every node needs: write a /18 or larger"
        );
    }
}
