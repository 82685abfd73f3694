//! The cases of the catalogue that need no kernel, by their numbers; and the plan of one VNI as a whole. The others: 21 and 22 beside what they
//! test, 26 in the host's `frr.rs`, 42 in `many.rs`, and in the test kernel (`crates/causeway/tests/evpn`) 28, 31, 32, 34 to 40, 43 and 44
//! (`scenario.rs`), 12, 29, 30 and 41 (`moves.rs`). 33 is an address that is there already: the host's `evpn_items.rs`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{CMP1, GATEWAY_MAC, GW1, GW2, PROVIDER, TENANT, World, annotation, id, numbers, row};

fn has(world: &World, words: &str) -> bool {
    world.lines().iter().any(|line| line.contains(words))
}

/// Cases 1, 3, 9 and 11: everything in the order in which it can be made.
#[test]
fn a_gateway_its_subnet_and_its_machines() {
    let mut world = World::exposed();
    let update = world.follow().join("\n") + "\n";
    let sections: Vec<String> = world
        .agent
        .plan()
        .items()
        .values()
        .filter_map(|planned| match &planned.item {
            causeway_types::host::Item::Section(section) => {
                Some(format!("{}\n{}", section.first, section.lines))
            }
            _ => None,
        })
        .collect();
    let got = update + &sections.join("");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/one.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file, &got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(file).unwrap(), "UPDATE_GOLDEN=1 writes it anew");
    assert_eq!(world.follow(), Vec::<String>::new(), "unchanged, nothing differs");
}

#[test]
fn case_2_a_gateway_elsewhere_is_nothing_here() {
    let mut world = World::exposed();
    world.change("cr-lrp-ext0", |row| row.chassis = Some(id(GW2)));
    assert_eq!(world.lines(), Vec::<String>::new());
    assert_eq!(world.refused(), Vec::<String>::new());
}

/// Defect 2: whichever of the two comes first.
#[test]
fn case_4_an_annotation_in_two_steps() {
    let mut world = World::new();
    world.change("ext0", |row| drop(row.external_ids.insert("neutron_bgpvpn:vni".into(), "1001".into())));
    assert_eq!(world.lines(), Vec::<String>::new());
    assert_eq!(world.refused(), ["ext0: neutron_bgpvpn:as is missing"]);
    world.change("ext0", |row| drop(row.external_ids.insert("neutron_bgpvpn:as".into(), "64999".into())));
    assert!(has(&world, "link vrf-1001: VRF of table 1001"));
    assert_eq!(world.refused(), Vec::<String>::new());
}

#[test]
fn cases_5_and_22_what_is_malformed_costs_itself_alone() {
    for vni in ["abc", "0", "253", "254", "255", "16777216"] {
        let mut world = World::exposed();
        let mut other = row("patch", PROVIDER, "router", &[("peer", "lrp-ext9")]);
        other.external_ids = annotation(vni, "64999");
        world.put("ext9", other);
        assert_eq!(world.refused().len(), 1, "{vni}");
        assert!(has(&world, "link vrf-1001"));
    }
}

/// Defect 2 as well.
#[test]
fn case_6_another_number() {
    let mut world = World::exposed();
    world.follow();
    for port in ["ext0", "int0"] {
        world.annotate(port, "1002", "64999");
    }
    let changes = world.follow();
    for words in ["- link vrf-1001", "- address 20.0.0.241/32 of lo-1001", "- FRR section \"vrf vrf-1001\""] {
        assert!(changes.iter().any(|line| line == words), "{words}: {changes:#?}");
    }
    assert!(
        changes.iter().any(|line| line == "+ address 20.0.0.241/32 of lo-1002: for show"),
        "{changes:#?}"
    );
    assert!(!has(&world, "1001"));
}

/// Defect 1: from one chassis to another in one update.
#[test]
fn case_7_a_gateway_moves() {
    let (mut here, mut there) = (World::exposed(), World::exposed());
    there.node.chassis = "gw2".into();
    there.tell();
    here.follow();
    assert_eq!(there.follow(), Vec::<String>::new());
    for world in [&mut here, &mut there] {
        world.change("cr-lrp-ext0", |row| row.chassis = Some(id(GW2)));
    }
    assert!(here.follow().iter().all(|line| line.starts_with("- ")));
    assert!(there.follow().iter().any(|line| line.contains("address 20.0.0.241/32 of lo-1001")));
}

