//! The custom resource definitions as the API server gets them.
//!
//! Owns what the derive cannot say: rules across fields, list types, printer columns and versions. Everything
//! here is a pure function of the types in [`crate::crd`] and the tables in [`rules`].

mod columns;
pub(crate) mod messages;
pub mod policy;
mod polish;
pub mod rules;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::{Error, crd, print};
use rules::Rule;

/// Which custom resource definitions are meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CrdSet {
    /// Causeway's own: UserDefinedNetwork, ClusterUserDefinedNetwork, ClusterNetworkConnect, VTEP, ZoneReport.
    Causeway,
    /// Those that other network plugins use too, to be installed only where they are absent:
    /// NetworkAttachmentDefinition, IPAMClaim.
    Shared,
    /// Those of Kubernetes' network policy API, to be installed only where they are absent: ClusterNetworkPolicy,
    /// AdminNetworkPolicy, BaselineAdminNetworkPolicy.
    Policy,
    /// All of them.
    All,
}

/// The definitions of a set, in a fixed order.
///
/// # Errors
/// [`Error::Schema`] when a rule names a path that the schema does not have: a mistake in this crate.
pub fn crds(set: CrdSet) -> Result<Vec<CustomResourceDefinition>, Error> {
    definitions(set)?
        .into_iter()
        .map(|value| serde_json::from_value(value).map_err(|e| Error::Schema(e.to_string())))
        .collect()
}

/// The definitions of a set as one YAML text with `---` between them.
///
/// # Errors
/// See [`crds`].
pub fn crds_yaml(set: CrdSet) -> Result<String, Error> {
    print::yaml(&definitions(set)?)
}

/// The definitions of a set as JSON: one `List` object, which kubectl applies like the YAML.
///
/// # Errors
/// See [`crds`].
pub fn crds_json(set: CrdSet) -> Result<String, Error> {
    print::json(&definitions(set)?)
}

/// The definitions of a set, as values.
///
/// # Errors
/// See [`crds`].
pub fn definitions(set: CrdSet) -> Result<Vec<Value>, Error> {
    let own = || -> Result<Vec<Value>, Error> {
        Ok(vec![
            user_defined_network(&rules::user_defined_network())?,
            cluster_user_defined_network(&rules::cluster_user_defined_network())?,
            cluster_network_connect(&rules::cluster_network_connect())?,
            definition::<crd::VTEP>(&["v1"], &rules::vtep(), columns::vtep())?,
            definition::<crd::ZoneReport>(&["v1"], &[], columns::zone_report())?,
        ])
    };
    let shared = || -> Result<Vec<Value>, Error> {
        Ok(vec![
            definition::<crd::NetworkAttachmentDefinition>(&["v1"], &[], Vec::new())?,
            definition::<crd::IpamClaim>(&["v1alpha1"], &[], Vec::new())?,
        ])
    };
    Ok(match set {
        CrdSet::Causeway => own()?,
        CrdSet::Shared => shared()?,
        CrdSet::Policy => policy::definitions()?,
        CrdSet::All => [own()?, shared()?, policy::definitions()?].concat(),
    })
}

/// UserDefinedNetwork with the given rules. The rules are an argument so that a test can leave one out.
///
/// # Errors
/// See [`crds`].
pub fn user_defined_network(rules: &[Rule]) -> Result<Value, Error> {
    definition::<crd::UserDefinedNetwork>(&["v1", "v1alpha1"], rules, columns::network(false))
}

/// ClusterUserDefinedNetwork with the given rules.
///
/// # Errors
/// See [`crds`].
pub fn cluster_user_defined_network(rules: &[Rule]) -> Result<Value, Error> {
    definition::<crd::ClusterUserDefinedNetwork>(&["v1", "v1alpha1"], rules, columns::network(true))
}

/// ClusterNetworkConnect with the given rules.
///
/// # Errors
/// See [`crds`].
pub fn cluster_network_connect(rules: &[Rule]) -> Result<Value, Error> {
    definition::<crd::ClusterNetworkConnect>(&["v1"], rules, columns::connect())
}

/// The structural schema inside a definition, as the first version has it (all versions have the same).
pub fn schema_of(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

fn definition<K: CustomResourceExt>(
    versions: &[&str],
    rules: &[Rule],
    columns: Vec<Value>,
) -> Result<Value, Error> {
    let mut crd = serde_json::to_value(K::crd()).map_err(|e| Error::Schema(e.to_string()))?;
    let first = &mut crd["spec"]["versions"][0];
    let schema = &mut first["schema"]["openAPIV3Schema"];
    polish::polish(schema);
    for rule in rules {
        add_rule(schema, rule)?;
    }
    first["additionalPrinterColumns"] = Value::Array(columns);
    // Equal schemas and no conversion: an object reads the same through every version, and nothing is pruned.
    let all = versions.iter().enumerate().map(|(index, version)| named_version(first, version, index == 0));
    let all: Vec<Value> = all.collect();
    crd["spec"]["versions"] = Value::Array(all);
    if versions.len() > 1 {
        crd["spec"]["conversion"] = json!({"strategy": "None"});
    }
    drop_empty(&mut crd);
    Ok(crd)
}

fn named_version(version: &Value, name: &str, storage: bool) -> Value {
    let mut version = version.clone();
    version["name"] = name.into();
    version["served"] = true.into();
    version["storage"] = storage.into();
    version
}

/// The derive writes empty lists where the API has none.
fn drop_empty(crd: &mut Value) {
    let drop = |object: &mut Map<String, Value>| {
        object.retain(|_, value| !matches!(value, Value::Array(list) if list.is_empty()));
    };
    if let Some(names) = crd["spec"]["names"].as_object_mut() {
        drop(names);
    }
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        if let Some(version) = version.as_object_mut() {
            drop(version);
        }
    }
}

fn add_rule(schema: &mut Value, rule: &Rule) -> Result<(), Error> {
    let target = polish::at(schema, &rule.at).ok_or_else(|| {
        Error::Schema(format!("rule {} is at {}, which the schema does not have", rule.id, rule.at))
    })?;
    let list = target.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(json!({"rule": rule.rule, "message": rule.message}));
    }
    Ok(())
}
