//! Rules of a `layer2` block.

use super::{
    DISABLED_SECONDARY, EXCLUDE_NEEDS_SUBNETS, EXCLUDE_NEEDS_SUBNETS_RULE, IPAM_DISABLED, LIFECYCLE,
    LIFECYCLE_RULE, MTU, Rule, Rules, SUBNETS_FORBIDDEN, SUBNETS_REQUIRED, different_families,
};

pub(super) fn rules(base: &str) -> Vec<Rule> {
    let mut rules = own(base);
    rules.extend(gateways(base));
    for field in ["reservedSubnets", "infrastructureSubnets"] {
        rules.extend(carved(base, field));
    }
    rules.extend(lists(base));
    rules
}

fn own(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own("immutable", "self == oldSelf", "Layer2 is immutable")
        .own("subnets-required", format!("{IPAM_DISABLED} || has(self.subnets)"), SUBNETS_REQUIRED)
        .own("subnets-forbidden", format!("!{IPAM_DISABLED} || !has(self.subnets)"), SUBNETS_FORBIDDEN)
        .own("disabled-secondary", format!("!{IPAM_DISABLED} || self.role == 'Secondary'"), DISABLED_SECONDARY)
        .own(
            "join-primary",
            "!has(self.joinSubnets) || self.role == 'Primary'",
            "JoinSubnets is only supported for Primary network",
        )
        .own(
            "mtu-ipv6",
            "!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists(s, s.contains(':'))",
            MTU,
        )
        .own("exclude-needs-subnets", EXCLUDE_NEEDS_SUBNETS_RULE, EXCLUDE_NEEDS_SUBNETS)
        .own(
            "carved-overlap",
            "!has(self.infrastructureSubnets) || !has(self.reservedSubnets) || \
             self.infrastructureSubnets.all(i, !isCIDR(i) || self.reservedSubnets.all(r, !isCIDR(r) || \
             (!cidr(i).containsCIDR(r) && !cidr(r).containsCIDR(i))))",
            "infrastructureSubnets and reservedSubnets must not overlap",
        )
        .below(".ipam", "lifecycle", LIFECYCLE_RULE, LIFECYCLE)
        .done()
}

fn gateways(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own(
            "gateway-primary",
            "!has(self.defaultGatewayIPs) || self.role == 'Primary'",
            "defaultGatewayIPs is only supported for Primary network",
        )
        .own(
            "gateway-inside",
            "!has(self.defaultGatewayIPs) || !has(self.subnets) || self.defaultGatewayIPs.all(g, !isIP(g) || \
             self.subnets.exists(s, !isCIDR(s) || cidr(s).containsIP(g)))",
            "defaultGatewayIPs must belong to one of the subnets specified in the subnets field",
        )
        .own(
            "gateway-families",
            "!has(self.defaultGatewayIPs) || !has(self.subnets) || size(self.defaultGatewayIPs) == size(self.subnets)",
            "defaultGatewayIPs must be specified for all IP families",
        )
        .own(
            "gateway-infrastructure",
            "!has(self.defaultGatewayIPs) || !has(self.infrastructureSubnets) || self.defaultGatewayIPs.all(g, \
             !isIP(g) || self.infrastructureSubnets.exists(s, !isCIDR(s) || cidr(s).containsIP(g)))",
            "defaultGatewayIPs have to belong to infrastructureSubnets",
        )
        .below(".defaultGatewayIPs[]", "ip", "isIP(self)", "IP is invalid")
        .below(
            ".defaultGatewayIPs",
            "families",
            different_families("isIP", "self[0]", "self[1]"),
            "When 2 IPs are set, they must be from different IP families",
        )
        .done()
}

/// The rules that reservedSubnets and infrastructureSubnets share.
fn carved(base: &str, field: &str) -> Vec<Rule> {
    Rules::at(base)
        .own(
            &format!("{field}-needs-subnets"),
            format!("!has(self.{field}) || has(self.subnets)"),
            &format!("{field} must be unset when subnets is unset"),
        )
        .own(
            &format!("{field}-primary"),
            format!("!has(self.{field}) || self.role == 'Primary'"),
            &format!("{field} is only supported for Primary network"),
        )
        .own(
            &format!("{field}-inside"),
            format!(
                "!has(self.{field}) || !has(self.subnets) || self.{field}.all(r, !isCIDR(r) || \
                 self.subnets.exists(s, !isCIDR(s) || cidr(s).containsCIDR(r)))"
            ),
            &format!("{field} must be subnetworks of the networks specified in the subnets field"),
        )
        .own(
            &format!("{field}-masked"),
            format!("!has(self.{field}) || self.{field}.all(r, !isCIDR(r) || cidr(r) == cidr(r).masked())"),
            &format!("{field} must be a masked network address (no host bits set)"),
        )
        .cidrs(&format!(".{field}"))
        .done()
}

fn lists(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .cidrs(".subnets")
        .families(".subnets")
        .cidrs(".excludeSubnets")
        .cidrs(".joinSubnets")
        .families(".joinSubnets")
        .done()
}
