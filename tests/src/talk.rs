//! Many connections, and much data, between namespaces of a sandbox: where it has a namespace it need not have a program.
#![allow(clippy::unwrap_used)]

use causeway_host::in_namespace;
use causeway_sandbox::harness::Sandbox;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrStorage, bind, connect, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A connection that hears nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long somebody waits for an answer who asks all the time, and then until he asks again.
const WITHOUT_A_PAUSE: Duration = Duration::from_millis(4);
/// A thread for each connection, with little to do.
const STACK: usize = 128 << 10;

/// The namespace of a pod, as the machine sees it.
///
/// # Panics
/// When no process is in it.
pub fn namespace(sandbox: &Sandbox, pod: &str) -> PathBuf {
    with_process(&sandbox.pod(pod).exec(&["readlink", "/proc/self/ns/net"]).unwrap())
}

/// The namespace of a node, or of a host outside.
///
/// # Panics
/// When no process is in it.
pub fn namespace_of_host(sandbox: &Sandbox, host: &str) -> PathBuf {
    with_process(&sandbox.exec(host, &["readlink", "/proc/self/ns/net"]).unwrap())
}

/// By the oldest process in it: it lives as long as the pod, and a younger one may be gone at the next moment, whatever its number.
fn with_process(wanted: &str) -> PathBuf {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let is_it = |path: &PathBuf| {
        fs::read_link(path.join("ns/net")).is_ok_and(|link| link.to_str() == Some(wanted.trim()))
    };
    let oldest = all.filter(is_it).filter_map(|path| Some((started(&path)?, path))).min();
    oldest.unwrap_or_else(|| panic!("no process in {wanted}")).1.join("ns/net")
}

/// When a process was started, in ticks since the machine was: the twentieth word behind its name, which may have any characters.
fn started(process: &Path) -> Option<u64> {
    let said = fs::read_to_string(process.join("stat")).ok()?;
    said.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Listens in a namespace, and hands connections on for as long as the program runs.
fn listen(namespace: &Path, port: u16, each: impl Fn(TcpStream) + Send + 'static) {
    let (told, ready) = channel();
    let namespace = namespace.to_owned();
    thread::spawn(move || {
        let served = in_namespace(&namespace, move || {
            let listener = TcpListener::bind(("::", port)).unwrap();
            told.send(()).unwrap();
            listener.incoming().flatten().for_each(each);
            Ok(())
        });
        served.unwrap();
    });
    ready.recv_timeout(PATIENCE).unwrap();
}

/// A server that says each line back with the source that it sees.
///
/// # Panics
/// When nobody can listen there.
pub fn serve(namespace: &Path, port: u16) {
    listen(namespace, port, |stream| {
        // A client that goes is no trouble of the server's.
        thread::Builder::new().stack_size(STACK).spawn(move || drop(answer(&stream))).unwrap();
    });
}

fn answer(mut stream: &TcpStream) -> io::Result<()> {
    let peer = stream.peer_addr()?;
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        stream.write_all(format!("{}\t{peer}\n", line.trim_end()).as_bytes())?;
        line.clear();
    }
    Ok(())
}

/// Connects to a server once from each of these ports, so many at once, and gives what each heard. All connections of a part are open
/// before the first one speaks.
///
/// # Panics
/// When a connection fails.
pub fn ask(namespace: &Path, server: SocketAddrV4, name: &str, ports: &[u16], at_once: usize) -> Vec<String> {
    let mut heard = Vec::new();
    let asked = in_namespace(namespace, || {
        for some in ports.chunks(at_once) {
            let open: Vec<(u16, TcpStream)> =
                some.iter().map(|port| (*port, from(*port, server).unwrap())).collect();
            for (port, mut stream) in open.iter().map(|(port, stream)| (port, stream)) {
                stream.write_all(format!("{name} {port}\n").as_bytes()).unwrap();
            }
            for (port, stream) in &open {
                let mut line = String::new();
                BufReader::new(stream).read_line(&mut line).unwrap_or_else(|e| panic!("{name} {port}: {e}"));
                heard.push(line.trim_end().to_owned());
            }
        }
        Ok(())
    });
    asked.unwrap();
    heard
}

