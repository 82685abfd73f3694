//! The checked-in YAML is what this crate prints. `CAUSEWAY_RECORD=1` writes it anew.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

use causeway_api::install::{Installation, policies, roles, settings};
use causeway_api::print::yaml;
use causeway_api::schema::{CrdSet, crds, crds_json, crds_yaml};
use std::path::PathBuf;

fn chart(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/causeway").join(path)
}

fn compare(path: &str, printed: &str) {
    let path = chart(path);
    if std::env::var_os("CAUSEWAY_RECORD").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, printed).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        recorded == printed,
        "{} is not what the crate prints; run the tests with CAUSEWAY_RECORD=1 and commit it",
        path.display()
    );
}

#[test]
fn own_definitions_are_recorded() {
    compare("crds/causeway.yaml", &crds_yaml(CrdSet::Causeway).unwrap());
}

#[test]
fn shared_definitions_are_recorded_apart() {
    compare("crds-if-absent/k8s.cni.cncf.io.yaml", &crds_yaml(CrdSet::Shared).unwrap());
}

#[test]
fn definitions_of_the_policy_api_are_recorded_apart() {
    compare("crds-if-absent/policy.networking.k8s.io.yaml", &crds_yaml(CrdSet::Policy).unwrap());
}

#[test]
fn yaml_json_and_values_agree() {
    let values: Vec<serde_json::Value> =
        crds(CrdSet::All).unwrap().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
    let list: serde_json::Value = serde_json::from_str(&crds_json(CrdSet::All).unwrap()).unwrap();
    let documents: Vec<serde_json::Value> = crds_yaml(CrdSet::All)
        .unwrap()
        .split("---\n")
        .filter(|document| !document.is_empty())
        .map(|document| serde_yaml::from_str(document).unwrap())
        .collect();
    assert_eq!(list["items"], serde_json::Value::Array(documents.clone()));
    assert_eq!(values, documents);
}

#[test]
fn policies_are_recorded() {
    compare("policies/causeway.yaml", &yaml(&policies(&Installation::default())).unwrap());
}

#[test]
fn settings_are_recorded() {
    compare("settings/causeway.yaml", &yaml(&settings(&Installation::default())).unwrap());
}

#[test]
fn roles_are_recorded() {
    compare("roles/causeway.yaml", &yaml(&roles(&Installation::default())).unwrap());
}
