//! Every row of every topology and family, with and without a way out of the node, as files to read.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_plan::{northbound, southbound};
use support::check::{assert_golden, show};
use support::{COLOURS, Ip, cluster, connect, connected, granting, serve};

fn check(topology: &str, prefixes: &[&str]) {
    for ip in Ip::ALL {
        for (suffix, gateway) in [("", None), ("-gateway", Some("shared"))] {
            let zone = cluster(ip, gateway);
            let text = show(&northbound(&zone), prefixes);
            assert_golden(&format!("{topology}-{}{suffix}", ip.name()), &text);
        }
    }
    let zone = cluster(Ip::V4, Some("local"));
    assert_golden(&format!("{topology}-ipv4-local-gateway"), &show(&northbound(&zone), prefixes));
}

#[test]
fn the_default_network() {
    check(
        "default",
        &[
            "zone:",
            "network:default:",
            "Load_Balancer_Group:clusterLB",
            "Load_Balancer_Group:clusterSwitch",
            "Load_Balancer_Group:clusterRouter",
            "Static_MAC_Binding:rtoe-GR_n1:",
        ],
    );
}

#[test]
fn a_layer3_network() {
    check(
        "layer3",
        &[
            "network:cluster_udn_blue:",
            "Load_Balancer_Group:cluster_udn_blue_",
            "Static_MAC_Binding:rtoe-GR_cluster_udn_blue_n1:",
        ],
    );
}

#[test]
fn a_layer2_network() {
    check(
        "layer2",
        &[
            "network:cluster_udn_green:",
            "Load_Balancer_Group:cluster_udn_green_",
            "Static_MAC_Binding:rtoe-GR_cluster_udn_green_n1:",
        ],
    );
}

#[test]
fn chassis_of_other_nodes() {
    let zone = cluster(Ip::V4, None);
    assert_golden("southbound", &show(&southbound(&zone), &["chassis:", "Encap:"]));
}

#[test]
fn connections() {
    for ip in Ip::ALL {
        for topology in ["transit", "both", "compact"] {
            let zone = connected(ip, topology);
            assert_golden(&format!("connect-{topology}-{}", ip.name()), &show(&northbound(&zone), &["cnc:"]));
        }
    }
}

#[test]
fn services() {
    for ip in Ip::ALL {
        let mut zone = cluster(ip, None);
        serve(&mut zone, ip);
        let text = show(&northbound(&zone), &["service:"]);
        assert_golden(&format!("services-{}", ip.name()), &text);
    }
}

#[test]
fn connections_for_services() {
    for topology in ["transit", "compact"] {
        for (suffix, pods) in [("services", true), ("services-alone", false)] {
            let mut zone = connected(Ip::Dual, topology);
            serve(&mut zone, Ip::Dual);
            zone.apply_connect(&granting(connect("road", topology, Ip::Dual, &COLOURS), pods, true));
            let prefixes = ["cnc:", "service:ns1:", "service:ns2:", "Load_Balancer_Group:cnc_svc_"];
            let text = show(&northbound(&zone), &prefixes);
            assert_golden(&format!("connect-{topology}-{suffix}"), &text);
        }
    }
}
