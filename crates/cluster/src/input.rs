//! What goes into the manager, and what comes out of it.

use causeway_alloc::Reuse;
use causeway_api::crd::{ClusterNetworkConnect, ClusterUserDefinedNetwork, UserDefinedNetwork, ZoneReport};
use causeway_record::Event;
use causeway_record::EventNote;
use causeway_record::{Nad, Namespace, Node, ObjectKey, Pod};
use causeway_record::{Outcome, Request};
use causeway_types::{ConnectName, NamespaceName, NodeName, ObjectName};

use crate::EndpointSlice;

/// One message to the manager.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "they are called like the kinds that they are about")]
#[allow(clippy::large_enum_variant, reason = "few wait at once, and each is taken apart at once")]
pub enum Input {
    Node(Event<Node, NodeName>),
    Namespace(Event<Namespace, NamespaceName>),
    Pod(Event<Pod, ObjectKey>),
    Nad(Event<Nad, ObjectKey>),
    UserDefinedNetwork(Event<UserDefinedNetwork, ObjectKey>),
    ClusterUserDefinedNetwork(Event<ClusterUserDefinedNetwork, ObjectName>),
    ClusterNetworkConnect(Event<ClusterNetworkConnect, ConnectName>),
    ZoneReport(Event<ZoneReport, NodeName>),
    EndpointSlice(Event<EndpointSlice, ObjectKey>),
    /// Freed numbers, as they were recorded.
    Memory(Box<Reuse>),
    /// How a write ended.
    Written(Outcome),
    /// The time, in milliseconds since 1970.
    Tick(i64),
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Something to write.
    Write(Request),
    /// Something to say.
    Event(EventNote),
}
