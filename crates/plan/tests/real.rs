//! Plans on real databases: everything is written, a restart writes nothing, deletion leaves nothing.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use causeway_plan::Dirty;
use causeway_zone::{Reason, Subject, Zone};
use support::server::{Databases, run};
use support::*;

/// udn-ovn-cases B16, B23, L01: nothing changed, nothing written; a network that goes takes all its rows along.
#[test]
fn b16_b23_l01_everything_comes_stays_and_goes() {
    run(async {
        let mut databases = Databases::start();
        let bare = two_nodes(Ip::Dual, Some("shared"));
        databases.apply(&bare, Dirty::everything()).await;
        databases.assert_as_planned(&bare);
        let before = databases.counts();

        let mut zone = cluster(Ip::Dual, Some("shared"));
        databases.apply(&zone, Dirty::everything()).await;
        databases.assert_as_planned(&zone);

        databases.restart_role();
        databases.apply(&zone, Dirty::default()).await;
        assert_eq!(databases.writes(), 0, "a restart writes nothing");

        let mut dirty = zone.delete_nad(&blue(Ip::Dual).key).on(&zone);
        dirty.merge(zone.delete_nad(&green(Ip::Dual).key).on(&zone));
        for pod in [plain(Ip::Dual), web(Ip::Dual), vm("vm", "n1", 8, Ip::Dual), vm("far", "n2", 9, Ip::Dual)]
        {
            dirty.merge(zone.delete_pod(&pod.key).on(&zone));
        }
        databases.apply(&zone, dirty).await;
        databases.assert_as_planned(&zone);
        assert_eq!(databases.counts(), before, "what the networks and pods had is gone");
    });
}

/// What one node has on its Node and nobody can read costs that node alone, also where the southbound database is empty.
#[test]
fn a_malformed_node_costs_itself_alone() {
    run(async {
        for (key, left) in [
            ("node-chassis-id", "c-2 c-3"),
            ("node-encap-ips", "c-2 c-3"),
            ("layer2-topology-version", "c-2 c-3"),
            ("node-chassis-record", "c-3"),
        ] {
            let mut databases = Databases::start();
            let mut zone = Zone::new(config(Ip::V4));
            zone.apply_node(&node("n1", 2));
            zone.apply_node(&annotate(node("n2", 3), key, "{"));
            zone.apply_node(&node("n3", 4));
            databases.apply(&zone, Dirty::everything()).await;
            let chassis = databases.sbctl(&["--bare", "--columns=name", "list", "chassis"]);
            let mut names: Vec<&str> = chassis.split_whitespace().collect();
            names.sort_unstable();
            assert_eq!(names.join(" "), left, "{key}");
        }
    });
}

/// udn-ovn-cases C06, C07, C08: a node that goes takes its chassis, ports and routes along, also while nobody looked;
/// a reinstalled one keeps its rows under another chassis.
#[test]
fn c06_c07_c08_nodes_go_and_come_back() {
    run(async {
        let mut databases = Databases::start();
        let mut zone = cluster(Ip::V4, None);
        databases.apply(&zone, Dirty::everything()).await;
        let chassis =
            |databases: &Databases| databases.sbctl(&["--bare", "--columns=name", "list", "chassis"]);
        assert_eq!(chassis(&databases).trim(), "c-2");

        let dirty = zone.apply_node(&settled(annotate(node("n2", 3), "node-chassis-id", "c-new"))).on(&zone);
        databases.apply(&zone, dirty).await;
        databases.assert_as_planned(&zone);
        assert_eq!(chassis(&databases).trim(), "c-new");
        let get = ["get", "logical_switch_port", "cluster_udn_blue_tstor-n2", "options:requested-chassis"];
        assert_eq!(databases.nbctl(&get).trim(), "c-new");

        let deleted = databases.north_writer.engine().stats().deleted;
        zone.delete_node(&node_name("n2"));
        databases.restart_role();
        databases.apply(&zone, Dirty::default()).await;
        databases.assert_as_planned(&zone);
        assert_eq!(chassis(&databases).trim(), "");
        assert_eq!(
            databases.nbctl(&["--bare", "--columns=name", "find", "logical_switch_port", "type=remote"]),
            ""
        );
        assert_eq!(deleted, 0, "a chassis was renamed without deleting anything");
    });
}

/// udn-ovn-cases L05: what somebody changes of ours is put right, what is his stays.
#[test]
fn l05_edits_by_hand_are_put_right() {
    run(async {
        let mut databases = Databases::start();
        let zone = cluster(Ip::V4, Some("shared"));
        databases.apply(&zone, Dirty::everything()).await;
        databases.nbctl(&["ls-add", "theirs"]);
        databases.nbctl(&["lr-route-del", "cluster_udn_blue_ovn_cluster_router"]);
        databases.nbctl(&["lr-nat-del", "GR_cluster_udn_blue_n1"]);
        databases.nbctl(&["acl-del", "a8747502060113802905"]);
        databases.apply(&zone, Dirty { northbound: vec![String::new()], ..Dirty::default() }).await;
        databases.assert_as_planned(&zone);
        assert!(databases.nbctl(&["ls-list"]).contains("(theirs)"));
    });
}

