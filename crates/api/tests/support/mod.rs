//! The accept and reject cases, and an API server's judgement of them without an API server.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod structural;

use causeway_api::schema::{
    cluster_network_connect, cluster_user_defined_network, rules, rules::Rule, schema_of,
    user_defined_network,
};
use kube_cel::Validator;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

/// The namespace of namespaced cases.
pub(crate) const NAMESPACE: &str = "cases";

/// One object, perhaps an update of it, and the verdict.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) object: Value,
    pub(crate) update: Option<Value>,
    pub(crate) reject: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Udn,
    Cudn,
    Cnc,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Udn, Self::Cudn, Self::Cnc];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Udn => "UserDefinedNetwork",
            Self::Cudn => "ClusterUserDefinedNetwork",
            Self::Cnc => "ClusterNetworkConnect",
        }
    }

    pub(crate) fn rules(self) -> Vec<Rule> {
        match self {
            Self::Udn => rules::user_defined_network(),
            Self::Cudn => rules::cluster_user_defined_network(),
            Self::Cnc => rules::cluster_network_connect(),
        }
    }

    pub(crate) fn schema(self, rules: &[Rule]) -> Value {
        let definition = match self {
            Self::Udn => user_defined_network(rules),
            Self::Cudn => cluster_user_defined_network(rules),
            Self::Cnc => cluster_network_connect(rules),
        };
        schema_of(&definition.unwrap()).clone()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    #[serde(default, deserialize_with = "some")]
    udn: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    cudn: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    cnc: Option<Value>,
    layer2: Option<Value>,
    layer3: Option<Value>,
    localnet: Option<Value>,
    flat: Option<Value>,
    then: Option<Value>,
    reject: Option<String>,
    only: Option<Vec<String>>,
}

/// `udn: null` is an object without spec, which is not the same as no `udn`.
fn some<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

type Place = (&'static str, Kind, fn(&Value) -> Value);

fn places(written: &Written) -> (Value, Vec<Place>) {
    let block = |topology: &'static str| match topology {
        "Layer2" => [
            ("udn", Kind::Udn, (|v| json!({"topology": "Layer2", "layer2": v})) as fn(&Value) -> Value),
            (
                "cudn",
                Kind::Cudn,
                |v| json!({"namespaceSelector": {}, "network": {"topology": "Layer2", "layer2": v}}),
            ),
        ],
        _ => [
            ("udn", Kind::Udn, (|v| json!({"topology": "Layer3", "layer3": v})) as fn(&Value) -> Value),
            (
                "cudn",
                Kind::Cudn,
                |v| json!({"namespaceSelector": {}, "network": {"topology": "Layer3", "layer3": v}}),
            ),
        ],
    };
    let whole: fn(&Value) -> Value = Value::clone;
    match written {
        Written { udn: Some(v), .. } => (v.clone(), vec![("", Kind::Udn, whole)]),
        Written { cudn: Some(v), .. } => (v.clone(), vec![("", Kind::Cudn, whole)]),
        Written { cnc: Some(v), .. } => (v.clone(), vec![("", Kind::Cnc, whole)]),
        Written { layer2: Some(v), .. } => (v.clone(), block("Layer2").into()),
        Written { layer3: Some(v), .. } => (v.clone(), block("Layer3").into()),
        Written { localnet: Some(v), .. } => (
            v.clone(),
            vec![(
                "cudn",
                Kind::Cudn,
                |v| json!({"namespaceSelector": {}, "network": {"topology": "Localnet", "localnet": v}}),
            )],
        ),
        Written { flat: Some(v), .. } => (
            v.clone(),
            vec![
                ("udn", Kind::Udn, whole),
                ("template", Kind::Cudn, |v| json!({"namespaceSelector": {}, "template": v})),
                ("template-spec", Kind::Cudn, |v| json!({"namespaceSelector": {}, "template": {"spec": v}})),
            ],
        ),
        _ => panic!("{}: what is the case about?", written.id),
    }
}

fn expand(written: Written) -> Vec<Case> {
    let (subject, places) = places(&written);
    let wanted = |place: &str| written.only.as_ref().is_none_or(|only| only.iter().any(|o| o == place));
    places
        .into_iter()
        .filter(|(place, ..)| wanted(place))
        .map(|(place, kind, wrap)| {
            let id = [written.id.trim_end_matches('+'), place].join("-").trim_end_matches('-').to_owned();
            let object = |subject: &Value| object(kind, &id, wrap(subject));
            Case {
                kind,
                object: object(&subject),
                update: written.then.as_ref().map(object),
                reject: written.reject.clone(),
                id: id.clone(),
            }
        })
        .collect()
}

fn object(kind: Kind, id: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "k8s.ovn.org/v1",
        "kind": kind.name(),
        "metadata": {"name": id.to_lowercase()},
    });
    if kind == Kind::Udn {
        object["metadata"]["namespace"] = NAMESPACE.into();
    }
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

/// Every case of `tests/cases`, and those that are too long to be written out.
pub(crate) fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = ["network-blocks.yaml", "network-flat.yaml", "network-whole.yaml", "connect.yaml"];
    let written = files.iter().flat_map(|file| {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        serde_yaml::from_str::<Vec<Written>>(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
    });
    written.chain(long_cases()).flat_map(expand).collect()
}

