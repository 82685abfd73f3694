//! Rules of a `layer3` block.

use super::{HOST_SUBNET_LONGER, HOST_SUBNET_V4, HOST_SUBNET_V6, MTU, Rule, Rules};

pub(super) fn rules(base: &str) -> Vec<Rule> {
    let mut rules = by_role(base);
    rules.extend(transitions(base));
    rules.extend(subnets(base));
    rules
}

fn by_role(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own(
            "secondary-count",
            "self.role == 'Primary' || size(self.subnets) <= 2",
            "Secondary networks may define at most 2 subnets",
        )
        .own(
            "secondary-families",
            "self.role == 'Primary' || size(self.subnets) != 2 || !isCIDR(self.subnets[0].cidr) || \
             !isCIDR(self.subnets[1].cidr) || \
             self.subnets[0].cidr.contains(':') != self.subnets[1].cidr.contains(':')",
            "When 2 CIDRs are set for Secondary networks, they must be from different IP families",
        )
        .own(
            "join-primary",
            "!has(self.joinSubnets) || self.role == 'Primary'",
            "JoinSubnets is only supported for Primary network",
        )
        .own(
            "mtu-ipv6",
            "!has(self.mtu) || self.mtu >= 1280 || !self.subnets.exists(s, s.cidr.contains(':'))",
            MTU,
        )
        .cidrs(".joinSubnets")
        .families(".joinSubnets")
        .done()
}

fn transitions(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own("role-immutable", "self.role == oldSelf.role", "role is immutable")
        .immutable_field("mtu", "mtu is immutable")
        .immutable_field("joinSubnets", "joinSubnets is immutable")
        .own(
            "secondary-immutable",
            "self.role != 'Secondary' || self.subnets == oldSelf.subnets",
            "Subnets is immutable for Secondary role",
        )
        .own(
            "no-removal",
            "oldSelf.subnets.all(o, self.subnets.exists(n, n.cidr == o.cidr))",
            "Removing existing subnets is not allowed",
        )
        // Nodes count through the list: an entry that moves would renumber them. Joined text compares
        // positions without an index.
        .own(
            "append-only",
            "(self.subnets.map(s, s.cidr).join(',') + ',')\
             .startsWith(oldSelf.subnets.map(s, s.cidr).join(',') + ',')",
            "Existing subnets must keep their position; new ones go to the end of the list",
        )
        .own(
            "host-immutable",
            "oldSelf.subnets.all(o, self.subnets.all(n, n.cidr != o.cidr || \
             (has(n.hostSubnet) == has(o.hostSubnet) && (!has(n.hostSubnet) || n.hostSubnet == o.hostSubnet))))",
            "hostSubnet is immutable",
        )
        .done()
}

fn subnets(base: &str) -> Vec<Rule> {
    let lengths = |v6: &str| {
        format!(
            "self.subnets.filter(s, {v6}s.cidr.contains(':')).map(s, has(s.hostSubnet) ? s.hostSubnet : 0)"
        )
    };
    let equal = |list: String| format!("(size({list}) == 0 || {list}.min() == {list}.max())");
    Rules::at(base)
        .own(
            "same-cidr",
            "self.subnets.all(x, self.subnets.exists_one(y, y.cidr == x.cidr))",
            "Subnets with same CIDR are not allowed",
        )
        // Pairs are compared here only for lists of ordinary length: 400 × 400 exceed the server's cost
        // budget at run time. Longer lists are checked when the network is reconciled.
        .own(
            "overlap",
            "size(self.subnets) > 100 || self.subnets.all(x, self.subnets.all(y, x.cidr == y.cidr || !isCIDR(x.cidr) || \
             !isCIDR(y.cidr) || !cidr(x.cidr).containsCIDR(y.cidr)))",
            "Subnets must not overlap or contain each other",
        )
        .own(
            "same-host",
            format!("{} && {}", equal(lengths("!")), equal(lengths(""))),
            "Subnets from the same IP family must use the same hostSubnet value",
        )
        .below(".subnets[].cidr", "cidr", "isCIDR(self)", "CIDR is invalid")
        .below(
            ".subnets[]",
            "host-longer",
            "!has(self.hostSubnet) || !isCIDR(self.cidr) || self.hostSubnet > cidr(self.cidr).prefixLength()",
            HOST_SUBNET_LONGER,
        )
        .below(
            ".subnets[]",
            "host-ipv4",
            "!has(self.hostSubnet) || self.cidr.contains(':') || self.hostSubnet < 32",
            HOST_SUBNET_V4,
        )
        .below(
            ".subnets[]",
            "host-ipv6",
            "!has(self.hostSubnet) || !self.cidr.contains(':') || self.hostSubnet == 64",
            HOST_SUBNET_V6,
        )
        .done()
}
