//! A recording of a node, played again: it plans what the node planned.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_api::policy::PolicyKind;
use causeway_plan::replay::{Answer, ROLE, replay};
use causeway_record::Event;
use causeway_record::recording::{Header, line};
use causeway_zone::Input;
use support::*;

/// What a role with `--record` writes: a header, the lists, then what happens.
fn recording(inputs: &[Input]) -> String {
    let header = line(1, &Header::new(ROLE, &config(Ip::V4))).unwrap();
    let lines = (2..).zip(inputs).map(|(number, input)| line(number, input).unwrap());
    std::iter::once(header).chain(lines).collect::<Vec<_>>().join("\n")
}

fn play(text: &str) -> Vec<Answer> {
    let mut lines = text.lines();
    let header = Header::read(lines.next().unwrap()).unwrap();
    replay(&header, lines).unwrap().map(Result::unwrap).collect()
}

fn lists() -> Vec<Input> {
    vec![
        Input::Node(Event::Applied(node("n1", 2))),
        Input::Node(Event::Applied(node("n2", 3))),
        Input::Node(Event::Synced),
        Input::Namespace(Event::Synced),
        Input::Service(Box::new(Event::Synced)),
        Input::EndpointSlice(Event::Synced),
        Input::NetworkPolicy(Box::new(Event::Synced)),
        Input::ClusterPolicy(PolicyKind::Cluster, Box::new(Event::Synced)),
        Input::ClusterPolicy(PolicyKind::Admin, Box::new(Event::Synced)),
        Input::ClusterPolicy(PolicyKind::Baseline, Box::new(Event::Synced)),
        Input::Pod(Event::Synced),
        Input::Nad(Event::Synced),
    ]
}

#[test]
fn nothing_is_planned_before_everything_has_listed_and_then_all() {
    let answers = play(&recording(&lists()));
    assert!(answers.iter().all(|answer| answer.line == 13), "the last list makes the picture whole");
    let slices: Vec<&str> = answers.iter().map(|answer| answer.slice.as_str()).collect();
    assert!(slices.contains(&"network:default:core:") && slices.contains(&"chassis:n2"), "{slices:?}");
    let chassis = answers.iter().find(|answer| answer.slice == "chassis:n2").unwrap();
    let tables: Vec<&str> = chassis.rows.iter().map(|row| row.table).collect();
    assert_eq!((chassis.database, tables), ("southbound", vec!["Chassis", "Encap"]));
}

#[test]
fn what_comes_later_is_planned_as_it_comes() {
    let mut inputs = lists();
    inputs.push(Input::Nad(Event::Applied(blue(Ip::V4))));
    inputs.push(Input::Pod(Event::Applied(web(Ip::V4))));
    inputs.push(Input::Pod(Event::Deleted(web(Ip::V4).key)));
    let text = recording(&inputs);
    let answers = play(&text);
    let of = |line: usize, slice: &str| {
        let found = answers.iter().find(|answer| answer.line == line && answer.slice == slice);
        found.map(|answer| answer.rows.len())
    };
    assert_eq!(of(15, "network:cluster_udn_blue:pod:ns1:web-0:"), Some(1));
    assert_eq!(of(16, "network:cluster_udn_blue:pod:ns1:web-0:"), Some(0), "its rows go");
    // Twice the same.
    let texts = |answers: &[Answer]| serde_json::to_string(answers).unwrap();
    assert_eq!(texts(&answers), texts(&play(&text)));
}

#[test]
fn a_line_that_cannot_be_read_is_named() {
    let text = recording(&lists()[..1]) + "\n{";
    let mut lines = text.lines();
    let header = Header::read(lines.next().unwrap()).unwrap();
    let error = replay(&header, lines).unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("line 3"), "{error}");
}
