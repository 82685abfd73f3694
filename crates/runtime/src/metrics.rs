//! What a role says about itself over HTTP: `/metrics`, `/healthz`, `/readyz`.
//!
//! Owns these three pages.

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::pages::{Page, answer_all, asked};
use crate::{Error, Health, Tasks};

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
    let listener = Arc::new(listener);
    let pages: Arc<dyn Fn(&str) -> Page + Send + Sync> =
        Arc::new(move |request: &str| page(request, &registry, &health));
    tasks.keep("metrics", move || {
        let (listener, pages) = (Arc::clone(&listener), Arc::clone(&pages));
        async move { answer_all(&listener, pages).await }
    });
    Ok(bound)
}

fn page(request: &str, registry: &Registry, health: &Health) -> Page {
    match asked(request) {
        Some("/healthz") => Page::text("200 OK", "ok\n"),
        Some("/readyz") => match health.get() {
            Ok(()) => Page::text("200 OK", "ok\n"),
            Err(reason) => Page::text("503 Service Unavailable", format!("not ready: {reason}\n")),
        },
        Some("/metrics") => {
            let mut text = String::new();
            match prometheus_client::encoding::text::encode(&mut text, registry) {
                Ok(()) => Page { status: "200 OK", content_type: METRICS, body: text },
                Err(error) => Page::text("500 Internal Server Error", format!("{error}\n")),
            }
        }
        Some(_) => Page::text("404 Not Found", "there is /metrics, /healthz and /readyz\n"),
        None => Page::only_get(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

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
        for _ in 0..128 {
            slow.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = timeout(Duration::from_secs(1), get(address, "/healthz")).await;
        assert!(answer.unwrap().ends_with("ok\n"), "without waiting for the slow ones to give up");
        assert_eq!(slow[0].read(&mut [0]).await.unwrap(), 0, "the oldest was let go");
    }
}
