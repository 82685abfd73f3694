//! Rules of a `localnet` block.

use super::{EXCLUDE_NEEDS_SUBNETS_RULE, IPAM_DISABLED, LIFECYCLE_RULE, Rule, Rules};
use crate::schema::messages as say;

pub(super) fn rules(base: &str) -> Vec<Rule> {
    Rules::at(base)
        .own("immutable", "self == oldSelf", say::LOCALNET_IMMUTABLE)
        .own(
            "subnets",
            format!("{IPAM_DISABLED} != has(self.subnets)"),
            say::LOCALNET_SUBNETS,
        )
        .own("exclude-needs-subnets", EXCLUDE_NEEDS_SUBNETS_RULE, say::EXCLUDE_NEEDS_SUBNETS)
        .own(
            "mtu-ipv6",
            "!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists(s, s.contains(':'))",
            say::MTU_LOCALNET,
        )
        .below(
            ".physicalNetworkName",
            "characters",
            "!self.contains(',') && !self.contains(':')",
            say::PHYSICAL_NAME,
        )
        .below(
            ".vlan",
            "access",
            "(self.mode == 'Access') == has(self.access)",
            say::VLAN_ACCESS,
        )
        .below(".ipam", "lifecycle", LIFECYCLE_RULE, say::LIFECYCLE_ENABLED)
        .cidrs(".subnets")
        .pod_subnets(".subnets[]")
        .families(".subnets")
        .cidrs(".excludeSubnets")
        .done()
}
