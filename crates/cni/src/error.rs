//! The error object that the runtime gets, and its codes.

use crate::version::CniVersion;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The codes of CNI 1.1 that Causeway uses, and its own from 100 on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "u32", into = "u32")]
#[repr(u32)]
pub enum ErrorCode {
    /// The configuration asks for a version of CNI that nobody here speaks.
    IncompatibleVersion = 1,
    /// A field of the configuration is not supported.
    UnsupportedField = 2,
    /// An environment variable of CNI is missing or malformed.
    InvalidEnvironment = 4,
    /// Reading or writing failed.
    Io = 5,
    /// A text cannot be decoded.
    Decoding = 6,
    /// The configuration is wrong.
    InvalidConfig = 7,
    /// Nothing is wrong, but not yet; the runtime tries again.
    TryAgainLater = 11,
    /// The plugin cannot serve ADD now.
    NotAvailable = 50,
    /// The pod could not be connected in time, or must not be.
    NotConnected = 100,
    /// CHECK found something else than ADD had left.
    NotAsAdded = 101,
}

impl ErrorCode {
    const ALL: [ErrorCode; 10] = [
        ErrorCode::IncompatibleVersion,
        ErrorCode::UnsupportedField,
        ErrorCode::InvalidEnvironment,
        ErrorCode::Io,
        ErrorCode::Decoding,
        ErrorCode::InvalidConfig,
        ErrorCode::TryAgainLater,
        ErrorCode::NotAvailable,
        ErrorCode::NotConnected,
        ErrorCode::NotAsAdded,
    ];
}

impl From<ErrorCode> for u32 {
    fn from(code: ErrorCode) -> u32 {
        code as u32
    }
}

impl TryFrom<u32> for ErrorCode {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        let known = ErrorCode::ALL.into_iter().find(|code| *code as u32 == number);
        known.ok_or_else(|| format!("{number} is not an error code of this plugin"))
    }
}

/// What the runtime reads when a call fails. Kubernetes shows `msg` and `details` in the pod's events.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorObject {
    /// The version in which the runtime asked.
    #[serde(default)]
    pub cni_version: CniVersion,
    /// What kind of error.
    pub code: ErrorCode,
    /// What is wrong, with which object.
    pub msg: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl ErrorObject {
    /// An error of this kind.
    pub fn new(code: ErrorCode, msg: impl Into<String>) -> ErrorObject {
        ErrorObject { cni_version: CniVersion::default(), code, msg: msg.into(), details: String::new() }
    }

    /// The same with what to do about it.
    pub fn advise(mut self, details: impl Into<String>) -> ErrorObject {
        self.details = details.into();
        self
    }

    /// The same in the version in which the runtime asked.
    pub fn in_version(mut self, version: CniVersion) -> ErrorObject {
        self.cni_version = version;
        self
    }

    /// The JSON text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.msg)?;
        if self.details.is_empty() { Ok(()) } else { write!(f, ": {}", self.details) }
    }
}

impl std::error::Error for ErrorObject {}
