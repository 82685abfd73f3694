//! Cluster-scoped network policies of every kind: what they mean, read once for both roles.

use std::marker::PhantomData;

use causeway_api::crd::policy as crd;
use causeway_api::policy::{self, PolicyId, PolicyKind, Refusal};
use kube_core::{ApiResource, Object, Resource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::{created, uid};
use crate::{Logging, Watched};

/// A cluster-scoped policy.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ClusterPolicy {
    /// Its kind and name.
    pub id: PolicyId,
    /// Tells it from another one of the same name.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Counts the changes of its spec.
    pub generation: Option<i64>,
    /// Whether it is going.
    pub deleting: bool,
    /// What it means, or why it cannot be carried out.
    pub meant: Result<policy::ClusterPolicy, Refusal>,
    /// The status that it has.
    pub status: crd::PolicyStatus,
    /// What of it is logged.
    #[serde(default, skip_serializing_if = "Logging::is_off")]
    pub logging: Logging,
}

impl ClusterPolicy {
    /// Tells this spec of it from every other.
    pub fn version(&self) -> String {
        format!("{}/{}", self.uid, self.generation.unwrap_or_default())
    }
}

/// A kind of cluster-scoped policies.
pub trait PolicyObject: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {
    /// Which.
    const KIND: PolicyKind;
    /// Its plural.
    const PLURAL: &'static str;
}

impl PolicyObject for crd::ClusterNetworkPolicy {
    const KIND: PolicyKind = PolicyKind::Cluster;
    const PLURAL: &'static str = "clusternetworkpolicies";
}

impl PolicyObject for crd::AdminNetworkPolicy {
    const KIND: PolicyKind = PolicyKind::Admin;
    const PLURAL: &'static str = "adminnetworkpolicies";
}

impl PolicyObject for crd::BaselineAdminNetworkPolicy {
    const KIND: PolicyKind = PolicyKind::Baseline;
    const PLURAL: &'static str = "baselineadminnetworkpolicies";
}

/// A policy that was watched as one of this kind.
#[derive(Clone, Debug, PartialEq)]
pub struct OfKind<K> {
    /// Its `id` has the same kind.
    pub policy: ClusterPolicy,
    kind: PhantomData<K>,
}

/// The spec is read here, not by the stream: one that says what nobody knows stops no other.
impl<K: PolicyObject> Watched for OfKind<K> {
    type Object = Object<Value, crd::PolicyStatus>;
    type Key = PolicyId;
    const KIND: &'static str = K::PLURAL;

    fn kind() -> ApiResource {
        ApiResource::erase::<K>(&())
    }

    fn key(object: &Self::Object) -> Option<PolicyId> {
        Some(PolicyId { kind: K::KIND, name: object.metadata.name.clone()? })
    }

    fn trim(object: Self::Object, id: PolicyId) -> Self {
        let meta = object.metadata;
        let policy = ClusterPolicy {
            uid: uid(&meta),
            created: created(&meta),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            meant: policy::ClusterPolicy::read(id.kind, &id.name, &object.spec),
            status: object.status.unwrap_or_default(),
            logging: Logging::read(meta.annotations.as_ref()),
            id,
        };
        Self { policy, kind: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    fn cluster(tier: &str) -> ClusterPolicy {
        let read: OfKind<crd::ClusterNetworkPolicy> = trimmed(json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "guard", "generation": 3, "creationTimestamp": "1970-01-01T00:00:07Z"},
            "spec": {"tier": tier, "priority": 7, "subject": {"namespaces": {}},
                "egress": [{"action": "Deny", "to": [{"networks": ["0.0.0.0/0"]}]}]},
            "status": {"conditions": []},
        }));
        read.policy
    }

    #[test]
    fn a_policy_is_read_once_and_recorded() {
        let policy = cluster("Admin");
        assert_eq!((policy.created, policy.generation), (7, Some(3)));
        assert_eq!(policy.meant.as_ref().map(|meant| meant.egress.len()), Ok(1));
        assert_eq!(replayed(&policy), policy);
    }

    #[test]
    fn a_spec_that_nobody_knows_is_a_value_too() {
        let policy = cluster("Middle");
        assert!(matches!(policy.meant, Err(Refusal::Unreadable(_))), "{policy:?}");
        assert_eq!(replayed(&policy), policy);
    }
}
