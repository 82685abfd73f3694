//! How the API server reaches kubelets, pods and services. It is on no node, so the way into the cluster is a proxy with
//! a leg in the network of every node, as real installations have one: `CONNECT address:port` on a socket that is closed to
//! others.
//!
//! Addresses of the underlay are dialled from `control`, all others from the host network of a node that runs.

use crate::address::{self, Family, underlay};
use crate::boot::INSIDE;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::forward::join;
use crate::plan::CONTROL;
use crate::wanted::Wanted;
use causeway_host::{in_namespace, named_namespace};
use nix::sys::socket::{setsockopt, sockopt};
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Connections at once: more than the API server ever has in a sandbox.
const LIMIT: usize = 1000;
/// The longest request, and how long it may take.
const REQUEST: (usize, Duration) = (4096, Duration::from_secs(5));
/// How long an address may take to answer, asked from one place.
const ANSWER: Duration = Duration::from_secs(3);
/// A peer that says nothing is asked whether it is there: after so many seconds, then as often, and so many times.
const SILENCE: (u32, u32, u32) = (15, 5, 3);
/// One that does not take what was said to it is given up after so many milliseconds: its node is gone.
const DEAF: u32 = 10_000;

/// Carries connections until the process ends.
pub(crate) fn serve(socket: &Path) -> Result<()> {
    // A socket that a killed process left.
    let _none = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).map_err(Error::file(socket))?;
    fs::set_permissions(socket, Permissions::from_mode(0o600)).map_err(Error::file(socket))?;
    let last = Arc::new(Mutex::new(None));
    for client in listener.incoming() {
        let Ok(client) = client else {
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        // Each connection holds one.
        if Arc::strong_count(&last) > LIMIT {
            refuse(client, "503 too many connections");
            continue;
        }
        let last = Arc::clone(&last);
        thread::spawn(move || answer(client, &last));
    }
    Ok(())
}

/// The node that answered last: it is asked first.
type Last = Mutex<Option<String>>;

fn answer(mut client: UnixStream, last: &Last) {
    let (target, more) = match read_request(&mut client) {
        Ok(request) => request,
        Err(problem) => return refuse(client, &format!("400 {problem}")),
    };
    let places = Folder::at(INSIDE).wanted().map(|wanted| places(target.ip(), &wanted, &remembered(last)));
    let found = dial(&places.unwrap_or_default(), |place| connect(place, target));
    let (place, mut server) = match found {
        Ok(found) => found,
        Err(problem) => return refuse(client, &format!("502 {target}: {problem}")),
    };
    if place != CONTROL {
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }
    let open = client
        .write_all(b"HTTP/1.1 200 connected\r\n\r\n")
        .and_then(|()| client.set_read_timeout(None))
        .and_then(|()| server.write_all(&more));
    if open.is_ok() {
        // Whoever lost the other one sees a closed connection.
        let _closed = join(client, server);
    }
}

fn remembered(last: &Last) -> Option<String> {
    last.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Says why; the API server shows it to whoever asked.
fn refuse(mut client: UnixStream, why: &str) {
    let _gone = write!(client, "HTTP/1.1 {why}\r\nConnection: close\r\n\r\n");
}

/// What is asked for, and what was said behind the request already.
fn read_request(client: &mut (impl io::Read + Timed)) -> std::result::Result<(SocketAddr, Vec<u8>), String> {
    let (limit, time) = REQUEST;
    client.limit(time).map_err(|e| e.to_string())?;
    let mut said = Vec::new();
    let mut piece = [0; 1024];
    loop {
        if let Some(end) = said.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&said[..end]).into_owned();
            return Ok((target(&head)?, said.split_off(end + 4)));
        }
        if said.len() > limit {
            return Err("the request is too long".into());
        }
        match client.read(&mut piece).map_err(|e| e.to_string())? {
            0 => return Err("the request has no end".into()),
            count => said.extend_from_slice(&piece[..count]),
        }
    }
}

/// Something that does not wait for ever when it is read.
trait Timed {
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Timed for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

fn target(head: &str) -> std::result::Result<SocketAddr, String> {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    if words.next() != Some("CONNECT") {
        return Err("only CONNECT is understood".into());
    }
    let authority = words.next().unwrap_or_default();
    let address: SocketAddr =
        authority.parse().map_err(|_| format!("{authority:?} is no address with a port"))?;
    match is_elsewhere(address.ip()) {
        true => Ok(address),
        false => Err(format!("{} is nobody's own address", address.ip())),
    }
}

/// Whether an address means somebody else wherever one asks: a node's own loopback is not the API server's business.
fn is_elsewhere(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || link_local)
}