#[test]
fn case_8_a_gateway_goes_once() {
    for goes in [
        |world: &mut World| world.change("cr-lrp-ext0", |row| row.chassis = None),
        |world: &mut World| {
            world.delete("cr-lrp-ext0");
        },
    ] {
        let mut world = World::exposed();
        world.follow();
        goes(&mut world);
        assert!(world.follow().iter().all(|line| line.starts_with("- ")));
        goes(&mut world);
        assert_eq!(world.follow(), Vec::<String>::new());
    }
}

#[test]
fn case_10_a_subnet_with_another_number_than_its_gateway() {
    let mut world = World::exposed();
    for (vni, asn) in [("1002", "64999"), ("1001", "65000")] {
        world.annotate("int0", vni, asn);
        let want = format!(
            "int0: it has VNI {vni} and AS {asn}, its router's gateway ext0 has VNI 1001 and AS 64999"
        );
        assert_eq!(world.refused(), [want]);
        assert!(!has(&world, "20.0.0.") && has(&world, "link vrf-1001"));
    }
}

#[test]
fn case_11_one_machine_more_is_one_address() {
    let mut world = World::exposed();
    world.follow();
    let mut vm = row("", TENANT, "fa:16:3e:00:00:f2 20.0.0.242", &[]);
    world.put("vm2", vm.clone());
    assert_eq!(world.follow(), Vec::<String>::new(), "it does not run yet");
    vm.chassis = Some(id(CMP1));
    world.put("vm2", vm);
    assert_eq!(world.follow(), ["+ address 20.0.0.242/32 of lo-1001: for show"]);
    world.delete("vm2");
    assert_eq!(world.follow(), ["- address 20.0.0.242/32 of lo-1001"]);
}

#[test]
fn case_12_a_machine_moves() {
    let mut world = World::exposed();
    world.follow();
    world.change("vm1", |row| row.chassis = Some(id(GW1)));
    assert_eq!(world.follow(), Vec::<String>::new());
}

/// Defect 11: whatever goes first.
#[test]
fn case_13_everything_goes_in_any_order() {
    let names: Vec<String> = World::exposed().rows.keys().cloned().collect();
    for first in 0..names.len() {
        let mut world = World::exposed();
        world.follow();
        for name in names.iter().cycle().skip(first).take(names.len()) {
            world.delete(name);
            world.follow();
        }
        assert_eq!(world.lines(), Vec::<String>::new());
        assert_eq!(world.agent.status().vnis, []);
    }
}

#[test]
fn case_14_only_what_is_in_an_exposed_subnet() {
    let mut world = World::exposed();
    world.change("vm1", |row| row.mac = vec!["fa:16:3e:00:00:f1 20.0.0.241 2001:db8::f1 10.9.9.9".into()]);
    assert!(has(&world, "address 20.0.0.241/32 of lo-1001"));
    assert!(!has(&world, "2001:db8::f1") && !has(&world, "10.9.9.9"));
}

#[test]
fn case_15_a_machine_of_the_provider_is_ignored() {
    let mut world = World::exposed();
    let mut vm = row("", PROVIDER, "fa:16:3e:00:00:f9 172.24.4.9", &[]);
    vm.chassis = Some(id(CMP1));
    world.put("vm9", vm);
    assert!(!has(&world, "172.24.4.9"));
}

#[test]
fn case_16_an_address_that_machines_hand_over() {
    let mut world = World::exposed();
    world.put("vip", row("virtual", TENANT, "fa:16:3e:00:00:f3 20.0.0.100", &[]));
    assert!(has(&world, "address 20.0.0.100/32 of lo-1001"));
}

#[test]
fn case_17_machines_without_addresses() {
    let mut world = World::exposed();
    for mac in ["unknown", "fa:16:3e:00:00:f1", ""] {
        world.change("vm1", |row| row.mac = vec![mac.into()]);
        assert!(!has(&world, "of lo-1001: for show"), "{mac}");
    }
}

