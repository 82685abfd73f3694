//! A sandbox for tests: apply, look, wait, and see who reaches whom. It ends with the test process, however that ends.

mod background;
mod matrix;

pub use background::Background;
pub use matrix::{Matrix, Probe};

use crate::address::Family;
use crate::cli::{Request, bring_up, load, on_node, remove, remove_node, settle, wait_settled};
use crate::error::{Error, Result};
use crate::find;
use crate::folder::Folder;
use crate::machine::run;
use crate::plan::CONTROL;
use crate::plan::unit::Command;
use crate::programs::Programs;
use crate::supervisor::status::Status;
use crate::wanted::Flags;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// The image of the pods that tests start.
pub const IMAGE: &str = "localhost/causeway-tools:1";

/// A running sandbox.
pub struct Sandbox {
    folder: Folder,
    name: String,
    /// Whether it goes with this value.
    ours: bool,
}

/// A pod of a sandbox.
pub struct Pod<'a> {
    sandbox: &'a Sandbox,
    namespace: String,
    name: String,
}

impl Sandbox {
    /// A dual-stack sandbox with a name of its own; it is removed when this value goes.
    pub fn new(nodes: u8) -> Result<Sandbox> {
        Sandbox::start(&format!("test-{}", std::process::id()), nodes, &[Family::Ipv4, Family::Ipv6])
    }

    /// A sandbox with a given name and address families.
    pub fn start(name: &str, nodes: u8, families: &[Family]) -> Result<Sandbox> {
        let folder = Folder::named(name)?;
        let owner = find::owner(std::process::id());
        let request =
            Request { nodes: Some(nodes), families: Some(families.to_vec()), owner, ..Request::default() };
        let wanted = bring_up(&folder, name, &request, &program()?)?;
        let sandbox = Sandbox { folder, name: name.to_owned(), ours: true };
        wait_settled(&sandbox.folder, wanted.generation, PATIENCE, |_| {})?;
        Ok(sandbox)
    }

