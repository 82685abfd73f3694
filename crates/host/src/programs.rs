//! The part of a plan that programs write: tables of nftables, flows of bridges, sections of FRR.

use crate::drive::bring;
use crate::error::Error;
use crate::flows::Flows;
use crate::frr::Frr;
use crate::nft::Nft;
use crate::output::{Applied, Problem};
use causeway_types::host::{HostPlan, Key};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How sockets of bridges are called.
const SOCKET: &str = "mgmt";

/// `nft`, `ovs-ofctl` for each bridge, and `vtysh`.
#[derive(Debug)]
pub struct Programs {
    nft: Nft,
    frr: Frr,
    /// Whether FRR is known to have nothing of ours.
    frr_is_clean: bool,
    ofctl: PathBuf,
    /// Where the switch has its sockets.
    folder: Option<PathBuf>,
    /// A bridge that others fill with very many flows: it is looked at only where the plan speaks of it.
    crowded: String,
    flows: BTreeMap<String, Flows>,
}

impl Programs {
    /// The programs as the PATH has them, for a switch with its sockets in this folder.
    pub fn new(folder: Option<PathBuf>, crowded: &str) -> Programs {
        Programs {
            nft: Nft::new("nft", Nft::NODE),
            frr: Frr::new("vtysh", Frr::NODE),
            frr_is_clean: false,
            ofctl: "ovs-ofctl".into(),
            folder,
            crowded: crowded.to_owned(),
            flows: BTreeMap::new(),
        }
    }

    /// The same with programs from another place.
    pub fn from_folder(mut self, folder: &Path) -> Programs {
        self.nft = Nft::new(folder.join("nft"), Nft::NODE);
        self.frr = Frr::new(folder.join("vtysh"), Frr::NODE);
        self.ofctl = folder.join("ovs-ofctl");
        self
    }

    /// Makes the programs' part of the plan true. A machine without a program lacks it only where something is planned
    /// that needs it.
    pub fn apply(&mut self, plan: &HostPlan) -> Applied {
        let mut all = bring(&mut self.nft, plan);
        let tables = plan.items().keys().any(|key| matches!(key, Key::Table { .. }));
        if !tables {
            all.problems.retain(|problem| !matches!(problem.error, Error::NoProgram { .. }));
        }
        for (bridge, planned) in self.bridges(plan) {
            let applied = self.apply_flows(&bridge, plan);
            all.writes += applied.writes;
            let gone = |problem: &Problem| !planned && problem.key.is_none();
            all.problems.extend(applied.problems.into_iter().filter(|problem| !gone(problem)));
        }
        let applied = self.apply_sections(plan);
        all.writes += applied.writes;
        all.problems.extend(applied.problems);
        all
    }

    /// Daemons of FRR with their sockets elsewhere than usual.
    #[must_use]
    pub fn with_frr_at(mut self, folder: &Path) -> Programs {
        self.frr = self.frr.at(folder);
        self
    }

    /// Has FRR let go of VRFs before the kernel's part of the plan is made true. What it does not let go of now is seen afterwards,
    /// and said then.
    pub fn let_go(&mut self, plan: &HostPlan) {
        if self.frr_matters(plan) {
            self.frr.let_go_once(plan);
        }
    }

    /// On most nodes nobody ever plans a section.
    fn frr_matters(&self, plan: &HostPlan) -> bool {
        let planned = plan.items().keys().any(|key| matches!(key, Key::Section(_)));
        planned || (!self.frr_is_clean && self.frr.is_there())
    }

    /// FRR is asked while sections are planned, and then until it has none of ours.
    fn apply_sections(&mut self, plan: &HostPlan) -> Applied {
        let planned = plan.items().keys().any(|key| matches!(key, Key::Section(_)));
        if !self.frr_matters(plan) {
            return Applied::default();
        }
        let mut applied = bring(&mut self.frr, plan);
        let held = plan.hold_all().is_some() || !plan.holds().is_empty();
        self.frr_is_clean = !planned && !held && applied.problems.is_empty();
        if !planned {
            applied.problems.retain(|problem| problem.key.is_some());
        }
        applied
    }

    /// Whether flows of ours came or went by somebody else's hand: a switch that was started again has none.
    pub fn have_changed(&self) -> bool {
        self.flows.values().any(Flows::has_changed)
    }

    /// The sockets of the bridges on which flows are planned. Whoever holds a connection to one hears when its switch ends
    /// or the bridge goes, and the flows with it.
    pub fn sockets(&self, plan: &HostPlan) -> BTreeSet<PathBuf> {
        let folder = self.folder.as_deref();
        let socket = |bridge: &String| folder.map(|folder| folder.join(format!("{bridge}.{SOCKET}")));
        planned(plan).into_iter().filter_map(socket).collect()
    }

    /// The sockets of the daemons that sections are planned for.
    pub fn frr_sockets(&self, plan: &HostPlan) -> BTreeSet<PathBuf> {
        let planned = plan.items().keys().any(|key| matches!(key, Key::Section(_)));
        if planned { self.frr.sockets() } else { BTreeSet::new() }
    }

    fn apply_flows(&mut self, bridge: &str, plan: &HostPlan) -> Applied {
        let folder = self.folder.clone().unwrap_or_default();
        let new = || Flows::new(&self.ofctl, &folder, bridge);
        bring(self.flows.entry(bridge.to_owned()).or_insert_with(new), plan)
    }

    /// The bridges to look at, and whether the plan speaks of them.
    fn bridges(&self, plan: &HostPlan) -> BTreeMap<String, bool> {
        let listed = self.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok());
        let sockets = listed.into_iter().flatten().filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_bridge = path.extension().is_some_and(|end| end == SOCKET);
            path.file_stem().filter(|_| is_bridge)?.to_str().map(str::to_owned)
        });
        let mut bridges: BTreeMap<String, bool> =
            sockets.filter(|name| *name != self.crowded).map(|name| (name, false)).collect();
        bridges.extend(planned(plan).into_iter().map(|name| (name.clone(), true)));
        bridges
    }
}

/// The bridges on which flows are planned.
fn planned(plan: &HostPlan) -> BTreeSet<&String> {
    let mut bridges = BTreeSet::new();
    for key in plan.items().keys() {
        if let Key::Flow { bridge, .. } = key {
            bridges.insert(bridge);
        }
    }
    bridges
}
