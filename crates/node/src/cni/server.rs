//! The socket, and who does what for whom.

use super::metrics::CniMetrics;
use super::pods::Pods;
use crate::ovs::Ovs;
use causeway_cni::{
    Command, ErrorCode, ErrorObject, Head, Invocation, NetworkConfig, Request, SUPPORTED_VERSIONS,
    parse_head, response,
};
use causeway_host::Host;
use causeway_record::{Connect, EndpointSlice, FreedNumbers, OwnReport, Service, Watched};
use causeway_runtime::{Health, Tasks};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{debug, error, info, warn};

/// What a pod starts without: services and roads as they were known last do it no harm, and the rest is between the node and the
/// cluster manager. All other kinds say what the pod is connected with, or what it is kept from.
const NOT_FOR_PODS: [&str; 5] = [
    <Service as Watched>::KIND,
    <EndpointSlice as Watched>::KIND,
    <Connect as Watched>::KIND,
    <OwnReport as Watched>::KIND,
    <FreedNumbers as Watched>::KIND,
];

/// What the server needs to know.
#[derive(Clone, Debug)]
pub struct CniConfig {
    /// Where to listen. A folder that is not there is made for root alone.
    pub socket: PathBuf,
    /// How long an ADD may take; the kubelet gives up after two minutes.
    pub limit: Duration,
    /// After how long a user hears what the pod waits for, if what it shall be connected with is not known. The runtime
    /// calls again.
    pub hint_after: Duration,
    /// Who knows whether this node still follows the API server; without it, nobody asks.
    pub health: Option<Health>,
}

impl CniConfig {
    /// With the usual times.
    pub fn new(socket: PathBuf) -> CniConfig {
        CniConfig {
            socket,
            limit: Duration::from_secs(100),
            hint_after: Duration::from_secs(15),
            health: None,
        }
    }
}

/// How long the shim may take to say what it wants, and the switch to let go of a port.
const PATIENCE: Duration = Duration::from_secs(20);
/// A pause after a failed accept: out of file descriptors, usually.
const PAUSE: Duration = Duration::from_millis(100);

/// The server's socket, which goes with it.
pub struct CniServer {
    socket: PathBuf,
}

impl CniServer {
    /// Listens, and answers in a child that the role cannot do without. Calls under way run to their end, whatever becomes
    /// of the child.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn start(
        tasks: &mut Tasks,
        config: CniConfig,
        pods: Pods,
        host: Arc<dyn Host>,
        ovs: Ovs,
        metrics: CniMetrics,
    ) -> io::Result<CniServer> {
        let listener = listen(&config.socket)?;
        let socket = config.socket.clone();
        info!(socket = %socket.display(), "waiting for pods");
        let desk = Arc::new(Desk { config, pods, host, ovs, metrics, calls: Calls::default() });
        tasks.start("CNI", accept(listener, desk));
        Ok(CniServer { socket })
    }
}

async fn accept(listener: UnixListener, desk: Arc<Desk>) -> String {
    // Without a bound: only root can call, which is the container runtime, and that calls once for each sandbox that it makes, looks at or
    // removes just then. A call ends within its limit, and one that was turned away would come again.
    let mut calls = JoinSet::new();
    let sweeper = desk.clone();
    calls.spawn(async move { sweeper.sweep_once().await });
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(calls.spawn(serve(desk.clone(), stream))),
                Err(error) => {
                    warn!(%error, "no call can be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(ended) = calls.join_next() => if let Err(error) = ended {
                error!(%error, "a call was not answered");
            },
        }
    }
}

impl Drop for CniServer {
    fn drop(&mut self) {
        // The next server makes it anew anyway.
        let _ = fs::remove_file(&self.socket);
    }
}

/// The socket is for root alone from its first moment: it is made in a folder that nobody else can enter, and moved from
/// there to its place. A folder that was there before keeps its mode, since others may have their files in it.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = socket.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let nursery = socket.with_extension("new");
    absent(fs::remove_dir_all(&nursery))?;
    fs::DirBuilder::new().mode(0o700).create(&nursery)?;
    let born = nursery.join("socket");
    let listener = UnixListener::bind(&born)?;
    fs::set_permissions(&born, fs::Permissions::from_mode(0o600))?;
    fs::rename(&born, socket)?;
    fs::remove_dir(&nursery)?;
    Ok(listener)
}

/// What is not there need not be removed.
fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn serve(desk: Arc<Desk>, mut stream: UnixStream) {
    let body = match timeout(PATIENCE, read(&mut stream)).await {
        Ok(Ok((_, body))) => body,
        Ok(Err(error)) => return debug!(%error, "a call that could not be read"),
        Err(_) => return debug!("a call that never came to its end"),
    };
    // In a task of its own, so that a caller who hangs up leaves nothing half done.
    let answered = tokio::spawn(async move { desk.answer(&body).await }).await;
    let text = match answered {
        Ok(Ok(text)) => response(200, &text),
        Ok(Err(error)) => response(400, &error.text()),
        Err(error) => {
            response(500, &ErrorObject::new(ErrorCode::Io, format!("causeway node: {error}")).text())
        }
    };
    if let Err(error) = stream.write_all(text.as_bytes()).await {
        debug!(%error, "nobody waits for the answer any more");
    }
}

