//! Rules of a `layer2` block.

use super::{EXCLUDE_NEEDS_SUBNETS_RULE, IPAM_DISABLED, LIFECYCLE_RULE, Rule, Rules, different_families};
use crate::schema::messages as say;

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
        .own("immutable", "self == oldSelf", say::LAYER2_IMMUTABLE)
        .own("subnets-required", format!("{IPAM_DISABLED} || has(self.subnets)"), say::SUBNETS_REQUIRED)
        .own("subnets-forbidden", format!("!{IPAM_DISABLED} || !has(self.subnets)"), say::SUBNETS_FORBIDDEN)
        .own("disabled-secondary", format!("!{IPAM_DISABLED} || self.role == 'Secondary'"), say::DISABLED_SECONDARY)
        .own(
            "join-primary",
            "!has(self.joinSubnets) || self.role == 'Primary'",
            say::JOIN_PRIMARY,
        )
        .own(
            "mtu-ipv6",
            "!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists(s, s.contains(':'))",
            say::MTU,
        )
        .own("exclude-needs-subnets", EXCLUDE_NEEDS_SUBNETS_RULE, say::EXCLUDE_NEEDS_SUBNETS)
        .own(
            "carved-overlap",
            "!has(self.infrastructureSubnets) || !has(self.reservedSubnets) || \
             self.infrastructureSubnets.all(i, !isCIDR(i) || self.reservedSubnets.all(r, !isCIDR(r) || \
             (!cidr(i).containsCIDR(r) && !cidr(r).containsCIDR(i))))",
            say::CARVED_OVERLAP,
        )
        .below(".ipam", "lifecycle", LIFECYCLE_RULE, say::LIFECYCLE_ENABLED)
        .done()
}

fn gateways(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own(
            "gateway-primary",
            "!has(self.defaultGatewayIPs) || self.role == 'Primary'",
            say::GATEWAY_PRIMARY,
        )
        .own(
            "gateway-inside",
            "!has(self.defaultGatewayIPs) || !has(self.subnets) || self.defaultGatewayIPs.all(g, !isIP(g) || \
             self.subnets.exists(s, !isCIDR(s) || cidr(s).containsIP(g)))",
            say::GATEWAY_INSIDE,
        )
        .own(
            "gateway-families",
            "!has(self.defaultGatewayIPs) || !has(self.subnets) || size(self.defaultGatewayIPs) == size(self.subnets)",
            say::GATEWAY_FAMILIES,
        )
        .own(
            "gateway-infrastructure",
            "!has(self.defaultGatewayIPs) || !has(self.infrastructureSubnets) || self.defaultGatewayIPs.all(g, \
             !isIP(g) || self.infrastructureSubnets.exists(s, !isCIDR(s) || cidr(s).containsIP(g)))",
            say::GATEWAY_INFRASTRUCTURE,
        )
        .below(".defaultGatewayIPs[]", "ip", "isIP(self)", say::IP_INVALID)
        .below(
            ".defaultGatewayIPs",
            "families",
            different_families("isIP", "self[0]", "self[1]"),
            say::IP_FAMILIES,
        )
        .done()
}

/// The rules that reservedSubnets and infrastructureSubnets share.
fn carved(base: &str, field: &str) -> Vec<Rule> {
    Rules::at(base)
        .own(
            &format!("{field}-needs-subnets"),
            format!("!has(self.{field}) || has(self.subnets)"),
            &say::carved_needs_subnets(field),
        )
        .own(
            &format!("{field}-primary"),
            format!("!has(self.{field}) || self.role == 'Primary'"),
            &say::carved_primary(field),
        )
        .own(
            &format!("{field}-inside"),
            format!(
                "!has(self.{field}) || !has(self.subnets) || self.{field}.all(r, !isCIDR(r) || \
                 self.subnets.exists(s, !isCIDR(s) || cidr(s).containsCIDR(r)))"
            ),
            &say::carved_inside(field),
        )
        .own(
            &format!("{field}-masked"),
            format!("!has(self.{field}) || self.{field}.all(r, !isCIDR(r) || cidr(r) == cidr(r).masked())"),
            &say::carved_masked(field),
        )
        .cidrs(&format!(".{field}"))
        .done()
}

fn lists(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .cidrs(".subnets")
        .pod_subnets(".subnets[]")
        .families(".subnets")
        .cidrs(".excludeSubnets")
        .cidrs(".joinSubnets")
        .families(".joinSubnets")
        .done()
}
