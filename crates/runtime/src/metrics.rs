//! What a role says about itself over HTTP: `/metrics`, `/healthz`, `/readyz`.
//!
//! Owns a tiny server that answers GET and closes. Never takes input beyond the path. A client that is slow holds back nobody:
//! when there are too many, the one that has waited longest goes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::{Error, Health, Tasks};

/// How long a client may take to ask, and to take the answer.
const ASKING: Duration = Duration::from_secs(2);
const ANSWERING: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 64;
const LONGEST_REQUEST: usize = 8192;
/// A pause after a failed accept: out of file descriptors, usually.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves as a child of the role, and says where.
///
/// # Errors
/// [`Error::Listen`] when the address cannot be used.
pub async fn serve(
    tasks: &mut Tasks,
    address: SocketAddr,
    registry: Registry,
    health: Health,
) -> Result<SocketAddr, Error> {
    let listen = |problem| Error::Listen { address: address.to_string(), problem };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let server = Arc::new(Server { listener, registry, health });
    tasks.keep("metrics", move || accept(Arc::clone(&server)));
    Ok(bound)
}

struct Server {
    listener: TcpListener,
    registry: Registry,
    health: Health,
}

async fn accept(server: Arc<Server>) -> String {
    let mut clients: JoinSet<()> = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = server.listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if oldest.len() >= CONNECTIONS && let Some(slowest) = oldest.pop_front() {
                        slowest.abort();
                    }
                    oldest.push_back(clients.spawn(attend(Arc::clone(&server), stream)));
                }
                Err(error) => {
                    tracing::warn!(%error, "no request for metrics can be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(ended) = clients.join_next() => {
                oldest.retain(|client| !client.is_finished());
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!(%error, "a request for metrics was not answered");
                }
            }
        }
    }
}

/// A client that goes away or is slow gets no answer; there is nobody to tell.
async fn attend(server: Arc<Server>, mut stream: TcpStream) {
    let Ok(Ok(request)) = timeout(ASKING, read(&mut stream)).await else { return };
    let (status, body) = page(&request, &server.registry, &server.health);
    let _gone = timeout(ANSWERING, answer(stream, status, &body)).await;
}

async fn read(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST_REQUEST {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

async fn answer(mut stream: TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let kind = if body.ends_with("# EOF\n") { kind } else { "text/plain; charset=utf-8" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn page(request: &str, registry: &Registry, health: &Health) -> (&'static str, String) {
    let mut words = request.split_whitespace();
    match (words.next(), words.next()) {
        (Some("GET"), Some("/healthz")) => ("200 OK", "ok\n".into()),
        (Some("GET"), Some("/readyz")) => match health.get() {
            Ok(()) => ("200 OK", "ok\n".into()),
            Err(reason) => ("503 Service Unavailable", format!("not ready: {reason}\n")),
        },
        (Some("GET"), Some("/metrics")) => {
            let mut text = String::new();
            match prometheus_client::encoding::text::encode(&mut text, registry) {
                Ok(()) => ("200 OK", text),
                Err(error) => ("500 Internal Server Error", format!("{error}\n")),
            }
        }
        (Some("GET"), _) => ("404 Not Found", "there is /metrics, /healthz and /readyz\n".into()),
        _ => ("405 Method Not Allowed", "only GET\n".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn pages_say_how_the_role_is() {
        let mut registry = Registry::default();
        let counter = prometheus_client::metrics::counter::Counter::<u64>::default();
        registry.register("things", "Things", counter.clone());
        counter.inc();
        let health = Health::waiting("pods are not listed");
        let mut tasks = Tasks::new(&health, &mut Registry::default());
        let address = serve(&mut tasks, ([127, 0, 0, 1], 0).into(), registry, health.clone()).await.unwrap();
        assert!(get(address, "/readyz").await.ends_with("not ready: pods are not listed\n"));
        health.set(Ok(()));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(get(address, "/healthz").await.ends_with("ok\n"));
        assert!(get(address, "/metrics").await.contains("things_total 1"));
        assert!(get(address, "/x").await.starts_with("HTTP/1.1 404"));
    }

    /// More clients than there is room for, none of which says anything.
    #[tokio::test]
    async fn slow_clients_starve_nobody() {
        let health = Health::waiting("starting");
        let mut tasks = Tasks::new(&health, &mut Registry::default());
        let address = ([127, 0, 0, 1], 0).into();
        let address = serve(&mut tasks, address, Registry::default(), health).await.unwrap();
        let mut slow = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            slow.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = timeout(ASKING / 2, get(address, "/healthz")).await;
        assert!(answer.unwrap().ends_with("ok\n"), "without waiting for the slow ones to give up");
        assert_eq!(slow[0].read(&mut [0]).await.unwrap(), 0, "the oldest was let go");
    }
}
