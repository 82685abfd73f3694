//! From the wiring of a pod to interfaces of a sandbox, or to words about what is missing.

use super::attachment::{Owner, PRIMARY_INTERFACE, Wanted};
use causeway_api::annotations::{Attachment, keys};
use causeway_cni::{ErrorCode, ErrorObject};
use causeway_plan::wiring::{self, Attached, Wiring};
use causeway_record::ObjectKey;
use causeway_types::{NamespaceName, ObjectName};

/// Which pod, in which sandbox, with which first interface.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) key: ObjectKey,
    pub(super) name: ObjectName,
    /// The UID that the kubelet tells; empty if it tells none.
    pub(super) uid: String,
    pub(super) sandbox: String,
    pub(super) ifname: String,
}

impl Subject {
    /// Checks what the runtime says.
    pub(super) fn new(call: &causeway_cni::Invocation) -> Result<Subject, ErrorObject> {
        let missing = |e: causeway_types::Error| {
            let msg = format!("CNI_ARGS does not name a pod: {e}");
            ErrorObject::new(ErrorCode::InvalidEnvironment, msg).advise(
                "causeway-cni connects pods of Kubernetes; K8S_POD_NAMESPACE and K8S_POD_NAME must be there",
            )
        };
        let namespace = NamespaceName::new(call.pod.namespace.clone()).map_err(missing)?;
        let name = ObjectName::new(call.pod.name.clone()).map_err(missing)?;
        if call.ifname == PRIMARY_INTERFACE {
            let msg =
                format!("CNI_IFNAME is {PRIMARY_INTERFACE}, which is the interface of primary networks");
            return Err(ErrorObject::new(ErrorCode::InvalidEnvironment, msg));
        }
        Ok(Subject {
            key: ObjectKey { namespace, name: call.pod.name.clone() },
            name,
            uid: call.pod.uid.clone(),
            sandbox: call.container_id.clone(),
            ifname: call.ifname.clone(),
        })
    }
}

/// What a pod waits for. Everything here can still come.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Missing {
    /// The pod is not known on this node.
    Pod,
    /// Another pod of the same name is known: the old one, or already the next.
    OtherPod(String),
    /// Something that the pod's wiring waits for.
    Wiring(wiring::Missing),
}

impl Missing {
    /// The words for the pod's events.
    pub(super) fn error(&self, subject: &Subject) -> ErrorObject {
        let pod = &subject.key;
        let (msg, advice) = match self {
            Missing::Pod => (
                format!("pod {pod} is not known on this node"),
                "the API server may be out of reach for causeway node: look at its log".to_owned(),
            ),
            Missing::OtherPod(uid) => (
                format!("pod {pod} has UID {uid} in the API, not {}", subject.uid),
                "the pod was replaced; nothing to do, the kubelet starts the new one".to_owned(),
            ),
            Missing::Wiring(missing) => return words(missing, subject),
        };
        ErrorObject::new(ErrorCode::NotConnected, msg).advise(advice)
    }
}

fn words(missing: &wiring::Missing, subject: &Subject) -> ErrorObject {
    let (pod, namespace) = (&subject.key, &subject.key.namespace);
    let annotation = keys::POD_NETWORKS;
    let (msg, advice) = match missing {
        wiring::Missing::Addresses => (
            format!("pod {pod} has no addresses: the annotation {annotation} is not there"),
            "look at the pod's events for ErrorAllocatingPod (no address left, a bad request), and whether the \
             cluster manager runs"
                .to_owned(),
        ),
        wiring::Missing::Annotation(problem) => (
            format!("pod {pod}: {problem}"),
            format!("only the cluster manager writes {annotation}: find out who else did, then delete the pod"),
        ),
        wiring::Missing::PrimaryNetwork => (
            format!("namespace {namespace} is labelled {} but has no primary network", keys::PRIMARY_NETWORK_LABEL),
            format!(
                "create a UserDefinedNetwork with role Primary in {namespace}, or a ClusterUserDefinedNetwork that \
                 selects it; then the pod starts by itself"
            ),
        ),
        wiring::Missing::PrimaryAddresses => (
            format!("pod {pod} has no addresses on the primary network of namespace {namespace}"),
            "look at the pod's events for ErrorAllocatingPod (no address left, a bad request), at the network's \
             conditions, and whether the cluster manager runs"
                .to_owned(),
        ),
        wiring::Missing::Network(Attachment::Default, why) => (
            with_reason("the default network is not known on this node".to_owned(), why.as_deref()),
            "the node waits for its subnet: look at the log of causeway node and whether the cluster manager runs"
                .to_owned(),
        ),
        wiring::Missing::Network(Attachment::Nad(nad), why) => (
            with_reason(format!("the network of {nad} is not known on this node"), why.as_deref()),
            format!("look at the NetworkAttachmentDefinition {nad} and at its network's conditions"),
        ),
    };
    ErrorObject::new(ErrorCode::NotConnected, msg).advise(advice)
}

fn with_reason(msg: String, why: Option<&str>) -> String {
    why.map_or_else(|| msg.clone(), |why| format!("{msg}: {why}"))
}

/// What can be said of a pod now.
#[derive(Debug)]
pub(super) enum Verdict {
    /// These interfaces.
    Connect(Vec<Wanted>),
    /// Not yet.
    Wait(Missing),
    /// Never like this.
    Refuse(ErrorObject),
}

/// Turns the published value into interfaces of this sandbox, or into words for the runtime.
pub(super) fn decide(subject: &Subject, published: Option<&Wiring>) -> Verdict {
    let Some(published) = published else { return Verdict::Wait(Missing::Pod) };
    if !published.pod.is(&subject.uid) {
        return Verdict::Wait(Missing::OtherPod(published.pod.uid.clone()));
    }
    match &published.verdict {
        wiring::Verdict::Connect(attached) => {
            Verdict::Connect(interfaces(subject, &published.pod.uid, attached))
        }
        wiring::Verdict::Wait(missing) => Verdict::Wait(Missing::Wiring(missing.clone())),
        wiring::Verdict::Refuse(refusal) => {
            let error = ErrorObject::new(ErrorCode::NotConnected, refusal.message.clone());
            Verdict::Refuse(error.advise(refusal.advice.clone()))
        }
    }
}

fn interfaces(subject: &Subject, uid: &str, attached: &[Attached]) -> Vec<Wanted> {
    let owner = Owner { key: &subject.key, name: &subject.name, uid, sandbox: &subject.sandbox };
    let names = [subject.ifname.as_str(), PRIMARY_INTERFACE];
    let numbered = attached.iter().zip(names).zip(0..);
    numbered.map(|((attached, name), number)| Wanted::new(&owner, (name, number), attached)).collect()
}
