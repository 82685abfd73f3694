//! A tiny server of pages: it answers GET and closes.
//!
//! Never takes input beyond the path. A client that is slow holds back nobody: when there are too many, the one that has waited
//! longest goes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// How long a client may take to ask, and to take the answer.
const ASKING: Duration = Duration::from_secs(2);
const ANSWERING: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 64;
const LONGEST_REQUEST: usize = 8192;
/// A pause after a failed accept: out of file descriptors, usually.
const PAUSE: Duration = Duration::from_millis(100);

/// What a client gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page {
    /// The number and its words, such as `200 OK`.
    pub status: &'static str,
    /// For the header `Content-Type`, such as `application/json`.
    pub content_type: &'static str,
    /// The content.
    pub body: String,
}

impl Page {
    /// Text for people.
    pub fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    /// What only asks for something else than a page get.
    pub fn only_get() -> Self {
        Self::text("405 Method Not Allowed", "only GET\n")
    }
}

/// The path of a GET request.
pub fn asked(request: &str) -> Option<&str> {
    let mut words = request.split_whitespace();
    words.next().filter(|method| *method == "GET").and_then(|_| words.next())
}

/// Answers with what `page` makes of a request's head, for ever.
pub async fn answer_all(listener: &TcpListener, page: Arc<dyn Fn(&str) -> Page + Send + Sync>) -> String {
    let mut clients: JoinSet<()> = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if oldest.len() >= CONNECTIONS && let Some(slowest) = oldest.pop_front() {
                        slowest.abort();
                    }
                    oldest.push_back(clients.spawn(attend(Arc::clone(&page), stream)));
                }
                Err(error) => {
                    tracing::warn!(%error, "no request can be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(ended) = clients.join_next() => {
                oldest.retain(|client| !client.is_finished());
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!(%error, "a request was not answered");
                }
            }
        }
    }
}

/// A client that goes away or is slow gets no answer; there is nobody to tell.
async fn attend(page: Arc<dyn Fn(&str) -> Page + Send + Sync>, mut stream: TcpStream) {
    let Ok(Ok(request)) = timeout(ASKING, read(&mut stream)).await else { return };
    let _gone = timeout(ANSWERING, answer(stream, page(&request))).await;
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

async fn answer(mut stream: TcpStream, page: Page) -> std::io::Result<()> {
    let Page { status, content_type, body } = page;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
