//! Somebody who dials all the time, and counts how often he is answered.
#![allow(clippy::unwrap_used)]

use causeway_host::in_namespace;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long he waits for an answer, and after one.
const WAIT: Duration = Duration::from_millis(100);
/// How long somebody waits who counts what is lost: not as long as a lost packet takes to be sent again, which is a second.
const PATIENCE: Duration = Duration::from_millis(900);

/// The dialler, until he is told to end.
pub struct Dialler {
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    tried: AtomicU64,
    answered: AtomicU64,
    /// When he asked what was answered last.
    last: Mutex<Option<Instant>>,
    ends: AtomicBool,
}

impl Dialler {
    /// Begins to dial from a namespace.
    pub fn begin(namespace: &Path, to: SocketAddr) -> Self {
        Self::waiting(namespace, to, WAIT)
    }

    /// The same for one who is late with nothing but what was dropped.
    pub fn patient(namespace: &Path, to: SocketAddr) -> Self {
        Self::waiting(namespace, to, PATIENCE)
    }

    fn waiting(namespace: &Path, to: SocketAddr, wait: Duration) -> Self {
        let counts = Arc::new(Counts::default());
        let (namespace, own) = (namespace.to_owned(), counts.clone());
        let thread = thread::spawn(move || {
            let dials = in_namespace(&namespace, || {
                while !own.ends.load(Ordering::Relaxed) {
                    own.tried.fetch_add(1, Ordering::Relaxed);
                    let asked = Instant::now();
                    if TcpStream::connect_timeout(&to, wait).is_ok() {
                        own.answered.fetch_add(1, Ordering::Relaxed);
                        *own.last.lock().unwrap() = Some(asked);
                        thread::sleep(WAIT);
                    }
                }
                Ok(())
            });
            dials.unwrap();
        });
        Self { counts, thread: Some(thread) }
    }

    /// How often he was answered up to now.
    pub fn answered(&self) -> u64 {
        self.counts.answered.load(Ordering::Relaxed)
    }

    /// When he asked what was answered last, if anything was.
    ///
    /// # Panics
    /// When he could not dial at all.
    pub fn last(&self) -> Option<Instant> {
        *self.counts.last.lock().unwrap()
    }

    /// Ends; says how often he was answered, of how many times he tried.
    ///
    /// # Panics
    /// When he could not dial at all.
    pub fn end(mut self) -> (u64, u64) {
        self.counts.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        (self.answered(), self.counts.tried.load(Ordering::Relaxed))
    }
}

impl Drop for Dialler {
    fn drop(&mut self) {
        self.counts.ends.store(true, Ordering::Relaxed);
    }
}
