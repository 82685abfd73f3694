//! ovsdb-server, standalone or clustered, as a child process.

use crate::programs::program;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// One server with one database in a folder of its own.
pub struct OvsdbServer {
    folder: TempDir,
    /// Another server whose database this one relays.
    relays: Option<String>,
    child: Option<Child>,
    extra: Vec<String>,
}

impl OvsdbServer {
    /// Creates an empty database of this schema and serves it.
    pub fn start(schema: &Path) -> OvsdbServer {
        Self::start_with(schema, &[])
    }

    /// The same with further arguments for the server, such as more remotes.
    pub fn start_with(schema: &Path, extra: &[&str]) -> OvsdbServer {
        let mut server = Self::empty(extra);
        tool(&["create", text(&server.database()), text(schema)]);
        server.serve();
        server
    }

    /// Serves what another server has, under the database's name; that one may be down.
    pub fn relay(&self, database: &str) -> OvsdbServer {
        let mut server = Self::empty(&[]);
        server.relays = Some(format!("relay:{database}:{}", self.remote()));
        server.serve();
        server
    }

    fn empty(extra: &[&str]) -> OvsdbServer {
        let folder = tempfile::Builder::new().prefix("causeway-db").tempdir().expect("a temporary folder");
        OvsdbServer {
            folder,
            relays: None,
            child: None,
            extra: extra.iter().map(|s| (*s).to_owned()).collect(),
        }
    }

