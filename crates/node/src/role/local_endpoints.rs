//! Ports of the node that say how many endpoints of a service it has itself (`healthCheckNodePort`), for load balancers outside.
//!
//! Owns the listeners. A port that somebody else has is tried again; the others answer meanwhile.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_plan::LocalEndpoints;
use causeway_runtime::Tasks;
use causeway_runtime::pages::{Page, answer_all, asked};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tracing::warn;

/// A port that could not be had is tried again after so long.
const RETRY: Duration = Duration::from_secs(5);

type Wanted = BTreeMap<u16, LocalEndpoints>;

/// The listeners of all ports.
pub(super) struct LocalEndpointPorts(watch::Sender<Arc<Wanted>>);

impl LocalEndpointPorts {
    /// Starts the task that keeps the listeners.
    pub(super) fn start(tasks: &mut Tasks) -> Self {
        let (sender, wanted) = watch::channel(Arc::new(Wanted::new()));
        tasks.keep("local endpoints", move || keep(wanted.clone()));
        Self(sender)
    }

    /// What each port shall say.
    pub(super) fn set(&self, wanted: Wanted) {
        self.0.send_if_modified(|known| {
            let differs = **known != wanted;
            if differs {
                *known = Arc::new(wanted);
            }
            differs
        });
    }
}

async fn keep(mut wanted: watch::Receiver<Arc<Wanted>>) -> String {
    let mut servers = JoinSet::new();
    let mut open: BTreeMap<u16, AbortHandle> = BTreeMap::new();
    loop {
        let now = Arc::clone(&wanted.borrow_and_update());
        for (_, server) in open.extract_if(.., |port, _| !now.contains_key(port)) {
            server.abort();
        }
        let mut missing = false;
        for port in now.keys() {
            if !open.contains_key(port) {
                match listen(*port).await {
                    Ok(listener) => {
                        let server = servers.spawn(serve(*port, listener, wanted.clone()));
                        open.insert(*port, server);
                    }
                    Err(error) => {
                        warn!(port, %error, "nobody outside hears how many endpoints of its service are here");
                        missing = true;
                    }
                }
            }
        }
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return "nobody asks any more".into() },
            Some(ended) = servers.join_next() => match ended {
                Err(error) if error.is_cancelled() => {}
                Err(error) => return error.to_string(),
                Ok(reason) => return reason,
            },
            () = sleep(RETRY), if missing => {}
        }
    }
}

/// For both families where the node has both, else for IPv4.
async fn listen(port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Ok(both) => Ok(both),
        Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await,
    }
}

/// Answers as long as the port is wanted; why it cannot go on.
async fn serve(port: u16, listener: TcpListener, wanted: watch::Receiver<Arc<Wanted>>) -> String {
    let pages = Arc::new(move |request: &str| match asked(request) {
        Some(_) => page(wanted.borrow().get(&port)),
        None => Page::only_get(),
    });
    answer_all(&listener, pages).await
}

fn page(here: Option<&LocalEndpoints>) -> Page {
    let Some(here) = here else { return Page::text("404 Not Found", "no service has this port\n") };
    let status = if here.count > 0 { "200 OK" } else { "503 Service Unavailable" };
    let service = json!({"namespace": here.service.namespace, "name": here.service.name});
    let body = format!("{}\n", json!({"service": service, "localEndpoints": here.count}));
    Page { status, content_type: "application/json", body }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_runtime::Health;
    use prometheus_client::registry::Registry;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    async fn get(port: u16) -> Option<String> {
        for _ in 0..100 {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                return Some(answer);
            }
            sleep(Duration::from_millis(20)).await;
        }
        None
    }

    fn wanted(port: u16, count: usize) -> Wanted {
        BTreeMap::from([(port, LocalEndpoints { service: "blue/web".parse().unwrap(), count })])
    }

    #[tokio::test]
    async fn a_port_says_how_many_endpoints_are_here() {
        let health = Health::waiting("starting");
        let mut tasks = Tasks::new(&health, &mut Registry::default());
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let ports = LocalEndpointPorts::start(&mut tasks);
        ports.set(wanted(free, 2));
        let answer = get(free).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer
                .ends_with("{\"localEndpoints\":2,\"service\":{\"name\":\"web\",\"namespace\":\"blue\"}}\n")
        );
        ports.set(wanted(free, 0));
        assert!(get(free).await.unwrap().starts_with("HTTP/1.1 503 "));
        ports.set(Wanted::new());
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", free)).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("the port is still open");
    }
}
