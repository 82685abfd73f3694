//! What somebody tries who wants past a policy: packets that hide what they are, and somebody at the other end who sees every frame.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use causeway_host::in_namespace;
use nix::sys::socket::sockopt::{BindToDevice, ReceiveTimeout};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recvfrom, sendto,
    setsockopt, socket,
};
use nix::sys::time::TimeVal;

use crate::packet::{ipv4, put_checksum};

/// What is in every forged packet, before the name of its trick.
const MARK: &str = "forged:";
/// How often each is sent: one may be lost while a neighbour is looked for.
const TIMES: u32 = 5;
const BEAT: Duration = Duration::from_millis(20);

/// A trick: its name, and the packets of one try.
type Trick = (&'static str, Vec<Vec<u8>>);

/// Sends every trick from a pod's device, between two sockets of one family.
///
/// # Panics
/// When they cannot be sent.
pub fn send(namespace: &Path, device: &str, from: SocketAddr, to: SocketAddr) {
    let ports = Ports { from: from.port(), to: to.port() };
    let tricks = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => tricks_v4(from, to, ports),
        (IpAddr::V6(from), IpAddr::V6(to)) => tricks_v6(from, to, ports),
        _ => panic!("{from} and {to} are of two families"),
    };
    let target = SockaddrStorage::from(SocketAddr::new(to.ip(), 0));
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let sending = in_namespace(namespace, || {
        let raw = socket(family, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap();
        setsockopt(&raw, BindToDevice, &device.into()).unwrap();
        for _ in 0..TIMES {
            for packet in tricks.iter().flat_map(|(_, packets)| packets) {
                sendto(raw.as_raw_fd(), packet, &target, MsgFlags::empty()).unwrap();
            }
            sleep(BEAT);
        }
        Ok(())
    });
    sending.unwrap();
}

fn words(name: &str) -> Vec<u8> {
    format!("{MARK}{name};").into_bytes()
}

#[derive(Clone, Copy)]
struct Ports {
    from: u16,
    to: u16,
}

fn udp(ports: Ports, data: &[u8]) -> Vec<u8> {
    let length = (8 + data.len()) as u16;
    // No checksum: whoever looks at it later need not recompute it.
    [&ports.from.to_be_bytes()[..], &ports.to.to_be_bytes(), &length.to_be_bytes(), &[0, 0], data].concat()
}

/// TCP with these flags.
fn tcp(pseudo: &[u8], ports: Ports, flags: u8, data: &[u8]) -> Vec<u8> {
    let numbers = [0, 0, 0, 7, 0, 0, 0, 9, 0x50, flags];
    let mut tcp = [&ports.from.to_be_bytes()[..], &ports.to.to_be_bytes(), &numbers].concat();
    tcp.extend([0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(data);
    let length = (tcp.len() as u32).to_be_bytes();
    put_checksum(&mut tcp, 16, &[pseudo, &length, &[0, 0, 0, 6]].concat());
    tcp
}

/// Where a packet is cut, in units of eight bytes. Smaller parts are refused by the userspace datapath whatever is in them.
const MIDDLE: u16 = 152;
const MIDDLE_V6: u16 = 156;
const END: u16 = u16::MAX / 8;

/// A part of an IPv4 packet, at a place in units of eight bytes.
fn fragment(from: Ipv4Addr, to: Ipv4Addr, place: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(17, 64, from, to, payload);
    packet[4..6].copy_from_slice(&0x4242u16.to_be_bytes());
    packet[6..8].copy_from_slice(&(place | if more { 0x2000 } else { 0 }).to_be_bytes());
    packet[10..12].copy_from_slice(&[0, 0]);
    let (header, _) = packet.split_at_mut(20);
    put_checksum(header, 10, &[]);
    packet
}

fn tricks_v4(from: Ipv4Addr, to: Ipv4Addr, ports: Ports) -> Vec<Trick> {
    let plain = |name: &'static str, source: u16| {
        (name, vec![ipv4(17, 64, from, to, &udp(Ports { from: source, ..ports }, &words(name)))])
    };
    let segment = |name: &'static str, flags: u8| {
        let pseudo = [&from.octets()[..], &to.octets()].concat();
        (name, vec![ipv4(6, 64, from, to, &tcp(&pseudo, ports, flags, &words(name)))])
    };
    let parts = |name: &'static str, places: &[(u16, u16)]| {
        let whole = udp(ports, &[&words(name)[..], &[0; 1300], &words(name)].concat());
        let part = |&(begin, end): &(u16, u16)| {
            let last = usize::from(end) * 8 >= whole.len();
            let end = if last { whole.len() } else { usize::from(end) * 8 };
            fragment(from, to, begin, !last, &whole[usize::from(begin) * 8..end])
        };
        (name, places.iter().map(part).collect())
    };
    // An error about a packet that the target never sent.
    let about = ipv4(17, 64, to, from, &udp(Ports { from: ports.to, to: ports.from }, &words("icmp-error")));
    let mut error = [&[3, 4, 0, 0, 0, 0, 0x05, 0x14][..], &about].concat();
    put_checksum(&mut error, 2, &[]);
    let mut answer = [&[0, 0, 0, 0, 0, 7, 0, 1][..], &words("echo-reply")].concat();
    put_checksum(&mut answer, 2, &[]);
    vec![
        plain("udp", ports.from),
        plain("udp-from-53", 53),
        segment("tcp-ack", 0x10),
        segment("tcp-fin-syn", 0x03),
        segment("tcp-rst", 0x04),
        parts("parts", &[(0, MIDDLE), (MIDDLE, END)]),
        parts("parts-backwards", &[(MIDDLE, END), (0, MIDDLE)]),
        parts("small-parts", &[(0, 1), (1, MIDDLE), (MIDDLE, END)]),
        parts("overlapping-parts", &[(0, MIDDLE), (2, MIDDLE), (MIDDLE, END)]),
        parts("last-part-alone", &[(MIDDLE, END)]),
        ("icmp-error", vec![ipv4(1, 64, from, to, &error)]),
        ("echo-reply", vec![ipv4(1, 64, from, to, &answer)]),
        ("unknown-protocol", vec![ipv4(253, 64, from, to, &words("unknown-protocol"))]),
    ]
}

