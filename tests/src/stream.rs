//! Connections in which only the server speaks, for as long as anybody listens.
#![allow(clippy::unwrap_used)]

use causeway_host::in_namespace;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often the server speaks.
const PAUSE: Duration = Duration::from_millis(50);
/// A connection by which nothing has come for so long has ended.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a socket waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(200);
/// How long a stream may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// What carries a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carrier {
    /// The client sends one packet and never another one.
    Udp,
    /// The client's kernel says of everything that it has come.
    Tcp,
}

/// A running stream. It ends with this value.
pub struct Stream {
    heard: Arc<Heard>,
    wanted: Arc<AtomicBool>,
    name: String,
}

/// What has come: how often, and when for the last time.
#[derive(Default)]
struct Heard {
    times: AtomicU64,
    last: Mutex<Option<Instant>>,
}

impl Heard {
    fn again(&self) {
        *self.last.lock().unwrap() = Some(Instant::now());
        self.times.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Relaxed);
    }
}

impl Stream {
    /// Begins a stream: a client in one namespace asks at an address; in another one somebody answers on that port.
    ///
    /// # Panics
    /// When nothing ever comes.
    pub fn begin(carrier: Carrier, client: &Path, asked: SocketAddr, server: (&Path, u16)) -> Self {
        let (heard, wanted) = (Arc::new(Heard::default()), Arc::new(AtomicBool::new(true)));
        let name = format!("{carrier:?} to {asked}");
        let stream = Self { heard: heard.clone(), wanted: wanted.clone(), name };
        let (told, listening) = std::sync::mpsc::channel();
        let (server, port, go_on) = (server.0.to_owned(), server.1, wanted.clone());
        thread::spawn(move || {
            let serves = in_namespace(&server, move || {
                let any: IpAddr = if asked.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
                let tell = || told.send(()).unwrap();
                match carrier {
                    Carrier::Udp => push_udp(&bound(|| UdpSocket::bind((any, port))), tell, &go_on),
                    Carrier::Tcp => push_tcp(&bound(|| TcpListener::bind((any, port))), tell, &go_on),
                }
                Ok(())
            });
            serves.unwrap();
        });
        listening.recv_timeout(PATIENCE).unwrap();
        let client = client.to_owned();
        thread::spawn(move || {
            let listens = in_namespace(&client, move || {
                match carrier {
                    Carrier::Udp => hear_udp(asked, &heard, &wanted),
                    Carrier::Tcp => hear_tcp(asked, &heard, &wanted),
                }
                Ok(())
            });
            listens.unwrap();
        });
        let began = Instant::now();
        while stream.heard.times.load(Ordering::Relaxed) < 3 {
            assert!(began.elapsed() < PATIENCE, "{}: nothing comes", stream.name);
            thread::sleep(PAUSE);
        }
        stream
    }

    /// Those of these by which something comes now, looked at all at once.
    pub fn alive<'a>(streams: impl IntoIterator<Item = &'a Stream>) -> Vec<&'a Stream> {
        let count = |stream: &Stream| stream.heard.times.load(Ordering::Relaxed);
        let before: Vec<(&Stream, u64)> = streams.into_iter().map(|stream| (stream, count(stream))).collect();
        thread::sleep(SILENCE);
        before
            .into_iter()
            .filter(|(stream, before)| count(stream) > before + 2)
            .map(|(stream, _)| stream)
            .collect()
    }

    /// When something came for the last time.
    ///
    /// # Panics
    /// When whoever listens has failed.
    pub fn last(&self) -> Option<Instant> {
        *self.heard.last.lock().unwrap()
    }

    /// What it is, for people.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A socket on a port that an earlier stream may just be giving up.
fn bound<T>(bind: impl Fn() -> std::io::Result<T>) -> T {
    let began = Instant::now();
    loop {
        match bind() {
            Ok(socket) => return socket,
            Err(error) => assert!(began.elapsed() < PATIENCE / 2, "{error}"),
        }
        thread::sleep(PAUSE);
    }
}

fn push_udp(socket: &UdpSocket, tell: impl Fn(), wanted: &AtomicBool) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    tell();
    let (_, peer) = socket.recv_from(&mut [0; 64]).unwrap();
    while wanted.load(Ordering::Relaxed) {
        // Errors that come back are about packets before.
        let _error = socket.send_to(b"still here", peer);
        thread::sleep(PAUSE);
    }
}

fn push_tcp(listener: &TcpListener, tell: impl Fn(), wanted: &AtomicBool) {
    tell();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_write_timeout(Some(LOOK)).unwrap();
    while wanted.load(Ordering::Relaxed) {
        let _full = stream.write(b"still here");
        thread::sleep(PAUSE);
    }
}

fn hear_udp(asked: SocketAddr, heard: &Heard, wanted: &AtomicBool) {
    let any: IpAddr = if asked.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.connect(asked).unwrap();
    socket.set_read_timeout(Some(LOOK)).unwrap();
    socket.send(b"begin").unwrap();
    while wanted.load(Ordering::Relaxed) {
        if socket.recv(&mut [0; 64]).is_ok() {
            heard.again();
        }
    }
}

fn hear_tcp(asked: SocketAddr, heard: &Heard, wanted: &AtomicBool) {
    let mut stream = TcpStream::connect_timeout(&asked, PATIENCE).unwrap();
    stream.set_read_timeout(Some(LOOK)).unwrap();
    while wanted.load(Ordering::Relaxed) {
        match stream.read(&mut [0; 64]) {
            Ok(0) => return,
            Ok(_) => heard.again(),
            Err(_) => {}
        }
    }
}
