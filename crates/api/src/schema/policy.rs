//! The definitions of Kubernetes' network policy API, with the published limits.
//!
//! They belong to that project: whoever installs them leaves those alone that are there.

use serde_json::{Value, json};

use super::rules::{self, Rule};
use super::{columns, definition, polish};
use crate::Error;
use crate::crd::policy::{AdminNetworkPolicy, BaselineAdminNetworkPolicy, ClusterNetworkPolicy};

/// Where the API was approved; the server wants to read it on every definition below `k8s.io`.
const APPROVED: &str = "api-approved.kubernetes.io";
const PULL: &str = "https://github.com/kubernetes-sigs/network-policy-api/pull";

/// All of them.
pub(super) fn definitions() -> Result<Vec<Value>, Error> {
    Ok(vec![
        cluster(&rules::cluster_network_policy())?,
        admin(&rules::admin_network_policy())?,
        baseline(&rules::baseline_admin_network_policy())?,
    ])
}

/// ClusterNetworkPolicy with the given rules. The rules are an argument so that a test can leave one out.
///
/// # Errors
/// See [`super::crds`].
pub fn cluster(rules: &[Rule]) -> Result<Value, Error> {
    let columns = columns::policy(&["Tier", "Priority"]);
    let mut definition = definition::<ClusterNetworkPolicy>(&["v1alpha2"], rules, columns)?;
    finish(&mut definition, 347, |schema| {
        for protocols in ["spec.ingress[].protocols[]", "spec.egress[].protocols[]"] {
            polish::exactly_one(schema, protocols);
            for protocol in ["tcp", "udp", "sctp"] {
                polish::not_empty(schema, &format!("{protocols}.{protocol}"));
                polish::exactly_one(schema, &format!("{protocols}.{protocol}.destinationPort"));
            }
        }
    });
    Ok(definition)
}

/// AdminNetworkPolicy with the given rules.
///
/// # Errors
/// See [`super::crds`].
pub fn admin(rules: &[Rule]) -> Result<Value, Error> {
    let mut definition =
        definition::<AdminNetworkPolicy>(&["v1alpha1"], rules, columns::policy(&["Priority"]))?;
    finish(&mut definition, 300, admin_ports);
    Ok(definition)
}

/// BaselineAdminNetworkPolicy with the given rules.
///
/// # Errors
/// See [`super::crds`].
pub fn baseline(rules: &[Rule]) -> Result<Value, Error> {
    let mut definition =
        definition::<BaselineAdminNetworkPolicy>(&["v1alpha1"], rules, columns::policy(&[]))?;
    finish(&mut definition, 300, admin_ports);
    Ok(definition)
}

fn admin_ports(schema: &mut Value) {
    polish::exactly_one(schema, "spec.ingress[].ports[]");
    polish::exactly_one(schema, "spec.egress[].ports[]");
}

/// What all kinds have, and the kind's own.
fn finish(definition: &mut Value, pull: u32, own: impl Fn(&mut Value)) {
    definition["metadata"]["annotations"] = json!({APPROVED: format!("{PULL}/{pull}")});
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        for path in ["spec.subject", "spec.ingress[].from[]", "spec.egress[].to[]"] {
            polish::exactly_one(schema, path);
        }
        for path in ["spec.egress[].to[].networks", "spec.egress[].to[].domainNames"] {
            polish::unique_items(schema, path);
        }
        own(schema);
    }
}
