//! Sections of FRR, by the real daemons, in namespaces that end with the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::{Applied, Error, Frr, Programs, bring};
use causeway_testing::{Frr as Daemons, program};
use causeway_types::host::{FrrSection, HostPlan, Item, Owner};
use node::on_own_node;
use std::path::{Path, PathBuf};

/// A tenant's VRF with its number.
fn vrf(name: &str, vni: u32) -> FrrSection {
    FrrSection { first: format!("vrf {name}"), lines: format!("vni {vni}\n") }
}

/// A tenant's instance of BGP, written as a person would.
fn instance(name: &str, number: u32, rd: &str) -> FrrSection {
    let lines = format!(
        "
         bgp router-id 10.255.0.1
         neighbor 10.255.0.9 remote-as 64999
         neighbor 10.255.0.9 description reflector
         address-family ipv4 unicast
             redistribute connected
         exit-address-family
         address-family ipv6 unicast
             redistribute connected
         exit-address-family
         address-family l2vpn evpn
             rd {rd}
             advertise ipv4 unicast
             advertise ipv6 unicast
         exit-address-family"
    );
    FrrSection { first: format!("router bgp {number} vrf {name}"), lines }
}

fn owner(network: &str) -> Owner {
    Owner::new(format!("network:{network}"))
}

fn plan(sections: impl IntoIterator<Item = (&'static str, FrrSection)>) -> HostPlan {
    let mut plan = HostPlan::default();
    sections.into_iter().for_each(|(network, section)| plan.add(&owner(network), Item::Section(section)));
    plan
}

fn tenant(name: &'static str, vni: u32) -> [(&'static str, FrrSection); 2] {
    [(name, vrf(name, vni)), (name, instance(name, 64999, &format!("10.255.0.1:{vni}")))]
}

/// Another process each time: what is there is read back, never remembered.
fn output(daemons: &Daemons) -> Frr {
    Frr::new(program("vtysh"), Frr::NODE).at(daemons.folder())
}

fn written(daemons: &Daemons, plan: &HostPlan) -> usize {
    let Applied { writes, problems } = bring(&mut output(daemons), plan);
    assert!(problems.is_empty(), "{problems:?}\n{}", daemons.running());
    writes
}

fn has(daemons: &Daemons, line: &str) -> bool {
    daemons.running().lines().any(|there| there == line)
}

#[test]
fn sections_follow_the_plan_and_others_stay() {
    on_own_node();
    let daemons = Daemons::start();
    daemons.vtysh(&["-c", "configure", "-c", "router bgp 65001", "-c", "bgp router-id 9.9.9.9"]);
    let theirs = daemons.running();
    assert!(theirs.contains("router bgp 65001\n bgp router-id 9.9.9.9\n"), "{theirs}");

    let both = plan(tenant("blue", 1001).into_iter().chain(tenant("red", 1002)));
    assert_eq!(written(&daemons, &both), 4);
    assert_eq!(written(&daemons, &both), 0, "unchanged, nothing is written");
    for line in [
        "vrf blue",
        " vni 1001",
        "router bgp 64999 vrf red",
        " neighbor 10.255.0.9 description reflector",
        "  rd 10.255.0.1:1002",
    ] {
        assert!(has(&daemons, line), "{line} is missing:\n{}", daemons.running());
    }

    assert_eq!(written(&daemons, &plan(tenant("red", 1002))), 2);
    let now = daemons.running();
    assert!(!now.contains("blue") && now.contains("router bgp 65001\n bgp router-id 9.9.9.9\n"), "{now}");
    assert_eq!(written(&daemons, &HostPlan::default()), 2);
    assert_eq!(daemons.running(), theirs, "deletion leaves nothing");
}

