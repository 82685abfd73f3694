//! The connection to the API server.

use std::path::Path;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::Error;

/// How long a connection may take to be made. Requests as a whole have their own limits where they are sent: a watch lasts
/// minutes, a write three seconds.
const CONNECT: Duration = Duration::from_secs(2);

/// A client by kubeconfig, or by the service account of the pod that this runs in. Token files are read again
/// when they change.
///
/// # Errors
/// What of the kubeconfig, or of the pod, cannot be used.
pub async fn client(kubeconfig: Option<&Path>, role: &str) -> Result<Client, Error> {
    let mut config = match kubeconfig {
        Some(path) => from_file(path).await?,
        None => Config::incluster().map_err(|error| Error::InCluster(error.to_string()))?,
    };
    config.connect_timeout = Some(CONNECT);
    // The queue of writes and the watches have their own way of trying again.
    config.default_retry = false;
    let agent = format!("causeway/{} ({role})", env!("CARGO_PKG_VERSION"));
    config.headers.extend(HeaderValue::from_str(&agent).ok().map(|value| (USER_AGENT, value)));
    Client::try_from(config).map_err(|error| Error::Client(error.to_string()))
}

async fn from_file(path: &Path) -> Result<Config, Error> {
    let problem = |problem: String| Error::Kubeconfig { path: path.display().to_string(), problem };
    let file = Kubeconfig::read_from(path).map_err(|error| problem(error.to_string()))?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| problem(error.to_string()))
}
