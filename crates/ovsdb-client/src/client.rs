//! The owner of a session and its connection: connects, reconnects, feeds bytes and time.

use crate::connect::{Link, connect};
use crate::remote::Remote;
use crate::tls::TlsFiles;
use causeway_ovsdb::{
    Error, Event, Replica, RequestId, Session, SessionConfig, TransactOutcome, Transaction,
};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

/// What a client needs to know.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The database and what to hold of it.
    pub session: SessionConfig,
    /// Its servers, tried in turn.
    pub remotes: Vec<Remote>,
    /// For `ssl:` remotes.
    pub tls: Option<TlsFiles>,
    /// The pause after all remotes have failed once; it doubles up to `retry_max`.
    pub retry_min: Duration,
    /// The longest pause between rounds of attempts.
    pub retry_max: Duration,
    /// How long one attempt may take.
    pub connect_limit: Duration,
}

impl ClientConfig {
    /// With the usual pauses. Unless the session says otherwise, a server that was silent for 5 s is asked for a sign
    /// of life; over unix sockets never.
    pub fn new(mut session: SessionConfig, remotes: Vec<Remote>) -> ClientConfig {
        session.probe_interval.get_or_insert(5_000);
        ClientConfig {
            session,
            remotes,
            tls: None,
            retry_min: Duration::from_millis(50),
            retry_max: Duration::from_secs(5),
            connect_limit: Duration::from_secs(10),
        }
    }
}

/// What happens to a client.
#[derive(Debug)]
pub enum ClientEvent {
    /// A connection to this remote is there; the replica is not current yet.
    Connected(Remote),
    /// The connection, or the attempt at one, ended.
    Disconnected {
        /// Which of the configured servers it was to.
        remote: Remote,
        /// Why.
        reason: String,
    },
    /// The session has something to tell.
    Session(Event),
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>;

enum Io {
    Pause(Instant),
    Connecting(Connecting),
    Open(Box<Link>),
}

/// A client of one database.
pub struct Client {
    config: ClientConfig,
    session: Session,
    io: Io,
    born: Instant,
    remote: usize,
    /// Attempts since a replica was last complete.
    failures: u32,
    buffer: Box<[u8]>,
    /// Events that nobody has taken yet. Without a bound: only while a request waits for its answer it grows, by what the server says
    /// in between, none of which may be lost. A connection that ends is an answer.
    waiting: VecDeque<ClientEvent>,
}

/// Large enough that a dump takes few system calls, small enough to stay in the cache.
const READ_BUFFER: usize = 128 << 10;

impl Client {
    /// A client that connects when it is first asked for an event.
    ///
    /// # Panics
    /// Without a remote.
    pub fn new(config: ClientConfig) -> Client {
        assert!(!config.remotes.is_empty(), "a client needs at least one remote");
        let born = Instant::now();
        Client {
            session: Session::new(config.session.clone()),
            config,
            io: Io::Pause(born),
            born,
            remote: 0,
            failures: 0,
            buffer: vec![0; READ_BUFFER].into_boxed_slice(),
            waiting: VecDeque::new(),
        }
    }

    /// The session: replica, transactions, locks, conditions.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The copy of the database.
    pub fn replica(&self) -> &Replica {
        self.session.replica()
    }

    /// Waits for the next event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> ClientEvent {
        loop {
            if let Some(event) = self.poll_event() {
                return event;
            }
            if let Err(reason) = self.advance().await {
                self.fail(reason);
            }
        }
    }

    /// Waits until the replica is complete; gives up with the last reason after `limit`. Events on the way there are
    /// dropped: a consumer of changes calls [`Client::next`] from the beginning.
    pub async fn synced(&mut self, limit: Duration) -> Result<(), String> {
        let mut last = "the server has not answered".to_owned();
        let outcome = tokio::time::timeout(limit, async {
            while !self.session.is_synced() {
                if let ClientEvent::Disconnected { remote, reason } = self.next().await {
                    last = format!("{remote}: {reason}");
                }
            }
        });
        outcome.await.map_err(|_| last)
    }

    /// Sends a transaction and waits for its end; [`TransactOutcome::Lost`] at once while there is no connection.
    /// Events that come in between wait for [`Client::next`], also when this future is dropped.
    pub async fn transact(&mut self, transaction: &Transaction) -> TransactOutcome {
        let Ok(id) = self.session.transact(transaction) else { return TransactOutcome::Lost };
        self.pick(|event| match event {
            Event::Transacted(done, outcome) if done == id => Ok(outcome),
            other => Err(other),
        })
        .await
    }

    /// Sends any other request and waits for its end, as [`Client::transact`] does.
    pub async fn call(&mut self, method: &str, params: &str) -> Result<String, String> {
        let id: RequestId = self.session.call(method, params).map_err(|e| e.to_string())?;
        self.pick(|event| match event {
            Event::Replied(done, result) if done == id => Ok(result),
            other => Err(other),
        })
        .await
    }