/// Defect 12: all subnets of a port.
#[test]
fn case_18_two_families_on_one_port() {
    let mut world = World::exposed();
    world.change("lrp-int0", |row| row.mac = vec!["fa:16:3e:00:00:11 20.0.0.1/24 2001:db8::1/64".into()]);
    world.change("vm1", |row| row.mac = vec!["fa:16:3e:00:00:f1 20.0.0.241 2001:db8::f1".into()]);
    assert_eq!(world.refused(), ["int0: ext0 has no IPv6 address, so 2001:db8::/64 has no way"]);
    for name in ["lrp-ext0", "cr-lrp-ext0"] {
        world.change(name, |row| row.mac = vec![format!("{GATEWAY_MAC} 172.24.4.146/24 2001:db8:4::146/64")]);
    }
    assert_eq!(world.refused(), Vec::<String>::new());
    for words in [
        "route to 20.0.0.0/24 in table 1001: via 172.24.4.146 by vv-1001",
        "route to 2001:db8::/64 in table 1001 with metric 1024: via 2001:db8:4::146 by vv-1001",
        "ipv6,in_port=1,dl_src=fa:16:3e:b7:cc:47,ipv6_src=2001:db8::/64",
        "address 2001:db8::f1/128 of lo-1001: for show",
        "neighbour 2001:db8:4::146 on vv-1001",
    ] {
        assert!(has(&world, words), "{words}: {:#?}", world.lines());
    }
}

#[test]
fn case_19_a_provider_network_with_a_vlan() {
    let mut world = World::exposed();
    world.change("provnet", |row| row.tag = Some(100));
    world.node.numbers = numbers("br-ex", &[("patch-provnet-to-br-int", 1), ("vlan-1001", 9)]);
    world.tell();
    for words in [
        "Open vSwitch port vlan-1001: internal on br-ex, VLAN 100",
        "link vlan-1001: made elsewhere, MAC 0e:00:01:00:03:e9, port of vrf-1001",
        "ip,in_port=1,dl_vlan=100,dl_src=fa:16:3e:b7:cc:47,nw_src=20.0.0.0/24",
        "strip_vlan,mod_dl_dst:0e:00:01:00:03:e9,output:9",
        "via 172.24.4.146 by vlan-1001",
    ] {
        assert!(has(&world, words), "{words}: {:#?}", world.lines());
    }
    assert!(!has(&world, "vv-1001") && !has(&world, "vo-1001"));
}

#[test]
fn case_20_a_network_without_a_bridge_here() {
    let mut world = World::exposed();
    world.node.mappings.clear();
    world.tell();
    assert_eq!(world.lines(), Vec::<String>::new(), "nothing is half made");
    assert_eq!(world.refused(), ["ext0: this node has no bridge for public; add it to ovn-bridge-mappings"]);
    world.node.mappings.insert("public".into(), "br-ex".into());
    world.tell();
    assert!(has(&world, "link vrf-1001"));
    world.delete("provnet");
    assert_eq!(world.refused(), ["ext0: its switch has no localnet port"]);
}

/// A second router with the same number, and what goes with it.
fn two_routers() -> World {
    let mut world = World::exposed();
    let mut ext = row("patch", PROVIDER, "router", &[("peer", "lrp-ext1")]);
    ext.external_ids = annotation("1001", "64999");
    world.put("ext1", ext);
    let mac = "fa:16:3e:b7:cc:48 172.24.4.147/24";
    world.put("lrp-ext1", row("patch", 5, mac, &[("peer", "ext1")]));
    let mut redirect = row("chassisredirect", 5, mac, &[("distributed-port", "lrp-ext1")]);
    redirect.chassis = Some(id(GW1));
    world.put("cr-lrp-ext1", redirect);
    world
}

