//! What a role says about itself over HTTP: `/metrics`, `/healthz`, `/readyz`.
//!
//! Owns a tiny server that answers GET and closes. Never takes input beyond the path.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::Error;

/// Whether the role works; shared between the role and the server.
#[derive(Clone, Debug)]
pub struct Health(Arc<Mutex<Result<(), String>>>);

impl Health {
    /// Not ready, for this reason.
    pub fn waiting(reason: &str) -> Self {
        Self(Arc::new(Mutex::new(Err(reason.into()))))
    }

    /// Says whether the role is ready, and if not, why.
    pub fn set(&self, ready: Result<(), String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ready;
    }

    /// Whether the role is ready, and if not, why.
    pub fn get(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

const TIME_OUT: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 16;
const LONGEST_REQUEST: usize = 8192;

/// Serves until the task ends.
///
/// # Errors
/// [`Error::Listen`] when the address cannot be used.
pub async fn serve(
    address: SocketAddr,
    registry: Arc<Registry>,
    health: Health,
) -> Result<SocketAddr, Error> {
    let listen = |problem| Error::Listen { address: address.to_string(), problem };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    tokio::spawn(accept(listener, registry, health));
    Ok(bound)
}

async fn accept(listener: TcpListener, registry: Arc<Registry>, health: Health) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (registry, health) = (Arc::clone(&registry), health.clone());
        tokio::spawn(async move {
            // A client that goes away or is slow gets no answer; there is nobody to tell.
            let _gone = tokio::time::timeout(TIME_OUT, answer(stream, &registry, &health)).await;
            drop(slot);
        });
    }
}

async fn answer(mut stream: TcpStream, registry: &Registry, health: &Health) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST_REQUEST {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    let (status, body) = page(&String::from_utf8_lossy(&request), registry, health);
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
        let address = serve(([127, 0, 0, 1], 0).into(), Arc::new(registry), health.clone()).await.unwrap();
        assert!(get(address, "/readyz").await.ends_with("not ready: pods are not listed\n"));
        health.set(Ok(()));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(get(address, "/healthz").await.ends_with("ok\n"));
        assert!(get(address, "/metrics").await.contains("things_total 1"));
        assert!(get(address, "/x").await.starts_with("HTTP/1.1 404"));
    }
}