    /// Waits for one event of the session; all others stay in line.
    async fn pick<T>(&mut self, mut wanted: impl FnMut(Event) -> Result<T, Event>) -> T {
        loop {
            self.flush();
            while let Some(event) = self.session.next_event() {
                match wanted(event) {
                    Ok(found) => return found,
                    Err(other) => self.waiting.push_back(ClientEvent::Session(other)),
                }
            }
            if let Err(reason) = self.advance().await {
                self.fail(reason);
            }
        }
    }

    /// An event that is there without waiting.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.flush();
        self.waiting.pop_front().or_else(|| self.session.next_event().map(ClientEvent::Session))
    }

    /// Puts requests on their way; waiting for events does so too.
    pub fn flush(&mut self) {
        if let Io::Open(link) = &self.io
            && let Some(bytes) = self.session.take_output()
        {
            link.send(bytes);
        }
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }

    fn at_remote(&self) -> Remote {
        self.config.remotes[self.remote % self.config.remotes.len()].clone()
    }

    /// The peer of a unix socket can't vanish unnoticed.
    fn probe_interval(&self, remote: &Remote) -> Option<u64> {
        self.config.session.probe_interval.filter(|_| !matches!(remote, Remote::Unix(_)))
    }

    /// One step of whatever is under way: a pause, an attempt, a read or a probe.
    async fn advance(&mut self) -> Result<(), String> {
        match &mut self.io {
            Io::Pause(until) => {
                sleep_until(*until).await;
                let attempt = connect(self.at_remote(), self.config.tls.clone(), self.config.connect_limit);
                self.io = Io::Connecting(Box::pin(attempt));
                Ok(())
            }
            Io::Connecting(attempt) => {
                let link = attempt.await.map_err(|e| e.to_string())?;
                self.io = Io::Open(Box::new(link));
                let remote = self.at_remote();
                self.session.set_probe_interval(self.probe_interval(&remote));
                self.session.connected(self.now());
                debug!(%remote, "connected");
                self.waiting.push_back(ClientEvent::Connected(remote));
                Ok(())
            }
            Io::Open(_) => self.serve().await,
        }
    }

    async fn serve(&mut self) -> Result<(), String> {
        let deadline = self.session.deadline().map(|ms| self.born + Duration::from_millis(ms));
        let Io::Open(link) = &mut self.io else { return Ok(()) };
        let probe = async {
            match deadline {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let read = tokio::select! {
            // What the server said before the end counts, so reading goes first.
            biased;
            read = link.reader.read(&mut self.buffer) => read.map_err(|e| e.to_string())?,
            error = &mut link.writer => return Err(error.map_or_else(|e| e.to_string(), |e| e.to_string())),
            () = probe => {
                let now = self.now();
                return self.session.tick(now).map_err(|e| e.to_string());
            }
        };
        if read == 0 {
            return Err("the server closed the connection".into());
        }
        let now = self.now();
        self.session.receive(&self.buffer[..read], now).map_err(|e: Error| e.to_string())?;
        if self.session.is_synced() {
            self.failures = 0;
        }
        Ok(())
    }

    fn fail(&mut self, reason: String) {
        let remote = self.at_remote();
        warn!(%remote, reason, "no connection to the database");
        while let Some(event) = self.session.next_event() {
            self.waiting.push_back(ClientEvent::Session(event));
        }
        self.failures += 1;
        self.remote = (self.remote + 1) % self.config.remotes.len();
        self.io = Io::Pause(Instant::now() + self.pause());
        self.waiting.push_back(ClientEvent::Disconnected { remote, reason });
        // What ends with the connection comes behind the reason.
        self.session.disconnected();
    }

    /// No pause until every remote has been tried once, then one that doubles.
    fn pause(&self) -> Duration {
        let rounds = self.failures / self.config.remotes.len() as u32;
        match rounds.checked_sub(1) {
            None => Duration::ZERO,
            Some(n) => self.config.retry_min.saturating_mul(1 << n.min(16)).min(self.config.retry_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_tried_in_turn_then_after_pauses_that_double() {
        let remotes = Remote::list("unix:/a,unix:/b").unwrap();
        let mut config = ClientConfig::new(SessionConfig::new("D"), remotes);
        config.retry_max = Duration::from_millis(150);
        let mut client = Client::new(config);
        let attempts: Vec<(String, u128)> = (0..8)
            .map(|_| {
                let remote = client.at_remote().to_string();
                client.fail("no".into());
                (remote, client.pause().as_millis())
            })
            .collect();
        let pauses = [0, 50, 50, 100, 100, 150, 150, 150];
        let want: Vec<(String, u128)> =
            ["unix:/a", "unix:/b"].iter().cycle().map(|r| (*r).to_owned()).zip(pauses).collect();
        assert_eq!(attempts, want);
    }
}
