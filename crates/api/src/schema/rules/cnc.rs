//! Rules of ClusterNetworkConnect.

use super::{Rule, Rules};
use crate::schema::messages as say;

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
            say::CONNECT_SELECTABLE,
        )
        .own(
            "one-spelling",
            "has(self.connectivityEnabled) != has(self.connectivity)",
            say::CONNECT_ONE_SPELLING,
        )
        .below(".connectivityEnabled", "distinct", distinct, say::CONNECT_DISTINCT_ENABLED)
        .below(".connectivity", "distinct", distinct, say::CONNECT_DISTINCT)
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
                &say::inconsistent_selector(kind, field),
            )
        })
        .done()
}

fn connect_subnets() -> Vec<Rule> {
    Rules::at("spec.connectSubnets")
        .own("immutable", "self == oldSelf", say::CONNECT_IMMUTABLE)
        .own(
            "families",
            "size(self) != 2 || !isCIDR(self[0].cidr) || !isCIDR(self[1].cidr) || \
             cidr(self[0].cidr).ip().family() != cidr(self[1].cidr).ip().family()",
            say::FAMILIES,
        )
        .below("[].cidr", "masked", "isCIDR(self) && cidr(self) == cidr(self).masked()", say::CONNECT_CIDR)
        .below(
            "[]",
            "prefix-longer",
            "!isCIDR(self.cidr) || self.networkPrefix > cidr(self.cidr).prefixLength()",
            say::CONNECT_PREFIX_LONGER,
        )
        .below(
            "[]",
            "prefix-ipv4",
            "!isCIDR(self.cidr) || cidr(self.cidr).ip().family() != 4 || self.networkPrefix < 32",
            say::CONNECT_PREFIX_V4,
        )
        .done()
}
