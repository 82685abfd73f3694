//! Opens a stream to a remote, and writes to it from a task of its own.

use crate::remote::Remote;
use crate::tls::TlsFiles;
use rustls_pki_types::ServerName;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// A byte stream of any kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An open connection: the reading half, and a queue to the task that writes.
pub(crate) struct Link {
    pub(crate) reader: ReadHalf<Box<dyn Stream>>,
    queue: mpsc::UnboundedSender<Vec<u8>>,
    /// Ends with an error only.
    pub(crate) writer: JoinHandle<io::Error>,
}

impl Link {
    /// Hands bytes to the writing task. The queue has no bound of its own: whoever sends transactions limits how
    /// many are in flight, and an echo must never wait behind that limit.
    pub(crate) fn send(&self, bytes: Vec<u8>) {
        // Fails only after the writer has ended, which the owner sees as the end of the link.
        let _ = self.queue.send(bytes);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

pub(crate) async fn connect(remote: Remote, tls: Option<TlsFiles>, limit: Duration) -> io::Result<Link> {
    let stream = tokio::time::timeout(limit, open(remote, tls))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {limit:?}")))??;
    let (reader, writer) = tokio::io::split(stream);
    // Without a bound of its own: whoever sends has asked for it, and the engine has no more in flight than one round of rows.
    let (queue, bytes) = mpsc::unbounded_channel();
    Ok(Link { reader, queue, writer: tokio::spawn(write_all(writer, bytes)) })
}

async fn open(remote: Remote, tls: Option<TlsFiles>) -> io::Result<Box<dyn Stream>> {
    match remote {
        Remote::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Remote::Tcp(host, port) => Ok(Box::new(tcp(&host, port).await?)),
        Remote::Ssl(host, port) => {
            let files = tls.ok_or_else(|| io::Error::other("ssl needs a key, a certificate and a CA"))?;
            let config = files.load().map_err(io::Error::other)?;
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let handshake = TlsConnector::from(config).connect(name, tcp(&host, port).await?).await;
            let refused = |e| io::Error::other(format!("{e} (our CA is {})", files.ca.display()));
            Ok(Box::new(handshake.map_err(refused)?))
        }
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn write_all(
    mut writer: WriteHalf<Box<dyn Stream>>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
) -> io::Error {
    while let Some(bytes) = queue.recv().await {
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return error;
        }
    }
    // The owner dropped the queue and with it this task.
    std::future::pending().await
}
