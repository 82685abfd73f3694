//! The API of our custom resources on the sandbox's own server, as a user meets it: through kubectl.
//!
//! The cases are those of `crates/api/tests/cases`. Here they are only tried (`--dry-run=server`): a sandbox has
//! somebody who would make networks of them.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used)]

use causeway_tests::shared;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

struct Case {
    name: String,
    object: Value,
    reject: Option<String>,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/api/tests/cases");
    let read = |file: &str| -> Vec<BTreeMap<String, Value>> {
        serde_yaml::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap()
    };
    let written = ["network-whole.yaml", "connect.yaml"].into_iter().flat_map(read);
    written.filter(|case| !case.contains_key("then")).filter_map(|case| whole(&case)).collect()
}

/// A case that is a whole object.
fn whole(case: &BTreeMap<String, Value>) -> Option<Case> {
    let kinds = [
        ("udn", "UserDefinedNetwork"),
        ("cudn", "ClusterUserDefinedNetwork"),
        ("cnc", "ClusterNetworkConnect"),
    ];
    let (key, kind) = kinds.into_iter().find(|(key, _)| case.contains_key(*key))?;
    let name = case["id"].as_str()?.trim_end_matches('+').to_lowercase();
    let mut object = json!({"apiVersion": "k8s.ovn.org/v1", "kind": kind, "metadata": {"name": name}});
    if key == "udn" {
        object["metadata"]["namespace"] = "default".into();
    }
    if !case[key].is_null() {
        object["spec"] = case[key].clone();
    }
    let reject = case.get("reject").and_then(Value::as_str).map(str::to_owned);
    Some(Case { name, object, reject })
}

#[test]
fn every_case_gets_its_verdict() {
    let sandbox = shared();
    let cases = cases();
    assert!(cases.len() > 100, "only {} cases", cases.len());
    let input: String = cases.iter().map(|case| format!("---\n{}\n", case.object)).collect();
    let words = ["create", "--dry-run=server", "--validate=ignore", "-f", "-"];
    let said = sandbox.kubectl_with(&words, &input).unwrap_err().to_string();
    let wrong: Vec<String> = cases.iter().filter_map(|case| misjudged(case, &said)).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

fn misjudged(case: &Case, said: &str) -> Option<String> {
    let subject = format!(" {:?} is invalid:", case.name);
    let complaint = said.lines().find(|line| line.contains(&subject));
    let right = match (&case.reject, complaint) {
        (None, None) => true,
        (Some(wanted), Some(line)) => line.contains(wanted),
        _ => false,
    };
    (!right).then(|| format!("{}: wanted {:?}, got {complaint:?}", case.name, case.reject))
}

#[test]
fn short_names_columns_and_documentation_are_served() {
    let sandbox = shared();
    for (short, columns) in [("udn", "TOPOLOGY"), ("cudn", "TOPOLOGY"), ("cnc", "STATUS")] {
        let explained = sandbox.kubectl(&["explain", &format!("{short}.spec")]).unwrap();
        assert!(explained.contains("FIELDS:"), "{explained}");
        let crd = sandbox.get(&["crd", name_of(short)]).unwrap();
        let printed: Vec<String> = crd["spec"]["versions"][0]["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap().to_uppercase())
            .collect();
        assert!(printed.iter().any(|column| column == columns), "{short}: {printed:?}");
    }
}

fn name_of(short: &str) -> &'static str {
    match short {
        "udn" => "userdefinednetworks.k8s.ovn.org",
        "cudn" => "clusteruserdefinednetworks.k8s.ovn.org",
        _ => "clusternetworkconnects.k8s.ovn.org",
    }
}