/// 200 networks start in one pass; a broken one among them is reported and stops nobody.
#[test]
fn two_hundred_networks_and_a_broken_one() {
    run(async {
        let mut databases = Databases::start();
        let mut zone = two_nodes(Ip::V4, None);
        for id in 1..=200 {
            let mut nad = numbered(id, if id % 2 == 0 { "layer2" } else { "layer3" });
            if id == 100 {
                nad.annotate("k8s.ovn.org/tunnel-keys", Some("[16711783]"));
            }
            zone.apply_nad(&nad);
        }
        databases.apply(&zone, Dirty::everything()).await;
        databases.assert_as_planned(&zone);
        assert_eq!(zone.rendered().count(), 200, "199 and the default network");
        let problem = &zone.problems()[&Subject::Network("t100_net".parse().unwrap())];
        assert_eq!(problem.reason, Reason::TunnelKeys);
        let held: Vec<&str> =
            databases.north_writer.engine().held().keys().map(|slice| slice.as_str()).collect();
        assert_eq!(held, ["network:t100_net:core:"]);
        let stats = databases.north_writer.engine().stats();
        assert_eq!(stats.failed, 0);
        assert!(stats.transactions < 60, "{stats:?}");

        let dirty = zone.apply_nad(&numbered(100, "layer2")).on(&zone);
        databases.apply(&zone, dirty).await;
        databases.assert_as_planned(&zone);
        assert!(databases.north_writer.engine().held().is_empty());
    });
}

/// udn-ovn-cases C10, L07: one new network on 500 nodes is a handful of transactions, not three for each node.
#[test]
fn c10_l07_many_nodes_few_transactions() {
    run(async {
        let mut databases = Databases::start();
        let mut zone = two_nodes(Ip::V4, None);
        for n in 3..=250 {
            zone.apply_node(&node(&format!("n{n}"), n + 1));
        }
        databases.apply(&zone, Dirty::everything()).await;
        let before = databases.north_writer.engine().stats();
        let dirty = zone.apply_nad(&blue(Ip::V4)).on(&zone);
        databases.apply(&zone, dirty).await;
        databases.assert_as_planned(&zone);
        let after = databases.north_writer.engine().stats();
        assert!(after.created - before.created > 249 * 3, "{after:?}");
        assert!(after.transactions - before.transactions <= 10, "{before:?} {after:?}");
    });
}

/// udn-ovn-cases L04: the connection breaks in the middle; the rest follows and nothing is there twice.
#[test]
fn l04_a_database_that_goes_away_in_between() {
    run(async {
        let mut databases = Databases::start();
        let mut zone = two_nodes(Ip::V4, None);
        databases.apply(&zone, Dirty::everything()).await;
        for id in 1..=40 {
            zone.apply_nad(&numbered(id, "layer3"));
        }
        databases.north_writer.dirty("");
        databases.north_writer.turn(&causeway_plan::northbound(&zone)).await;
        databases.north.kill();
        databases.north.serve();
        databases.apply(&zone, Dirty::default()).await;
        databases.assert_as_planned(&zone);
    });
}

/// cnc-cases Q11, V04, X14: a connection comes, goes through all layouts and goes; a restart writes nothing, and what was
/// deselected while nobody looked goes with the next look.
#[test]
fn q11_v04_x14_connections_come_move_and_go() {
    run(async {
        let mut databases = Databases::start();
        let mut zone = cluster(Ip::Dual, Some("shared"));
        zone.apply_nad(&layer3("orange", 2, Ip::Dual));
        databases.nbctl(&["init"]);
        databases.apply(&zone, Dirty::everything()).await;
        let before = databases.counts();
        for topology in ["transit", "both", "compact", "both", "transit"] {
            let dirty = zone.apply_connect(&connect("road", topology, Ip::Dual, &COLOURS)).on(&zone);
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            databases.restart_role();
            databases.apply(&zone, Dirty::default()).await;
            assert_eq!(databases.writes(), 0, "a restart writes nothing: {topology}");
        }
        zone.apply_connect(&connect("road", "transit", Ip::Dual, &COLOURS[..2]));
        databases.restart_role();
        databases.apply(&zone, Dirty::default()).await;
        databases.assert_as_planned(&zone);
        let gone = databases.nbctl(&[
            "--bare",
            "--columns=name",
            "find",
            "logical_router_port",
            "peer=road-to-cluster_udn_green",
        ]);
        assert_eq!(gone.trim(), "");

        let dirty = zone.delete_connect(&connect_name("road")).on(&zone);
        databases.apply(&zone, dirty).await;
        databases.assert_as_planned(&zone);
        assert_eq!(databases.counts(), before, "what the connection had is gone");
    });
}

