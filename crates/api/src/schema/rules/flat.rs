//! Rules of the flat form, wherever it is written.

use super::{
    DISABLED_SECONDARY, EXCLUDE_NEEDS_SUBNETS, EXCLUDE_NEEDS_SUBNETS_RULE, HOST_SUBNET_LONGER,
    HOST_SUBNET_V4, HOST_SUBNET_V6, IPAM_DISABLED, LIFECYCLE, LIFECYCLE_RULE, MTU, Rule, Rules,
    SUBNETS_FORBIDDEN, SUBNETS_REQUIRED,
};

/// Where the flat form is written.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// In the spec of a UserDefinedNetwork, which may have blocks instead.
    UserDefinedNetwork,
    /// In the template of a ClusterUserDefinedNetwork, which may have a spec instead.
    Template,
    /// In the spec of such a template.
    TemplateSpec,
}

impl Place {
    /// Whether the flat form is what the user has written here.
    fn meant(self) -> String {
        match self {
            Self::UserDefinedNetwork => written("self"),
            Self::Template => "(!has(self.spec))".into(),
            Self::TemplateSpec => "true".into(),
        }
    }
}

/// Whether the object has any setting of the flat form.
pub(super) fn written(object: &str) -> String {
    let fields = ["role", "mtu", "subnets", "excludeSubnets", "joinSubnets", "ipam", "ipamLifecycle"];
    let has: Vec<String> = fields.iter().map(|field| format!("has({object}.{field})")).collect();
    format!("({})", has.join(" || "))
}

/// A Layer3 subnet with a host length. Other texts are refused by another rule.
const WITH_HOST: &str = "s.matches('^[^/]+/[0-9]{1,3}/[0-9]{1,3}$')";

pub(super) fn rules(base: &str, place: Place) -> Vec<Rule> {
    let meant = place.meant();
    let mut rules = by_topology(base, &meant);
    rules.extend(addresses(base, &meant));
    rules.extend(host_lengths(base));
    rules
}

fn by_topology(base: &str, meant: &str) -> Vec<Rule> {
    let not = |topology: &str| format!("!has(self.topology) || self.topology != '{topology}'");
    Rules::at(base)
        .own("role-required", format!("!{meant} || has(self.role)"), "role is required")
        .own(
            "layer3-subnets",
            format!("!{meant} || {} || (has(self.subnets) && size(self.subnets) > 0)", not("Layer3")),
            "Subnets is required for Layer3 topology",
        )
        .own(
            "localnet-secondary",
            format!("{} || !has(self.role) || self.role == 'Secondary'", not("Localnet")),
            "Topology localnet is not supported for primary network",
        )
        .own(
            "lifecycle-topology",
            format!(
                "{} || (!has(self.ipamLifecycle) && !(has(self.ipam) && has(self.ipam.lifecycle)))",
                not("Layer3")
            ),
            "ipamLifecycle is supported for Layer2 and Localnet topologies",
        )
        .own(
            "lifecycle-enabled",
            format!("!has(self.ipamLifecycle) || !{IPAM_DISABLED}"),
            "ipamLifecycle Persistent is only supported when ipam.mode is Enabled",
        )
        .own(
            "disabled-topology",
            format!("{} || !{IPAM_DISABLED}", not("Layer3")),
            "Disabled ipam.mode is only supported for Layer2 and Localnet topologies",
        )
        .own(
            "disabled-secondary",
            format!("!{IPAM_DISABLED} || !has(self.role) || self.role == 'Secondary'"),
            DISABLED_SECONDARY,
        )
        .own(
            "subnets-required",
            format!(
                "!{meant} || (has(self.topology) && self.topology == 'Layer3') || {IPAM_DISABLED} || \
                 (has(self.subnets) && size(self.subnets) > 0)"
            ),
            SUBNETS_REQUIRED,
        )
        .own("subnets-forbidden", format!("!{IPAM_DISABLED} || !has(self.subnets)"), SUBNETS_FORBIDDEN)
        .below(".ipam", "lifecycle", LIFECYCLE_RULE, LIFECYCLE)
        .done()
}

fn addresses(base: &str, meant: &str) -> Vec<Rule> {
    Rules::at(base)
        .own("exclude-needs-subnets", EXCLUDE_NEEDS_SUBNETS_RULE, EXCLUDE_NEEDS_SUBNETS)
        .own(
            "mtu-ipv6",
            "!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists(s, s.contains(':'))",
            MTU,
        )
        .own(
            "plain-cidr",
            format!(
                "!{meant} || !has(self.subnets) || (has(self.topology) && self.topology == 'Layer3') || \
                 self.subnets.all(s, isCIDR(s))"
            ),
            "Subnets of Layer2 and Localnet networks must be CIDRs, without a host subnet length",
        )
        .own(
            "layer3-cidr",
            format!(
                "!has(self.subnets) || !has(self.topology) || self.topology != 'Layer3' || self.subnets.all(s, \
                 isCIDR(s) || ({WITH_HOST} && isCIDR(s.split('/')[0] + '/' + s.split('/')[1])))"
            ),
            "Subnets of Layer3 networks must be CIDRs, or CIDRs with a host subnet length such as 10.128.0.0/16/24",
        )
        .below(
            ".subnets",
            "families",
            "size(self) != 2 || self[0].contains(':') != self[1].contains(':')",
            "When 2 CIDRs are set, they must be from different IP families",
        )
        .cidrs(".excludeSubnets")
        .below(
            ".joinSubnets",
            "count",
            "1 <= size(self) && size(self) <= 2",
            "Unexpected number of join subnets",
        )
        .cidrs(".joinSubnets")
        .families(".joinSubnets")
        .done()
}

fn host_lengths(base: &str) -> Vec<Rule> {
    let each = |rule: &str| format!("!has(self.subnets) || self.subnets.all(s, !{WITH_HOST} || {rule})");
    Rules::at(base)
        .own("host-longer", each("int(s.split('/')[2]) > int(s.split('/')[1])"), HOST_SUBNET_LONGER)
        .own("host-ipv4", each("s.contains(':') || int(s.split('/')[2]) < 32"), HOST_SUBNET_V4)
        .own("host-ipv6", each("!s.contains(':') || int(s.split('/')[2]) == 64"), HOST_SUBNET_V6)
        .done()
}
