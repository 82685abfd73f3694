//! Rules of UserDefinedNetwork as a whole.

use super::{Rule, Rules, flat::written};

pub(super) fn rules() -> Vec<Rule> {
    let flat = written("self");
    let was_flat = written("oldSelf");
    let block = |topology: &str, field: &str| {
        format!("{flat} || (self.topology == '{topology}') == has(self.{field})")
    };
    Rules::at("spec")
        .own(
            "one-form",
            format!("!{flat} || (!has(self.layer2) && !has(self.layer3))"),
            "Settings of the flat form (role, mtu, subnets, excludeSubnets, joinSubnets, ipam, ipamLifecycle) \
             and a layer2 or layer3 block exclude each other",
        )
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
            "localnet-flat",
            format!("{flat} || self.topology != 'Localnet'"),
            "Unsupported value: \"Localnet\": a UserDefinedNetwork has topology Localnet in the flat form only",
        )
        .own("topology-immutable", "self.topology == oldSelf.topology", "Topology is immutable")
        .own(
            "form-immutable",
            format!("{flat} == {was_flat}"),
            "The form of the spec, flat or with blocks, is immutable",
        )
        .own("flat-immutable", format!("!{was_flat} || self == oldSelf"), "Spec is immutable")
        .done()
}
