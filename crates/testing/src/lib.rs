//! Real servers for tests, demonstrations and benchmarks.
//!
//! Nothing here imitates anything: it starts the programs that `scripts/setup` brought, in a temporary folder that
//! goes away with the value. Panics are its errors, since a test without its server has nothing to say.
//!
//! [`policy`] starts nothing: it says what policies mean, for those who compare.

mod api_server;
mod authority;
mod frr;
mod ovsdb_server;
pub mod policy;
mod programs;
mod switch;

pub use api_server::{Answer, ApiServer};
pub use authority::{Authority, PemFiles};
pub use frr::Frr;
pub use ovsdb_server::{Cluster, OvsdbServer, TransactionLog, loopback};
pub use programs::{program, schema_file};
pub use switch::{Datapath, Switch};