/// Only what differs is said: the neighbour, whose session would end, stays through a change beside it.
#[test]
fn a_section_changes_line_by_line() {
    on_own_node();
    let daemons = Daemons::start();
    written(&daemons, &plan(tenant("blue", 1001)));
    let mut other = instance("blue", 64999, "10.255.0.1:7");
    other.lines = other.lines.replace("description reflector", "description mirror");
    other.lines.push_str("\n         neighbor 10.255.0.8 remote-as 64999\n");
    let other = plan([("blue", vrf("blue", 1001)), ("blue", other)]);
    assert_eq!(written(&daemons, &other), 1);
    let now = daemons.running();
    for line in [
        "  rd 10.255.0.1:7",
        " neighbor 10.255.0.9 description mirror",
        " neighbor 10.255.0.8 remote-as 64999",
    ] {
        assert!(has(&daemons, line), "{line} is missing:\n{now}");
    }
    assert!(!now.contains("10.255.0.1:1001") && !now.contains("reflector"), "{now}");

    // Somebody else's hand.
    daemons.vtysh(&["-c", "configure", "-c", "vrf blue", "-c", "no vni 1001"]);
    daemons.vtysh(&[
        "-c",
        "configure",
        "-c",
        "router bgp 64999 vrf blue",
        "-c",
        "no bgp router-id 10.255.0.1",
    ]);
    assert_eq!(written(&daemons, &other), 2);
    assert_eq!(daemons.running(), now);

    // A VRF has one instance: another number takes its place.
    let renumbered = plan([("blue", vrf("blue", 1001)), ("blue", instance("blue", 64998, "10.255.0.1:7"))]);
    written(&daemons, &renumbered);
    assert!(has(&daemons, "router bgp 64998 vrf blue") && !daemons.running().contains("64999 vrf"));
    assert_eq!(written(&daemons, &renumbered), 0);
}

#[test]
fn a_bad_section_holds_itself_alone() {
    on_own_node();
    let daemons = Daemons::start();
    let mut bad = vrf("bad", 1003);
    bad.lines.push_str("frobnicate\n");
    let plan = plan(tenant("blue", 1001).into_iter().chain([("bad", bad)]));
    let applied = bring(&mut output(&daemons), &plan);
    let said: Vec<String> = applied.problems.iter().map(ToString::to_string).collect();
    let [problem] = applied.problems.as_slice() else { panic!("{said:?}") };
    assert_eq!(
        (problem.owner.clone(), said[0].contains("Unknown command")),
        (Some(owner("bad")), true),
        "{said:?}"
    );
    assert!(has(&daemons, "router bgp 64999 vrf blue") && has(&daemons, " vni 1001"));
}

