//! Rules of a `layer3` block.

use super::{Rule, Rules};
use crate::schema::messages as say;

pub(super) fn rules(base: &str) -> Vec<Rule> {
    let mut rules = by_role(base);
    rules.extend(transitions(base));
    rules.extend(subnets(base));
    rules
}

fn by_role(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own("secondary-count", "self.role == 'Primary' || size(self.subnets) <= 2", say::SECONDARY_COUNT)
        .own(
            "secondary-families",
            "self.role == 'Primary' || size(self.subnets) != 2 || !isCIDR(self.subnets[0].cidr) || \
             !isCIDR(self.subnets[1].cidr) || \
             self.subnets[0].cidr.contains(':') != self.subnets[1].cidr.contains(':')",
            say::SECONDARY_FAMILIES,
        )
        .own("join-primary", "!has(self.joinSubnets) || self.role == 'Primary'", say::JOIN_PRIMARY)
        .own(
            "mtu-ipv6",
            "!has(self.mtu) || self.mtu >= 1280 || !self.subnets.exists(s, s.cidr.contains(':'))",
            say::MTU,
        )
        .cidrs(".joinSubnets")
        .families(".joinSubnets")
        .done()
}

/// The host lengths of the IPv4 (`not` is `!`) or IPv6 subnets of a network; 0 where none is written.
fn lengths(network: &str, not: &str) -> String {
    format!(
        "{network}.subnets.filter(s, {not}s.cidr.contains(':')).map(s, has(s.hostSubnet) ? s.hostSubnet : 0)"
    )
}

/// Another rule makes all lengths of a family equal, so the smallest stands for all.
fn kept(not: &str) -> String {
    let (new, old) = (lengths("self", not), lengths("oldSelf", not));
    format!("(size({new}) == 0 || size({old}) == 0 || {new}.min() == {old}.min())")
}

fn transitions(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own("role-immutable", "self.role == oldSelf.role", say::ROLE_IMMUTABLE)
        .immutable_field("mtu", say::MTU_IMMUTABLE)
        .immutable_field("joinSubnets", say::JOIN_IMMUTABLE)
        .own(
            "secondary-immutable",
            "self.role != 'Secondary' || self.subnets == oldSelf.subnets",
            say::SECONDARY_IMMUTABLE,
        )
        .own(
            "no-removal",
            "sets.contains(self.subnets.map(s, s.cidr), oldSelf.subnets.map(s, s.cidr))",
            say::NO_REMOVAL,
        )
        // Nodes count through the list: an entry that moves would renumber them.
        .own(
            "append-only",
            "oldSelf.subnets + self.subnets.filter(n, !oldSelf.subnets.exists(o, o.cidr == n.cidr)) == self.subnets",
            say::APPEND_ONLY,
        )
        .own(
            "host-immutable",
            format!("{} && {}", kept("!"), kept("")),
            say::HOST_IMMUTABLE,
        )
        .done()
}

fn subnets(base: &str) -> Vec<Rule> {
    let equal = |not: &str| {
        let list = lengths("self", not);
        format!("(size({list}) == 0 || {list}.min() == {list}.max())")
    };
    Rules::at(base)
        .own(
            "same-cidr",
            "self.subnets.all(x, self.subnets.exists_one(y, y.cidr == x.cidr))",
            say::SAME_CIDR,
        )
        .own(
            "overlap",
            "self.subnets.exists(s, !isCIDR(s.cidr)) || \
                 self.subnets.map(s, cidr(s.cidr)).all(x, self.subnets.exists_one(y, x.containsCIDR(y.cidr)))",
            say::OVERLAP,
        )
        .own("same-host", format!("{} && {}", equal("!"), equal("")), say::SAME_HOST)
        .below(".subnets[].cidr", "cidr", "isCIDR(self)", say::CIDR_INVALID)
        .pod_subnets(".subnets[].cidr")
        .below(
            ".subnets[]",
            "host-longer",
            "!has(self.hostSubnet) || !isCIDR(self.cidr) || self.hostSubnet > cidr(self.cidr).prefixLength()",
            say::HOST_SUBNET_LONGER,
        )
        .below(
            ".subnets[]",
            "host-ipv4",
            "!has(self.hostSubnet) || self.cidr.contains(':') || self.hostSubnet < 32",
            say::HOST_SUBNET_V4,
        )
        .below(
            ".subnets[]",
            "host-ipv6",
            "!has(self.hostSubnet) || !self.cidr.contains(':') || self.hostSubnet == 64",
            say::HOST_SUBNET_V6,
        )
        .done()
}
