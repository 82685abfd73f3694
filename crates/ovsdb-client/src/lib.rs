//! Sockets, TLS and reconnects around the state machine of `causeway-ovsdb`.
//!
//! A [`Client`] is owned by one task, which calls [`Client::next`] in its loop and gets everything that happens as
//! events; the replica is read between them, so there is no lock. Reading never waits for writing: a server that
//! has much to say stops listening until it has been heard.

//!
//! ```no_run
//! use causeway_ovsdb_client::ovsdb::{Datum, Event, MonitorTable, Op, SessionConfig, Transaction};
//! use causeway_ovsdb_client::{Client, ClientConfig, ClientEvent, Remote};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut session = SessionConfig::new("OVN_Northbound");
//! session.tables = vec![MonitorTable::whole("Logical_Switch")];
//! let mut client = Client::new(ClientConfig::new(session, Remote::list("unix:/run/ovn/ovnnb_db.sock")?));
//! loop {
//!     match client.next().await {
//!         ClientEvent::Session(Event::Synced(report)) => {
//!             println!("complete; {} changes since the last time", report.changes.len());
//!             let insert = Op::Insert {
//!                 table: "Logical_Switch".into(),
//!                 uuid: None,
//!                 name: None,
//!                 row: vec![("name".into(), Datum::from("blue"))],
//!             };
//!             println!("{:?}", client.transact(&Transaction::new(vec![insert])).await);
//!         }
//!         ClientEvent::Session(Event::Changed(changes)) => println!("{} rows changed", changes.len()),
//!         ClientEvent::Disconnected { remote, reason } => println!("{remote}: {reason}"),
//!         _ => {}
//!     }
//! }
//! # }
//! ```

mod client;
mod connect;
mod remote;
mod tls;

pub use causeway_ovsdb as ovsdb;
pub use client::{Client, ClientConfig, ClientEvent};
pub use remote::{BadRemote, Remote};
pub use tls::{TlsError, TlsFiles};
