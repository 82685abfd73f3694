//! The same cases on a real API server, and what only a real one can show: policies, roles, columns, documentation.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use support::server::Server;
use support::{Case, NAMESPACE, as_wanted, cases};

const CHART: [&str; 4] = [
    "crds/causeway.yaml",
    "crds-if-absent/k8s.cni.cncf.io.yaml",
    "policies/causeway.yaml",
    "roles/causeway.yaml",
];

fn install(server: &Server) {
    server.kubectl(&["create", "namespace", "causeway"]).text();
    server.kubectl(&["create", "namespace", NAMESPACE]).text();
    for file in CHART {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/causeway").join(file);
        server.kubectl(&["apply", "--server-side", "-f", &path.display().to_string()]).text();
    }
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).text();
}

/// Sends all objects at once and gives each its part of what kubectl complains about.
fn send(
    server: &Server,
    verb: &str,
    objects: &[(&Case, &serde_json::Value)],
) -> BTreeMap<String, Vec<String>> {
    let input: String = objects
        .iter()
        .map(|(_, object)| format!("---\n{}\n", serde_json::to_string(object).unwrap()))
        .collect();
    let answer = server.kubectl_with(&[verb, "-f", "-", "--validate=ignore"], &input);
    complaints(&answer.err, objects.iter().map(|(case, object)| (case, *object)))
}

/// kubectl complains in one line for each object, with its kind and name.
fn complaints<'a>(
    text: &str,
    objects: impl Iterator<Item = (&'a &'a Case, &'a serde_json::Value)>,
) -> BTreeMap<String, Vec<String>> {
    let subjects: BTreeMap<String, String> = objects
        .map(|(case, object)| {
            (
                format!(" {}.k8s.ovn.org {} is invalid:", case.kind.name(), object["metadata"]["name"]),
                case.id.clone(),
            )
        })
        .collect();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let subject = line.find(" is invalid:").and_then(|end| {
            let start = line[..end].rfind(": ")? + 1;
            subjects.get(&line[start..end + " is invalid:".len()])
        });
        found.entry(subject.cloned().unwrap_or("kubectl itself".into())).or_default().push(line.to_owned());
    }
    found
}

#[test]
fn every_case_gets_its_verdict() {
    let server = Server::start();
    install(&server);
    let cases = cases();
    let objects: Vec<(&Case, &serde_json::Value)> = cases.iter().map(|case| (case, &case.object)).collect();
    let mut messages = send(&server, "create", &objects);
    assert_eq!(messages.remove("kubectl itself"), None);
    let updates: Vec<(&Case, &serde_json::Value)> =
        cases.iter().filter_map(|case| Some((case, case.update.as_ref()?))).collect();
    for (case, _) in &updates {
        assert_eq!(messages.get(&case.id), None, "{}: before the update", case.id);
    }
    messages.extend(send(&server, "replace", &updates));
    let none = Vec::new();
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| !as_wanted(case, messages.get(&case.id).unwrap_or(&none)))
        .map(|case| format!("{}: wanted {:?}, got {:#?}", case.id, case.reject, messages.get(&case.id)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
