//! Whoever asks all the time, and counts what is not answered.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::kernel::own_kernel;
use super::nodes::inside;

/// Where machines and customers send back what they are sent.
pub(crate) const ECHO: u16 = 7;
/// From one question to the next.
const PACE: Duration = Duration::from_millis(25);
/// An answer that comes later is none; the test kernel may be slow, and is not to be blamed for what it holds back.
const LATEST: Duration = Duration::from_secs(5);

/// Sends back what comes.
pub(crate) fn echo(namespace: &str) {
    let socket = inside(namespace, || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, ECHO)).unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _lost = socket.send_to(&buffer[..length], from);
        }
    });
}

/// What was asked and not answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    pub(crate) asked: u32,
    pub(crate) lost: u32,
    /// The most in a row.
    pub(crate) row: u32,
}

impl Loss {
    fn of(asked: u32, answered: &BTreeSet<u32>) -> Loss {
        let (mut loss, mut row) = (Loss { asked, ..Loss::default() }, 0);
        for number in 0..asked {
            row = if answered.contains(&number) { 0 } else { row + 1 };
            loss.lost += u32::from(row > 0);
            loss.row = loss.row.max(row);
        }
        loss
    }

    /// For how long nobody was answered, at most.
    pub(crate) fn longest(self) -> Duration {
        PACE * self.row
    }

    /// Of somebody whom all this does not concern. The switch in userspace may lose what it holds when a port comes or goes.
    pub(crate) fn is_none(self) -> bool {
        self.lost <= if own_kernel() { 0 } else { 5 }
    }

    pub(crate) fn worst(self, other: Loss) -> Loss {
        if other.lost >= self.lost { other } else { self }
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Loss { asked, lost, row } = self;
        write!(f, "{lost} of {asked} lost, {row} in a row ({:.1} s)", self.longest().as_secs_f32())
    }
}

/// Somebody who asks all the time.
pub(crate) struct Asking {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Loss>,
}

impl Asking {
    pub(crate) fn begin(from: &str, address: &str) -> Asking {
        let to = SocketAddr::new(address.parse::<IpAddr>().unwrap(), ECHO);
        let socket = inside(from, || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap());
        let to = match to.ip() {
            IpAddr::V4(v4) => SocketAddr::new(v4.to_ipv6_mapped().into(), ECHO),
            IpAddr::V6(_) => to,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        Asking { stop, thread: std::thread::spawn(move || ask(&socket, to, &told)) }
    }

    pub(crate) fn end(self) -> Loss {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Numbered questions at an even pace, whatever becomes of them.
fn ask(socket: &UdpSocket, to: SocketAddr, stop: &AtomicBool) -> Loss {
    socket.set_read_timeout(Some(PACE)).unwrap();
    let (mut asked, mut answered, begin) = (0_u32, BTreeSet::new(), Instant::now());
    let mut ended: Option<Instant> = None;
    loop {
        if ended.is_none() && stop.load(Ordering::Relaxed) {
            ended = Some(Instant::now());
        }
        if ended.is_none() && begin.elapsed() >= PACE * asked {
            // Where there is no way at all the kernel says so at once: that is a question without an answer, too.
            let _lost = socket.send_to(&asked.to_be_bytes(), to);
            asked += 1;
        }
        let mut number = [0; 4];
        if let Ok((4, _)) = socket.recv_from(&mut number) {
            answered.insert(u32::from_be_bytes(number));
        }
        let all = answered.len() == asked as usize;
        if ended.is_some_and(|ended| all || ended.elapsed() > LATEST) {
            return Loss::of(asked, &answered);
        }
    }
}
