//! The words that every other crate speaks: checked names, ids, MACs, subnets, tunnel keys, and the
//! formulas that turn an id into an address, a key or the name of an object.
//!
//! A value of these types is valid: it can only be built through a check. Nothing here allocates,
//! remembers, or reads the world; what needs state is in `causeway-alloc`.

pub mod around;
mod cidr;
mod connect;
mod derived;
mod device;
mod error;
mod hash;
pub mod host;
mod id;
mod index;
mod mac;
mod name;
mod object;
mod protocol;
mod tracked;
mod tunnel;

pub use cidr::{Cidr, Families, Family, number_of};
pub use connect::{ConnectNames, ConnectOwner, ConnectSubnet, ConnectTopology, Link};
pub use derived::{
    MasqueradeMacs, MasqueradePair, MasqueradeRole, TransitPeers, conntrack_mark, join_address,
    join_router_address, mark_chain, masquerade_address, packet_mark, routing_table, sibling_link,
    transit_address,
};
pub use device::{VrfName, management_port_device};
pub use error::{Error, Result};
pub use hash::{NetworkSet, hashed_name};
pub use id::{NetworkId, NodeId};
pub use index::SubnetIndex;
pub use mac::Mac;
pub use name::{
    ConnectName, NadKey, NamespaceName, NetworkName, NetworkOrigin, NodeName, ObjectName, ZoneName,
};
pub use object::{NetworkNames, OvnPrefix};
pub use protocol::Protocol;
pub use tracked::Tracked;
pub use tunnel::{DatapathKey, PortKey};