/// cnc-cases X11, B15: a network that goes takes its end of the road along, and finds it again when it is back; what of
/// the connection is not its own stays until the annotation says otherwise.
#[test]
fn x11_a_connected_network_goes_and_comes_back() {
    run(async {
        for topology in ["transit", "compact"] {
            let mut databases = Databases::start();
            let mut zone = connected(Ip::V4, topology);
            databases.nbctl(&["init"]);
            databases.apply(&zone, Dirty::everything()).await;
            let before = databases.counts();
            let dirty = zone.delete_nad(&blue(Ip::V4).key).on(&zone);
            databases.apply(&zone, dirty).await;
            let engine = databases.north_writer.engine();
            assert!(engine.failures().is_empty() && engine.waiting().is_empty(), "{:?}", engine.failures());
            let routers = databases.nbctl(&["--bare", "--columns=name", "list", "logical_router"]);
            assert!(!routers.contains("blue") && routers.contains("connect-router-road"), "{routers}");
            let dirty = zone.apply_nad(&blue(Ip::V4)).on(&zone);
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            assert_eq!(databases.counts(), before);
        }
    });
}

/// cnc-cases S2, S3, X16: one more network, one more node, and nothing but their rows is written.
#[test]
fn x16_events_write_only_their_rows() {
    run(async {
        let mut databases = Databases::start();
        let mut zone = two_nodes(Ip::V4, None);
        let owners: Vec<String> = (1..=20).map(|id| format!("layer3_{id}")).collect();
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        (1..=20).for_each(|id| drop(zone.apply_nad(&layer3(&format!("net{id}"), id, Ip::V4))));
        zone.apply_connect(&connect("road", "transit", Ip::V4, &owners[..19]));
        databases.apply(&zone, Dirty::everything()).await;
        let before = databases.north_writer.engine().stats();
        let dirty = zone.apply_connect(&connect("road", "transit", Ip::V4, &owners)).on(&zone);
        databases.apply(&zone, dirty).await;
        let after = databases.north_writer.engine().stats();
        // Two ports here, one there, two routes, nineteen policies each way.
        assert_eq!(after.created - before.created, 3 + 2 + 38);
        assert_eq!((after.modified, after.deleted), (before.modified, before.deleted));

        let dirty = zone.apply_node(&node("n3", 4)).on(&zone);
        let cnc = dirty.northbound.iter().filter(|prefix| prefix.starts_with("cnc:")).count();
        databases.apply(&zone, dirty).await;
        databases.assert_as_planned(&zone);
        let last = databases.north_writer.engine().stats();
        // A port and a route of each connection's network; a port and two routes of each network and the default one.
        assert_eq!((cnc, last.created - after.created), (20, 20 * 2 + 21 * 3));
        assert_eq!((last.modified, last.deleted), (after.modified, after.deleted));
    });
}

/// udn-ovn-cases I14, cnc-cases U07, V04, V05: what went or was granted while nobody looked is put right at the next
/// start, and a restart after that writes nothing.
#[test]
fn i14_u07_v04_v05_services_that_change_while_nobody_looks() {
    run(async {
        let mut databases = Databases::start();
        databases.nbctl(&["init"]);
        let mut zone = connected(Ip::Dual, "compact");
        databases.apply(&zone, Dirty::everything()).await;
        let before = databases.counts();
        serve(&mut zone, Ip::Dual);
        let road = connect("road", "compact", Ip::Dual, &COLOURS);
        zone.apply_connect(&granting(road.clone(), false, true));
        databases.apply(&zone, Dirty::everything()).await;
        databases.assert_as_planned(&zone);
        let counts = databases.counts();
        assert_eq!([counts["Load_Balancer"], counts["ACL"] - before["ACL"]], [12, 12]);
        let in_group =
            ["--bare", "--columns=load_balancer", "find", "load_balancer_group", "name=cnc_svc_road"];
        assert_eq!(databases.nbctl(&in_group).split_whitespace().count(), 9);

        zone.delete_service(&key("ns1", "web"));
        databases.restart_role();
        databases.apply(&zone, Dirty::default()).await;
        databases.assert_as_planned(&zone);
        assert_eq!(databases.nbctl(&in_group).split_whitespace().count(), 8);

        zone.apply_connect(&road);
        for service in zone.services().collect::<Vec<_>>() {
            zone.delete_service(&service);
        }
        databases.restart_role();
        databases.apply(&zone, Dirty::default()).await;
        databases.assert_as_planned(&zone);
        assert_eq!(databases.counts(), before, "services, group, guards and their sets are gone");
        databases.restart_role();
        databases.apply(&zone, Dirty::default()).await;
        assert_eq!(databases.writes(), 0);
    });
}

