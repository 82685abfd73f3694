//! Every case gets the verdict it wants, and every rule is needed for one.

mod support;

use kube_core::cel::cel;
use support::{Case, Kind, as_wanted, cases, judge};

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
