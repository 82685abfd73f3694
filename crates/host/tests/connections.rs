//! What a real switch remembers of connections, and the mark by which OVN drops their answers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::Connections;
use causeway_testing::{Switch, program};
use causeway_types::Tracked;
use node::{ip, on_own_node};
use std::process::Command;

fn run(name: &str, words: &[&str]) -> String {
    let out = Command::new(program(name)).args(words).output().unwrap();
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// A connection begins: the switch remembers it in a zone.
fn begin(switch: &Switch, zone: u16, packet: &str) {
    let bytes = run("ovs-ofctl", &["--bare", "compose-packet", packet]);
    let target = format!("unix:{}", switch.database.folder().join("br-int.mgmt").display());
    let line = format!("in_port=controller packet={bytes} actions=ct(commit,zone={zone})");
    run("ovs-ofctl", &["--protocols=OpenFlow15", "packet-out", &target, &line]);
}

fn marked(switch: &Switch) -> Vec<String> {
    let folder = switch.database.folder();
    let number = std::fs::read_to_string(folder.join("ovs-vswitchd.pid")).unwrap();
    let socket = folder.join(format!("ovs-vswitchd.{}.ctl", number.trim()));
    let all = run("ovs-appctl", &["-t", socket.to_str().unwrap(), "dpctl/dump-conntrack"]);
    all.lines().filter(|line| line.contains("mark=1")).map(str::to_owned).collect()
}

fn tracked(zone: u16, from: &str, to: &str) -> Tracked {
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    Tracked { zone, from, asked: to, to }
}

/// Of several connections the one that is meant gets the mark, in its zone; nothing else is remembered after it.
#[test]
fn one_connection_is_blocked() {
    on_own_node();
    ip("link set lo up");
    let switch = Switch::start();
    let memory = Connections::new(switch.database.folder(), "br-int")
        .from_folder(program("ovs-appctl").parent().unwrap());
    let four = "udp,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_ttl=64,nw_src=10.1.0.5,nw_dst=10.1.0.9,udp_src=4000,udp_dst=53";
    let other = four.replace("udp_src=4000", "udp_src=4001");
    let six = "udp6,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_ttl=64,ipv6_src=fd00::5,ipv6_dst=fd00::9,udp_src=4000,udp_dst=53";
    for (zone, packet) in [(7, four), (8, four), (7, other.as_str()), (7, six)] {
        begin(&switch, zone, packet);
    }
    let mut read = memory.read().unwrap();
    read.sort();
    let (v4, v6) = (tracked(7, "10.1.0.5:4000", "10.1.0.9:53"), tracked(7, "[fd00::5]:4000", "[fd00::9]:53"));
    let rest = [tracked(7, "10.1.0.5:4001", "10.1.0.9:53"), tracked(8, "10.1.0.5:4000", "10.1.0.9:53")];
    assert_eq!(read, [v4, rest[0], v6, rest[1]]);
    assert_eq!(marked(&switch), Vec::<String>::new());

    memory.block(&[v4]).unwrap();
    let after = marked(&switch);
    assert!(after.len() == 1 && after[0].contains("zone=7") && after[0].contains("sport=4000"), "{after:?}");
    memory.block(&[v6]).unwrap();
    assert_eq!(marked(&switch).len(), 2);
    assert_eq!(memory.read().unwrap().len(), 4);
}

#[test]
fn a_switch_that_is_away_is_an_error() {
    let folder = std::env::temp_dir().join("causeway-no-switch");
    let memory = Connections::new(&folder, "br-int").from_folder(program("ovs-appctl").parent().unwrap());
    let error = memory.read().unwrap_err().to_string();
    assert!(error.contains("ovs-vswitchd"), "{error}");
}
