//! JSON-RPC 1.0 envelopes.

use crate::encode::encode_str;
use crate::error::Error;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message with its parts still in JSON. `None` stands for absent and for null alike: the protocol does not tell
/// them apart.
#[derive(Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(default, borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) method: Option<String>,
    #[serde(default, borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Envelope<'a>, Error> {
        serde_json::from_slice(frame).map_err(Error::json("message"))
    }
}

/// The words of an error reply: a string, or an object with `error` and perhaps `details`.
pub(crate) fn error_words(raw: &RawValue) -> (String, String) {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Text(String),
        Object {
            error: String,
            #[serde(default)]
            details: String,
        },
    }
    match serde_json::from_str(raw.get()) {
        Ok(Words::Text(error)) => (error, String::new()),
        Ok(Words::Object { error, details }) => (error, details),
        Err(_) => (raw.get().to_owned(), String::new()),
    }
}

/// Begins a request; the caller appends the parameters and closes with [`finish`].
pub(crate) fn begin(out: &mut Vec<u8>, id: u64, method: &str) {
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(id.to_string().as_bytes());
    out.extend_from_slice(b",\"method\":");
    encode_str(out, method);
    out.extend_from_slice(b",\"params\":");
}

/// The same for a message that is not answered.
pub(crate) fn begin_notification(out: &mut Vec<u8>, method: &str) {
    out.extend_from_slice(b"{\"id\":null,\"method\":");
    encode_str(out, method);
    out.extend_from_slice(b",\"params\":");
}

pub(crate) fn finish(out: &mut Vec<u8>) {
    out.push(b'}');
}

/// The answer to the server's own echo request.
pub(crate) fn echo_reply(out: &mut Vec<u8>, id: &RawValue, params: Option<&RawValue>) {
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(id.get().as_bytes());
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(params.map_or("[]", RawValue::get).as_bytes());
    out.extend_from_slice(b",\"error\":null}");
}
