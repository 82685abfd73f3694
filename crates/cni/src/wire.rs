//! What the shim sends: the call's variables and its configuration, as they came.

use crate::config::NetworkConfig;
use crate::env::Invocation;
use crate::error::{ErrorCode, ErrorObject};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The body of a request. The answer is what the shim prints: a result with status 200, an error object with any other.
#[derive(Debug, Deserialize, Serialize)]
pub struct Request {
    /// The variables whose names begin with `CNI_`. The rest of the environment is nobody's business.
    pub env: BTreeMap<String, String>,
    /// The configuration from standard input.
    pub config: Box<RawValue>,
}

impl Request {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse(body: &[u8]) -> Result<Request, ErrorObject> {
        serde_json::from_slice(body)
            .map_err(|e| ErrorObject::new(ErrorCode::Decoding, format!("the request of the shim: {e}")))
    }

    /// The checked call, and its configuration.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn checked(&self) -> Result<(Invocation, NetworkConfig), ErrorObject> {
        let config = NetworkConfig::parse(self.config.get().as_bytes())?;
        let invocation = Invocation::parse(&self.env).map_err(|e| e.in_version(config.cni_version))?;
        Ok((invocation, config))
    }
}
