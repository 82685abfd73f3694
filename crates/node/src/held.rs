//! Connections that are held to hear when the other end goes: a bridge has a socket for as long as its switch runs, and its
//! flows no longer.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// A hello of OpenFlow 1.5. Nothing is asked after it. What comes is the answer, and now and then a question whether somebody is
/// there: without an answer the switch complains and ends the connection.
const HELLO: [u8; 8] = [6, 0, 0, 8, 0, 0, 0, 0];
/// The kinds of messages that count here.
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
/// A socket that is not there is tried again after so long, then after longer, up to a limit.
const RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Connections by socket.
pub(crate) struct Held {
    told: watch::Sender<u64>,
    /// Whether the other end speaks OpenFlow; elsewhere nothing is said.
    openflow: bool,
    tasks: JoinSet<()>,
    by_socket: BTreeMap<PathBuf, AbortHandle>,
}

impl Held {
    /// None yet.
    pub(crate) fn new() -> Held {
        let (tasks, by_socket) = (JoinSet::new(), BTreeMap::new());
        Held { told: watch::channel(0).0, openflow: true, tasks, by_socket }
    }

    /// None yet, to servers that speak only when they are spoken to.
    pub(crate) fn silent() -> Held {
        Held { openflow: false, ..Held::new() }
    }

    /// Changes when a connection ends or begins.
    pub(crate) fn events(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// Holds connections to these sockets, and to no others.
    pub(crate) fn only(&mut self, sockets: &BTreeSet<PathBuf>) {
        for (_, task) in self.by_socket.extract_if(.., |socket, _| !sockets.contains(socket)) {
            task.abort();
        }
        for socket in sockets {
            if !self.by_socket.contains_key(socket) {
                let task = self.tasks.spawn(hold(socket.clone(), self.told.clone(), self.openflow));
                self.by_socket.insert(socket.clone(), task);
            }
        }
    }

    /// Waits until nobody holds one of the connections any more, which nobody has asked for, and says why.
    pub(crate) async fn ended(&mut self) -> String {
        loop {
            match self.tasks.join_next().await {
                // Its socket is not held any more.
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => return format!("a connection that is held: {error}"),
                Some(Ok(())) => return "a connection is not held any more".to_owned(),
                // The next one may come while something else is waited for.
                None => return std::future::pending().await,
            }
        }
    }
}

async fn hold(socket: PathBuf, told: watch::Sender<u64>, openflow: bool) {
    let mut retry = RETRY;
    loop {
        if let Ok(stream) = UnixStream::connect(&socket).await {
            told.send_modify(|count| *count += 1);
            if openflow {
                ended(stream).await
            } else {
                silence_ended(stream).await
            }
            told.send_modify(|count| *count += 1);
            retry = RETRY;
        }
        sleep(retry).await;
        retry = LONGEST_RETRY.min(retry * 2);
    }
}

/// Returns when the other end goes, or says what cannot be read.
async fn ended(mut stream: UnixStream) {
    if stream.write_all(&HELLO).await.is_ok() {
        while answered(&mut stream).await.is_ok() {}
    }
}

/// Returns when the other end goes.
async fn silence_ended(mut stream: UnixStream) {
    let mut said = [0; 256];
    while stream.read(&mut said).await.is_ok_and(|length| length > 0) {}
}

/// Takes one message, and answers it if it asks whether somebody is there.
async fn answered(stream: &mut UnixStream) -> io::Result<()> {
    let mut head = [0; HELLO.len()];
    stream.read_exact(&mut head).await?;
    let [_, kind, high, low, ..] = head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let short = || io::Error::from(io::ErrorKind::InvalidData);
    let mut body = vec![0; length.checked_sub(head.len()).ok_or_else(short)?];
    stream.read_exact(&mut body).await?;
    if kind == ECHO_REQUEST {
        head[1] = ECHO_REPLY;
        stream.write_all(&[head.as_slice(), &body].concat()).await?;
    }
    Ok(())
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

    #[tokio::test]
    async fn a_connection_that_nobody_holds_any_more_is_told() {
        let socket = PathBuf::from("/nowhere/br-ex.mgmt");
        let mut held = Held::new();
        held.only(&[socket].into());
        held.only(&BTreeSet::new());
        held.tasks.spawn(async { panic!("no reason") });
        let ended = timeout(Duration::from_secs(10), held.ended()).await.unwrap();
        assert!(ended.contains("panicked") && ended.contains("no reason"), "{ended}");
    }

    /// Whoever asks is answered with his own number and words, in parts or not.
    #[tokio::test]
    async fn the_switch_hears_that_somebody_is_there() {
        let (near, mut switch) = UnixStream::pair().unwrap();
        let task = tokio::spawn(ended(near));
        let mut heard = [0; 8];
        switch.read_exact(&mut heard).await.unwrap();
        // A hello with an element, then a question in two parts.
        switch.write_all(&[6, 0, 0, 12, 0, 0, 0, 1, 9, 9, 9, 9, 6, 2, 0]).await.unwrap();
        switch.write_all(&[10, 0, 0, 0, 7, b'h', b'i']).await.unwrap();
        let mut answer = [0; 10];
        switch.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [6, 3, 0, 10, 0, 0, 0, 7, b'h', b'i']);
        // A length that is none ends the connection.
        switch.write_all(&[6, 2, 0, 3, 0, 0, 0, 8]).await.unwrap();
        timeout(Duration::from_secs(10), task).await.unwrap().unwrap();
    }
}
