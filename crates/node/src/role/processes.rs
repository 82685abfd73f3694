//! Follows by what the kubelet and confined pods are known, in a task of its own. Nobody tells when a cgroup comes or goes, so it
//! looks: at a few files while nothing changes.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_runtime::Tasks;
use causeway_zone::{Kubelet, Processes, Zone};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use super::cgroups::{Finder, Told};

/// How often it looks.
const OFTEN: Duration = Duration::from_secs(1);
/// How soon it looks again for a pod that has just come; then it takes twice as long each time.
const SOON: Duration = Duration::from_millis(50);

/// What is known of processes, and of which pods it shall be.
pub(super) struct ProcessWatch {
    wanted: watch::Sender<BTreeSet<String>>,
    known: watch::Receiver<Option<Processes>>,
}

impl ProcessWatch {
    /// Starts to look.
    pub(super) fn start(tasks: &mut Tasks, told: Told) -> Self {
        let (wanted, uids) = watch::channel(BTreeSet::new());
        let (found, known) = watch::channel(None);
        tasks.start("processes", follow(Finder::new(told), uids, found));
        Self { wanted, known }
    }

    /// Returns when something else is known.
    pub(super) async fn changed(&mut self) {
        if self.known.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Says which pods there are, and what is known so far.
    pub(super) fn look(&self, zone: &Zone) -> Option<Processes> {
        let uids: BTreeSet<String> = zone.confined().map(|one| one.uid.to_owned()).collect();
        self.wanted.send_if_modified(|known| {
            let differs = *known != uids;
            *known = uids;
            differs
        });
        self.known.borrow().clone()
    }
}

async fn follow(
    mut finder: Finder,
    mut wanted: watch::Receiver<BTreeSet<String>>,
    found: watch::Sender<Option<Processes>>,
) -> String {
    let mut pause = SOON;
    let mut told_of_pods = false;
    while !found.is_closed() {
        let uids = wanted.borrow_and_update().clone();
        let look = tokio::task::spawn_blocking(move || {
            let known = finder.look(&uids);
            (finder, known)
        });
        let known = match look.await {
            Ok((back, known)) => {
                finder = back;
                known
            }
            Err(error) => return error.to_string(),
        };
        if !told_of_pods && !known.pods.is_empty() && !finder.has_cgroups() {
            told_of_pods = true;
            warn!(
                "host-network pods of namespaces with a primary network reach services of all networks: this node has no \
                 cgroups of version 2, by which they could be told apart"
            );
        }
        let waits = finder.has_cgroups() && known.pods.values().any(Option::is_none);
        publish(&found, known);
        pause = if waits { OFTEN.min(pause * 2) } else { OFTEN };
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    break;
                }
                pause = SOON;
            }
            () = sleep(pause) => {}
        }
    }
    "nobody asks any more".into()
}

fn publish(found: &watch::Sender<Option<Processes>>, now: Processes) {
    let kubelet = found.borrow().as_ref().map(|known| known.kubelet.clone());
    if kubelet.as_ref() != Some(&now.kubelet) {
        tell(&now.kubelet);
    }
    found.send_if_modified(|known| {
        let differs = known.as_ref() != Some(&now);
        *known = Some(now);
        differs
    });
}

fn tell(kubelet: &Kubelet) {
    match kubelet {
        Kubelet::Cgroup(cgroup) => info!(cgroup = cgroup.path, "the kubelet is known by its cgroup"),
        Kubelet::User(user) => warn!(
            user,
            "the kubelet is known by its user alone, so all processes of that user reach the locked addresses of pods: there is no \
             cgroup of version 2, or no process called kubelet in one of its own; --kubelet-cgroup tells which it is"
        ),
        Kubelet::Away => {
            warn!("the kubelet is not there: nobody reaches the locked addresses of pods until it is")
        }
    }
}
