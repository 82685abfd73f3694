//! The connections that a switch remembers, by the programs `ovs-appctl` and `ovs-ofctl`.
//!
//! OVN drops the answers of a connection that it has marked as blocked, and it marks one when a packet of the side that began it is
//! refused. Where that side is silent, nobody is refused: then the mark is set here, by a packet that goes to the switch's memory
//! and nowhere else. A connection that is allowed after all loses the mark with its next packet.
//!
//! A translated connection of UDP keeps its target for as long as its client asks. Where the target serves no more, it is forgotten.

use crate::error::{Error, Result};
use crate::program::run;
use causeway_types::Tracked;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// How `ovs-vswitchd` calls its own files.
const DAEMON: &str = "ovs-vswitchd";
/// The bit of a connection's mark by which OVN knows it as blocked.
const BLOCKED: &str = "set_field:0x1/0x1->ct_mark";
/// So many packets go to the switch at once.
const AT_ONCE: usize = 500;
const UDP: u8 = 17;

/// The memory of a switch.
#[derive(Clone, Debug)]
pub struct Connections {
    appctl: PathBuf,
    ofctl: PathBuf,
    folder: PathBuf,
    bridge: String,
}

impl Connections {
    /// That of a switch with its sockets in this folder, by the programs as the PATH has them. Packets are handed to a bridge.
    pub fn new(folder: &Path, bridge: &str) -> Connections {
        Connections {
            appctl: "ovs-appctl".into(),
            ofctl: "ovs-ofctl".into(),
            folder: folder.to_owned(),
            bridge: bridge.to_owned(),
        }
    }

    /// The same with programs from another place.
    pub fn from_folder(mut self, folder: &Path) -> Connections {
        self.appctl = folder.join("ovs-appctl");
        self.ofctl = folder.join("ovs-ofctl");
        self
    }

    /// All UDP connections.
    ///
    /// # Errors
    /// If the switch does not answer.
    pub fn read(&self) -> Result<Vec<Tracked>> {
        let said = run(&self.appctl, &["--timeout=30", "-t", &self.control()?, "dpctl/dump-conntrack"], "")?;
        Ok(said.lines().filter_map(parse).collect())
    }

    /// Has OVN drop the answers of these.
    ///
    /// # Errors
    /// If the switch does not take the packets.
    pub fn block(&self, connections: &[Tracked]) -> Result<()> {
        let socket = self.folder.join(format!("{}.mgmt", self.bridge));
        let target = format!("unix:{}", socket.display());
        for some in connections.chunks(AT_ONCE) {
            let lines: String = some.iter().filter_map(line).collect();
            run(&self.ofctl, &["--protocols=OpenFlow15", "--timeout=30", "bundle", &target, "-"], &lines)?;
        }
        Ok(())
    }

    /// Forgets all connections of the same zones that were led as these were: whoever goes on begins anew.
    ///
    /// # Errors
    /// If the switch does not answer.
    pub fn forget(&self, connections: &[Tracked]) -> Result<()> {
        let ways: BTreeSet<(u16, SocketAddr, SocketAddr)> =
            connections.iter().map(|one| (one.zone, one.asked, one.to)).collect();
        for (zone, asked, to) in ways {
            let (zone, asked, to) = (format!("zone={zone}"), half(asked, "dst"), half(to, "src"));
            let words = ["--timeout=30", "-t", &self.control()?, "dpctl/flush-conntrack", &zone, &asked, &to];
            run(&self.appctl, &words, "")?;
        }
        Ok(())
    }

    /// The socket by which the daemon takes commands has its process number in its name.
    fn control(&self) -> Result<String> {
        let file = self.folder.join(format!("{DAEMON}.pid"));
        let said = |source: std::io::Error| Error::Program {
            program: DAEMON.to_owned(),
            said: format!("{}: {source}", file.display()),
        };
        let number = fs::read_to_string(&file).map_err(said)?;
        Ok(self.folder.join(format!("{DAEMON}.{}.ctl", number.trim())).display().to_string())
    }
}

/// `udp,orig=(src=…,dst=…,sport=…,dport=…),reply=(…),zone=…`; one without a zone is not OVN's.
fn parse(line: &str) -> Option<Tracked> {
    let rest = line.strip_prefix("udp,orig=(")?;
    let (asking, rest) = rest.split_once("),reply=(")?;
    let (answering, rest) = rest.split_once(')')?;
    let zone = rest.split(',').find_map(|word| word.strip_prefix("zone="))?.parse().ok()?;
    let ((from, asked), (to, _)) = (ends(asking)?, ends(answering)?);
    Some(Tracked { zone, from, asked, to })
}

fn ends(text: &str) -> Option<(SocketAddr, SocketAddr)> {
    let word = |name: &str| text.split(',').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let address = |name| word(name)?.parse::<IpAddr>().ok();
    let port = |name| word(name)?.parse::<u16>().ok();
    Some((SocketAddr::new(address("src")?, port("sport")?), SocketAddr::new(address("dst")?, port("dport")?)))
}