async fn read(stream: &mut UnixStream) -> io::Result<(Head, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = parse_head(&bytes)?
            && bytes.len() >= head.length + head.body
        {
            let body = bytes[head.length..head.length + head.body].to_vec();
            return Ok((head, body));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Everything that a call needs.
pub(super) struct Desk {
    pub(super) config: CniConfig,
    pub(super) pods: Pods,
    pub(super) host: Arc<dyn Host>,
    pub(super) ovs: Ovs,
    metrics: CniMetrics,
    pub(super) calls: Calls,
}

impl Desk {
    async fn answer(&self, body: &[u8]) -> Result<String, ErrorObject> {
        let begun = Instant::now();
        let (call, config) = Request::parse(body)?.checked()?;
        let outcome = self.dispatch(&call, &config).await;
        self.metrics.count(call.command, outcome.is_err(), begun.elapsed());
        let (took, pod) = (begun.elapsed(), format!("{}/{}", call.pod.namespace, call.pod.name));
        match &outcome {
            // The container runtime asks every few seconds.
            Ok(_) if call.command == Command::Status => debug!(?took, "ready for pods"),
            Ok(_) => info!(command = call.command.as_str(), pod, sandbox = call.container_id, ?took, "done"),
            Err(error) => {
                warn!(command = call.command.as_str(), pod, sandbox = call.container_id, ?took, %error, "failed");
            }
        }
        outcome.map_err(|error| error.in_version(config.cni_version))
    }

    async fn dispatch(&self, call: &Invocation, config: &NetworkConfig) -> Result<String, ErrorObject> {
        if !config.net_attach_def_name.is_empty() && call.command != Command::Version {
            return self.secondary(call.command, &config.net_attach_def_name);
        }
        match call.command {
            Command::Add => Ok(self.add(call).await?.text(config.cni_version)),
            Command::Del => self.del(&call.container_id).await.map(|()| String::new()),
            Command::Check => self.check(call).await.map(|()| String::new()),
            Command::Gc => self.gc(config).await.map(|()| String::new()),
            Command::Status => self.status().map(|()| String::new()),
            Command::Version => {
                let version = config.cni_version.as_str();
                Ok(json!({ "cniVersion": version, "supportedVersions": SUPPORTED_VERSIONS }).to_string())
            }
        }
    }

    /// A NAD's own interface comes by a call of its own. What was never made is easily removed: the list of a GC names only
    /// attachments of that NAD, and says nothing of the pods' other interfaces.
    fn secondary(&self, command: Command, nad: &str) -> Result<String, ErrorObject> {
        match command {
            Command::Del | Command::Gc => return Ok(String::new()),
            Command::Status => return self.status().map(|()| String::new()),
            Command::Add | Command::Check | Command::Version => {}
        }
        let msg = format!("the network of {nad} is asked for as an additional one, which is not supported");
        Err(ErrorObject::new(ErrorCode::UnsupportedField, msg)
            .advise(format!("take {nad} out of the pod's annotation k8s.v1.cni.cncf.io/networks")))
    }

    pub(super) fn status(&self) -> Result<(), ErrorObject> {
        let unready = |msg: String| {
            ErrorObject::new(ErrorCode::NotAvailable, msg)
                .advise("look at the log of causeway node on this node")
        };
        if !self.pods.is_listed() {
            return Err(unready("the pods of this node are not known yet".to_owned()));
        }
        self.ovs.ready().map_err(unready)?;
        // Who does not hear of pods any more cannot wire new ones, and who does not hear of policies must not.
        let broken = || self.config.health.as_ref()?.broken_watches(&NOT_FOR_PODS);
        self.pods.silent().or_else(broken).map_or(Ok(()), |problem| Err(unready(problem)))
    }

    /// Lets the kernel work on a thread where that hurts nobody.
    pub(super) async fn kernel<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Host) -> causeway_host::Result<T> + Send + 'static,
    ) -> Result<T, ErrorObject> {
        let host = self.host.clone();
        let outcome = tokio::task::spawn_blocking(move || work(host.as_ref())).await;
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(ErrorObject::new(ErrorCode::NotConnected, error.to_string())),
            Err(error) => Err(ErrorObject::new(ErrorCode::Io, format!("causeway node: {error}"))),
        }
    }

    /// Gives the switch's database a while; a call that fails is repeated.
    pub(super) async fn switch<T>(
        &self,
        work: impl Future<Output = Result<T, crate::ovs::Error>>,
    ) -> Result<T, ErrorObject> {
        match timeout(PATIENCE, work).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(ErrorObject::new(ErrorCode::NotConnected, error.to_string())),
            Err(_) => {
                let reason = self.ovs.ready().err().unwrap_or_else(|| "it does not answer".to_owned());
                let msg = format!("the Open vSwitch database: {reason}");
                Err(ErrorObject::new(ErrorCode::TryAgainLater, msg)
                    .advise("look whether ovsdb-server runs on this node. The call is repeated"))
            }
        }
    }
}

/// One call at a time for each sandbox; a DEL ends an ADD that is under way.
#[derive(Default)]
pub(super) struct Calls {
    sandboxes: Mutex<FxHashMap<String, Arc<Turn>>>,
}

#[derive(Default)]
pub(super) struct Turn {
    pub(super) lock: tokio::sync::Mutex<()>,
    /// Counts those who want an ADD to end.
    pub(super) unwanted: watch::Sender<u32>,
}

impl Calls {
    pub(super) fn of(&self, sandbox: &str) -> Arc<Turn> {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        sandboxes.retain(|_, turn| Arc::strong_count(turn) > 1);
        sandboxes.entry(sandbox.to_owned()).or_default().clone()
    }
}
