//! What reaches the role's task, and the watches that bring it.

use causeway_api::crd::policy;
use causeway_api::install::FREED_NUMBERS;
use causeway_record::{
    Connect, EndpointSlice, Event, FreedNumbers, Nad, Namespace, NetworkPolicy, Node, OfKind, Outcome,
    OwnReport, Pod, PolicyObject, Service,
};
use causeway_runtime::watch::{Lists, Selection, Watches};
use causeway_types::NodeName;
use causeway_zone::Input;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::flags::NodeFlags;

/// What reaches the task.
#[allow(clippy::large_enum_variant, reason = "few wait at once, and each is taken apart at once")]
pub(super) enum Message {
    Input(Input),
    Written(Outcome),
    /// What this node's report says, by whosever hand.
    Reported(Event<OwnReport, NodeName>),
}

/// Starts to watch everything that the role follows.
pub(super) fn start_watches(client: &Client, mut watches: Watches<'_, Message>, flags: &NodeFlags) {
    let all = || Selection { lists: Lists::Streamed, ..Selection::default() };
    watches.everywhere::<Node>(client, all(), |event| Message::Input(Input::Node(event)));
    watches.everywhere::<Namespace>(client, all(), |event| Message::Input(Input::Namespace(event)));
    watches.everywhere::<Nad>(client, all(), |event| Message::Input(Input::Nad(event)));
    watches.everywhere::<Service>(client, all(), |event| Message::Input(Input::Service(Box::new(event))));
    watches.everywhere::<EndpointSlice>(client, all(), |event| Message::Input(Input::EndpointSlice(event)));
    watches.everywhere::<NetworkPolicy>(client, all(), |event| {
        Message::Input(Input::NetworkPolicy(Box::new(event)))
    });
    watches.everywhere::<Pod>(client, all(), |event| Message::Input(Input::Pod(event)));
    policies::<policy::ClusterNetworkPolicy>(client, &mut watches);
    policies::<policy::AdminNetworkPolicy>(client, &mut watches);
    policies::<policy::BaselineAdminNetworkPolicy>(client, &mut watches);
    if flags.enable_network_connect {
        let optional = Selection { optional: true, ..all() };
        watches
            .everywhere::<Connect>(client, optional, |event| Message::Input(Input::Connect(Box::new(event))));
    }
    let own =
        Selection { fields: Some(format!("metadata.name={}", flags.node_name)), ..Selection::default() };
    watches.everywhere::<OwnReport>(client, own, Message::Reported);
    // The one record of freed numbers.
    let freed = Selection { fields: Some(format!("metadata.name={FREED_NUMBERS}")), ..Selection::default() };
    let api = Api::<ConfigMap>::namespaced(client.clone(), &flags.cluster.namespace);
    watches.of::<FreedNumbers>(api, freed, |event| Message::Input(Input::Freed(Box::new(event))));
}

/// Cluster-scoped policies of a kind. Their API is another project's: a cluster may do without it.
fn policies<K: PolicyObject>(client: &Client, watches: &mut Watches<'_, Message>) {
    let optional = Selection { optional: true, lists: Lists::Streamed, ..Selection::default() };
    watches.everywhere::<OfKind<K>>(client, optional, |event| {
        let event = event.map(|read: OfKind<K>| read.policy);
        Message::Input(Input::ClusterPolicy(K::KIND, Box::new(event)))
    });
}
