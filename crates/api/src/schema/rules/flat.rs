//! Rules of the flat form, wherever it is written.

use super::{EXCLUDE_NEEDS_SUBNETS_RULE, IPAM_DISABLED, LIFECYCLE_RULE, Rule, Rules, ordinary};
use crate::schema::messages as say;

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
        .own("role-required", format!("!{meant} || has(self.role)"), say::ROLE_REQUIRED)
        .own(
            "layer3-subnets",
            format!("!{meant} || {} || (has(self.subnets) && size(self.subnets) > 0)", not("Layer3")),
            say::LAYER3_SUBNETS,
        )
        .own(
            "localnet-secondary",
            format!("{} || !has(self.role) || self.role == 'Secondary'", not("Localnet")),
            say::LOCALNET_SECONDARY,
        )
        .own(
            "lifecycle-topology",
            format!(
                "{} || (!has(self.ipamLifecycle) && !(has(self.ipam) && has(self.ipam.lifecycle)))",
                not("Layer3")
            ),
            say::LIFECYCLE_TOPOLOGY,
        )
        .own(
            "lifecycle-enabled",
            format!("!has(self.ipamLifecycle) || !{IPAM_DISABLED}"),
            say::LIFECYCLE_ALIAS_ENABLED,
        )
        .own("disabled-topology", format!("{} || !{IPAM_DISABLED}", not("Layer3")), say::DISABLED_TOPOLOGY)
        .own(
            "disabled-secondary",
            format!("!{IPAM_DISABLED} || !has(self.role) || self.role == 'Secondary'"),
            say::DISABLED_SECONDARY,
        )
        .own(
            "subnets-required",
            format!(
                "!{meant} || (has(self.topology) && self.topology == 'Layer3') || {IPAM_DISABLED} || \
                 (has(self.subnets) && size(self.subnets) > 0)"
            ),
            say::SUBNETS_REQUIRED,
        )
        .own("subnets-forbidden", format!("!{IPAM_DISABLED} || !has(self.subnets)"), say::SUBNETS_FORBIDDEN)
        .below(".ipam", "lifecycle", LIFECYCLE_RULE, say::LIFECYCLE_ENABLED)
        .done()
}

fn addresses(base: &str, meant: &str) -> Vec<Rule> {
    Rules::at(base)
        .own("exclude-needs-subnets", EXCLUDE_NEEDS_SUBNETS_RULE, say::EXCLUDE_NEEDS_SUBNETS)
        .own(
            "mtu-ipv6",
            "!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists(s, s.contains(':'))",
            say::MTU,
        )
        .own(
            "plain-cidr",
            format!(
                "!{meant} || !has(self.subnets) || (has(self.topology) && self.topology == 'Layer3') || \
                 self.subnets.all(s, isCIDR(s))"
            ),
            say::FLAT_PLAIN_CIDR,
        )
        .own(
            "layer3-cidr",
            format!(
                "!has(self.subnets) || !has(self.topology) || self.topology != 'Layer3' || self.subnets.all(s, \
                 isCIDR(s) || ({WITH_HOST} && isCIDR(s.split('/')[0] + '/' + s.split('/')[1])))"
            ),
            say::FLAT_LAYER3_CIDR,
        )
        .below(
            ".subnets",
            "families",
            "size(self) != 2 || self[0].contains(':') != self[1].contains(':')",
            say::FAMILIES,
        )
        .cidrs(".excludeSubnets")
        .below(
            ".joinSubnets",
            "count",
            "1 <= size(self) && size(self) <= 2",
            say::JOIN_COUNT,
        )
        .cidrs(".joinSubnets")
        .families(".joinSubnets")
        .done()
}

fn host_lengths(base: &str) -> Vec<Rule> {
    let each = |rule: &str| format!("!has(self.subnets) || self.subnets.all(s, !{WITH_HOST} || {rule})");
    let plain = format!("{WITH_HOST} ? s.split('/')[0] + '/' + s.split('/')[1] : s");
    let special = format!("!has(self.subnets) || self.subnets.map(s, {plain}).all(c, {})", ordinary("c"));
    Rules::at(base)
        .own("special", special, say::SPECIAL)
        .own("host-longer", each("int(s.split('/')[2]) > int(s.split('/')[1])"), say::HOST_SUBNET_LONGER)
        .own("host-ipv4", each("s.contains(':') || int(s.split('/')[2]) < 32"), say::HOST_SUBNET_V4)
        .own("host-ipv6", each("!s.contains(':') || int(s.split('/')[2]) == 64"), say::HOST_SUBNET_V6)
        .done()
}
