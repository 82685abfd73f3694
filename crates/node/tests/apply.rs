//! Differ and apply loop on a real northbound database.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovn::apply::Options;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Planner, Str};
use causeway_ovsdb_client::TlsFiles;
use causeway_testing::{Authority, OvsdbServer, program, schema_file};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;
use support::check::{assert_always_guarded, assert_as_planned, planned};
use support::proxy::{Direction, Proxy};
use support::{Island, World, applier, applier_with, cases, northbound, run, settle, small, world};

/// Writes by another hand, with OVN's own tool.
fn nbctl(server: &OvsdbServer, args: &[&str]) -> String {
    let out = Command::new(program("ovn-nbctl"))
        .arg(format!("--db={}", server.remote()))
        .args(args)
        .output()
        .unwrap();
    assert!(out.status.success(), "ovn-nbctl {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn written(server: &OvsdbServer) -> usize {
    server.transactions().transactions.len()
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn any_world_becomes_any_other_world(first in world(), second in world()) {
        run(async {
            let server = northbound();
            let mut writer = applier(&server.remote(), small());
            settle(&mut writer, &first).await;
            assert_as_planned(writer.replica(), &first);
            writer.dirty("");
            settle(&mut writer, &second).await;
            assert_as_planned(writer.replica(), &second);
            assert_always_guarded(&server, &[&first, &second]);
            // A second look, by the same process and by a new one, has nothing to write.
            let before = (written(&server), writer.engine().stats());
            writer.dirty("");
            settle(&mut writer, &second).await;
            prop_assert_eq!(writer.engine().stats(), before.1);
            let mut restarted = applier(&server.remote(), small());
            settle(&mut restarted, &second).await;
            prop_assert_eq!(written(&server), before.0);
            prop_assert_eq!(restarted.engine().stats().transactions, 0);
            Ok(())
        })?;
    }

    #[test]
    fn a_connection_cut_anywhere_makes_no_difference(
        first in world(),
        second in world(),
        cut in 0.0f64..1.0,
        upwards: bool,
    ) {
        run(async {
            let server = northbound();
            let mut writer = applier(&server.remote(), small());
            settle(&mut writer, &first).await;
            let direction = if upwards { Direction::ToServer } else { Direction::ToClient };
            // The handshake is some 20 kB in both directions, the rest depends on the worlds.
            let limit = (cut * 60_000.0) as usize;
            let proxy = Proxy::start(server.folder(), server.socket(), direction, limit);
            let mut cut_off = applier(&proxy.remote(), small());
            settle(&mut cut_off, &second).await;
            assert_as_planned(cut_off.replica(), &second);
            assert_always_guarded(&server, &[&first, &second]);
            let before = written(&server);
            let mut restarted = applier(&server.remote(), small());
            settle(&mut restarted, &second).await;
            prop_assert_eq!(written(&server), before);
            Ok(())
        })?;
    }

    #[test]
    fn many_small_steps_end_where_one_big_step_does(worlds in prop::collection::vec(world(), 2..6)) {
        run(async {
            let server = northbound();
            let mut writer = applier(&server.remote(), small());
            settle(&mut writer, &worlds[0]).await;
            for step in worlds.windows(2) {
                // Only the slices whose plan changed are looked at.
                let slices: BTreeSet<Str> = step.iter().flat_map(|w| w.slices("")).collect();
                for slice in slices.iter().filter(|s| step[0].plan(s) != step[1].plan(s)) {
                    writer.dirty(slice);
                }
                settle(&mut writer, &step[1]).await;
                assert_as_planned(writer.replica(), &step[1]);
            }
            let before = writer.engine().stats();
            writer.dirty("");
            settle(&mut writer, &worlds[worlds.len() - 1]).await;
            prop_assert_eq!(writer.engine().stats(), before, "a look at everything found more to do");
            Ok(())
        })?;
    }

    #[test]
    fn a_database_restored_from_a_backup_is_repaired(first in world(), second in world()) {
        run(async {
            let server = northbound();
            let mut writer = applier(&server.remote(), small());
            settle(&mut writer, &first).await;
            drop(writer);
            server.restore_from_own_backup();
            let mut repairer = applier(&server.remote(), small());
            settle(&mut repairer, &second).await;
            assert_as_planned(repairer.replica(), &second);
            let before = written(&server);
            repairer.dirty("");
            settle(&mut repairer, &second).await;
            prop_assert_eq!(written(&server), before);
            Ok(())
        })?;
    }
}

fn two_islands() -> World {
    let island = Island {
        ports: BTreeSet::from([0, 1]),
        guard: Some(0),
        members: BTreeSet::from([1, 2]),
        routes: BTreeSet::from([0, 1]),
        balancer: Some(BTreeSet::from([0, 1])),
        ..Island::default()
    };
    World { islands: BTreeMap::from([(0, island.clone()), (1, island)]), ..World::default() }
}

#[test]
fn rows_members_and_keys_of_others_are_never_touched() {
    run(async {
        let server = northbound();
        let world = two_islands();
        let mut writer = applier(&server.remote(), Options::default());
        settle(&mut writer, &world).await;
        let foreign = [
            vec!["ls-add", "foreign"],
            vec!["lsp-add", "foreign", "foreign-port"],
            vec!["lsp-add", "s0", "foreign-port-on-ours"],
            vec!["set", "logical_switch", "foreign", "external_ids:k8s.ovn.org/id=someone:else"],
            vec!["set", "logical_switch", "s0", "external_ids:foo=bar", "other_config:vlan-foo=1"],
            vec!["set", "logical_switch_port", "p0-0", "options:foo=bar"],
            vec!["pg-add", "foreign_group", "p0-0", "p1-0"],
            vec!["lb-add", "foreign-lb", "10.0.0.9:80", "10.0.0.8:80"],
            vec!["ls-lb-add", "s0", "foreign-lb"],
            vec!["create", "load_balancer_group", "name=foreign-group"],
        ];
        for args in &foreign {
            nbctl(&server, args);
        }
        let mut changed = world.clone();
        changed.islands.get_mut(&0).unwrap().address = 2;
        writer.dirty("");
        settle(&mut writer, &changed).await;
        assert_as_planned(writer.replica(), &changed);
        let text = |args: &[&str]| nbctl(&server, args).trim().to_owned();
        assert_eq!(text(&["get", "logical_switch", "s0", "external_ids:foo"]), "bar");
        assert_eq!(text(&["get", "logical_switch", "s0", "other_config:vlan-foo"]), "\"1\"");
        assert_eq!(text(&["get", "logical_switch_port", "p0-0", "options:foo"]), "bar");
        // Our islands go; what belongs to others stays, but for a port on a switch that goes.
        writer.dirty("");
        settle(&mut writer, &World::default()).await;
        assert_as_planned(writer.replica(), &World::default());
        assert_eq!(text(&["--bare", "--columns=name", "list", "logical_switch"]), "foreign");
        assert_eq!(text(&["--bare", "--columns=name", "list", "logical_switch_port"]), "foreign-port");
        assert_eq!(text(&["--bare", "--columns=name", "list", "load_balancer"]), "foreign-lb");
        assert_eq!(text(&["--bare", "--columns=name", "list", "load_balancer_group"]), "foreign-group");
        assert_eq!(text(&["--bare", "--columns=name", "list", "port_group"]), "foreign_group");
    });
}

#[test]
fn what_others_change_of_ours_is_put_right() {
    run(async {
        let server = northbound();
        let world = two_islands();
        let mut writer = applier(&server.remote(), Options::default());
        settle(&mut writer, &world).await;
        for args in [
            &["lsp-del", "p0-0"][..],
            &["set", "logical_switch_port", "p0-1", "addresses=unknown"],
            &["clear", "port_group", "pg1", "acls"],
            &["lr-del", "r1"],
            &["set", "address_set", "as0", "addresses=1.2.3.4"],
            &["remove", "logical_switch", "s1", "external_ids", "k8s.ovn.org/id"],
            &["clear", "load_balancer_group", "g0", "load_balancer"],
        ] {
            let before = writer.engine().stats().foreign_changes;
            nbctl(&server, args);
            let noticed = async {
                while writer.engine().stats().foreign_changes == before {
                    writer.turn(&world).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(10), noticed).await.unwrap();
            settle(&mut writer, &world).await;
            assert_as_planned(writer.replica(), &world);
        }
    });
}

#[test]
fn one_poisoned_slice_among_hundreds_holds_up_only_itself() {
    run(async {
        let server = northbound();
        nbctl(&server, &["ls-add", "foreign", "--", "lsp-add", "foreign", "taken"]);
        let mut world = World::default();
        for i in 0..300 {
            let slice = Str::from(format!("t:x{i}:"));
            let name = if i == 150 { "taken".to_owned() } else { format!("free{i}") };
            let switch = nb::LogicalSwitch { name: format!("x{i}").into(), ..Default::default() };
            let port = nb::LogicalSwitchPort { name: name.into(), ..Default::default() };
            let path = format!("t:x{i}:switch");
            let port = Planned::new(format!("t:x{i}:port"), port).within::<nb::LogicalSwitch>(&path, "ports");
            world.extra.insert(slice, vec![Planned::new(path, switch), port]);
        }
        let mut writer = applier(&server.remote(), Options::default());
        settle(&mut writer, &world).await;
        let failing: Vec<&Str> = writer.engine().failures().keys().collect();
        assert_eq!(failing, ["t:x150:"]);
        assert!(writer.engine().failures()["t:x150:"].error.contains("taken"));
        assert_eq!(writer.engine().stats().created, 599);
        // The name is freed: the slice heals by itself.
        nbctl(&server, &["lsp-del", "taken"]);
        let healed = async {
            while !writer.engine().failures().is_empty() {
                writer.turn(&world).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), healed).await.unwrap();
        assert_as_planned(writer.replica(), &world);
    });
}

#[test]
fn a_failed_guard_holds_what_depends_on_it() {
    run(async {
        let server = northbound();
        let mut world = two_islands();
        // The guard can't be written: its action is not one.
        let bad = nb::Acl { action: "explode".into(), direction: "from-lport".into(), ..Default::default() };
        let group = nb::PortGroup { name: "bad".into(), ..Default::default() };
        let guard = Planned::new("t:bad:acl", bad).within::<nb::PortGroup>("t:bad:pg", "acls");
        world.extra.insert("t:bad:".into(), vec![Planned::new("t:bad:pg", group), guard]);
        let switch = nb::LogicalSwitch { name: "bare".into(), ..Default::default() };
        let port = nb::LogicalSwitchPort { name: "bare-port".into(), ..Default::default() };
        let port = Planned::new("t:bare:port", port)
            .within::<nb::LogicalSwitch>("t:bare:switch", "ports")
            .guarded_by::<nb::Acl>("t:bad:acl");
        world.extra.insert("t:bare:".into(), vec![Planned::new("t:bare:switch", switch), port]);
        let mut writer = applier(&server.remote(), Options::default());
        settle(&mut writer, &world).await;
        assert!(writer.engine().failures()["t:bad:"].error.contains("explode"));
        assert!(writer.engine().waiting()["t:bare:"].contains("ACL"));
        let ports = nbctl(&server, &["--bare", "--columns=name", "list", "logical_switch_port"]);
        assert!(!ports.contains("bare-port"), "{ports}");
        // With a guard that works, the port comes.
        let good = nb::Acl { action: "drop".into(), direction: "from-lport".into(), ..Default::default() };
        let guard = Planned::new("t:bad:acl", good).within::<nb::PortGroup>("t:bad:pg", "acls");
        world.extra.get_mut("t:bad:").unwrap()[1] = guard;
        writer.dirty("t:bad:");
        settle(&mut writer, &world).await;
        assert_as_planned(writer.replica(), &world);
    });
}

#[test]
fn a_connection_cut_after_every_stretch_of_bytes_makes_no_difference() {
    run(async {
        let first = two_islands();
        let mut second = two_islands();
        second.islands.get_mut(&0).unwrap().shift = 1;
        second.islands.remove(&1);
        for direction in [Direction::ToServer, Direction::ToClient] {
            for limit in (0..48_000).step_by(1_500) {
                let server = northbound();
                let mut writer = applier(&server.remote(), small());
                settle(&mut writer, &first).await;
                let proxy = Proxy::start(server.folder(), server.socket(), direction, limit);
                let mut cut_off = applier(&proxy.remote(), small());
                settle(&mut cut_off, &second).await;
                assert_as_planned(cut_off.replica(), &second);
                assert_always_guarded(&server, &[&first, &second]);
            }
        }
    });
}

#[test]
fn a_world_that_only_shrinks_goes_away() {
    run(async {
        let server = northbound();
        let mut writer = applier(&server.remote(), Options::default());
        settle(&mut writer, &two_islands()).await;
        let mut smaller = two_islands();
        smaller.islands.remove(&1);
        smaller.islands.get_mut(&0).unwrap().balancer = None;
        for world in [smaller, World::default()] {
            writer.dirty("");
            settle(&mut writer, &world).await;
            assert_as_planned(writer.replica(), &world);
        }
    });
}

/// A planner that knows one slice only: everything.
struct AllAtOnce(World);

impl Planner for AllAtOnce {
    fn roots(&self) -> &[&str] {
        &["t"]
    }

    fn slices(&self, _prefix: &str) -> Vec<Str> {
        vec![Str::new()]
    }

    fn slice_len(&self, _path: &str) -> usize {
        0
    }

    fn plan(&self, slice: &str) -> Plan {
        assert_eq!(slice, "");
        Plan::Rows(planned(&self.0).into_values().collect())
    }
}

#[test]
fn a_plan_may_be_one_slice() {
    run(async {
        let server = northbound();
        let mut writer = applier(&server.remote(), small());
        for world in [two_islands(), World::default()] {
            writer.dirty("");
            let all = AllAtOnce(world);
            tokio::time::timeout(Duration::from_secs(20), writer.settle(&all)).await.unwrap();
            assert_as_planned(writer.replica(), &all.0);
        }
    });
}

#[test]
fn a_held_slice_stays_as_it_is_and_others_go_on() {
    run(async {
        let server = northbound();
        let mut world = two_islands();
        let mut writer = applier(&server.remote(), Options::default());
        settle(&mut writer, &world).await;
        world.holds.insert("t:0:".into());
        world.islands.get_mut(&1).unwrap().address = 2;
        let mut expected = two_islands();
        expected.islands.get_mut(&1).unwrap().address = 2;
        writer.dirty("");
        settle(&mut writer, &world).await;
        assert_eq!(writer.engine().held()["t:0:"], "the test says so");
        assert_as_planned(writer.replica(), &expected);
        // When it goes, its report goes too.
        writer.dirty("");
        settle(&mut writer, &World::default()).await;
        assert!(writer.engine().held().is_empty());
    });
}

#[test]
fn a_plan_that_breaks_its_own_rules_is_refused_with_the_row() {
    run(async {
        let server = northbound();
        let switch = || nb::LogicalSwitch { name: "x".into(), ..Default::default() };
        let with_key =
            nb::LogicalSwitch { other_config: [("no-such-key".into(), "1".into())].into(), ..switch() };
        let cases = [
            (vec![Planned::new("t:x:s", switch()), Planned::new("t:x:s", switch())], "planned twice"),
            (vec![Planned::new("t:y:s", switch())], "does not belong to the slice t:x:"),
            (vec![Planned::new("t:x:s", with_key)], "other_config:no-such-key, which is not declared"),
            (vec![Planned::new("t:x:c", nb::Connection::default())], "which is not declared"),
        ];
        for (rows, words) in cases {
            let world = World { extra: BTreeMap::from([("t:x:".into(), rows)]), ..World::default() };
            let mut writer = applier(&server.remote(), Options::default());
            settle(&mut writer, &world).await;
            let error = &writer.engine().failures()["t:x:"].error;
            assert!(error.contains(words), "{error}");
            assert_eq!(writer.engine().stats().transactions, 0);
        }
    });
}

#[test]
fn only_the_process_with_the_lock_writes() {
    run(async {
        let server = northbound();
        let options = Options { lock: Some("zone".into()), ..Options::default() };
        let (mut first, mut second) =
            (applier(&server.remote(), options.clone()), applier(&server.remote(), options));
        let world = two_islands();
        settle(&mut first, &world).await;
        let before = written(&server);
        // The second one wants something else, and must not get it while the first one lives.
        let other = World::default();
        let patience = tokio::time::timeout(Duration::from_millis(500), second.settle(&other)).await;
        assert!(patience.is_err(), "it settled without the lock");
        assert_eq!(written(&server), before);
        drop(first);
        settle(&mut second, &other).await;
        assert_as_planned(second.replica(), &other);
    });
}

#[test]
fn a_server_that_is_killed_and_comes_back_loses_nothing() {
    run(async {
        let mut server = northbound();
        let mut writer = applier(&server.remote(), small());
        let world = two_islands();
        for _ in 0..5 {
            writer.dirty("");
            // A few turns in, somewhere in the middle of its transactions.
            for _ in 0..3 {
                let _ = tokio::time::timeout(Duration::from_millis(5), writer.turn(&world)).await;
            }
            server.kill();
            server.serve();
        }
        settle(&mut writer, &world).await;
        assert_as_planned(writer.replica(), &world);
        assert_always_guarded(&server, &[&world]);
    });
}

/// What was planned under a counted root is known to the database as one more change, in the same transaction; a
/// restart that writes nothing counts nothing, nor does what somebody else counts make anything dirty.
#[test]
fn changes_are_counted_where_somebody_waits_for_them() {
    run(async {
        let server = northbound();
        nbctl(&server, &["init"]);
        let counting = || Options { counted: &["t"], ..Options::default() };
        let mut writer = applier(&server.remote(), counting());
        settle(&mut writer, &World::default()).await;
        assert_eq!(writer.counted(), Some(0));
        writer.dirty("");
        settle(&mut writer, &two_islands()).await;
        let counted = writer.counted();
        assert_eq!(counted, Some(writer.engine().stats().transactions as i64));
        assert!(counted > Some(0));

        nbctl(&server, &["set", "NB_Global", ".", "nb_cfg=100"]);
        let mut restarted = applier(&server.remote(), counting());
        settle(&mut restarted, &two_islands()).await;
        assert_eq!((restarted.counted(), restarted.engine().stats().transactions), (Some(100), 0));
        assert_eq!(restarted.engine().stats().foreign_changes, 0);

        let mut silent = applier(&server.remote(), Options::default());
        settle(&mut silent, &World::default()).await;
        assert_eq!((silent.counted(), silent.engine().stats().transactions > 0), (Some(100), true));
    });
}

/// The same over TLS, also after the server has come back; with the certificate of a stranger nothing is written.
#[tokio::test]
async fn a_zone_behind_tls() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (mut server, remote) = OvsdbServer::start_tls(&schema_file("ovn-nb"), &ours.files("server"));
    let tls = |authority: &Authority| {
        let files = authority.files("node");
        TlsFiles { ca: ours.path("ca.pem"), certificate: files.certificate, key: files.key }
    };
    let island = Island { ports: [1, 2].into(), ..Island::default() };
    let world = World { islands: [(0, island)].into(), ..World::default() };
    let mut stranger = applier_with(&remote, Some(tls(&theirs)), small());
    let refused = tokio::time::timeout(Duration::from_secs(2), stranger.settle(&world)).await;
    assert!(refused.is_err(), "a stranger has written");
    assert_eq!(written(&server), 0);
    let mut writer = applier_with(&remote, Some(tls(&ours)), small());
    settle(&mut writer, &world).await;
    assert_as_planned(writer.replica(), &world);
    server.kill();
    server.serve();
    writer.dirty("");
    settle(&mut writer, &world).await;
    assert_as_planned(writer.replica(), &world);
}