#[test]
fn case_23_two_routers_share_a_number() {
    let mut world = two_routers();
    assert!(has(&world, "172.24.4.146/32") && has(&world, "172.24.4.147/32"));
    world.follow();
    world.delete("cr-lrp-ext0");
    let changes = world.follow();
    assert!(changes.iter().any(|line| line == "- route to 172.24.4.146/32 in table 1001"), "{changes:#?}");
    assert!(!changes.iter().any(|line| line.contains("link")), "{changes:#?}");
    world.delete("cr-lrp-ext1");
    assert!(world.follow().iter().any(|line| line == "- link vrf-1001"));
}

#[test]
fn two_routers_that_do_not_fit_into_one_vrf() {
    let mut world = two_routers();
    world.annotate("ext1", "1001", "65000");
    assert_eq!(
        world.refused(),
        ["ext1: ext0 has the same VNI with another AS number or other route targets"]
    );
    let mut world = two_routers();
    let mut int = row("patch", 6, "router", &[("peer", "lrp-int1")]);
    int.external_ids = annotation("1001", "64999");
    world.put("int1", int);
    world.put("lrp-int1", row("patch", 5, "fa:16:3e:00:00:12 20.0.0.1/24", &[("peer", "int1")]));
    assert_eq!(world.refused(), ["int1: 20.0.0.0/24 is behind another gateway of VNI 1001 already"]);
}

/// Who was exposed first stays so, however the other one is called; also for an agent that has just started.
#[test]
fn who_has_a_number_keeps_it() {
    let rival = |world: &mut World, name: &str| {
        let peer = format!("lrp-{name}");
        let mut ext = row("patch", PROVIDER, "router", &[("peer", &peer)]);
        ext.external_ids = annotation("1001", "65000");
        world.put(name, ext);
        let mac = "fa:16:3e:b7:cc:49 172.24.4.149/24";
        world.put(&peer, row("patch", 5, mac, &[("peer", name)]));
        let mut redirect = row("chassisredirect", 5, mac, &[("distributed-port", &peer)]);
        redirect.chassis = Some(id(GW1));
        world.put(&format!("cr-{peer}"), redirect);
    };
    let refused = ["a-first: ext0 has the same VNI with another AS number or other route targets"];
    let mut world = World::exposed();
    world.follow();
    rival(&mut world, "a-first");
    assert_eq!(world.follow(), Vec::<String>::new());
    assert_eq!(world.refused(), refused);
    // Whoever changes his mind makes room.
    world.annotate("a-first", "1001", "64999");
    assert_eq!(world.refused(), Vec::<String>::new());
    world.annotate("a-first", "1001", "65000");
    assert_eq!(world.refused(), refused);
    world.delete("cr-lrp-ext0");
    assert!(world.follow().iter().any(|line| line.contains("router bgp 65000")));

    // Started again, with nothing but what the node has.
    let mut earlier = World::exposed();
    let left = earlier.routes();
    let mut world = World::exposed();
    rival(&mut world, "a-first");
    world.agent.remember(left);
    assert_eq!(world.refused(), refused);
}

/// The same with a range behind two gateways that share a VRF.
#[test]
fn who_has_a_range_keeps_it() {
    let behind = |world: &mut World, name: &str, router: u128| {
        let peer = format!("lrp-{name}");
        let mut int = row("patch", 6, "router", &[("peer", &peer)]);
        int.external_ids = annotation("1001", "64999");
        world.put(name, int);
        world.put(&peer, row("patch", router, "fa:16:3e:00:00:12 20.0.9.1/24", &[("peer", name)]));
    };
    let both = || {
        let mut world = two_routers();
        behind(&mut world, "int9", 5);
        world
    };
    let mut world = both();
    world.follow();
    behind(&mut world, "int8", common::ROUTER);
    let refused = ["int8: 20.0.9.0/24 is behind another gateway of VNI 1001 already"];
    assert_eq!(world.follow(), Vec::<String>::new(), "ext0 comes first, and has not had it");
    assert_eq!(world.refused(), refused);
    let left = both().routes();
    let mut world = both();
    behind(&mut world, "int8", common::ROUTER);
    world.agent.remember(left);
    assert_eq!(world.refused(), refused);
}

