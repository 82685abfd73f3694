//! A host that only remembers: for tests of those who ask.

use crate::drive::bring;
use crate::error::{Error, Result};
use crate::host::{Host, LinkState, PodInterface};
use crate::memory::Memory;
use crate::output::Applied;
use causeway_types::host::HostPlan;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The interfaces of a pod, by name.
pub type FakePod = BTreeMap<String, PodInterface>;

/// A host that only remembers.
#[derive(Debug, Default)]
pub struct FakeHost {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pods: BTreeMap<PathBuf, FakePod>,
    broken: BTreeSet<String>,
    memory: Memory,
}

impl FakeHost {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interfaces of all pods, by the paths of their namespaces.
    pub fn pods(&self) -> BTreeMap<PathBuf, FakePod> {
        self.state().pods.clone()
    }

    /// Refuses cables to interfaces of this name from now on.
    pub fn refuse(&self, name: &str) {
        self.state().broken.insert(name.to_owned());
    }

    /// A namespace ends, and the cables to it with it.
    pub fn end_namespace(&self, netns: &Path) {
        self.state().pods.remove(netns);
    }
}

impl Host for FakeHost {
    fn attach(&self, netns: &Path, interfaces: &[PodInterface]) -> Result<Vec<String>> {
        let mut state = self.state();
        let mut fresh = Vec::new();
        for interface in interfaces {
            if state.broken.contains(&interface.name) {
                let source = io::ErrorKind::PermissionDenied.into();
                return Err(Error::Refused {
                    doing: format!("laying a cable to {}", interface.name),
                    source,
                });
            }
            let pod = state.pods.entry(netns.to_owned()).or_default();
            if pod.insert(interface.name.clone(), interface.clone()).as_ref() != Some(interface) {
                fresh.push(interface.host_name.clone());
            }
        }
        Ok(fresh)
    }

    fn detach(&self, host_names: &[String]) -> Result<()> {
        let mut state = self.state();
        for pod in state.pods.values_mut() {
            pod.retain(|_, interface| !host_names.contains(&interface.host_name));
        }
        state.pods.retain(|_, pod| !pod.is_empty());
        Ok(())
    }

    fn inspect(&self, netns: &Path, name: &str) -> Result<Option<LinkState>> {
        let state = self.state();
        let interface = state.pods.get(netns).and_then(|pod| pod.get(name));
        Ok(interface.map(|interface| LinkState {
            mac: interface.mac,
            mtu: interface.mtu,
            up: true,
            addresses: interface.addresses.iter().copied().collect(),
            routes: interface.routes.clone(),
        }))
    }

    fn present(&self, names: &[String]) -> Result<BTreeSet<String>> {
        let state = self.state();
        let there =
            state.pods.values().flat_map(BTreeMap::values).map(|interface| interface.host_name.clone());
        Ok(there.filter(|name| names.contains(name)).collect())
    }

    fn apply_host(&self, plan: &HostPlan) -> Applied {
        bring(&mut self.state().memory, plan)
    }
}