/// One end of a UDP connection, as the switch is told of it.
fn half(end: SocketAddr, side: &str) -> String {
    let family = if end.is_ipv4() { "nw" } else { "ipv6" };
    format!("ct_{family}_{side}={},ct_tp_{side}={},ct_nw_proto={UDP}", end.ip(), end.port())
}

fn line(tracked: &Tracked) -> Option<String> {
    let packet = packet(tracked)?.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let actions = format!("ct(commit,zone={},exec({BLOCKED}))", tracked.zone);
    Some(format!("packet-out in_port=controller packet={packet} actions={actions}\n"))
}

/// An empty packet of the side that began it; none where its ends are of two families, which no connection has.
fn packet(tracked: &Tracked) -> Option<Vec<u8>> {
    let (from, to) = (tracked.from, tracked.asked);
    let (kind, header, pseudo) = match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let mut header = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, UDP, 0, 0];
            header.extend(source.octets().into_iter().chain(target.octets()));
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum);
            (0x0800_u16, header, [&source.octets()[..], &target.octets()].concat())
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let ends = [&source.octets()[..], &target.octets()].concat();
            let header = [&[0x60, 0, 0, 0, 0, 8, UDP, 64][..], &ends].concat();
            (0x86dd, header, ends)
        }
        _ => return None,
    };
    let mut udp = [from.port().to_be_bytes(), to.port().to_be_bytes(), [0, 8], [0, 0]].concat();
    let sum = checksum(&[&pseudo[..], &[0, UDP, 0, 8], &udp].concat());
    // Nothing is written as nothing but ones: zero says that nobody has counted.
    udp[6..8].copy_from_slice(&if sum == [0, 0] { [0xff, 0xff] } else { sum });
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    packet.extend(kind.to_be_bytes());
    packet.extend(header);
    packet.extend(udp);
    Some(packet)
}

/// The checksum of the internet.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| {
        let high = pair.first().copied().unwrap_or_default();
        u32::from(u16::from_be_bytes([high, pair.get(1).copied().unwrap_or_default()]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = u16::try_from(sum).unwrap_or_default();
    (!sum).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(zone: u16, from: &str, asked: &str, to: &str) -> Tracked {
        Tracked { zone, from: from.parse().unwrap(), asked: asked.parse().unwrap(), to: to.parse().unwrap() }
    }

    #[test]
    fn only_udp_in_zones_is_read() {
        let lines = [
            "udp,orig=(src=10.1.0.5,dst=10.96.0.10,sport=4000,dport=53),reply=(src=10.1.0.9,dst=10.1.0.5,sport=5353,dport=4000),zone=7,mark=2,labels=0x0",
            "udp,orig=(src=fd00::5,dst=fd00::9,sport=1,dport=2),reply=(src=fd00::9,dst=fd00::5,sport=2,dport=1),zone=8",
            "tcp,orig=(src=10.1.0.5,dst=10.1.0.9,sport=1,dport=2),reply=(src=10.1.0.9,dst=10.1.0.5,sport=2,dport=1),zone=8,protoinfo=(state=ESTABLISHED)",
            "udp,orig=(src=10.1.0.5,dst=10.1.0.9,sport=1,dport=2),reply=(src=10.1.0.9,dst=10.1.0.5,sport=2,dport=1)",
            "icmp,orig=(src=10.1.0.5,dst=10.1.0.9,id=1,type=8,code=0),reply=(src=10.1.0.9,dst=10.1.0.5,id=1,type=0,code=0),zone=8",
        ];
        let read: Vec<Tracked> = lines.iter().filter_map(|line| parse(line)).collect();
        let service = tracked(7, "10.1.0.5:4000", "10.96.0.10:53", "10.1.0.9:5353");
        let direct = tracked(8, "[fd00::5]:1", "[fd00::9]:2", "[fd00::9]:2");
        assert_eq!(
            (read.as_slice(), service.is_direct(), direct.is_direct()),
            ([service, direct].as_slice(), false, true)
        );
    }

    /// Whoever adds up a whole packet with its checksum gets nothing but ones.
    #[test]
    fn packets_add_up() {
        for (from, to, header) in [("10.1.0.5:4000", "10.1.0.9:53", 20), ("[fd00::5]:1", "[fd00::9]:2", 40)] {
            let packet = packet(&tracked(1, from, to, to)).unwrap();
            let (ip, udp) = packet[14..].split_at(header);
            let ends = if header == 20 { &ip[12..] } else { &ip[8..] };
            assert_eq!(checksum(&[ends, &[0, UDP, 0, 8], udp].concat()), [0, 0], "{from}");
            assert!(header == 40 || checksum(ip) == [0, 0], "{from}");
        }
        assert_eq!(packet(&tracked(1, "10.1.0.5:4000", "[fd00::9]:2", "[fd00::9]:2")), None);
    }
}
