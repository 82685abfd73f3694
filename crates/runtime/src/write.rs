//! Kubernetes writes: a keyed queue. The last value for a key wins, each object has one write in flight, pods go first.
//!
//! Owns when a write is sent and when it is sent again. Never decides what follows from a failure: every attempt is
//! reported, and whoever asked may replace the value meanwhile.

mod queue;
mod send;

use std::fmt;
use std::time::Duration;

use kube::Client;
use kube::api::ApiResource;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use queue::Queue;

/// How long a write may take. One that took longer may still have happened.
const TIME_OUT: Duration = Duration::from_secs(3);
/// Writes in flight at once.
const IN_FLIGHT: usize = 32;

/// Which writes go first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Priority {
    /// Pods wait for these.
    Pod,
    /// Pods wait for these in the end: numbers, nodes, attachments.
    Network,
    /// Only people wait for these.
    Status,
}

/// The object that a write is about.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = self.kind.resource().plural;
        match &self.namespace {
            Some(namespace) => write!(f, "{plural} {namespace}/{}", self.name),
            None => write!(f, "{plural} {}", self.name),
        }
    }
}

/// The kinds that are written.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[allow(missing_docs, reason = "they are called like their kinds")]
pub enum Kind {
    Pod,
    Node,
    NetworkAttachmentDefinition,
    UserDefinedNetwork,
    ClusterUserDefinedNetwork,
    ClusterNetworkConnect,
    ZoneReport,
    IpamClaim,
    ConfigMap,
    EndpointSlice,
}

impl Kind {
    fn resource(self) -> ApiResource {
        use causeway_api::crd;
        use k8s_openapi::api::core::v1;
        use k8s_openapi::api::discovery::v1 as discovery;
        match self {
            Self::Pod => ApiResource::erase::<v1::Pod>(&()),
            Self::Node => ApiResource::erase::<v1::Node>(&()),
            Self::ConfigMap => ApiResource::erase::<v1::ConfigMap>(&()),
            Self::EndpointSlice => ApiResource::erase::<discovery::EndpointSlice>(&()),
            Self::NetworkAttachmentDefinition => ApiResource::erase::<crd::NetworkAttachmentDefinition>(&()),
            Self::UserDefinedNetwork => ApiResource::erase::<crd::UserDefinedNetwork>(&()),
            Self::ClusterUserDefinedNetwork => ApiResource::erase::<crd::ClusterUserDefinedNetwork>(&()),
            Self::ClusterNetworkConnect => ApiResource::erase::<crd::ClusterNetworkConnect>(&()),
            Self::ZoneReport => ApiResource::erase::<crd::ZoneReport>(&()),
            Self::IpamClaim => ApiResource::erase::<crd::IpamClaim>(&()),
        }
    }

    /// `apiVersion` and `kind`, as manifests have them.
    pub fn api_version_and_kind(self) -> (String, String) {
        let resource = self.resource();
        (resource.api_version, resource.kind)
    }
}

/// What is done to the object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Merge this into the object, or into one of its subresources.
    Merge {
        /// The subresource.
        subresource: Option<&'static str>,
        /// What is merged. With `metadata.uid` only into that very object.
        body: Value,
    },
    /// Apply this, with all fields that it names becoming ours.
    Apply {
        /// The subresource.
        subresource: Option<&'static str>,
        /// Who applies.
        manager: &'static str,
        /// What is applied, with `apiVersion`, `kind` and `metadata.name`.
        body: Value,
    },
    /// Create the object.
    Create(Value),
    /// Delete the object, if it is this very one.
    Delete {
        /// Its UID.
        uid: String,
    },
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The object.
    pub target: Target,
    /// Which part of the object it writes: a later write of the same part replaces it.
    pub part: &'static str,
    /// When it goes.
    pub priority: Priority,
    /// What it does.
    pub action: Action,
    /// Returned with the outcome.
    pub token: u64,
}

/// How one attempt of a write ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The object.
    pub target: Target,
    /// Which part of it.
    pub part: &'static str,
    /// The token of the request.
    pub token: u64,
    /// How it ended.
    pub result: Ended,
}

/// How one attempt of a write ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    /// It is written.
    Done,
    /// There is no such object. It is not tried again.
    NotFound,
    /// Somebody was faster, or the object is another one of the same name. It is not tried again.
    Conflict(String),
    /// Something else is wrong. It is tried again, later and later.
    Failed(String),
}

/// Where requests go in.
#[derive(Clone, Debug)]
pub struct Writer {
    requests: mpsc::UnboundedSender<Request>,
}

impl Writer {
    /// Starts the queue. Outcomes are sent to `outcomes`; the queue ends when nobody has the writer or the outcomes.
    pub fn start<M: Send + 'static>(
        client: Client,
        outcomes: mpsc::Sender<M>,
        wrap: impl Fn(Outcome) -> M + Send + 'static,
    ) -> Self {
        let (requests, incoming) = mpsc::unbounded_channel();
        tokio::spawn(run(client, incoming, outcomes, wrap));
        Self { requests }
    }

    /// Queues a write. A queue that has ended takes nothing more: the role is ending too.
    pub fn send(&self, request: Request) {
        let _ended = self.requests.send(request);
    }
}

async fn run<M: Send + 'static>(
    client: Client,
    mut incoming: mpsc::UnboundedReceiver<Request>,
    outcomes: mpsc::Sender<M>,
    wrap: impl Fn(Outcome) -> M + Send + 'static,
) {
    let mut queue = Queue::new(IN_FLIGHT);
    let mut flights: JoinSet<(Request, Ended)> = JoinSet::new();
    loop {
        for request in queue.due(Instant::now()) {
            let client = client.clone();
            flights.spawn(async move {
                let ended = send::send(&client, &request, TIME_OUT).await;
                (request, ended)
            });
        }
        let wake = queue.next_due();
        tokio::select! {
            request = incoming.recv() => match request {
                Some(request) => queue.put(request),
                None => return,
            },
            Some(Ok((request, ended))) = flights.join_next(), if !flights.is_empty() => {
                queue.ended(&request, &ended, Instant::now());
                let outcome =
                    Outcome { target: request.target, part: request.part, token: request.token, result: ended };
                if outcomes.send(wrap(outcome)).await.is_err() {
                    return;
                }
            }
            () = pause_until(wake), if wake.is_some() => {}
        }
    }
}

async fn pause_until(moment: Option<Instant>) {
    if let Some(moment) = moment {
        tokio::time::sleep_until(moment).await;
    }
}
