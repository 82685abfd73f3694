//! What a node's kernel and switch shall have, as values: items with keys, each planned for an owner.
//!
//! An item says what shall be there, never how to get there. Its key is what the kernel or the switch tells two items
//! apart by; whatever else an item says can be changed in place. The order of items is the order in which they can be
//! made, and its reverse the order in which they can go. Nothing here looks at the world: `causeway-host` does.

mod item;
mod key;
mod plan;

pub use item::{
    Address, BridgePort, CABLE_GROUP, Flow, FrrSection, GENEVE_PORT, INTO_SWITCH_MARK, InternalPort, Item,
    Link, LinkKind, LinkState, MAIN_TABLE, Neighbour, NftElement, NftTable, Route, Rule, Setting, Target,
};
pub use key::{Key, NftFamily, Selector};
pub use plan::{HostPlan, HostUpdate, Owner, Planned};