/// udn-cases A031 and A047, and names at their limits.
fn long_cases() -> Vec<Written> {
    let layer3 = |count: usize| {
        let subnet = |i: usize| json!({"cidr": format!("10.{}.{}.0/24", i / 256, i % 256), "hostSubnet": 28});
        json!({"role": "Primary", "subnets": (0..count).map(subnet).collect::<Vec<_>>()})
    };
    // Texts as long as they get, which the server's cost budget feels.
    let ipv6 = |count: usize| {
        let subnet =
            |i: usize| json!({"cidr": format!("fd00:1111:2222:{:04x}:0000:0000:0000:0000/63", 2 * i)});
        json!({"role": "Primary", "subnets": (0..count).map(subnet).collect::<Vec<_>>()})
    };
    let list = |field: &str, count: usize| {
        let subnet = |i: usize| format!("10.0.{i}.0/28");
        json!({"role": "Primary", "subnets": ["10.0.0.0/16"], field: (0..count).map(subnet).collect::<Vec<_>>()})
    };
    let mut flat = list("excludeSubnets", 26);
    flat["topology"] = "Layer2".into();
    let localnet = |name: usize, excludes: usize| {
        let subnet = |i: usize| format!("10.0.{i}.0/28");
        json!({"role": "Secondary", "physicalNetworkName": "a".repeat(name), "subnets": ["10.0.0.0/16"],
               "excludeSubnets": (0..excludes).map(subnet).collect::<Vec<_>>()})
    };
    let vtep = |length: usize| {
        json!({"namespaceSelector": {}, "network": {"topology": "Layer2",
               "layer2": {"role": "Primary", "subnets": ["10.0.0.0/16"]}, "transport": "EVPN",
               "evpn": {"vtep": "v".repeat(length), "macVRF": {"vni": 1}}}})
    };
    let selectors: Vec<Value> = [
        "DefaultNetwork",
        "ClusterUserDefinedNetworks",
        "PrimaryUserDefinedNetworks",
        "SecondaryUserDefinedNetworks",
        "NetworkAttachmentDefinitions",
        "DefaultNetwork",
    ]
    .iter()
    .map(|kind| json!({"networkSelectionType": kind}))
    .collect();
    let six = json!({"networkSelectors": selectors, "connectivity": ["PodNetwork"],
                     "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}]});
    let cases = json!([
        {"id": "udn-A047", "layer3": layer3(17), "reject": "Too many: 17: must have at most 16 items"},
        {"id": "udn-A047-16+", "layer3": layer3(16)},
        {"id": "udn-A047-append+", "layer3": layer3(15), "then": layer3(16)},
        {"id": "udn-A047-ipv6-16+", "layer3": ipv6(16)},
        {"id": "udn-A047-ipv6-append+", "layer3": ipv6(15), "then": ipv6(16)},
        {"id": "udn-A031-reserved", "layer2": list("reservedSubnets", 26),
         "reject": "Too many: 26: must have at most 25 items"},
        {"id": "udn-A031-reserved-25+", "layer2": list("reservedSubnets", 25)},
        {"id": "udn-A031-exclude+", "layer2": list("excludeSubnets", 26),
         "reject": "Too many: 26: must have at most 25 items"},
        {"id": "udn-B017-26+", "flat": flat, "reject": "Too many: 26: must have at most 25 items"},
        {"id": "udn-A060-exclude-26+", "localnet": localnet(1, 26),
         "reject": "Too many: 26: must have at most 25 items"},
        {"id": "udn-A054-long+", "localnet": localnet(254, 1), "reject": "may not be more than 253 bytes"},
        {"id": "udn-T13-vtep-long+", "cudn": vtep(254), "reject": "may not be more than 253 bytes"},
        {"id": "cnc-B09-six+", "cnc": six, "reject": "Too many: 6: must have at most 5 items"},
    ]);
    serde_json::from_value(cases).unwrap()
}

/// The messages with which an API server would refuse the object, or the update of it.
pub(crate) fn judge(schema: &Value, case: &Case) -> Vec<String> {
    match &case.update {
        None => judge_one(schema, &case.object, None),
        Some(update) => {
            assert_eq!(
                judge_one(schema, &case.object, None),
                Vec::<String>::new(),
                "{}: before the update",
                case.id
            );
            judge_one(schema, update, Some(&case.object))
        }
    }
}

/// Structure first: the server does not evaluate rules on an object of the wrong shape.
pub(crate) fn judge_one(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut messages = structural::errors(schema, object);
    if messages.is_empty()
        && let Err(errors) = Validator::new().validate(schema, object, old)
    {
        messages = errors.iter().map(|error| format!("{}: {}", error.field_path, error.message)).collect();
    }
    messages
}

/// Whether the verdict is the one the case wants.
pub(crate) fn as_wanted(case: &Case, messages: &[String]) -> bool {
    match &case.reject {
        None => messages.is_empty(),
        Some(wanted) => messages.iter().any(|message| message.contains(wanted)),
    }
}
