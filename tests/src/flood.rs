//! Packets that a pod sends in great numbers, made by hand and sent from inside its namespace.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::packet::{ipv4, put_checksum};
use causeway_host::in_namespace;
use nix::sys::socket::sockopt::BindToDevice;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, setsockopt, socket,
};

/// How often packets are sent: a burst each time.
const BEAT: Duration = Duration::from_millis(10);

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub enum Flood {
    /// Connections are asked for, each from another port.
    Syn {
        /// Who asks.
        from: Ipv4Addr,
        /// Who is asked, at port 80.
        to: Ipv4Addr,
    },
    /// A group is joined, again and again.
    Igmp {
        /// Who joins.
        from: Ipv4Addr,
    },
    /// A neighbour is looked for.
    Neighbour {
        /// Who looks.
        from: Ipv6Addr,
        /// Who is looked for.
        to: Ipv6Addr,
    },
}

/// The group that is joined.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 7, 7, 7);

impl Flood {
    fn packet(self, number: u32) -> Vec<u8> {
        match self {
            Flood::Syn { from, to } => {
                let port = 1024 + (number % 60_000) as u16;
                let mut tcp = [&port.to_be_bytes()[..], &80u16.to_be_bytes(), &number.to_be_bytes()].concat();
                tcp.extend([0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
                let pseudo = [&from.octets()[..], &to.octets(), &[0, 6, 0, 20]].concat();
                put_checksum(&mut tcp, 16, &pseudo);
                ipv4(6, 64, from, to, &tcp)
            }
            Flood::Igmp { from } => {
                let mut report = [&[0x16, 0, 0, 0][..], &GROUP.octets()].concat();
                put_checksum(&mut report, 2, &[]);
                ipv4(2, 1, from, GROUP, &report)
            }
            Flood::Neighbour { from, to } => {
                let mut asked = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &to.octets()].concat();
                let group = solicited(to);
                let pseudo = [&from.octets()[..], &group.octets(), &[0, 0, 0, 24, 0, 0, 0, 58]].concat();
                put_checksum(&mut asked, 2, &pseudo);
                let start = [0x60, 0, 0, 0, 0, 24, 58, 255];
                [&start[..], &from.octets(), &group.octets(), &asked].concat()
            }
        }
    }

    fn send(self, device: &str, rate: u32, end: &AtomicBool, sent: &AtomicU32) {
        let (family, target) = match self {
            Flood::Syn { to, .. } => (AddressFamily::Inet, SocketAddr::new(to.into(), 0)),
            Flood::Igmp { .. } => (AddressFamily::Inet, SocketAddr::new(GROUP.into(), 0)),
            Flood::Neighbour { to, .. } => {
                (AddressFamily::Inet6, SocketAddrV6::new(solicited(to), 0, 0, 0).into())
            }
        };
        let target = SockaddrStorage::from(target);
        let raw = socket(family, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap();
        setsockopt(&raw, BindToDevice, &device.into()).unwrap();
        let begin = Instant::now();
        while !end.load(Ordering::Relaxed) {
            let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u32;
            for number in sent.load(Ordering::Relaxed)..due {
                sendto(raw.as_raw_fd(), &self.packet(number), &target, MsgFlags::empty()).unwrap();
            }
            sent.store(due, Ordering::Relaxed);
            sleep(BEAT);
        }
    }
}

/// The multicast address that everybody listens to who has an address.
fn solicited(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// A flood that goes on until this value goes.
pub struct Running {
    end: Arc<AtomicBool>,
    sent: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// How many packets were sent so far.
    pub fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        // What went wrong in it is seen in what was sent.
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

/// Sends so many packets a second from a pod's device, until the answer goes.
pub fn flood(namespace: &Path, device: &'static str, what: Flood, rate: u32) -> Running {
    let (end, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (stop, count, namespace) = (end.clone(), sent.clone(), namespace.to_owned());
    let work = move || {
        let sending = in_namespace(&namespace, || {
            what.send(device, rate, &stop, &count);
            Ok(())
        });
        sending.unwrap();
    };
    Running { end, sent, thread: Some(spawn(work)) }
}
