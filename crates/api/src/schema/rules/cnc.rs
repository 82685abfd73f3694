//! Rules of ClusterNetworkConnect.

use super::{Rule, Rules};

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = spec();
    rules.extend(selectors());
    rules.extend(connect_subnets());
    rules
}

fn spec() -> Vec<Rule> {
    let distinct = "self.all(x, self.exists_one(y, x == y))";
    Rules::at("spec")
        .own(
            "selectable",
            "!self.networkSelectors.exists(i, i.networkSelectionType != 'ClusterUserDefinedNetworks' && \
             i.networkSelectionType != 'PrimaryUserDefinedNetworks')",
            "Only ClusterUserDefinedNetworks or PrimaryUserDefinedNetworks can be selected",
        )
        .own(
            "one-spelling",
            "has(self.connectivityEnabled) != has(self.connectivity)",
            "Exactly one of connectivityEnabled and connectivity is required",
        )
        .below(
            ".connectivityEnabled",
            "distinct",
            distinct,
            "connectivityEnabled cannot contain duplicate values",
        )
        .below(".connectivity", "distinct", distinct, "connectivity cannot contain duplicate values")
        .done()
}

fn selectors() -> Vec<Rule> {
    let pairs = [
        ("ClusterUserDefinedNetworks", "clusterUserDefinedNetworkSelector"),
        ("PrimaryUserDefinedNetworks", "primaryUserDefinedNetworkSelector"),
        ("SecondaryUserDefinedNetworks", "secondaryUserDefinedNetworkSelector"),
        ("NetworkAttachmentDefinitions", "networkAttachmentDefinitionSelector"),
    ];
    pairs
        .iter()
        .fold(Rules::at("spec.networkSelectors[]"), |rules, (kind, field)| {
            rules.own(
                field,
                format!("(self.networkSelectionType == '{kind}') == has(self.{field})"),
                &format!(
                    "Inconsistent selector: both networkSelectionType {kind} and {field} have to be set or neither"
                ),
            )
        })
        .done()
}

fn connect_subnets() -> Vec<Rule> {
    Rules::at("spec.connectSubnets")
        .own("immutable", "self == oldSelf", "connectSubnets is immutable")
        .own(
            "families",
            "size(self) != 2 || !isCIDR(self[0].cidr) || !isCIDR(self[1].cidr) || \
             cidr(self[0].cidr).ip().family() != cidr(self[1].cidr).ip().family()",
            "When 2 CIDRs are set, they must be from different IP families",
        )
        .below(
            "[].cidr",
            "masked",
            "isCIDR(self) && cidr(self) == cidr(self).masked()",
            "CIDR must be a valid network address",
        )
        .below(
            "[]",
            "prefix-longer",
            "!isCIDR(self.cidr) || self.networkPrefix > cidr(self.cidr).prefixLength()",
            "networkPrefix must be smaller than CIDR subnet",
        )
        .below(
            "[]",
            "prefix-ipv4",
            "!isCIDR(self.cidr) || cidr(self.cidr).ip().family() != 4 || self.networkPrefix < 32",
            "networkPrefix must < 32 for ipv4 CIDR",
        )
        .done()
}
