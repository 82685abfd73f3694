//! The shim: from the runtime to the server and back.

use crate::config::NetworkConfig;
use crate::env::{Command, Invocation};
use crate::error::{ErrorCode, ErrorObject};
use crate::http::{read_message, request};
use crate::version::{CniVersion, SUPPORTED_VERSIONS};
use crate::wire::Request;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Where the server listens unless somebody says otherwise.
pub const DEFAULT_SOCKET: &str = "/var/run/ovn-kubernetes/cni/ovn-cni-server.sock";
/// The environment variable that says otherwise; it wins over the configuration.
pub const SOCKET_VARIABLE: &str = "CAUSEWAY_CNI_SOCKET";

/// The kubelet gives up after two minutes, the server before that. Whoever waits longer than this waits for a server
/// that hangs.
const PATIENCE: Duration = Duration::from_secs(115);

/// One call of the shim.
pub struct Shim {
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// Standard input.
    pub input: Vec<u8>,
}

impl Shim {
    /// Carries the call to the server; what comes back is to be printed.
    ///
    /// # Errors
    /// An error object, to be printed as well.
    pub fn run(&self) -> Result<String, ErrorObject> {
        let word = self.env.get("CNI_COMMAND").map_or("", String::as_str);
        if Command::parse(word)? == Command::Version {
            return Ok(self.versions());
        }
        let config = NetworkConfig::parse(&self.input)?;
        self.carry(&config).map_err(|e| e.in_version(config.cni_version))
    }

    /// Every version, whatever is asked: a runtime asks before it knows what it can talk.
    fn versions(&self) -> String {
        let asked =
            NetworkConfig::parse(&self.input).map_or_else(|_| CniVersion::default(), |c| c.cni_version);
        json!({ "cniVersion": asked.as_str(), "supportedVersions": SUPPORTED_VERSIONS }).to_string()
    }

    fn carry(&self, config: &NetworkConfig) -> Result<String, ErrorObject> {
        let invocation = Invocation::parse(&self.env)?;
        let socket = self.socket(config);
        let (status, body) = self.exchange(&socket).map_err(|e| away(invocation.command, &socket, &e))?;
        let text = String::from_utf8(body)
            .map_err(|_| ErrorObject::new(ErrorCode::Decoding, "the answer of causeway node is not text"))?;
        if status == 200 {
            return Ok(text);
        }
        Err(serde_json::from_str(&text).unwrap_or_else(|_| {
            ErrorObject::new(ErrorCode::Decoding, format!("causeway node answered {status}: {text}"))
        }))
    }

    fn socket(&self, config: &NetworkConfig) -> PathBuf {
        let variable = self.env.get(SOCKET_VARIABLE).filter(|path| !path.is_empty());
        variable.or(config.socket.as_ref()).map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from)
    }

    fn exchange(&self, socket: &PathBuf) -> io::Result<(u16, Vec<u8>)> {
        let env = self.env.iter().filter(|(name, _)| name.starts_with("CNI_"));
        let config = RawValue::from_string(String::from_utf8_lossy(&self.input).into_owned())?;
        let body = Request { env: env.map(|(k, v)| (k.clone(), v.clone())).collect(), config };
        let body = serde_json::to_string(&body)?;
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(request(&body).as_bytes())?;
        let (head, body) = read_message(&mut stream)?;
        head.status().map(|status| (status, body)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The server cannot be asked.
fn away(command: Command, socket: &std::path::Path, error: &io::Error) -> ErrorObject {
    let code = if command == Command::Status { ErrorCode::NotAvailable } else { ErrorCode::TryAgainLater };
    let msg = format!("causeway node does not answer on {}: {error}", socket.display());
    let hint = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "it is not running, or listens elsewhere: look at the causeway-node pod of this node"
        }
        io::ErrorKind::PermissionDenied => "only root may ask it: the container runtime must run as root",
        _ => "look at the log of the causeway-node pod of this node",
    };
    ErrorObject::new(code, msg).advise(format!("{hint}. The call is repeated until it answers"))
}
