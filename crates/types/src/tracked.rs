//! A connection that a node's switch remembers.

use std::net::SocketAddr;

/// A UDP connection in one of the switch's zones, each of which belongs to a logical port.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tracked {
    /// Its number in connection tracking.
    pub zone: u16,
    /// Who began it.
    pub from: SocketAddr,
    /// Whom he asked.
    pub asked: SocketAddr,
    /// Who answers: somebody else than was asked, if that was a service.
    pub to: SocketAddr,
}

impl Tracked {
    /// Whether he who was asked answers himself.
    pub fn is_direct(&self) -> bool {
        self.asked == self.to
    }
}