#[test]
fn case_24_without_an_end_of_the_tunnels_everything_stays() {
    let mut world = World::exposed();
    world.follow();
    world.agent.set_node(Err("there is no address for the tunnels".into()));
    let update = world.agent.follow();
    assert_eq!(
        (update.items.len(), update.hold_all),
        (0, Some(Some("there is no address for the tunnels".into())))
    );
    world.tell();
    let update = world.agent.follow();
    assert_eq!((update.items.len(), update.hold_all), (0, Some(None)), "nothing has changed");
}

#[test]
fn case_25_a_port_without_a_number_has_no_flow_yet() {
    let mut world = World::exposed();
    for ports in [&[][..], &[("patch-provnet-to-br-int", 1)][..]] {
        world.node.numbers = numbers("br-ex", ports);
        world.tell();
        world.follow();
        assert!(!has(&world, "flow of br-ex") && has(&world, "route to 20.0.0.0/24"));
        assert_eq!(world.agent.status().vnis[0].waits.len(), 1);
    }
    world.node.numbers = numbers("br-ex", &[("patch-provnet-to-br-int", 1), ("vo-1001", 7)]);
    world.tell();
    let changes = world.follow();
    assert_eq!(changes.len(), 1);
    assert!(changes[0].ends_with("mod_dl_dst:0e:00:01:00:03:e9,output:7"), "{changes:?}");
}

/// A database that is read anew after the connection was lost: what did not change is not planned anew.
#[test]
fn case_27_a_database_that_is_read_again() {
    let mut world = World::exposed();
    world.follow();
    let ports =
        world.rows.iter().filter_map(|(name, row)| Some((name.clone(), causeway_evpn::Port::read(row)?)));
    let chassis = [(id(GW1), "gw1".to_owned()), (id(GW2), "gw2".to_owned())];
    world.agent.replace(ports.collect(), chassis.into());
    assert_eq!(world.follow(), Vec::<String>::new());
    world.agent.replace(Default::default(), Default::default());
    assert!(world.follow().iter().all(|line| line.starts_with("- ")));
    assert_eq!(world.lines(), Vec::<String>::new());
}

/// Better than by `nat_addresses`: a gateway is who has a stand-in.
#[test]
fn a_gateway_is_known_by_its_stand_in() {
    let mut world = World::exposed();
    world.delete("cr-lrp-ext0");
    assert_eq!(world.lines(), Vec::<String>::new());
    // Ends that do not know each other are no cable.
    let mut world = World::exposed();
    world.change("lrp-int0", |row| drop(row.options.insert("peer".into(), "somebody".into())));
    assert!(!has(&world, "20.0.0.0/24"));
    assert!(has(&world, "172.24.4.146/32"));
}

#[test]
fn gateways_are_exposed_where_that_is_asked_for() {
    let mut world = World::exposed();
    assert!(!has(&world, "address 172.24.4.146/32"));
    world.node.expose_gateways = true;
    world.tell();
    assert!(has(&world, "address 172.24.4.146/32 of lo-1001: for show"));
    assert!(has(&world, "nw_src=172.24.4.146/32"));
}

/// FRR refuses the usual target where it has it by itself.
#[test]
fn route_targets_are_said_where_they_are_not_the_usual_ones() {
    let lines = |rt: &str, et: &str| {
        let mut world = World::exposed();
        world.change("ext0", |row| {
            row.external_ids.insert("neutron_bgpvpn:rt".into(), rt.into());
            row.external_ids.insert("neutron_bgpvpn:et".into(), et.into());
        });
        let plan = world.agent.plan();
        let sections = plan.items().values().filter_map(|planned| match &planned.item {
            causeway_types::host::Item::Section(section) => Some(section.lines.clone()),
            _ => None,
        });
        let all: String = sections.collect();
        all.lines()
            .filter_map(|line| line.trim().strip_prefix("route-target "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines("", ""), Vec::<String>::new());
    assert_eq!(lines("64999:1001", ""), Vec::<String>::new());
    assert_eq!(
        lines("64999:1001,70000:7", "1:1"),
        ["import 70000:7", "import 64999:1001", "export 1:1", "export 70000:7", "export 64999:1001"]
    );
}