fn ipv6(next: u8, from: Ipv6Addr, to: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    [&[0x60, 0, 0, 0][..], &length, &[next, 64], &from.octets(), &to.octets(), payload].concat()
}

fn tricks_v6(from: Ipv6Addr, to: Ipv6Addr, ports: Ports) -> Vec<Trick> {
    let pseudo = [&from.octets()[..], &to.octets()].concat();
    let checked = |data: &[u8]| {
        let mut datagram = udp(ports, data);
        let length = (datagram.len() as u32).to_be_bytes();
        put_checksum(&mut datagram, 6, &[&pseudo[..], &length, &[0, 0, 0, 17]].concat());
        datagram
    };
    let datagram = |name: &str| checked(&words(name));
    let behind = |name: &'static str, first: u8, headers: &[u8]| {
        (name, vec![ipv6(first, from, to, &[headers, &datagram(name)].concat())])
    };
    let whole = checked(&[&words("parts")[..], &[0; 1300], &words("parts-end")].concat());
    let (first, rest) = whole.split_at(usize::from(MIDDLE_V6) * 8);
    let part = |place: u16, more: bool, data: &[u8]| {
        let place = (place << 3 | u16::from(more)).to_be_bytes();
        ipv6(44, from, to, &[&[17, 0, place[0], place[1], 0, 0, 0x42, 0x42][..], data].concat())
    };
    let parts = vec![part(0, true, first), part(MIDDLE_V6, false, rest)];
    let padding = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let twice = [padding(60), padding(17)].concat();
    let route = [&[17, 2, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat();
    let icmp = |head: [u8; 8], data: &[u8]| {
        let mut message = [&head[..], data].concat();
        let length = (message.len() as u32).to_be_bytes();
        put_checksum(&mut message, 2, &[&pseudo[..], &length, &[0, 0, 0, 58]].concat());
        ipv6(58, from, to, &message)
    };
    // Errors about a packet that the target never sent: it was too large, its port is closed.
    let about = |name: &str| ipv6(17, to, from, &udp(Ports { from: ports.to, to: ports.from }, &words(name)));
    let segment = tcp(&pseudo, ports, 0x10, &words("tcp-ack"));
    vec![
        behind("udp", 17, &[]),
        behind("hop-by-hop", 0, &padding(17)),
        behind("options", 60, &padding(17)),
        behind("options-twice", 60, &twice),
        behind("route", 43, &route),
        behind("whole-as-a-part", 44, &[17, 0, 0, 0, 0, 0, 0, 9]),
        behind("later-part", 44, &[17, 0, 0, 0x40, 0, 0, 0, 8]),
        ("parts", parts),
        ("tcp-ack", vec![ipv6(6, from, to, &segment)]),
        ("icmp-too-large", vec![icmp([2, 0, 0, 0, 0, 0, 5, 0], &about("icmp-too-large"))]),
        ("icmp-closed", vec![icmp([1, 4, 0, 0, 0, 0, 0, 0], &about("icmp-closed"))]),
        ("echo-reply", vec![icmp([129, 0, 0, 0, 0, 7, 0, 1], &words("echo-reply"))]),
        ("unknown-protocol", vec![ipv6(253, from, to, &words("unknown-protocol"))]),
    ]
}

/// Somebody who sees every frame that comes to a pod, until he is asked what he saw.
pub struct Watcher {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<BTreeSet<String>>>,
}

impl Watcher {
    /// Begins to look.
    ///
    /// # Panics
    /// When nobody can look there.
    pub fn begin(namespace: &Path, device: &str) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let (stop, namespace, device) = (end.clone(), namespace.to_owned(), device.to_owned());
        let (told, ready) = channel();
        let thread = spawn(move || {
            let looks = in_namespace(&namespace, || {
                let all = SockProtocol::EthAll;
                let frames = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), all).unwrap();
                setsockopt(&frames, BindToDevice, &device.as_str().into()).unwrap();
                setsockopt(&frames, ReceiveTimeout, &TimeVal::new(0, 100_000)).unwrap();
                told.send(()).unwrap();
                let (mut seen, mut frame) = (BTreeSet::new(), [0; 2048]);
                while !stop.load(Ordering::Relaxed) {
                    // Nothing within the time-out is nothing to see.
                    let Ok((length, Some(from))) = recvfrom::<LinkAddr>(frames.as_raw_fd(), &mut frame)
                    else {
                        continue;
                    };
                    // What the pod sends itself does not come to it.
                    if i32::from(from.pkttype()) != i32::from(nix::libc::PACKET_OUTGOING) {
                        seen.extend(tricks_in(&frame[..length]));
                    }
                }
                Ok(seen)
            });
            looks.unwrap()
        });
        ready.recv_timeout(Duration::from_secs(10)).unwrap();
        Self { end, thread: Some(thread) }
    }

    /// Which tricks have arrived.
    ///
    /// # Panics
    /// When he could not look.
    pub fn end(mut self) -> BTreeSet<String> {
        // What was sent last is still on its way.
        sleep(Duration::from_millis(500));
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Names of tricks in a frame. A part of a packet may have the end of a name alone, or none.
fn tricks_in(frame: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(frame);
    let mut marked = text.split(MARK);
    marked.next();
    marked.filter_map(|rest| rest.split_once(';')).map(|(name, _)| name.to_owned()).collect()
}
