//! Every case gets the verdict it wants, and every rule is needed for one.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod support;

use kube_cel::cel;
use serde_json::Value;
use support::{Case, Kind, as_wanted, cases, judge, structural};

#[test]
fn every_case_gets_its_verdict() {
    let cases = cases();
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let schema = kind.schema(&kind.rules());
        for case in cases.iter().filter(|case| case.kind == kind) {
            let messages = judge(&schema, case);
            if !as_wanted(case, &messages) {
                wrong.push(format!("{}: wanted {:?}, got {messages:#?}", case.id, case.reject));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn case_ids_are_unique() {
    let mut ids: Vec<String> = cases().into_iter().map(|case| case.object["metadata"].to_string()).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

/// Taking away any rule lets through something that a case wants refused with that rule's message.
#[test]
fn no_rule_can_be_taken_away() {
    let cases = cases();
    let mut unneeded = Vec::new();
    for kind in Kind::ALL {
        let rules = kind.rules();
        for (index, rule) in rules.iter().enumerate() {
            let mut fewer = rules.clone();
            fewer.remove(index);
            let schema = kind.schema(&fewer);
            let about = |case: &&Case| {
                case.kind == kind && case.reject.as_ref().is_some_and(|wanted| rule.message.contains(wanted))
            };
            let noticed = cases.iter().filter(about).any(|case| !as_wanted(case, &judge(&schema, case)));
            if !noticed {
                unneeded.push(format!("{} {}", kind.name(), rule.id));
            }
        }
    }
    assert!(unneeded.is_empty(), "no case fails without these rules:\n{}", unneeded.join("\n"));
}

#[test]
fn rule_ids_are_unique_and_expressions_compile() {
    for kind in Kind::ALL {
        let rules = kind.rules();
        let mut ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rules.len());
        for rule in &rules {
            cel::Program::compile(&rule.rule).unwrap_or_else(|e| panic!("{}: {e}", rule.id));
        }
    }
}

/// Words of the schema that refuse something.
const LIMITS: [&str; 9] = [
    "enum",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minProperties",
];

/// Every limit below a pointer, as the pointer to it. What is inside of label selectors is not ours.
fn limits(schema: &Value, pointer: &str, found: &mut Vec<String>) {
    let Some(object) = schema.as_object() else { return };
    if schema["properties"].get("matchLabels").is_some() {
        return;
    }
    found.extend(
        LIMITS.iter().filter(|limit| object.contains_key(**limit)).map(|limit| format!("{pointer}/{limit}")),
    );
    if schema["x-kubernetes-list-type"] == "map" {
        found.push(format!("{pointer}/x-kubernetes-list-type"));
    }
    let required = schema["required"].as_array().map_or(0, Vec::len);
    found.extend((0..required).map(|index| format!("{pointer}/required/{index}")));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        limits(property, &format!("{pointer}/properties/{name}"), found);
    }
    limits(&schema["items"], &format!("{pointer}/items"), found);
}

fn without(schema: &Value, pointer: &str) -> Value {
    let mut schema = schema.clone();
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    match schema.pointer_mut(parent).unwrap() {
        Value::Array(list) => {
            list.remove(last.parse().unwrap());
        }
        Value::Object(object) => {
            object.remove(last);
        }
        other => panic!("{pointer} points into {other}"),
    }
    schema
}

/// Taking away any enum, required field or bound of a spec lets through something that a case wants refused.
#[test]
fn no_limit_can_be_taken_away() {
    let cases = cases();
    let mut unneeded = Vec::new();
    for kind in Kind::ALL {
        let schema = kind.schema(&[]);
        let refused = |schema: &Value, case: &Case| {
            let messages = structural::errors(schema, &case.object);
            !messages.is_empty() && as_wanted(case, &messages)
        };
        let shapes: Vec<&Case> =
            cases.iter().filter(|c| c.kind == kind && c.reject.is_some() && refused(&schema, c)).collect();
        let mut all = vec!["/required/0".to_owned()];
        limits(&schema["properties"]["spec"], "/properties/spec", &mut all);
        for limit in all {
            let fewer = without(&schema, &limit);
            if shapes.iter().all(|case| refused(&fewer, case)) {
                unneeded.push(format!("{} {limit}", kind.name()));
            }
        }
    }
    assert!(unneeded.is_empty(), "no case fails without these limits:\n{}", unneeded.join("\n"));
}

/// `kubectl explain` has something to say about every field.
#[test]
fn every_field_is_documented() {
    fn bare(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if property["description"].as_str().is_none_or(str::is_empty) {
                found.push(path.clone());
            }
            bare(property, &path, found);
        }
        if schema["items"].is_object() {
            bare(&schema["items"], &format!("{path}[]"), found);
        }
    }
    let mut found = Vec::new();
    for definition in causeway_api::schema::definitions(causeway_api::schema::CrdSet::All).unwrap() {
        let schema = causeway_api::schema::schema_of(&definition);
        bare(&schema["properties"]["spec"], &format!("{}.spec", definition["metadata"]["name"]), &mut found);
        bare(
            &schema["properties"]["status"],
            &format!("{}.status", definition["metadata"]["name"]),
            &mut found,
        );
    }
    assert_eq!(found, Vec::<String>::new());
}