/// A connection from a port of one's own.
fn from(port: u16, server: SocketAddrV4) -> nix::Result<TcpStream> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, port))?;
    connect(socket.as_raw_fd(), &SockaddrIn::from(server))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).map_err(|_| nix::Error::EINVAL)?;
    Ok(stream)
}

/// Whether a server answers whoever dials from this port.
///
/// # Panics
/// When the port is taken.
pub fn answers(namespace: &Path, port: u16, server: SocketAddr) -> bool {
    let dialled = in_namespace(namespace, || {
        let family = if server.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let own: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
        setsockopt(&socket, sockopt::SendTimeout, &TimeVal::new(2, 0)).unwrap();
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(own, port))).unwrap();
        Ok(connect(socket.as_raw_fd(), &SockaddrStorage::from(server)).is_ok())
    });
    dialled.unwrap()
}

/// A server that reads whatever comes, and says of each connection how many bytes it brought and in how many seconds.
///
/// # Panics
/// When nobody can listen there.
pub fn sink(namespace: &Path, port: u16) -> Receiver<(u64, f64)> {
    let (told, results) = channel();
    listen(namespace, port, move |mut stream| {
        let (began, mut bytes, mut buffer) = (Instant::now(), 0, vec![0; 1 << 20]);
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            bytes += length as u64;
        }
        // Nobody may be left who wants to know.
        let _unheard = told.send((bytes, began.elapsed().as_secs_f64()));
    });
    results
}

/// Sends as much as it can to a server, for so long.
///
/// # Panics
/// When the connection fails.
pub fn pour(namespace: &Path, server: SocketAddr, how_long: Duration) {
    let poured = in_namespace(namespace, || {
        let (mut stream, buffer) = (TcpStream::connect(server).unwrap(), vec![0; 1 << 18]);
        let end = Instant::now() + how_long;
        while Instant::now() < end {
            stream.write_all(&buffer).unwrap();
        }
        Ok(())
    });
    poured.unwrap();
}

/// Asks a UDP server from one port without a pause, and hands each answer on, until somebody does not want more of them.
///
/// # Panics
/// When the port is taken.
pub fn ask_udp_without_a_pause(
    namespace: &Path,
    port: u16,
    server: SocketAddr,
    word: &str,
    mut goes_on: impl FnMut(Option<String>) -> bool + Send,
) {
    let word = word.to_owned();
    let asked = in_namespace(namespace, move || {
        let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, port)).unwrap();
        socket.set_read_timeout(Some(WITHOUT_A_PAUSE)).unwrap();
        let mut buffer = [0; 2000];
        loop {
            // Where nobody serves just now it is refused.
            let length = socket.send_to(word.as_bytes(), server).and_then(|_| socket.recv(&mut buffer));
            let answer =
                length.ok().map(|length| String::from_utf8_lossy(&buffer[..length]).trim().to_owned());
            if !goes_on(answer) {
                return Ok(());
            }
            thread::sleep(WITHOUT_A_PAUSE);
        }
    });
    asked.unwrap();
}

/// What a UDP server answers whoever asks from this port, if it does.
///
/// # Panics
/// When the port is taken.
pub fn ask_udp(namespace: &Path, port: u16, server: SocketAddr, word: &str) -> Option<String> {
    let (namespace, word) = (namespace.to_owned(), word.to_owned());
    let answer = in_namespace(&namespace, move || {
        let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        // A refusal that came for the last question is heard with this one.
        let sent = socket.connect(server).and_then(|()| socket.send(word.as_bytes()));
        let mut buffer = [0; 2000];
        let length = sent.and_then(|_| socket.recv(&mut buffer)).ok();
        Ok(length.map(|length| String::from_utf8_lossy(&buffer[..length]).trim().to_owned()))
    });
    answer.unwrap()
}
