//! A recording of a node, played again: it plans what the node planned.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_api::policy::PolicyKind;
use causeway_plan::host::{HostDirty, HostKeeper};
use causeway_plan::replay::{Answer, Host, ROLE, Slice, What, Wired, replay};
use causeway_record::Event;
use causeway_record::recording::{Header, line};
use causeway_types::host::{HostPlan, HostUpdate};
use causeway_zone::{Input, Knowledge, ZoneConfig};
use serde_json::json;
use support::*;

/// What a role with `--record` writes: a header, the lists, then what happens.
fn recording(inputs: &[Input]) -> String {
    recorded(&config(Ip::V4), inputs)
}

fn recorded(config: &ZoneConfig, inputs: &[Input]) -> String {
    let header = line(1, &Header::new(ROLE, config)).unwrap();
    let lines = (2..).zip(inputs).map(|(number, input)| line(number, input).unwrap());
    std::iter::once(header).chain(lines).collect::<Vec<_>>().join("\n")
}

fn play(text: &str) -> Vec<Answer> {
    let mut lines = text.lines();
    let header = Header::read(lines.next().unwrap()).unwrap();
    replay(&header, lines).unwrap().map(Result::unwrap).collect()
}

fn slices(answers: &[Answer]) -> impl Iterator<Item = (usize, &Slice)> {
    answers.iter().filter_map(|answer| match &answer.what {
        What::Slice(slice) => Some((answer.line, slice)),
        _ => None,
    })
}

fn slice<'a>(answers: &'a [Answer], line: usize, path: &str) -> Option<&'a Slice> {
    slices(answers).find(|(at, slice)| *at == line && slice.slice == path).map(|(_, slice)| slice)
}

fn pods(answers: &[Answer]) -> impl Iterator<Item = (usize, &Wired)> {
    answers.iter().filter_map(|answer| match &answer.what {
        What::Pod(pod) => Some((answer.line, pod)),
        _ => None,
    })
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
    let paths: Vec<&str> = slices(&answers).map(|(_, slice)| slice.slice.as_str()).collect();
    assert!(paths.contains(&"network:default:core:") && paths.contains(&"chassis:n2"), "{paths:?}");
    let chassis = slice(&answers, 13, "chassis:n2").unwrap();
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
    let of = |line: usize, path: &str| slice(&answers, line, path).map(|slice| slice.rows.len());
    assert_eq!(of(15, "network:cluster_udn_blue:pod:ns1:web-0:"), Some(1));
    assert_eq!(of(16, "network:cluster_udn_blue:pod:ns1:web-0:"), Some(0), "its rows go");
    // Twice the same.
    let texts = |answers: &[Answer]| serde_json::to_string(answers).unwrap();
    assert_eq!(texts(&answers), texts(&play(&text)));
}

/// What is right as it is does not look like what goes.
#[test]
fn links_that_linger_are_not_shown_as_gone() {
    let config = ZoneConfig { linger_ms: 5_000, ..config(Ip::V4) };
    let road = connect("road", "transit", Ip::V4, &COLOURS);
    let mut inputs = lists();
    for nad in [layer3("blue", 1, Ip::V4), layer3("orange", 2, Ip::V4), green(Ip::V4)] {
        inputs.push(Input::Nad(Event::Applied(nad)));
    }
    inputs.push(Input::Connect(Box::new(Event::Applied(road.clone()))));
    inputs.push(Input::Connect(Box::new(Event::Synced)));
    inputs.push(Input::Tick(0));
    inputs.push(Input::Connect(Box::new(Event::Deleted(road.name))));
    inputs.extend([Input::Tick(1_000), Input::Tick(7_000)]);
    let answers = play(&recorded(&config, &inputs));
    let link = |line: usize| {
        let slice = slice(&answers, line, "cnc:road:link:cluster_udn_blue:n1:");
        slice.map(|slice| (slice.rows.is_empty(), slice.kept, slice.held.is_some()))
    };
    assert_eq!(link(17), Some((false, false, false)));
    assert_eq!(link(20), Some((true, true, false)), "it lingers");
    assert_eq!(link(22), Some((true, false, false)), "it goes");
    let text = |line: usize| {
        let of_link = |answer: &&Answer| {
            answer.line == line
                && matches!(&answer.what, What::Slice(slice) if slice.slice == "cnc:road:link:cluster_udn_blue:n1:")
        };
        serde_json::to_string(answers.iter().find(of_link).unwrap()).unwrap()
    };
    assert_eq!(
        text(20),
        r#"{"line":20,"database":"northbound","slice":"cnc:road:link:cluster_udn_blue:n1:","rows":[],"kept":true}"#
    );
    assert!(!text(22).contains("kept"));
}