/// A `vtysh` that does this first, and then what the real one does unless it has ended.
fn instead(folder: &Path, first: &str) -> PathBuf {
    let script = folder.join("vtysh");
    let text = format!("#!/bin/sh\n{first}\nexec '{}' \"$@\"\n", program("vtysh").display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    script
}

/// The same that writes down how it was called.
fn counting(folder: &Path, then: &str) -> PathBuf {
    instead(folder, &format!("echo \"$@\" >>'{}'\n{then}", folder.join("calls").display()))
}

fn calls(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// While the device is there: the number of the tunnel goes, then the instance of BGP. The VRF itself and its mark wait until it has gone.
#[test]
fn a_vrf_is_let_go_before_its_device() {
    on_own_node();
    let daemons = Daemons::start();
    let both = plan(tenant("blue", 1001).into_iter().chain(tenant("red", 1002)));
    written(&daemons, &both);
    let mut held = HostPlan::default();
    held.hold(owner("red"), "half known");
    let folder = tempfile::tempdir().unwrap();
    let mut frr = Frr::new(counting(folder.path(), ""), Frr::NODE).at(daemons.folder());
    frr.let_go(&held).unwrap();
    let now = daemons.running();
    let gone = [" vni 1001", "router bgp 64999 vrf blue"];
    assert!(gone.iter().all(|line| !has(&daemons, line)), "{now}");
    for line in ["vrf blue", " description network:blue vrf blue", " vni 1002", "router bgp 64999 vrf red"] {
        assert!(has(&daemons, line), "{line} is missing:\n{now}");
    }

    let before = calls(folder.path()).len();
    frr.let_go(&held).unwrap();
    let asked = calls(folder.path()).split_off(before);
    assert!(matches!(asked.as_slice(), [one] if one.contains("show running-config")), "{asked:?}");
    assert_eq!(daemons.running(), now);

    assert_eq!(written(&daemons, &held), 2, "the VRF, and the mark of the instance");
    assert!(!daemons.running().contains("blue") && has(&daemons, "router bgp 64999 vrf red"));
}

/// A node looks at its plan again and again; FRR hears of one plan once, and a few times where it does not listen.
#[test]
fn one_plan_is_said_once() {
    on_own_node();
    let daemons = Daemons::start();
    written(&daemons, &plan(tenant("blue", 1001)));
    let folder = tempfile::tempdir().unwrap();
    let deaf = counting(folder.path(), "echo 'no time' >&2; exit 1");
    let mut frr = Frr::new(&deaf, Frr::NODE).at(daemons.folder());
    for _ in 0..10 {
        frr.let_go_once(&HostPlan::default());
    }
    assert_eq!(calls(folder.path()).len(), 3);

    // It listens again: to another plan.
    counting(folder.path(), "");
    frr.let_go_once(&HostPlan::default());
    assert_eq!(calls(folder.path()).len(), 3, "it was asked often enough");
    let red = plan(tenant("red", 1002));
    frr.let_go_once(&red);
    assert!(!has(&daemons, " vni 1001") && has(&daemons, "vrf blue"));
    let said = calls(folder.path()).len();
    for _ in 0..10 {
        frr.let_go_once(&red);
    }
    assert_eq!(calls(folder.path()).len(), said);
}

/// Case 26 and defect 7 of the catalogue of EVPN: it says that it failed, and ends well; or it says nothing and has not done it.
#[test]
fn what_ends_well_is_not_believed() {
    on_own_node();
    let daemons = Daemons::start();
    let folder = tempfile::tempdir().unwrap();
    let lying = |words: &str| {
        let first = format!("for word; do [ \"$word\" != -f ] || {{ {words}; exit 0; }}; done");
        let script = instead(folder.path(), &first);
        bring(&mut Frr::new(&script, Frr::NODE).at(daemons.folder()), &plan(tenant("blue", 1001)))
    };
    for words in ["echo '% Configuration failed.'", "echo 'Configuration failed'", "true"] {
        let applied = lying(words);
        assert!(!applied.problems.is_empty(), "{words}: nothing of it is there");
        assert_eq!(daemons.running(), "");
    }
    assert_eq!(written(&daemons, &plan(tenant("blue", 1001))), 2, "and it is tried again");
}

#[test]
fn what_is_somebody_elses_is_not_touched() {
    on_own_node();
    let daemons = Daemons::start();
    daemons.vtysh(&["-c", "configure", "-c", "vrf blue", "-c", "vni 77"]);
    let applied = bring(&mut output(&daemons), &plan(tenant("blue", 1001)));
    assert!(matches!(applied.problems.as_slice(), [p] if matches!(p.error, Error::Taken(_))));
    assert!(has(&daemons, " vni 77") && has(&daemons, "router bgp 64999 vrf blue"));
    // Nor by another output, which has marks of its own.
    let mut other = Frr::new(program("vtysh"), "other-").at(daemons.folder());
    let applied = bring(&mut other, &HostPlan::default());
    assert_eq!((applied.writes, applied.problems.len()), (0, 0));
}

#[test]
fn half_a_picture_deletes_nothing() {
    on_own_node();
    let mut daemons = Daemons::start();
    let both = plan(tenant("blue", 1001).into_iter().chain(tenant("red", 1002)));
    written(&daemons, &both);
    let mut held = HostPlan::default();
    held.hold(owner("red"), "half known");
    assert_eq!(written(&daemons, &held), 2);
    assert!(!daemons.running().contains("blue") && has(&daemons, "router bgp 64999 vrf red"));

    // A daemon that is away takes its sections along; nothing is written, and nothing is taken for gone.
    daemons.kill_daemon("bgpd");
    let applied = bring(&mut output(&daemons), &HostPlan::default());
    assert!(matches!(applied.problems.as_slice(), [p] if p.to_string().contains("bgpd does not answer")));
    assert!(has(&daemons, " vni 1002"));
    daemons.start_daemon("bgpd");
    assert!(!has(&daemons, "router bgp 64999 vrf red"), "it begins with nothing");
    assert_eq!(written(&daemons, &plan(tenant("red", 1002))), 1);
    assert!(has(&daemons, "  rd 10.255.0.1:1002"));
    assert_eq!(written(&daemons, &plan(tenant("red", 1002))), 0);
}

/// What a node runs: FRR is asked until nothing of ours is left, also if it was away when the last section went.
#[test]
fn the_last_section_goes() {
    on_own_node();
    let mut daemons = Daemons::start();
    let folder = program("vtysh").parent().unwrap().to_owned();
    let mut programs = Programs::new(None, "br-int").from_folder(&folder).with_frr_at(daemons.folder());
    let applied = programs.apply(&plan(tenant("blue", 1001)));
    assert_eq!((applied.writes, applied.problems.len()), (2, 0), "{:?}", applied.problems);
    daemons.kill_daemon("bgpd");
    let applied = programs.apply(&HostPlan::default());
    assert_eq!((applied.writes, applied.problems.len()), (0, 0), "{:?}", applied.problems);
    daemons.start_daemon("bgpd");
    assert_eq!(programs.apply(&HostPlan::default()).writes, 2, "the VRF, and the mark of what bgpd has lost");
    assert_eq!(daemons.running(), "");
}
