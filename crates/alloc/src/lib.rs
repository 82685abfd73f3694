//! Allocators for everything that cannot be derived: network and node ids, tunnel keys, pod addresses
//! and the blocks of connections; and host subnets, which can.
//!
//! An allocator is a value. It is rebuilt from annotations and the record of freed numbers, it never
//! reads a clock or writes anywhere, and equal inputs give equal states whatever the order of events.
//! Numbers are handed out in two steps: *reserve*, then *commit* when the annotation is written or
//! *abort* when the write failed for good. An aborted reservation leaves no trace.

mod address;
mod cleared;
mod connect;
mod error;
mod host_subnet;
mod ids;
mod interval;
mod macs;
mod pool;
mod reuse;

pub use address::{AddressOwner, AddressPool, AddressRecord, LostAddress, PodSubnet};
pub use cleared::{Cleared, MAX_HELD_EPOCHS};
pub use connect::{
    ANNOTATION_LIMIT, ConnectPool, ConnectRecord, Forecast, LostBlock, Refusal, RefusalReason,
};
pub use error::{Error, Result};
pub use host_subnet::{HostRange, HostSubnets};
pub use ids::{IdRecord, Ids, KeyOwner, LostId, NetworkIds, NodeIds, PodTunnelIds, TunnelKeys};
pub use interval::IntervalSet;
pub use macs::Macs;
pub use pool::{Claim, Epoch, Fit, Lost, NumberPool, Record, Refused, Seniority};
pub use reuse::Reuse;
