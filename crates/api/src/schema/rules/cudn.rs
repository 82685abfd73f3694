//! Rules of ClusterUserDefinedNetwork as a whole, and of its transports.

use super::{Rule, Rules};
use crate::schema::messages as say;

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
        .own("one-form", "has(self.network) != has(self.template)", say::CUDN_ONE_FORM)
        .own(
            "form-immutable",
            "has(self.network) == has(oldSelf.network)",
            "The form of the network, network or template, is immutable",
        )
        .immutable_field("vrf", say::VRF_IMMUTABLE)
        .immutable_field("uplinks", say::UPLINKS_IMMUTABLE)
        .own(
            "uplinks-primary",
            format!("!has(self.uplinks) || (has(self.network) && {primary}) || (has(self.template) && {template_primary})"),
            say::UPLINKS_PRIMARY,
        )
        .own(
            "uplinks-evpn",
            "!has(self.uplinks) || !has(self.network) || !has(self.network.transport) || self.network.transport != 'EVPN'",
            say::UPLINKS_EVPN,
        )
        .done()
}

fn template() -> Vec<Rule> {
    Rules::at("spec.template")
        .own("immutable", "self == oldSelf", "Template is immutable")
        .own(
            "one-form",
            format!("!has(self.spec) || (!has(self.topology) && !{})", super::flat::written("self")),
            say::TEMPLATE_ONE_FORM,
        )
        .own("topology-required", "has(self.spec) || has(self.topology)", say::TOPOLOGY_REQUIRED)
        .done()
}

fn network() -> Vec<Rule> {
    let block = |topology: &str, field: &str| format!("(self.topology == '{topology}') == has(self.{field})");
    Rules::at("spec.network")
        .own("layer3-block", block("Layer3", "layer3"), say::LAYER3_BLOCK)
        .own("layer2-block", block("Layer2", "layer2"), say::LAYER2_BLOCK)
        .own("localnet-block", block("Localnet", "localnet"), say::LOCALNET_BLOCK)
        .own("topology-immutable", "self.topology == oldSelf.topology", say::TOPOLOGY_IMMUTABLE)
        .immutable_field("transport", say::TRANSPORT_IMMUTABLE)
        .immutable_field("noOverlay", say::NO_OVERLAY_IMMUTABLE)
        .done()
}

fn transports() -> Vec<Rule> {
    let primary = PRIMARY.replace("NETWORK", "self");
    let is = |transport: &str| format!("(has(self.transport) && self.transport == '{transport}')");
    Rules::at("spec.network")
        .own(
            "no-overlay-layer3",
            format!("!{} || (has(self.layer3) && self.layer3.role == 'Primary')", is("NoOverlay")),
            say::NO_OVERLAY_LAYER3,
        )
        .own("no-overlay-block", format!("{} == has(self.noOverlay)", is("NoOverlay")), say::NO_OVERLAY_BLOCK)
        .own("evpn-primary", format!("!{} || {primary}", is("EVPN")), say::EVPN_PRIMARY)
        .own("evpn-block", format!("{} == has(self.evpn)", is("EVPN")), say::EVPN_BLOCK)
        .own(
            "evpn-layer2",
            "!has(self.evpn) || self.topology != 'Layer2' || has(self.evpn.macVRF)",
            say::EVPN_LAYER2,
        )
        .own(
            "evpn-layer3",
            "!has(self.evpn) || self.topology != 'Layer3' || has(self.evpn.ipVRF)",
            say::EVPN_LAYER3,
        )
        .own(
            "evpn-layer3-mac",
            "!has(self.evpn) || self.topology != 'Layer3' || !has(self.evpn.macVRF)",
            say::EVPN_LAYER3_MAC,
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
        .own("some-vrf", "has(self.macVRF) || has(self.ipVRF)", say::EVPN_SOME_VRF)
        .own(
            "different-vni",
            "!has(self.macVRF) || !has(self.ipVRF) || self.macVRF.vni != self.ipVRF.vni",
            say::EVPN_DIFFERENT_VNI,
        );
    ["macVRF", "ipVRF"]
        .iter()
        .fold(rules, |rules, vrf| {
            rules.below(&format!(".{vrf}.routeTarget"), "form", ROUTE_TARGET, say::ROUTE_TARGET)
        })
        .done()
}
