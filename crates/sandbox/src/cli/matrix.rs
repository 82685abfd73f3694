//! `matrix`: who reaches whom.

use super::{Which, say};
use crate::error::{Error, Result};
use crate::harness::{Probe, Sandbox};
use clap::Args;

/// Show which pods reach each other on their primary networks: each asks all others, on all addresses
#[derive(Args)]
pub(super) struct Matrix {
    #[command(flatten)]
    which: Which,
    /// Only pods with these labels, as `kubectl get -l` has it
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// How they ask; pods of the tool image answer to all of these
    #[arg(long, value_enum, value_delimiter = ',', default_value = "http")]
    probes: Vec<Probe>,
}

impl Matrix {
    pub(super) fn run(self) -> Result<()> {
        let sandbox = Sandbox::existing(&self.which.name)?;
        let selector = self.selector.map(|selector| format!("--selector={selector}"));
        let words = ["pods", "--all-namespaces", "--field-selector=status.phase=Running"];
        let words: Vec<&str> = words.into_iter().chain(selector.as_deref()).collect();
        let found = sandbox.get(&words)?;
        let name = |pod: &serde_json::Value| {
            let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
            format!("{}/{}", text("namespace"), text("name"))
        };
        let pods: Vec<String> = found["items"].as_array().into_iter().flatten().map(name).collect();
        if pods.len() < 2 {
            return Err(Error::Request("there are no two running pods to ask".into()));
        }
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        let matrix = sandbox.survey(&pods, &self.probes)?;
        say(&matrix);
        match matrix.failures().len() {
            0 => Ok(()),
            failed => {
                Err(Error::Request(format!("{failed} of {} pods could not ask, see above", pods.len())))
            }
        }
    }
}
