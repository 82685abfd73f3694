//! The custom resources as Rust types: what a user writes and what we report back.
//!
//! Owns the field names, their documentation and their static limits. Never validates across fields: the
//! rules are in [`crate::schema`] for the API server and in [`crate::intent`] for the reconcilers.

mod cnc;
mod cudn;
mod nad;
mod network;
pub mod policy;
mod udn;
mod vtep;
mod zone_report;

pub use cnc::{
    ClusterNetworkConnect, ClusterNetworkConnectSpec, ClusterNetworkConnectStatus, ClusterUdnSelector,
    ConnectSubnet, Connectivity, ConnectivityEnabled, NamespaceAndNetworkSelector, NetworkSelectionType,
    NetworkSelector, PrimaryUdnSelector, SelectedKind, SelectedNetwork, StatusType,
};
pub use cudn::{
    ClusterNetwork, ClusterUserDefinedNetwork, ClusterUserDefinedNetworkSpec, Evpn, EvpnVrf, Localnet,
    LocalnetRole, NetworkTemplate, NoOverlay, NoOverlayRouting, OutboundSnat, TemplateSpec, Transport, Vlan,
    VlanAccess, VlanMode,
};
pub use nad::{
    IpamClaim, IpamClaimSpec, IpamClaimStatus, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec,
    OwnerPod,
};
pub use network::{
    FlatNetwork, Ipam, IpamLifecycle, IpamMode, Layer2, Layer3, Layer3Subnet, NetworkStatus, Role, Topology,
};
pub use udn::{UserDefinedNetwork, UserDefinedNetworkSpec};
pub use vtep::{VTEP, VtepMode, VtepSpec, VtepStatus};
pub use zone_report::{
    ConnectReport, FailureSubject, FurtherFailure, MAX_FAILURES, MAX_FURTHER_FAILURES, MAX_REPORTED_CONNECTS,
    MAX_REPORTED_POLICIES, PolicyReport, ZoneFailure, ZoneReport, ZoneReportSpec,
};

/// The API group of Causeway's own resources.
pub const GROUP: &str = "k8s.ovn.org";
/// The API group of NetworkAttachmentDefinition and IPAMClaim, shared with other network plugins.
pub const CNI_GROUP: &str = "k8s.cni.cncf.io";

/// Leaves the documentation to the field that has the enum: `kubectl explain` shows one text, and the field's
/// says more.
fn field_documents(schema: &mut schemars::Schema) {
    schema.remove("description");
}
