//! A unix socket between client and server that breaks its first connection at a chosen byte.

use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

pub struct Proxy {
    path: PathBuf,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug)]
pub enum Direction {
    ToServer,
    ToClient,
}

impl Proxy {
    /// The first connection ends after `limit` bytes in one direction; later ones live.
    pub fn start(folder: &Path, server: PathBuf, direction: Direction, limit: usize) -> Proxy {
        let path = folder.join(format!("proxy-{limit}-{direction:?}"));
        let listener = UnixListener::bind(&path).unwrap();
        let task = tokio::spawn(async move {
            let mut first = true;
            while let Ok((client, _)) = listener.accept().await {
                let limit = if std::mem::take(&mut first) { limit } else { usize::MAX };
                let Ok(server) = UnixStream::connect(&server).await else { continue };
                tokio::spawn(forward(client, server, direction, limit));
            }
        });
        Proxy { path, task }
    }

    pub fn remote(&self) -> String {
        format!("unix:{}", self.path.display())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut client: UnixStream, mut server: UnixStream, direction: Direction, limit: usize) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let (up, down) = match direction {
        Direction::ToServer => (limit, usize::MAX),
        Direction::ToClient => (usize::MAX, limit),
    };
    tokio::select! {
        () = pump(&mut from_client, &mut to_server, up) => {}
        () = pump(&mut from_server, &mut to_client, down) => {}
    }
}

async fn pump(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut limit: usize,
) {
    let mut buffer = vec![0; 16 << 10];
    while limit > 0 {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        let pass = read.min(limit);
        if to.write_all(&buffer[..pass]).await.is_err() {
            return;
        }
        limit -= pass;
    }
}
