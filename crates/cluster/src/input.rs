//! What goes into the manager, and what comes out of it.

use causeway_alloc::Reuse;
use causeway_api::policy::{PolicyId, PolicyKind};
use causeway_record::{
    ClusterPolicy, Connect, Cudn, EndpointSlice, Event, EventNote, Nad, Namespace, NetworkPolicy, Node,
    ObjectKey, Outcome, Part, Pod, Request, Target, Udn, Vtep, ZoneReport,
};
use causeway_types::{ConnectName, NamespaceName, NodeName, ObjectName};
use serde::{Deserialize, Serialize};

/// One message to the manager.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs, reason = "they are called like the kinds that they are about")]
#[allow(clippy::large_enum_variant, reason = "few wait at once, and each is taken apart at once")]
pub enum Input {
    Node(Event<Node, NodeName>),
    Namespace(Event<Namespace, NamespaceName>),
    Pod(Event<Pod, ObjectKey>),
    Nad(Event<Nad, ObjectKey>),
    UserDefinedNetwork(Event<Udn, ObjectKey>),
    ClusterUserDefinedNetwork(Event<Cudn, ObjectName>),
    ClusterNetworkConnect(Event<Connect, ConnectName>),
    Vtep(Event<Vtep, ObjectName>),
    ZoneReport(Event<ZoneReport, NodeName>),
    EndpointSlice(Event<EndpointSlice, ObjectKey>),
    NetworkPolicy(Event<NetworkPolicy, ObjectKey>),
    /// A cluster-scoped policy of a kind.
    Policy(PolicyKind, Event<ClusterPolicy, PolicyId>),
    /// Freed numbers, as they were recorded.
    FreedNumbers(Box<Reuse>),
    /// How a write ended.
    Written(Outcome),
    /// The time, in milliseconds since 1970.
    Tick(i64),
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Output {
    /// Something to write. It replaces what waits for the same part of the same object.
    Write(Request),
    /// What waits for this part of this object is not to be written any more.
    Withdraw {
        /// The object.
        target: Target,
        /// Which part of it.
        part: Part,
    },
    /// Something to say.
    Event(EventNote),
}
