//! Sockets, TLS and reconnects around the state machine of `causeway-ovsdb`.
//!
//! A [`Client`] is owned by one task, which calls [`Client::next`] in its loop and gets everything that happens as
//! events; the replica is read between them, so there is no lock. Reading never waits for writing: a server that
//! has much to say stops listening until it has been heard.

mod client;
mod connect;
mod remote;
mod tls;

pub use causeway_ovsdb as ovsdb;
pub use client::{Client, ClientConfig, ClientEvent};
pub use remote::{BadRemote, Remote};
pub use tls::{TlsError, TlsFiles};