    /// The folder of the database, its socket and its log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.folder().join("db")
    }

    /// The Unix socket on which the server listens.
    pub fn socket(&self) -> PathBuf {
        self.folder().join("sock")
    }

    /// The socket in the notation of ovsdb(7).
    pub fn remote(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// Starts the server again after [`OvsdbServer::kill`].
    pub fn serve(&mut self) {
        let _ = fs::remove_file(self.socket());
        let database = self.relays.clone().map_or_else(|| self.database().into(), OsString::from);
        let child = Command::new(program("ovsdb-server"))
            .arg("-vconsole:off")
            .arg(database)
            .arg(format!("--remote=punix:{}", self.socket().display()))
            .arg(format!("--unixctl={}", self.folder().join("ctl").display()))
            .arg(format!("--log-file={}", self.folder().join("log").display()))
            .args(&self.extra)
            .env("OVS_RUNDIR", self.folder())
            .stdin(Stdio::null())
            .spawn()
            .expect("ovsdb-server starts");
        self.child = Some(child);
        wait_for("the server's socket", || UnixStream::connect(self.socket()).is_ok());
    }

    /// Ends the server without a chance to say good-bye.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends the process a signal by name, such as `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(status.expect("kill runs").success(), "signal {name}");
    }

    /// Runs `ovs-appctl` against the server.
    pub fn control(&self, args: &[&str]) -> String {
        let out = Command::new(program("ovs-appctl"))
            .arg("-t")
            .arg(self.folder().join("ctl"))
            .args(args)
            .output()
            .expect("ovs-appctl runs");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Gives the database another schema while it is served.
    pub fn convert(&self, schema: &Path) {
        let out = Command::new(program("ovsdb-client"))
            .args(["convert", &self.remote(), text(schema)])
            .output()
            .expect("ovsdb-client runs");
        assert!(out.status.success(), "convert: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Replaces the contents by a backup of themselves, as `ovsdb-client restore` does: every row keeps its values
    /// and gets a new UUID.
    pub fn restore_from_own_backup(&self) {
        let backup = Command::new(program("ovsdb-client"))
            .args(["backup", &self.remote()])
            .output()
            .expect("ovsdb-client runs");
        assert!(backup.status.success(), "backup: {}", String::from_utf8_lossy(&backup.stderr));
        let file = self.folder().join("backup");
        fs::write(&file, backup.stdout).expect("the backup can be written");
        let status = Command::new(program("ovsdb-client"))
            .args(["--force", "restore", &self.remote()])
            .stdin(fs::File::open(&file).expect("the backup can be read"))
            .status();
        assert!(status.expect("ovsdb-client runs").success(), "restore");
    }

    /// What was committed, transaction by transaction.
    pub fn transactions(&self) -> TransactionLog {
        TransactionLog::read(&self.database()).expect("the database file can be read")
    }
}

impl Drop for OvsdbServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The servers of one clustered database.
pub struct Cluster {
    /// The servers; the first one founded the cluster.
    pub servers: Vec<OvsdbServer>,
    database: String,
}

impl Cluster {
    /// Founds a cluster of `size` servers.
    pub fn start(schema: &Path, size: usize) -> Cluster {
        let name = schema_name(schema);
        let addresses: Vec<String> = (0..size).map(|_| format!("tcp:{}:6643", loopback())).collect();
        let mut servers: Vec<OvsdbServer> = Vec::new();
        for (i, address) in addresses.iter().enumerate() {
            let mut server = OvsdbServer::empty(&[]);
            let database = server.database();
            if i == 0 {
                tool(&["create-cluster", text(&database), text(schema), address]);
            } else {
                tool(&["join-cluster", text(&database), &name, address, &addresses[0]]);
            }
            server.serve();
            servers.push(server);
        }
        let cluster = Cluster { servers, database: name };
        wait_for("the cluster", || {
            cluster.servers.iter().all(|s| cluster.status(s).contains("Status: cluster member"))
        });
        cluster
    }

    fn status(&self, server: &OvsdbServer) -> String {
        server.control(&["cluster/status", &self.database])
    }

    /// The remotes of all servers, separated by commas.
    pub fn remotes(&self) -> String {
        self.servers.iter().map(OvsdbServer::remote).collect::<Vec<_>>().join(",")
    }

    /// Which server leads.
    pub fn leader(&self) -> usize {
        let mut found = None;
        wait_for("a leader", || {
            found = self
                .servers
                .iter()
                .position(|s| s.child.is_some() && self.status(s).contains("Role: leader"));
            found.is_some()
        });
        found.expect("a leader was found")
    }
}

/// The committed transactions of a standalone database, oldest first.
pub struct TransactionLog {
    /// Each maps tables to rows; a row is an object of changed columns, or null when it was deleted.
    pub transactions: Vec<Value>,
}

impl TransactionLog {
    fn read(path: &Path) -> io::Result<TransactionLog> {
        let bytes = fs::read(path)?;
        let mut transactions = Vec::new();
        let mut at = 0;
        // A record is a line `OVSDB JSON <length> <sha1>`, then as many bytes of JSON.
        while let Some(end) = bytes[at..].iter().position(|b| *b == b'\n') {
            let header = String::from_utf8_lossy(&bytes[at..at + end]).into_owned();
            let length = header.split(' ').nth(2).and_then(|n| n.parse::<usize>().ok());
            let Some(length) = length else { return Err(io::Error::other(format!("bad header {header:?}"))) };
            let start = at + end + 1;
            let Some(body) = bytes.get(start..start + length) else { break };
            transactions.push(serde_json::from_slice(body).map_err(io::Error::other)?);
            at = start + length;
        }
        // The first record is the schema.
        transactions.drain(..transactions.len().min(1));
        Ok(TransactionLog { transactions })
    }
}

/// A loopback address that no other test on this machine uses, so that any port of it is free.
pub fn loopback() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let part = |n: u32| 1 + (n % 250) as u8;
    Ipv4Addr::new(127, part(process / 250), part(process), part(count))
}

fn schema_name(schema: &Path) -> String {
    let json: Value =
        serde_json::from_slice(&fs::read(schema).expect("the schema can be read")).expect("JSON");
    json["name"].as_str().expect("a schema has a name").to_owned()
}

fn tool(args: &[&str]) {
    let out = Command::new(program("ovsdb-tool")).args(args).output().expect("ovsdb-tool runs");
    assert!(out.status.success(), "ovsdb-tool {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is UTF-8")
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not come within {PATIENCE:?}");
        sleep(Duration::from_millis(5));
    }
}
