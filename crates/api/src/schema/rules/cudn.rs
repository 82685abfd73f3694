//! Rules of ClusterUserDefinedNetwork as a whole, and of its transports.

use super::{Rule, Rules};

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = spec();
    rules.extend(template());
    rules.extend(network());
    rules.extend(transports());
    rules.extend(evpn());
    rules
}

/// Whether the network at hand is Primary and of one of the topologies that have tunnels.
const PRIMARY: &str = "((has(NETWORK.layer2) && NETWORK.layer2.role == 'Primary') || \
                       (has(NETWORK.layer3) && NETWORK.layer3.role == 'Primary'))";

fn spec() -> Vec<Rule> {
    let template_primary = "((has(self.template.role) && self.template.role == 'Primary') || \
                            (has(self.template.spec) && has(self.template.spec.role) && self.template.spec.role == 'Primary'))";
    let primary = PRIMARY.replace("NETWORK", "self.network");
    Rules::at("spec")
        .own("one-form", "has(self.network) != has(self.template)", "Exactly one of network and template is required")
        .own(
            "form-immutable",
            "has(self.network) == has(oldSelf.network)",
            "The form of the network, network or template, is immutable",
        )
        .immutable_field("vrf", "vrf is immutable")
        .immutable_field("uplinks", "uplinks is immutable")
        .own(
            "uplinks-primary",
            format!("!has(self.uplinks) || (has(self.network) && {primary}) || (has(self.template) && {template_primary})"),
            "spec.uplinks is supported only for primary Layer2 and Layer3 networks",
        )
        .own(
            "uplinks-evpn",
            "!has(self.uplinks) || !has(self.network) || !has(self.network.transport) || self.network.transport != 'EVPN'",
            "spec.uplinks is not supported with EVPN transport",
        )
        .done()
}

fn template() -> Vec<Rule> {
    Rules::at("spec.template")
        .own("immutable", "self == oldSelf", "Template is immutable")
        .own(
            "one-form",
            format!("!has(self.spec) || (!has(self.topology) && !{})", super::flat::written("self")),
            "Settings directly in template and template.spec exclude each other",
        )
        .own("topology-required", "has(self.spec) || has(self.topology)", "topology is required")
        .done()
}

fn network() -> Vec<Rule> {
    let block = |topology: &str, field: &str| format!("(self.topology == '{topology}') == has(self.{field})");
    Rules::at("spec.network")
        .own(
            "layer3-block",
            block("Layer3", "layer3"),
            "spec.layer3 is required when topology is Layer3 and forbidden otherwise",
        )
        .own(
            "layer2-block",
            block("Layer2", "layer2"),
            "spec.layer2 is required when topology is Layer2 and forbidden otherwise",
        )
        .own(
            "localnet-block",
            block("Localnet", "localnet"),
            "spec.localnet is required when topology is Localnet and forbidden otherwise",
        )
        .own("topology-immutable", "self.topology == oldSelf.topology", "Topology is immutable")
        .immutable_field("transport", "Transport is immutable")
        .immutable_field("noOverlay", "NoOverlay is immutable")
        .done()
}

fn transports() -> Vec<Rule> {
    let primary = PRIMARY.replace("NETWORK", "self");
    let is = |transport: &str| format!("(has(self.transport) && self.transport == '{transport}')");
    Rules::at("spec.network")
        .own(
            "no-overlay-layer3",
            format!("!{} || (has(self.layer3) && self.layer3.role == 'Primary')", is("NoOverlay")),
            "Transport NoOverlay is only supported for Layer3 Primary networks",
        )
        .own(
            "no-overlay-block",
            format!("{} == has(self.noOverlay)", is("NoOverlay")),
            "noOverlay is required when transport is NoOverlay and forbidden otherwise",
        )
        .own(
            "evpn-primary",
            format!("!{} || {primary}", is("EVPN")),
            "Transport EVPN is only supported for Layer2 and Layer3 Primary networks",
        )
        .own(
            "evpn-block",
            format!("{} == has(self.evpn)", is("EVPN")),
            "evpn is required when transport is EVPN and forbidden otherwise",
        )
        .own(
            "evpn-layer2",
            "!has(self.evpn) || self.topology != 'Layer2' || has(self.evpn.macVRF)",
            "evpn.macVRF is required for Layer2 topology",
        )
        .own(
            "evpn-layer3",
            "!has(self.evpn) || self.topology != 'Layer3' || has(self.evpn.ipVRF)",
            "evpn.ipVRF is required for Layer3 topology",
        )
        .own(
            "evpn-layer3-mac",
            "!has(self.evpn) || self.topology != 'Layer3' || !has(self.evpn.macVRF)",
            "evpn.macVRF is forbidden for Layer3 topology",
        )
        .done()
}

/// An AS number of two bytes leaves four for the local number, one of four bytes leaves two, and so does an
/// IPv4 address.
const ROUTE_TARGET: &str = "self.matches('^[^:]+:[0-9]{1,10}$') && (self.startsWith('*:') ? \
     int(self.split(':')[1]) <= 4294967295 : isIP(self.split(':')[0]) ? int(self.split(':')[1]) <= 65535 : \
     self.matches('^[0-9]{1,10}:') && int(self.split(':')[0]) <= 4294967295 && int(self.split(':')[1]) <= \
     (int(self.split(':')[0]) <= 65535 ? 4294967295 : 65535))";

fn evpn() -> Vec<Rule> {
    let rules = Rules::at("spec.network.evpn")
        .own(
            "some-vrf",
            "has(self.macVRF) || has(self.ipVRF)",
            "at least one of macVRF or ipVRF must be specified",
        )
        .own(
            "different-vni",
            "!has(self.macVRF) || !has(self.ipVRF) || self.macVRF.vni != self.ipVRF.vni",
            "macVRF and ipVRF must use different VNIs",
        );
    ["macVRF", "ipVRF"]
        .iter()
        .fold(rules, |rules, vrf| {
            rules.below(
                &format!(".{vrf}.routeTarget"),
                "form",
                ROUTE_TARGET,
                "routeTarget must be <AS number>:<number>, <IPv4 address>:<number> or *:<number>, six bytes in all",
            )
        })
        .done()
}
