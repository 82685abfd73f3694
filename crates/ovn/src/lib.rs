//! OVN on top of OVSDB: typed rows, what we own of each table, desired sets, the differ, and the engine that
//! applies differences.
//!
//! Pure: a replica and a plan go in, differences and transactions come out. Sockets are `causeway-ovsdb-client`'s,
//! plans are `causeway-plan`'s.
//!
//! ```text
//!   planner ─► Planned rows ─┐
//!                            ├─► SliceDiff ─► engine: rounds, phases ─► transactions
//!   replica ─► actual rows ──┘                     ▲                        │
//!                                                  └──── outcomes ◄─────────┘
//! ```

pub mod apply;
pub mod declare;
pub mod generated;
pub mod path;

mod collections;
mod desired;
mod diff;
mod member;
mod resolve;
mod show;
mod typed;

pub use causeway_ovsdb::{Str, Uuid};
pub use collections::{Members, Pairs};
pub use desired::{Edge, Plan, Planned, Planner, RowKey, reference};
pub use diff::{ColumnChange, Create, Delete, How, MemberChange, Modify, PlanError, SliceDiff, diff_slice};
pub use member::together;
pub use typed::{Columns, TableMeta, TypedRow};