/// All that was said of the host makes the plan that a node would have now.
#[test]
fn the_hosts_plan_is_played_too() {
    let fields = json!({
        "topology": "layer3", "subnets": "10.20.0.0/16/24", "transport": "evpn",
        "evpn": {"vtep": "fabric", "ipVRF": {"vni": 1001}},
    });
    let blue = nad("ns1/blue", "cluster_udn_blue", 1, fields);
    let here = annotate(node("n1", 2), "vteps", r#"{"fabric":{"ips":["10.255.0.1"]}}"#);
    let mut inputs = lists();
    inputs[0] = Input::Node(Event::Applied(here));
    inputs.push(Input::Nad(Event::Applied(blue.clone())));
    let mut known = Knowledge::new(config(Ip::V4));
    inputs.iter().for_each(|input| drop(known.step(input.clone())));
    let mut expected = HostPlan::default();
    expected.update(HostKeeper::default().follow(&known.zone, &HostDirty::everything()));
    let vrf = expected.items().keys().find(|key| key.to_string() == "link blue").unwrap();

    let answers = play(&recording(&inputs));
    let mut played = HostPlan::default();
    let keys: Vec<_> = expected.items().keys().map(|key| (key.to_string(), key.clone())).collect();
    for answer in &answers {
        if let What::Host(Host::Item { host, planned }) = &answer.what
            && let Some((_, key)) = keys.iter().find(|(text, _)| text == host)
        {
            played.update(HostUpdate {
                items: [(key.clone(), planned.clone())].into(),
                ..HostUpdate::default()
            });
        }
    }
    assert_eq!(played.items(), expected.items());
    // What comes is said with its owner, and what goes.
    inputs.push(Input::Nad(Event::Deleted(blue.key)));
    let answers = play(&recording(&inputs));
    let said = |line: usize| {
        let of_vrf = |answer: &&Answer| {
            let What::Host(Host::Item { host, .. }) = &answer.what else { return false };
            answer.line == line && *host == vrf.to_string()
        };
        serde_json::to_value(answers.iter().find(of_vrf).unwrap()).unwrap()
    };
    assert_eq!(said(14)["planned"]["owner"], "network:cluster_udn_blue", "{}", said(14));
    assert_eq!(said(15), json!({"line": 15, "host": "link blue", "planned": null}));
}

#[test]
fn a_pods_interfaces_are_played_too() {
    let mut inputs = lists();
    inputs.push(Input::Pod(Event::Applied(web(Ip::V4))));
    inputs.push(Input::Nad(Event::Applied(blue(Ip::V4))));
    inputs.push(Input::Pod(Event::Deleted(web(Ip::V4).key)));
    let answers = play(&recording(&inputs));
    let said: Vec<(usize, String)> =
        pods(&answers).map(|(line, pod)| (line, serde_json::to_string(pod).unwrap())).collect();
    let [(14, waits), (15, connected), (16, gone)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(waits, r#"{"pod":"ns1/web-0","networks":[],"waits":"the network of ns1/blue is not known"}"#);
    assert!(
        connected.contains(r#""network":"cluster_udn_blue","addresses":["10.20.0.5/24"]"#),
        "{connected}"
    );
    assert_eq!(gone, r#"{"pod":"ns1/web-0","networks":[]}"#);
}

#[test]
fn a_line_that_cannot_be_read_is_named() {
    let text = recording(&lists()[..1]) + "\n{";
    let mut lines = text.lines();
    let header = Header::read(lines.next().unwrap()).unwrap();
    let error = replay(&header, lines).unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("line 3"), "{error}");
}
