//! Outside judges: tests that others wrote, run against a sandbox, on several kinds of networks.
//!
//! Owns how each judge is started and how its words become outcomes. What must pass stands in `conformance/*.txt`.

mod cyclonus;
mod ginkgo;
mod go;
mod lists;
mod networks;

pub use lists::{Lists, any_of, entries};
pub use networks::Network;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use causeway_sandbox::harness::Sandbox;

/// Where the administrator's credentials are, for whoever runs inside of the sandbox.
const KUBECONFIG: &str = "/run/causeway/certificates/admin.kubeconfig";

/// Who judges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judge {
    /// Kubernetes' own end-to-end tests of `[sig-network]`.
    E2e,
    /// Of these the specs about NetworkPolicies.
    Netpol,
    /// Cyclonus: truth tables of generated NetworkPolicies.
    Cyclonus,
    /// The conformance tests of the network policy API: ClusterNetworkPolicy.
    Cnp,
    /// The same before that kind: AdminNetworkPolicy and BaselineAdminNetworkPolicy.
    Anp,
}

impl Judge {
    /// All judges.
    pub const ALL: [Self; 5] = [Self::E2e, Self::Netpol, Self::Cyclonus, Self::Cnp, Self::Anp];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::E2e => "e2e",
            Self::Netpol => "netpol",
            Self::Cyclonus => "cyclonus",
            Self::Cnp => "cnp",
            Self::Anp => "anp",
        }
    }

    /// The judge with this name.
    ///
    /// # Errors
    /// If nobody is called so.
    pub fn named(name: &str) -> Result<Self> {
        let all = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|judge| judge.name() == name);
        found.with_context(|| format!("there is no judge {name}; the judges: {all}"))
    }

    /// On which networks it judges: whoever judges policies does so on each kind.
    pub fn networks(self) -> &'static [Network] {
        match self {
            Self::E2e => &[Network::Default],
            _ => &Network::ALL,
        }
    }

    /// Runs it; with a focus only what the judge finds by that.
    ///
    /// # Errors
    /// If it does not run. What it finds wrong is no error.
    pub fn run(self, sandbox: &Sandbox, network: Network, focus: Option<&str>) -> Result<Vec<Outcome>> {
        networks::prepare(sandbox, self, network)?;
        let folder = Folder::of(self, network)?;
        match self {
            Self::E2e | Self::Netpol => ginkgo::run(sandbox, self, &folder, focus),
            Self::Cyclonus => cyclonus::run(sandbox, &folder, focus),
            Self::Cnp | Self::Anp => go::run(sandbox, self, &folder, focus),
        }
    }
}

/// What became of one test.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What it is called.
    pub name: String,
    /// `passed`, `failed`, `skipped`, or another word of the judge.
    pub state: String,
    /// How long it took, if the judge says so.
    pub seconds: f64,
    /// What went wrong.
    pub message: String,
}

impl Outcome {
    /// Whether it passed.
    pub fn passed(&self) -> bool {
        self.state == "passed"
    }
}

/// Where a judge's words are kept.
struct Folder(PathBuf);

impl Folder {
    fn of(judge: Judge, network: Network) -> Result<Self> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/conformance");
        let folder = target.join(judge.name()).join(network.name());
        // What an earlier run said counts for nothing.
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs a command to its end; everything that it says is in the file `log`. Its exit code says that something failed, and the
    /// words say what.
    fn run(&self, command: &mut Command) -> Result<String> {
        let path = self.path("log");
        let log = File::create(&path)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.status().context("the judge does not start: run `scripts/setup e2e judges`")?;
        Ok(String::from_utf8_lossy(&std::fs::read(&path)?).into_owned())
    }
}

/// A command of a judge: on a host outside of the cluster, as a person would. What has an address there is reached there. The host is
/// not of the nodes' own subnet: Kubernetes' specs take whoever is for a node.
fn outside(sandbox: &Sandbox, program: &Path) -> Result<Command> {
    let mut command = sandbox.command("far")?;
    command.arg("env").arg(format!("KUBECONFIG={KUBECONFIG}")).arg(program);
    Ok(command)
}
