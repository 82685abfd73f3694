//! A real API server on loopback: etcd and kube-apiserver in a temporary folder, kubectl to talk to it.

#![allow(clippy::unwrap_used, reason = "a test without its server has nothing to say")]

use std::fs::File;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::programs::program;

const TOKEN: &str = "secret";

/// A running API server. It stops when this value goes.
pub struct ApiServer {
    kubectl: PathBuf,
    port: u16,
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

/// What kubectl said.
#[derive(Debug)]
pub struct Answer {
    /// Whether it succeeded.
    pub ok: bool,
    /// What it printed.
    pub out: String,
    /// What it complained about.
    pub err: String,
}

impl Answer {
    /// The output of a command that must succeed.
    #[track_caller]
    pub fn text(self) -> String {
        assert!(self.ok, "kubectl failed: {}{}", self.out, self.err);
        self.out
    }

    /// A command that must fail with this in its message.
    #[track_caller]
    pub fn refused(self, wanted: &str) {
        assert!(!self.ok, "kubectl succeeded, but {wanted:?} was wanted: {}", self.out);
        assert!(self.err.contains(wanted), "wanted {wanted:?}, got {}", self.err);
    }
}

/// Ports that nobody has. All are held until all are found, so they differ.
fn free_ports() -> [u16; 3] {
    let held = [(); 3].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

impl ApiServer {
    /// Starts etcd and kube-apiserver and waits until they answer.
    pub fn start() -> Self {
        let (etcd, apiserver, kubectl) = (program("etcd"), program("kube-apiserver"), program("kubectl"));
        let folder = tempfile::tempdir().unwrap();
        let [client, peer, port] = free_ports();
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("sa.key"), key.serialize_pem()).unwrap();
        std::fs::write(folder.path().join("sa.pub"), key.public_key_pem()).unwrap();
        std::fs::write(folder.path().join("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n"))
            .unwrap();
        let mut server = Self { kubectl, port, folder, children: Vec::new() };
        server.spawn(&etcd, &etcd_arguments(server.folder.path(), client, peer));
        server.spawn(&apiserver, &apiserver_arguments(server.folder.path(), client, port));
        server.wait_until_ready();
        server
    }

    fn spawn(&mut self, program: &Path, arguments: &[String]) {
        let name = program.file_name().unwrap().to_string_lossy().into_owned();
        let log = File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{name} does not start: {e}"));
        self.children.push(child);
    }

    fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.kubectl(&["get", "--raw", "/readyz"]).ok {
            let log =
                || std::fs::read_to_string(self.folder.path().join("kube-apiserver.log")).unwrap_or_default();
            let stopped = self.children.iter_mut().any(|child| child.try_wait().unwrap().is_some());
            let waits = Instant::now() < deadline && !stopped;
            assert!(waits, "the API server did not become ready:\n{}", log());
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// Stops the API server where it is: its sockets stay open and nothing answers.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets a frozen API server go on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let server = self.children.last().unwrap().id().to_string();
        let sent = Command::new("kill").args([signal, &server]).status().unwrap();
        assert!(sent.success(), "the API server takes no signal");
    }

    /// The port of the API server on loopback.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The token of the administrator, who may act as anybody.
    pub const fn token(&self) -> &'static str {
        TOKEN
    }

    /// Runs kubectl as the administrator.
    pub fn kubectl(&self, arguments: &[&str]) -> Answer {
        self.kubectl_with(arguments, "")
    }

    /// Runs kubectl with something to read.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Answer {
        let mut child = Command::new(&self.kubectl)
            .arg(format!("--server=https://127.0.0.1:{}", self.port))
            .args(["--insecure-skip-tls-verify", &format!("--token={TOKEN}")])
            .arg(format!("--cache-dir={}", self.folder.path().join("kubectl-cache").display()))
            .args(arguments)
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        // A kubectl that fails early closes its input; its message says more than the broken pipe.
        let _closed_early = writer.join().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Answer { ok: status.success(), out: text(stdout), err: text(stderr) }
    }
}

fn etcd_arguments(folder: &Path, client: u16, peer: u16) -> Vec<String> {
    let url = |port| format!("http://127.0.0.1:{port}");
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={}", url(client)),
        format!("--advertise-client-urls={}", url(client)),
        format!("--listen-peer-urls={}", url(peer)),
        format!("--initial-advertise-peer-urls={}", url(peer)),
        format!("--initial-cluster=default={}", url(peer)),
        "--unsafe-no-fsync".into(),
    ]
}

fn apiserver_arguments(folder: &Path, etcd: u16, port: u16) -> Vec<String> {
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".into(),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        format!("--cert-dir={}", folder.join("certs").display()),
        "--service-account-issuer=https://test".into(),
        format!("--service-account-signing-key-file={}", folder.join("sa.key").display()),
        format!("--service-account-key-file={}", folder.join("sa.pub").display()),
        format!("--token-auth-file={}", folder.join("tokens.csv").display()),
        "--authorization-mode=RBAC".into(),
        "--disable-admission-plugins=ServiceAccount".into(),
    ]
}

impl Drop for ApiServer {
    /// The API server first, so that it does not complain about its database for seconds.
    fn drop(&mut self) {
        for mut child in self.children.drain(..).rev() {
            // Already gone is as good as killed.
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}
