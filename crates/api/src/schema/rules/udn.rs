//! Rules of UserDefinedNetwork as a whole.

use super::{Rule, Rules, flat::written};
use crate::schema::messages as say;

pub(super) fn rules() -> Vec<Rule> {
    let flat = written("self");
    let was_flat = written("oldSelf");
    let block = |topology: &str, field: &str| {
        format!("{flat} || (self.topology == '{topology}') == has(self.{field})")
    };
    Rules::at("spec")
        .own("one-form", format!("!{flat} || (!has(self.layer2) && !has(self.layer3))"), say::UDN_ONE_FORM)
        .own("layer3-block", block("Layer3", "layer3"), say::LAYER3_BLOCK)
        .own("layer2-block", block("Layer2", "layer2"), say::LAYER2_BLOCK)
        .own("localnet-flat", format!("{flat} || self.topology != 'Localnet'"), say::LOCALNET_FLAT)
        .own("topology-immutable", "self.topology == oldSelf.topology", say::TOPOLOGY_IMMUTABLE)
        .own(
            "form-immutable",
            format!("{flat} == {was_flat}"),
            "The form of the spec, flat or with blocks, is immutable",
        )
        .own("flat-immutable", format!("!{was_flat} || self == oldSelf"), say::SPEC_IMMUTABLE)
        .done()
}
