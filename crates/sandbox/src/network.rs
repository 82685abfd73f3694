//! What shall be in the network namespaces of a sandbox, and making it so. The values and the work are those of
//! `causeway-host`; here is only which namespace has what.

use crate::error::{Error, Result};
use causeway_host::{Applied, KernelOutput, Mark, bring, in_namespace, named_namespace};
use causeway_types::host::{HostPlan, Item, Owner};

/// What shall be in namespaces, one after the other: who lays a cable comes before who uses the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// By what it is known as ours. Each part of a sandbox takes away only what that part made.
    pub mark: Mark,
    places: Vec<(String, HostPlan)>,
}

/// What is there before any process runs.
pub(crate) const UNDERLAY: Mark = Mark { name: "sandbox", protocol: 86 };
/// What is there while a node answers for addresses of services.
pub(crate) const POOL: Mark = Mark { name: "sandbox-pool", protocol: 88 };
/// What is there once a node's bridge is.
pub(crate) const ON_BRIDGE: Mark = Mark { name: "sandbox-node", protocol: 87 };

fn owner() -> Owner {
    Owner::new("sandbox")
}

impl Network {
    pub(crate) fn new(mark: Mark) -> Network {
        Network { mark, places: Vec::new() }
    }

    /// Plans items of a namespace; a namespace that is named first is made first.
    pub(crate) fn add(&mut self, namespace: &str, items: impl IntoIterator<Item = Item>) {
        if !self.places.iter().any(|(name, _)| name == namespace) {
            self.places.push((namespace.to_owned(), HostPlan::default()));
        }
        let place = self.places.iter_mut().find(|(name, _)| name == namespace);
        if let Some((_, plan)) = place {
            items.into_iter().for_each(|item| plan.add(&owner(), item));
        }
    }

    /// The namespaces themselves, which the machine has.
    fn namespaces(&self) -> HostPlan {
        let mut plan = HostPlan::default();
        for (name, _) in &self.places {
            plan.add(&owner(), Item::Namespace(name.clone()));
        }
        plan
    }

    #[cfg(test)]
    pub(crate) fn text(&self, namespace: &str) -> String {
        let place = self.places.iter().find(|(name, _)| name == namespace);
        place.map(|(_, plan)| plan.to_string()).unwrap_or_default()
    }
}

/// Makes it so; what others made stays.
pub(crate) fn apply(network: &Network) -> Result<()> {
    let work = |plan: &HostPlan| Ok(bring(&mut KernelOutput::open(network.mark)?, plan));
    complete("this machine", work(&network.namespaces()).map_err(Error::Host)?)?;
    for (name, plan) in &network.places {
        let applied = in_namespace(&named_namespace(name), || work(plan)).map_err(Error::Host)?;
        complete(name, applied)?;
    }
    Ok(())
}

fn complete(place: &str, applied: Applied) -> Result<()> {
    let problems: Vec<String> = applied.problems.iter().map(ToString::to_string).collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(Error::Network { place: place.to_owned(), problems: problems.join("; ") })
}