    /// A sandbox that somebody else made; it stays.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn existing(name: &str) -> Result<Sandbox> {
        let folder = Folder::named(name)?;
        folder.wanted()?;
        Ok(Sandbox { folder, name: name.to_owned(), ours: false })
    }

    /// The sandbox's folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// What the supervisor says.
    pub fn status(&self) -> Result<Status> {
        Ok(self.folder.status()?.unwrap_or_default())
    }

    /// Runs kubectl as the administrator.
    pub fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.kubectl_with(words, "")
    }

    /// Runs kubectl as the administrator, with something to read.
    pub fn kubectl_with(&self, words: &[&str], input: &str) -> Result<String> {
        run(&Command::new(self.kubectl_words(words)).input(input))
    }

    fn kubectl_words(&self, words: &[&str]) -> Vec<String> {
        let start = [
            Programs::find().program("kubectl").display().to_string(),
            format!("--kubeconfig={}", self.folder.kubeconfig().display()),
            format!("--cache-dir={}", self.folder.path("kubectl").display()),
        ];
        start.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Starts kubectl and goes on; it ends with the value.
    pub fn kubectl_in_background(&self, words: &[&str]) -> Result<Background> {
        Background::start(&self.kubectl_words(words))
    }

    /// Applies manifests.
    pub fn apply(&self, yaml: &str) -> Result<String> {
        self.kubectl_with(&["apply", "--server-side", "-f", "-"], yaml)
    }

    /// An object, or a list of objects.
    pub fn get(&self, words: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], words].concat())?;
        let unreadable = |e: serde_json::Error| Error::Command {
            command: format!("kubectl get {}", words.join(" ")),
            message: e.to_string(),
        };
        serde_json::from_str(&text).map_err(unreadable)
    }

    /// Names a pod: `blue/a`, or `a` in the namespace `default`.
    pub fn pod(&self, name: &str) -> Pod<'_> {
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        Pod { sandbox: self, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Starts pods with the tool image, each on a node, and waits until they are ready: `("blue/a", "n1")`.
    pub fn start_pods(&self, pods: &[(&str, &str)]) -> Result<()> {
        self.make_namespaces(pods.iter().map(|(pod, _)| self.pod(pod).namespace).collect())?;
        let manifests: Vec<String> = pods.iter().map(|(pod, node)| self.pod(pod).manifest(node)).collect();
        let manifests = manifests.join("---\n");
        // A namespace takes no pods before its service account is there.
        self.wait_for("pods to be accepted", || self.apply(&manifests).map(Some))?;
        for (pod, _) in pods {
            self.pod(pod).wait_ready()?;
        }
        Ok(())
    }

    /// Namespaces that are there keep their labels.
    fn make_namespaces(&self, wanted: BTreeSet<String>) -> Result<()> {
        let there = self.get(&["namespaces"])?;
        let there = there["items"].as_array().cloned().unwrap_or_default();
        for name in wanted {
            if !there.iter().any(|namespace| namespace["metadata"]["name"] == name.as_str()) {
                self.kubectl(&["create", "namespace", &name])?;
            }
        }
        Ok(())
    }

    /// Whether a pod reaches another one by HTTP on all its addresses, and it is that one that answers.
    pub fn can_reach(&self, from: &str, to: &str) -> Result<bool> {
        Ok(self.matrix(&[from, to])?.reaches(from, to))
    }

    /// Who reaches whom, all at once.
    pub fn matrix(&self, pods: &[&str]) -> Result<Matrix> {
        self.matrix_with(pods, &[Probe::Http])
    }

    /// Who reaches whom, in several ways.
    pub fn matrix_with(&self, pods: &[&str], probes: &[Probe]) -> Result<Matrix> {
        let matrix = matrix::measure(self, pods, probes)?;
        match matrix.failures().first_key_value() {
            None => Ok(matrix),
            Some((pod, why)) => Err(Error::Request(format!("{pod} could not ask: {why}"))),
        }
    }

    /// The same, where pods that cannot ask are named and the others are asked.
    pub fn survey(&self, pods: &[&str], probes: &[Probe]) -> Result<Matrix> {
        matrix::measure(self, pods, probes)
    }

    /// Asks until there is an answer. A failure while asking is not the end: it is shown when the time is over.
    pub fn wait_for<T>(&self, what: &str, ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        self.wait_within(what, patience(), ask)
    }

    /// The same with a limit.
    pub fn wait_within<T>(
        &self,
        what: &str,
        limit: Duration,
        mut ask: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let end = Instant::now() + limit;
        loop {
            let answer = ask();
            if let Ok(Some(found)) = answer {
                return Ok(found);
            }
            if Instant::now() > end {
                let last = answer.err().map(|e| format!("last: {e}\n")).unwrap_or_default();
                let state = last + &self.picture();
                return Err(Error::Timeout { what: what.to_owned(), seconds: limit.as_secs(), state });
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// What a person would look at first.
    fn picture(&self) -> String {
        let show = |words: &[&str]| self.kubectl(words).unwrap_or_else(|e| e.to_string());
        let unready = self.status().map(|status| {
            let units = status.units.into_iter().filter(|unit| !unit.ready);
            units
                .map(|unit| format!("not ready: {} {}\n", unit.id, unit.trouble.unwrap_or_default()))
                .collect()
        });
        format!(
            "{}{}\n{}\n{}",
            unready.unwrap_or_else(|e| e.to_string()),
            show(&["get", "nodes", "-o", "wide"]),
            show(&["get", "pods", "-A", "-o", "wide"]),
            show(&["get", "events", "-A", "--sort-by=.lastTimestamp"])
                .lines()
                .rev()
                .take(15)
                .collect::<Vec<_>>()
                .join("\n"),
        )
    }

    /// Waits until the supervisor finds everything as wanted.
    pub fn wait_settled(&self) -> Result<()> {
        wait_settled(&self.folder, self.folder.wanted()?.generation, PATIENCE, |_| {})
    }

    /// Runs a command on a node, on `control`, on `outside` or on `far`.
    pub fn exec(&self, node: &str, words: &[&str]) -> Result<String> {
        let failed = |message: String| Error::Command { command: words.join(" "), message };
        let output = on_node(&self.folder, node)?.args(words).output().map_err(|e| failed(e.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    /// A command that runs the words that follow on a node, on `control`, on `outside` or on `far`.
    pub fn command(&self, place: &str) -> Result<std::process::Command> {
        on_node(&self.folder, place)
    }

    /// Kills a component such as `n1/kubelet` without a warning.
    pub fn kill(&self, unit: &str) -> Result<()> {
        self.signal(unit, "KILL")
    }

    /// Sends a component a signal: `STOP` and `CONT` make it fall silent and speak again.
    pub fn signal(&self, unit: &str, signal: &str) -> Result<()> {
        let status = self.status()?;
        let found = status.units.iter().find(|candidate| candidate.id == unit);
        let pid =
            found.and_then(|unit| unit.pid).ok_or_else(|| Error::Request(format!("{unit} does not run")))?;
        self.exec(CONTROL, &["sh", "-c", &format!("kill -{signal} {pid}")]).map(drop)
    }

    /// Pulls the plug of a node.
    pub fn stop_node(&self, node: &str) -> Result<()> {
        settle(&self.folder, |wanted| wanted.node_mut(node).map(|node| node.running = false))
    }

    /// Switches a node on.
    pub fn start_node(&self, node: &str) -> Result<()> {
        settle(&self.folder, |wanted| wanted.node_mut(node).map(|node| node.running = true))
    }

    /// Cuts a node off, or joins it again.
    pub fn partition(&self, node: &str, cut: bool) -> Result<()> {
        settle(&self.folder, |wanted| wanted.node_mut(node).map(|node| node.partitioned = cut))
    }

    /// Changes the flags of Causeway's roles, which start anew where they differ.
    pub fn set_flags(&self, how: impl FnOnce(&mut Flags)) -> Result<()> {
        settle(&self.folder, |wanted| {
            how(&mut wanted.flags);
            Ok(())
        })
    }

    /// Adds a node; gives its name.
    pub fn add_node(&self) -> Result<String> {
        let mut name = String::new();
        settle(&self.folder, |wanted| wanted.add_node().map(|new| name = new))?;
        Ok(name)
    }

    /// Switches a node off and deletes its Node object, its disk and its name.
    pub fn remove_node(&self, node: &str) -> Result<()> {
        remove_node(&self.folder, node)
    }

    /// Loads an image archive into every node.
    pub fn load(&self, archive: &Path) -> Result<()> {
        load(&self.folder, archive).map(drop)
    }

    /// The socket of a node's database, as the machine sees it: `ovnnb_db`, `ovnsb_db` or `db`.
    pub fn database(&self, node: &str, name: &str) -> PathBuf {
        self.folder.path("nodes").join(node).join("ovn").join(format!("{name}.sock"))
    }
}

impl Drop for Sandbox {
    /// What cannot be removed now is removed by the keeper when this process ends.
    fn drop(&mut self) {
        if self.ours {
            let _later = remove(&self.folder, &self.name);
        }
    }
}

impl Pod<'_> {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Runs a command in the pod.
    pub fn exec(&self, words: &[&str]) -> Result<String> {
        let start = ["exec", "--namespace", &self.namespace, &self.name, "--"];
        self.sandbox.kubectl(&[&start, words].concat())
    }

    /// Its addresses on its primary network.
    pub fn addresses(&self) -> Result<Vec<String>> {
        Ok(matrix::addresses(&self.object()?))
    }

    /// The pod as the API server has it.
    pub fn object(&self) -> Result<Value> {
        self.sandbox.get(&["pod", "--namespace", &self.namespace, &self.name])
    }

    /// Waits until it is ready.
    pub fn wait_ready(&self) -> Result<()> {
        self.sandbox.wait_for(&format!("pod {} to be ready", self.full_name()), || {
            let pod = self.object()?;
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
            Ok(ready.then_some(()))
        })
    }

    fn manifest(&self, node: &str) -> String {
        let Pod { namespace, name, .. } = self;
        format!(
            r#"apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: tools, pod: {name}}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers:
  - name: tools
    image: {IMAGE}
    readinessProbe: {{httpGet: {{path: /hostname, port: 8080}}, periodSeconds: 1}}
"#
        )
    }
}

/// Shorter for whoever looks on: `CAUSEWAY_PATIENCE` in seconds.
fn patience() -> Duration {
    let said = std::env::var("CAUSEWAY_PATIENCE").ok().and_then(|text| text.parse().ok());
    said.map_or(PATIENCE, Duration::from_secs)
}

/// The program `causeway`, which stands beside the tests that use it.
///
/// # Errors
/// If it is not built.
pub fn program() -> Result<PathBuf> {
    let test = std::env::current_exe().map_err(Error::file("/proc/self/exe"))?;
    let mut places = test.ancestors().skip(1).take(2).map(|folder| folder.join("causeway"));
    places.find(|path| path.is_file()).ok_or_else(|| {
        Error::Request(
            "the program causeway is not built: run `cargo build --package causeway --package causeway-cni` first".into(),
        )
    })
}
