//! What can go wrong with ports.

use causeway_ovsdb_client::ovsdb::TxnError;

/// What went wrong, with which port.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The bridge is not there.
    #[error("Open vSwitch has no bridge {0}; ovn-controller makes it: look whether it runs on this node")]
    NoBridge(String),
    /// A port of this name is there, and it is not marked as ours.
    #[error("Open vSwitch has a port {0} that is not ours; remove it: ovs-vsctl del-port {0}")]
    Foreign(String),
    /// The port went away while somebody waited for it.
    #[error("the Open vSwitch port {0} was removed")]
    Gone(String),
    /// Another logical port took the port over.
    #[error("the Open vSwitch port {0} became the logical port {1:?}")]
    Replaced(String, String),
    /// The switch cannot use the device.
    #[error("Open vSwitch cannot use the device {0}: {1}")]
    Device(String, String),
    /// The switch has not opened the device in time.
    #[error("Open vSwitch has not made the device {0} yet; look whether ovs-vswitchd runs on this node")]
    NotOpened(String),
    /// The database refused.
    #[error("the Open vSwitch database: {0}")]
    Refused(#[from] TxnError),
    /// The task that keeps ports has ended.
    #[error("the node is shutting down")]
    Ended,
}
