//! An API server in memory, so that tests can stop the clock. What a real one answers is seen in `tests/real.rs`.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt as _, Either, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{BoxError, service_fn};

/// How a request is answered.
pub(crate) enum Answer {
    /// With an object or a list.
    Object(Value),
    /// With an error.
    Status(u16),
    /// With lines, as long as the value that writes them lives.
    Stream(Channel<Bytes>),
    /// Never.
    Silence,
    /// There is nobody to ask.
    Refused,
}

/// The lines of a stream that is answered.
pub(crate) struct Lines(Sender<Bytes>);

impl Lines {
    pub(crate) fn new() -> (Self, Answer) {
        let (sender, body) = Channel::new(16);
        (Self(sender), Answer::Stream(body))
    }

    pub(crate) async fn say(&mut self, kind: &str, object: Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        self.0.send_data(line.into()).await.unwrap();
    }
}

/// When was asked what: `GET /api/v1/pods?watch=true`.
pub(crate) type Asked = Arc<Mutex<Vec<(Instant, String)>>>;

/// A client whose requests this answers.
pub(crate) fn client(answer: impl FnMut(&str, Value) -> Answer + Send + 'static) -> (Client, Asked) {
    let asked = Asked::default();
    let answer = Arc::new(Mutex::new(answer));
    let seen = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Body>| {
        let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
        async move {
            let (head, body) = request.into_parts();
            let what = format!("{} {}", head.method, head.uri);
            seen.lock().unwrap().push((Instant::now(), what.clone()));
            let body = body.collect().await?.to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let answer = answer.lock().unwrap()(&what, body);
            respond(answer).await
        }
    });
    (Client::new(service, "default"), asked)
}

type Reply = Response<Either<Full<Bytes>, Channel<Bytes>>>;

async fn respond(answer: Answer) -> Result<Reply, BoxError> {
    let text = |value: Value| Either::Left(Full::from(value.to_string()));
    let (code, body) = match answer {
        Answer::Object(object) => (200, text(object)),
        Answer::Status(code) => {
            let message = format!("code {code}");
            let reason = if code == 404 { "NotFound" } else { "Other" };
            let status = json!({"kind": "Status", "apiVersion": "v1", "code": code, "message": message,
                "status": "Failure", "reason": reason});
            (code, text(status))
        }
        Answer::Stream(lines) => (200, Either::Right(lines)),
        Answer::Silence => std::future::pending().await,
        Answer::Refused => return Err("connection refused".into()),
    };
    Ok(Response::builder().status(code).body(body)?)
}