/// Where to dial an address from, the best place first.
fn places(target: IpAddr, wanted: &Wanted, last: &Option<String>) -> Vec<String> {
    let near = [Family::Ipv4, Family::Ipv6].map(|family| underlay(family, address::CONTROL));
    if near.iter().any(|net| net.contains(&target)) {
        return vec![CONTROL.to_owned()];
    }
    let reachable = wanted.running().filter(|(_, node)| !node.partitioned);
    let mut nodes: Vec<String> = reachable.map(|(name, _)| name.to_owned()).collect();
    nodes.sort_by_key(|name| Some(name) != last.as_ref());
    nodes
}

/// The first place from which somebody answers. Who refuses has answered.
fn dial<T>(
    places: &[String],
    connect: impl Fn(&str) -> io::Result<T>,
) -> std::result::Result<(String, T), String> {
    let mut problem = "no node runs".to_owned();
    for place in places {
        match connect(place) {
            Ok(found) => return Ok((place.clone(), found)),
            Err(error) => {
                problem = format!("asked from {place}: {error}");
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    break;
                }
            }
        }
    }
    Err(problem)
}

/// A socket stays in the namespace where it was made.
fn connect(place: &str, target: SocketAddr) -> io::Result<TcpStream> {
    let connect = || Ok(TcpStream::connect_timeout(&target, ANSWER));
    let stream = in_namespace(&named_namespace(place), connect).map_err(io::Error::other)??;
    stream.set_nodelay(true)?;
    let (idle, interval, count) = SILENCE;
    setsockopt(&stream, sockopt::KeepAlive, &true)?;
    setsockopt(&stream, sockopt::TcpKeepIdle, &idle)?;
    setsockopt(&stream, sockopt::TcpKeepInterval, &interval)?;
    setsockopt(&stream, sockopt::TcpKeepCount, &count)?;
    setsockopt(&stream, sockopt::TcpUserTimeout, &DEAF)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timed for &[u8] {
        fn limit(&self, _time: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn asked(text: &str) -> std::result::Result<(String, String), String> {
        let (target, more) = read_request(&mut text.as_bytes())?;
        Ok((target.to_string(), String::from_utf8(more).unwrap()))
    }

    #[test]
    fn a_request_names_an_address_and_what_follows_is_carried_on() {
        let request = "CONNECT 10.244.0.3:80 HTTP/1.1\r\nHost: x\r\n\r\nGET /";
        assert_eq!(asked(request), Ok(("10.244.0.3:80".into(), "GET /".into())));
        let request = "CONNECT [fd00:10:96::7]:443 HTTP/1.1\r\n\r\n";
        assert_eq!(asked(request), Ok(("[fd00:10:96::7]:443".into(), "".into())));
    }

    #[test]
    fn everything_else_is_refused_with_words() {
        let refused = |text: &str| asked(text).unwrap_err();
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), "only CONNECT is understood");
        assert_eq!(refused("CONNECT web:80 HTTP/1.1\r\n\r\n"), "\"web:80\" is no address with a port");
        assert_eq!(refused("CONNECT 10.0.0.1:80"), "the request has no end");
        assert_eq!(refused(&format!("CONNECT {}", "x".repeat(6000))), "the request is too long");
        for own in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.1.1", "[fe80::1]", "0.0.0.0"] {
            let message = refused(&format!("CONNECT {own}:10250 HTTP/1.1\r\n\r\n"));
            assert!(message.ends_with("is nobody's own address"), "{message}");
        }
    }

    fn wanted() -> Wanted {
        let mut wanted = Wanted::new("test", 4, vec![Family::Ipv4, Family::Ipv6], 1).unwrap();
        wanted.node_mut("n2").unwrap().running = false;
        wanted.node_mut("n3").unwrap().partitioned = true;
        wanted
    }

    #[test]
    fn the_underlay_is_dialled_from_control_and_the_rest_from_a_node_that_runs() {
        let from = |target: &str, last: Option<&str>| {
            places(target.parse().unwrap(), &wanted(), &last.map(str::to_owned))
        };
        assert_eq!(from("172.30.0.11", None), [CONTROL]);
        assert_eq!(from("fd00:172:30::b", None), [CONTROL]);
        assert_eq!(from("10.96.0.1", None), ["n1", "n4"]);
        assert_eq!(from("fd00:10:244::3", Some("n4")), ["n4", "n1"]);
        assert_eq!(from("10.96.0.1", Some("n2")), ["n1", "n4"]);
    }

    #[test]
    fn the_next_node_is_asked_unless_somebody_has_refused() {
        let nodes = ["n1".to_owned(), "n2".to_owned()];
        let second = |place: &str| if place == "n2" { Ok(7) } else { Err(io::ErrorKind::TimedOut.into()) };
        assert_eq!(dial(&nodes, second), Ok(("n2".into(), 7)));
        let refusing = |place: &str| -> io::Result<u8> {
            assert_eq!(place, "n1", "who refuses has answered");
            Err(io::ErrorKind::ConnectionRefused.into())
        };
        assert!(dial(&nodes, refusing).unwrap_err().starts_with("asked from n1: "));
        assert_eq!(dial(&[], |_| Ok(())), Err("no node runs".into()));
    }
}
