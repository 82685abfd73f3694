//! A netlink socket that asks and waits. It belongs to the namespace in which it was opened.

use crate::error::{Error, Result};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;

/// More than the kernel puts into one datagram.
const BUFFER: usize = 64 << 10;
/// How often a list is asked for that changes while it is told.
const ATTEMPTS: usize = 5;

pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
    /// Whether the list that is being told has changed meanwhile.
    torn: bool,
}

impl Netlink {
    pub(crate) fn open() -> Result<Netlink> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // The kernel then filters dumps by what the request says, instead of telling everything.
            socket.set_netlink_get_strict_chk(true)?;
            Ok(Netlink { socket, sequence: 0, torn: false })
        };
        open().map_err(|source| Error::Refused { doing: "opening a netlink socket".into(), source })
    }

    /// Asks for a change and waits until it is made.
    pub(crate) fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.ask(message, NLM_F_REQUEST | NLM_F_ACK | flags).map(drop)
    }

    /// Asks for one object.
    pub(crate) fn get(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.ask(message, NLM_F_REQUEST | NLM_F_ACK)
    }

    /// Asks for all objects of a kind. A list that changed while it was told lacks some: it is asked for again.
    pub(crate) fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        whole(|| {
            self.torn = false;
            let answers = self.ask(message.clone(), NLM_F_REQUEST | NLM_F_DUMP)?;
            Ok((!self.torn).then_some(answers))
        })
    }

    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        while !self.receive(&mut answers)? {}
        Ok(answers)
    }

    /// One datagram; whether the answer is complete.
    fn receive(&mut self, answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
        let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER);
        self.socket.recv(&mut buffer, 0)?;
        let mut rest = buffer.as_slice();
        while !rest.is_empty() {
            let packet =
                NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
            let length = (packet.header.length as usize).next_multiple_of(4).clamp(4, rest.len());
            rest = &rest[length..];
            if packet.header.sequence_number != self.sequence {
                continue;
            }
            self.torn |= packet.header.flags & NLM_F_DUMP_INTR != 0;
            match packet.payload {
                NetlinkPayload::InnerMessage(message) => answers.push(message),
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => {
                    return error.code.map_or(Ok(true), |_| Err(error.to_io()));
                }
                _ => {}
            }
        }
        Ok(false)
    }
}

/// ENODEV has no kind of its own in std.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32)
}

/// The first list that is not torn.
fn whole<T>(mut list: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(whole) = list()? {
            return Ok(whole);
        }
    }
    Err(io::Error::new(io::ErrorKind::Interrupted, "the kernel's list changes faster than it can be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Defect 20 of the catalogue of EVPN; the kernel itself cannot be made to tear a list.
    #[test]
    fn a_torn_list_is_asked_for_again() {
        let mut asked = 0;
        let mut torn_before = |number: usize| {
            asked = 0;
            whole(|| {
                asked += 1;
                Ok((asked > number).then_some(asked))
            })
        };
        assert_eq!((torn_before(0).unwrap(), torn_before(3).unwrap()), (1, 4));
        assert_eq!(torn_before(ATTEMPTS).unwrap_err().kind(), io::ErrorKind::Interrupted);
        let refused = whole::<()>(|| Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "which is no torn list");
    }
}
