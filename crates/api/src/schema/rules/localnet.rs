//! Rules of a `localnet` block.

use super::{
    EXCLUDE_NEEDS_SUBNETS, EXCLUDE_NEEDS_SUBNETS_RULE, IPAM_DISABLED, LIFECYCLE, LIFECYCLE_RULE, Rule, Rules,
};

pub(super) fn rules(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own("immutable", "self == oldSelf", "Localnet is immutable")
        .own(
            "subnets",
            format!("{IPAM_DISABLED} != has(self.subnets)"),
            "Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise",
        )
        .own("exclude-needs-subnets", EXCLUDE_NEEDS_SUBNETS_RULE, EXCLUDE_NEEDS_SUBNETS)
        .own(
            "mtu-ipv6",
            "!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists(s, s.contains(':'))",
            "MTU should be greater than or equal to 1280 when an IPv6 subnet is used",
        )
        .below(
            ".physicalNetworkName",
            "characters",
            "!self.contains(',') && !self.contains(':')",
            "physicalNetworkName cannot contain `,` or `:` characters",
        )
        .below(
            ".vlan",
            "access",
            "(self.mode == 'Access') == has(self.access)",
            "vlan access config is required when vlan mode is 'Access', and forbidden otherwise",
        )
        .below(".ipam", "lifecycle", LIFECYCLE_RULE, LIFECYCLE)
        .cidrs(".subnets")
        .families(".subnets")
        .cidrs(".excludeSubnets")
        .done()
}
