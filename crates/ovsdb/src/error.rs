//! What can be wrong with bytes that claim to be OVSDB.

/// An error of the protocol or of a value. After one that came from a connection, that connection is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The byte stream is not a sequence of JSON objects.
    #[error("the peer does not speak OVSDB: {0}")]
    Frame(String),
    /// A message, or one row of it, is larger than allowed.
    #[error("a message from the peer exceeds {limit} bytes")]
    Oversized {
        /// The limit in force.
        limit: usize,
    },
    /// A complete JSON text that is not what the protocol wants at this place.
    #[error("malformed {what}: {source}")]
    Json {
        /// Which part of the protocol was expected.
        what: &'static str,
        /// What the JSON parser says.
        source: serde_json::Error,
    },
    /// A message that makes no sense now.
    #[error("unexpected message from the peer: {0}")]
    Protocol(String),
    /// The server answered a request of the handshake with an error.
    #[error("the server refused {request}: {message}")]
    Refused {
        /// The request's method and, where it has one, its database.
        request: String,
        /// The server's words.
        message: String,
    },
    /// A schema that contradicts itself.
    #[error("bad schema: {0}")]
    Schema(String),
    /// This server can't serve us now; another one may.
    #[error("{0}")]
    Unusable(String),
    /// The peer stopped answering.
    #[error("no answer to an echo request for {0} ms")]
    Inactive(u64),
}

impl Error {
    pub(crate) fn json(what: &'static str) -> impl FnOnce(serde_json::Error) -> Error {
        move |source| Error::Json { what, source }
    }
}
