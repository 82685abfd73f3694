//! Tables of nftables, by the real program, in namespaces that end with the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::{Applied, Error, Nft, bring};
use causeway_testing::program;
use causeway_types::host::{HostPlan, Item, NftFamily, NftTable, Owner};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use node::on_own_node;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

fn nft(words: &str) -> String {
    let out = Command::new(program("nft")).args(words.split(' ')).output().unwrap();
    assert!(out.status.success(), "nft {words}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn output() -> Nft {
    Nft::new(program("nft"), Nft::NODE)
}

fn owner(network: &str) -> Owner {
    Owner::new(format!("network:{network}"))
}

/// Drops what comes from a network's addresses; written as a person would.
fn body(addresses: &str) -> String {
    format!(
        "set from4 {{ type ipv4_addr; flags interval; elements = {{ {addresses} }}; }}
         set some {{ type ipv4_addr; elements = {{ 9.9.9.9, 1.2.3.4, 8.8.8.8, 7.7.7.7, 2.2.2.2, 5.5.5.5 }}; }}
         chain input {{
             type filter hook input priority filter; policy accept
             iifname \"mp0\" ip saddr @from4 counter drop
             ip saddr @some counter accept comment \"some\"
             ip6 saddr {{ fd00:2::/48, fd00:1::/48 }} tcp dport {{ http, https }} counter reject
         }}"
    )
}

fn table(network: &str, family: NftFamily, body: String) -> (Owner, Item) {
    (owner(network), Item::Table(NftTable { family, name: format!("causeway-{network}"), body }))
}

fn plan(tables: impl IntoIterator<Item = (Owner, Item)>) -> HostPlan {
    let mut plan = HostPlan::default();
    tables.into_iter().for_each(|(owner, item)| plan.add(&owner, item));
    plan
}

fn written(nft: &mut Nft, plan: &HostPlan) -> usize {
    let Applied { writes, problems } = bring(nft, plan);
    assert!(problems.is_empty(), "{problems:?}");
    writes
}

fn tables() -> Vec<String> {
    nft("list tables").lines().map(str::to_owned).collect()
}

#[test]
fn tables_follow_the_plan_and_others_stay() {
    on_own_node();
    nft("add table inet theirs");
    let red = || table("red", NftFamily::Inet, body("10.2.0.0/16, 10.1.0.0/16"));
    let masquerade = "chain out { type nat hook postrouting priority srcnat; oifname \"eth0\" masquerade; }";
    let both = plan([red(), table("blue", NftFamily::Ip6, masquerade.into())]);
    assert_eq!(written(&mut output(), &both), 2);
    // Another process, the same plan.
    assert_eq!(written(&mut output(), &both), 0);
    assert_eq!(tables(), ["table inet theirs", "table inet causeway-red", "table ip6 causeway-blue"]);
    assert!(nft("list table inet causeway-red").contains("comment \"network:red\""));

    assert_eq!(written(&mut output(), &plan([table("red", NftFamily::Inet, body("10.3.0.0/16"))])), 2);
    assert_eq!(tables(), ["table inet theirs", "table inet causeway-red"]);
    let shown = nft("list table inet causeway-red");
    assert!(shown.contains("10.3.0.0/16") && !shown.contains("10.1.0.0/16"), "{shown}");
    assert_eq!(written(&mut output(), &HostPlan::default()), 1);
    assert_eq!(tables(), ["table inet theirs"]);
}

#[test]
fn what_somebody_changed_is_put_right() {
    on_own_node();
    let plan = plan([table("red", NftFamily::Inet, body("10.1.0.0/16"))]);
    written(&mut output(), &plan);
    for words in [
        "delete table inet causeway-red",
        "flush chain inet causeway-red input",
        "add rule inet causeway-red input accept",
        "add element inet causeway-red from4 { 10.9.0.0/16 }",
        "delete element inet causeway-red some { 1.2.3.4 }",
    ] {
        nft(words);
        assert_eq!(written(&mut output(), &plan), 1, "{words}");
        assert_eq!(written(&mut output(), &plan), 0, "{words}");
    }
}

#[test]
fn one_bad_table_holds_only_itself() {
    on_own_node();
    let good = table("red", NftFamily::Inet, body("10.1.0.0/16"));
    written(&mut output(), &plan([good, table("blue", NftFamily::Inet, body("10.2.0.0/16"))]));
    let other = table("green", NftFamily::Ip, "chain c { tcp dport 80 accept; }".into());
    let foreign = Item::Table(NftTable { family: NftFamily::Ip, name: "mine".into(), body: String::new() });
    let mixed =
        plan([table("red", NftFamily::Inet, "chain c { foo bar; }".into()), other, (owner("blue"), foreign)]);
    let Applied { writes, problems } = bring(&mut output(), &mixed);
    let blamed: Vec<&str> = problems.iter().map(|p| p.owner.as_ref().unwrap().as_str()).collect();
    assert_eq!((writes, blamed), (2, vec!["network:red", "network:blue"]));
    assert!(matches!(&problems[0].error, Error::Program { said, .. } if said.contains("foo")));
    assert!(matches!(problems[1].error, Error::Unmarked("causeway-")));
    assert_eq!(tables(), ["table inet causeway-red", "table ip causeway-green"]);
    assert!(nft("list table inet causeway-red").contains("10.1.0.0/16"), "what it had stays");
}

#[test]
fn half_a_picture_deletes_nothing() {
    on_own_node();
    let both = plan([
        table("red", NftFamily::Inet, body("10.1.0.0/16")),
        table("blue", NftFamily::Inet, body("10.2.0.0/16")),
    ]);
    written(&mut output(), &both);
    let mut held = HostPlan::default();
    held.hold(owner("red"), "half known");
    assert_eq!(written(&mut output(), &held), 1);
    assert_eq!(tables(), ["table inet causeway-red"]);
    let mut lost = Nft::new("/nonexistent/nft", Nft::NODE);
    let applied = bring(&mut lost, &HostPlan::default());
    assert!(matches!(applied.problems.as_slice(), [p] if matches!(p.error, Error::NoProgram { .. })));
    assert_eq!(tables(), ["table inet causeway-red"]);
}

/// The rule holds the number of a cgroup, not its path: one that is made anew is another, and so is the text with its number.
#[test]
fn a_cgroup_that_is_made_anew_is_followed() {
    on_own_node();
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let nothing: Option<&str> = None;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).unwrap();
    mount(Some("none"), "/sys/fs/cgroup", Some("cgroup2"), MsFlags::empty(), nothing).unwrap();
    let name = format!("causeway-test-nft-{}", std::process::id());
    let folder = format!("/sys/fs/cgroup/{name}");
    let wanted = || {
        fs::create_dir(&folder).unwrap();
        let id = fs::metadata(&folder).unwrap().ino();
        let rule = format!("socket cgroupv2 level 1 \"{name}\" accept comment \"cgroup {id}\"");
        let hook = "type filter hook output priority 0";
        plan([table("red", NftFamily::Inet, format!("chain c {{\n{hook};\n{rule}\n}}"))])
    };
    let mut nft_output = output();
    let first = wanted();
    assert_eq!(written(&mut nft_output, &first), 1);
    assert_eq!(written(&mut nft_output, &first), 0);
    fs::remove_dir(&folder).unwrap();
    assert!(!nft("list table inet causeway-red").contains(&name), "the old rule means nobody any more");
    let second = wanted();
    assert_eq!(written(&mut nft_output, &second), 1);
    assert!(nft("list table inet causeway-red").contains(&name));
    assert_eq!(written(&mut output(), &second), 0);
    fs::remove_dir(&folder).unwrap();
}
