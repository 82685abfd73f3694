//! What FRR is told of VRFs that go, while their devices are still there. Pure: changes in, words out.
//!
//! A number of a tunnel that FRR still has when the tunnel goes may end zebra (seen with FRR 10.3), and bgpd lets go of an instance only
//! when the VRF has no such number. So what goes, goes in three steps: the lines of `vrf X`, its instance of BGP, and, when the device is
//! gone, `vrf X` itself.

use super::text::{self, Line};
use crate::output::Op;
use causeway_types::host::{FrrSection, Item};
use std::collections::BTreeSet;

const VRF: &str = "vrf ";

/// The words of each step before the devices go, without steps that say nothing. Of some sections only the mark is there still: these
/// have no instance that could end.
pub(super) fn steps(ops: &[Op], there: &BTreeSet<String>) -> Vec<String> {
    let gone: BTreeSet<&str> =
        ops.iter().filter_map(deleted).filter_map(|section| vrf(&section.first)).collect();
    let emptied: String = ops.iter().filter_map(emptied).collect();
    let of_gone = |section: &&FrrSection| {
        there.contains(&section.first) && instance_of(&section.first).is_some_and(|vrf| gone.contains(vrf))
    };
    let instances = ops.iter().filter_map(deleted).filter(of_gone);
    let ended: String = instances.map(|section| format!("{}\n", text::undo(&section.first))).collect();
    [emptied, ended].into_iter().filter(|words| !words.is_empty()).collect()
}

fn deleted(op: &Op) -> Option<&FrrSection> {
    match op {
        Op::Delete(Item::Section(section)) => Some(section),
        _ => None,
    }
}

/// The lines of a VRF that go, undone.
fn emptied(op: &Op) -> Option<String> {
    let (from, to) = match op {
        Op::Delete(Item::Section(from)) => (from, Vec::new()),
        Op::Change { from: Item::Section(from), to } => match &to.item {
            Item::Section(to) => (from, text::lines(&to.lines)),
            _ => return None,
        },
        _ => return None,
    };
    vrf(&from.first)?;
    let gone: Vec<Line> = text::lines(&from.lines).into_iter().filter(|line| !to.contains(line)).collect();
    Some(text::unset(&from.first, &gone))
}

fn vrf(first: &str) -> Option<&str> {
    first.strip_prefix(VRF)
}

/// The VRF of an instance of BGP.
fn instance_of(first: &str) -> Option<&str> {
    let (_, vrf) = first.strip_prefix("router bgp ")?.split_once(' ')?;
    vrf.strip_prefix(VRF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_types::host::{Owner, Planned};

    fn section(first: &str, lines: &str) -> Item {
        Item::Section(FrrSection { first: first.into(), lines: lines.into() })
    }

    /// Everything that is spoken of is there.
    fn steps(ops: &[Op]) -> Vec<String> {
        let sections = ops.iter().filter_map(deleted);
        super::steps(ops, &sections.map(|section| section.first.clone()).collect())
    }

    fn delete(first: &str, lines: &str) -> Op {
        Op::Delete(section(first, lines))
    }

    #[test]
    fn lines_go_before_the_instance_and_the_vrf_itself_stays() {
        let ops = [
            delete("vrf blue", " vni 1001\n"),
            delete("router bgp 64999 vrf blue", " bgp router-id 1.1.1.1\n"),
        ];
        assert_eq!(steps(&ops), ["vrf blue\n no vni 1001\nexit\n", "no router bgp 64999 vrf blue\n"]);
        let ops = [delete("vrf blue", ""), delete("router bgp 64999 vrf blue", "")];
        assert_eq!(steps(&ops), ["no router bgp 64999 vrf blue\n"], "what is empty already is not said");
        let only_vrf = ["vrf blue".to_owned()].into();
        assert_eq!(super::steps(&ops, &only_vrf), [""; 0], "its instance has ended already");
    }

    #[test]
    fn another_number_is_two_steps_too() {
        let to = Planned {
            owner: Owner::new("network:blue"),
            item: section("vrf blue", "vni 1002\nip nht resolve-via-default\n"),
        };
        let from = section("vrf blue", " vni 1001\n ip nht resolve-via-default\n");
        assert_eq!(steps(&[Op::Change { from, to }]), ["vrf blue\n no vni 1001\nexit\n"]);
    }

    #[test]
    fn what_has_no_device_that_goes_waits() {
        let new = Planned { owner: Owner::new("x"), item: section("vrf red", "vni 7\n") };
        let others = [
            Op::Create(new),
            delete("router bgp 64999 vrf blue", "no bgp default ipv4-unicast\n"),
            delete("router bgp 64999", "no bgp default ipv4-unicast\n"),
            delete("route-map x permit 1", "description y\n"),
        ];
        assert_eq!(steps(&others), Vec::<String>::new());
    }
}
