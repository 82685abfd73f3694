//! What a real switch remembers of connections, and the mark by which OVN drops their answers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::Connections;
use causeway_testing::{Switch, program};
use causeway_types::Tracked;
use node::{ip, on_own_node};
use std::collections::BTreeSet;
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

fn all(switch: &Switch) -> Vec<String> {
    let folder = switch.database.folder();
    let number = std::fs::read_to_string(folder.join("ovs-vswitchd.pid")).unwrap();
    let socket = folder.join(format!("ovs-vswitchd.{}.ctl", number.trim()));
    let all = run("ovs-appctl", &["-t", socket.to_str().unwrap(), "dpctl/dump-conntrack"]);
    all.lines().map(str::to_owned).collect()
}

fn marked(switch: &Switch) -> Vec<String> {
    all(switch).into_iter().filter(|line| line.contains("mark=1")).collect()
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

/// A connection that a service led to a target begins.
fn lead(switch: &Switch, zone: u16, packet: &str, target: &str) {
    let bytes = run("ovs-ofctl", &["--bare", "compose-packet", packet]);
    let socket = format!("unix:{}", switch.database.folder().join("br-int.mgmt").display());
    let line = format!("in_port=controller packet={bytes} actions=ct(commit,zone={zone},nat(dst={target}))");
    run("ovs-ofctl", &["--protocols=OpenFlow15", "packet-out", &socket, &line]);
}

fn led(zone: u16, from: &str, asked: &str, to: &str) -> Tracked {
    Tracked { asked: asked.parse().unwrap(), ..tracked(zone, from, to) }
}

/// What one service led to one target is forgotten in a zone: neither what it led to another one, nor what somebody asked directly,
/// nor the same in another zone, by another service or by another protocol.
#[test]
fn what_led_to_a_target_is_forgotten() {
    on_own_node();
    ip("link set lo up");
    let switch = Switch::start();
    let memory = Connections::new(switch.database.folder(), "br-int")
        .from_folder(program("ovs-appctl").parent().unwrap());
    let udp = |from: &str, asked: &str, port: u16| {
        format!(
            "udp,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_ttl=64,nw_src={from},nw_dst={asked},udp_src=4000,udp_dst={port}"
        )
    };
    let (asked, target, other) = ("10.96.0.5", "10.1.0.9:8081", "10.1.0.8:8081");
    lead(&switch, 7, &udp("10.1.0.5", asked, 81), target);
    lead(&switch, 8, &udp("10.1.0.6", asked, 81), target);
    lead(&switch, 7, &udp("10.1.0.7", asked, 81), other);
    lead(&switch, 7, &udp("10.1.0.5", asked, 82), target);
    begin(&switch, 7, &udp("10.1.0.5", "10.1.0.9", 8081));
    let begins = udp("10.1.0.5", asked, 81).replace("udp", "tcp") + ",tcp_flags=2";
    lead(&switch, 7, &begins, target);
    let six = "udp6,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_ttl=64,ipv6_src=fd00::5,ipv6_dst=fd96::5,udp_src=4000,udp_dst=81";
    lead(&switch, 7, six, "[fd00::9]:8081");
    let stays = [
        tracked(7, "10.1.0.5:4000", "10.1.0.9:8081"),
        led(7, "10.1.0.5:4000", "10.96.0.5:82", target),
        led(7, "10.1.0.7:4000", "10.96.0.5:81", other),
    ];
    let goes = [
        led(7, "10.1.0.5:4000", "10.96.0.5:81", target),
        led(8, "10.1.0.6:4000", "10.96.0.5:81", target),
        led(7, "[fd00::5]:4000", "[fd96::5]:81", "[fd00::9]:8081"),
    ];
    let read = || memory.read().unwrap().into_iter().collect::<BTreeSet<_>>();
    assert_eq!(read(), stays.into_iter().chain(goes).collect());
    memory.forget(&goes[..1]).unwrap();
    assert_eq!(read(), stays.into_iter().chain([goes[1], goes[2]]).collect());
    memory.forget(&goes[1..]).unwrap();
    assert_eq!(read(), stays.into());
    assert_eq!(all(&switch).iter().filter(|line| line.starts_with("tcp")).count(), 1);
}

#[test]
fn a_switch_that_is_away_is_an_error() {
    let folder = std::env::temp_dir().join("causeway-no-switch");
    let memory = Connections::new(&folder, "br-int").from_folder(program("ovs-appctl").parent().unwrap());
    let error = memory.read().unwrap_err().to_string();
    assert!(error.contains("ovs-vswitchd"), "{error}");
}
