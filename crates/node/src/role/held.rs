//! Connections that are held to hear when the other end goes: a bridge has a socket for as long as its switch runs, and its
//! flows no longer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A hello of OpenFlow 1.5. Nothing is asked after it, and nothing comes but the answer.
const HELLO: [u8; 8] = [6, 0, 0, 8, 0, 0, 0, 0];
/// A socket that is not there is tried again after so long, then after longer, up to a limit.
const RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Connections by socket.
pub(super) struct Held {
    told: watch::Sender<u64>,
    by_socket: BTreeMap<PathBuf, JoinSet<()>>,
}

impl Held {
    /// None yet.
    pub(super) fn new() -> Held {
        Held { told: watch::channel(0).0, by_socket: BTreeMap::new() }
    }

    /// Changes when a connection ends or begins.
    pub(super) fn events(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// Holds connections to these sockets, and to no others.
    pub(super) fn only(&mut self, sockets: &BTreeSet<PathBuf>) {
        self.by_socket.retain(|socket, _| sockets.contains(socket));
        for socket in sockets {
            if !self.by_socket.contains_key(socket) {
                let mut task = JoinSet::new();
                task.spawn(hold(socket.clone(), self.told.clone()));
                self.by_socket.insert(socket.clone(), task);
            }
        }
    }
}

async fn hold(socket: PathBuf, told: watch::Sender<u64>) {
    let mut retry = RETRY;
    loop {
        if let Ok(stream) = UnixStream::connect(&socket).await {
            told.send_modify(|count| *count += 1);
            ended(stream).await;
            told.send_modify(|count| *count += 1);
            retry = RETRY;
        }
        sleep(retry).await;
        retry = LONGEST_RETRY.min(retry * 2);
    }
}

/// Returns when the other end goes.
async fn ended(mut stream: UnixStream) {
    let mut answer = [0; 256];
    if stream.write_all(&HELLO).await.is_ok() {
        while stream.read(&mut answer).await.is_ok_and(|length| length > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::net::UnixListener;
    use tokio::time::timeout;

    use super::*;

    async fn hears(events: &mut watch::Receiver<u64>) {
        let heard = timeout(Duration::from_secs(10), events.changed()).await;
        heard.expect("it is heard of").unwrap();
    }

    fn listener(socket: &Path) -> UnixListener {
        let _gone = std::fs::remove_file(socket);
        UnixListener::bind(socket).unwrap()
    }

    #[tokio::test]
    async fn the_end_of_a_switch_is_heard_and_its_return() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("br-ex.mgmt");
        let mut held = Held::new();
        let mut events = held.events();
        held.only(&[socket.clone()].into());
        for _ in 0..2 {
            let switch = listener(&socket);
            let (mut connection, _) = switch.accept().await.unwrap();
            hears(&mut events).await;
            let mut hello = [0; 8];
            connection.read_exact(&mut hello).await.unwrap();
            assert_eq!(hello, HELLO);
            drop(connection);
            hears(&mut events).await;
            // Whoever connects meanwhile meets nobody.
            drop(switch);
        }
        held.only(&BTreeSet::new());
        assert!(held.by_socket.is_empty());
    }
}