/// The paths of all rows after each transaction that a database has seen.
fn moments(databases: &Databases) -> Vec<BTreeSet<String>> {
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    let mut moments = Vec::new();
    for transaction in databases.north.transactions().transactions {
        let tables = transaction.as_object().unwrap().values().filter_map(|table| table.as_object());
        for (uuid, row) in tables.flatten() {
            let ids = row["external_ids"][1].as_array().into_iter().flatten();
            let path = ids.filter(|pair| pair[0] == "k8s.ovn.org/id").find_map(|pair| pair[1].as_str());
            match path {
                Some(path) => drop(rows.insert(uuid.clone(), path.to_owned())),
                None if row.is_null() => drop(rows.remove(uuid)),
                None => {}
            }
        }
        moments.push(rows.values().cloned().collect());
    }
    moments
}

/// cnc-cases U08 as it happens: whenever something sends from a network to others, its guards are there, however
/// connections of services alone come, change and go.
#[test]
fn u08_no_road_is_ever_without_its_guards() {
    run(async {
        for topology in ["transit", "both", "compact"] {
            let mut databases = Databases::start();
            let mut zone = cluster(Ip::V4, None);
            zone.apply_nad(&layer3("orange", 2, Ip::V4));
            let road = |owners: &[&str]| granting(connect("road", topology, Ip::V4, owners), false, true);
            let mut dirty = Dirty::everything();
            for owners in [&COLOURS[..2], &COLOURS, &COLOURS[1..]] {
                dirty.merge(zone.apply_connect(&road(owners)).on(&zone));
                databases.apply(&zone, std::mem::take(&mut dirty)).await;
            }
            dirty.merge(zone.delete_connect(&connect_name("road")).on(&zone));
            databases.apply(&zone, dirty).await;
            let mut seen = 0;
            for moment in moments(&databases) {
                let sends = |path: &&String| path.contains(":policy:") || path.contains(":steer:");
                for path in moment.iter().filter(sends).filter(|path| path.starts_with("cnc:road:")) {
                    let from = path.split(':').nth(3).unwrap();
                    let needs = ["drop", "track"].map(|guard| format!("cnc:road:guard:{from}:{guard}"));
                    let needs = needs.into_iter().chain(["cnc:road:guarded:v4".to_owned()]);
                    needs.for_each(|guard| assert!(moment.contains(&guard), "{path} without {guard}"));
                    seen += 1;
                }
            }
            assert!(seen > 10, "{topology}: {seen}");
        }
    });
}

/// cnc-cases V01, V02: whoever starts finds what others or an earlier run have left. What is of a connection that is still there
/// stays untouched; what is of one that is gone goes, whole or in parts; without connections nothing is left of any.
#[test]
fn v01_v02_what_is_left_of_connections() {
    let of_roads = |databases: &Databases| -> Vec<String> {
        let listed = [
            "Logical_Router",
            "Logical_Router_Port",
            "Logical_Router_Policy",
            "Logical_Router_Static_Route",
            "ACL",
        ]
        .map(|table| databases.nbctl(&["--bare", "--columns=external_ids", "list", table]));
        listed
            .iter()
            .flat_map(|text| text.lines())
            .filter(|line| line.contains("=cnc:") || line.contains("\"cnc:"))
            .map(str::to_owned)
            .collect()
    };
    run(async {
        for topology in ["transit", "compact"] {
            let mut zone = connected(Ip::Dual, topology);
            zone.apply_connect(&granting(connect("road", topology, Ip::Dual, &COLOURS), false, true));
            let stale = second(connect("stale", topology, Ip::Dual, &["layer3_1", "layer3_2"]));
            zone.apply_connect(&granting(stale, false, true));
            let mut databases = Databases::start();
            databases.apply(&zone, Dirty::everything()).await;
            databases.restart_role();
            databases.apply(&zone, Dirty::everything()).await;
            assert_eq!(databases.writes(), 0, "nothing is stale, and nothing is written");

            // The role was stopped when a connection went; of it all is there but its router.
            databases.nbctl(&["lr-del", "connect-router-stale"]);
            zone.delete_connect(&connect_name("stale"));
            databases.restart_role();
            databases.apply(&zone, Dirty::everything()).await;
            databases.assert_as_planned(&zone);
            let left = of_roads(&databases);
            assert!(!left.is_empty() && left.iter().all(|ids| !ids.contains("cnc:stale")), "{left:?}");

            zone.delete_connect(&connect_name("road"));
            databases.restart_role();
            databases.apply(&zone, Dirty::everything()).await;
            databases.assert_as_planned(&zone);
            assert_eq!(of_roads(&databases), Vec::<String>::new(), "no connection, nothing of one");
        }
    });
}
