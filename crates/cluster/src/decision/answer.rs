//! What is said about a connection: whether it is accepted, and each selected network.

use std::collections::BTreeMap;

use causeway_alloc::LostBlock;
use causeway_api::conditions::cut;
use causeway_api::crd::{SelectedKind, SelectedNetwork};
use causeway_types::{ConnectName, NetworkName, NetworkOrigin};

use super::check::Clashes;
use super::engine::{Connections, Entry};
use super::input::Network;
use super::reason::{Acceptance, LeftOut};

/// So many networks are listed. A status has room for them, each with its reason.
const LISTED: usize = 500;
const LONGEST_MESSAGE: usize = 512;

/// What is said about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The condition `Accepted`.
    pub acceptance: Acceptance,
    /// The selected networks by name; if there are too many, those that are not connected first.
    pub networks: Vec<SelectedNetwork>,
    /// How many networks are connected, and how many are selected.
    pub connected: (usize, usize),
}

impl Connections {
    /// Whether the connection is accepted, and what is left out.
    pub fn answer(&self, name: &ConnectName) -> Option<Answer> {
        let entry = self.entries.get(name)?;
        let left_out = self.left_out_now(entry);
        let mut networks: Vec<SelectedNetwork> = entry
            .selected
            .iter()
            .filter_map(|name| Some(self.line(entry, self.networks.get(name)?, &left_out)))
            .chain(self.absent_of(&entry.connect).map(|absent| absent.line()))
            .collect();
        let connected = networks.iter().filter(|network| network.connected).count();
        let counts = (connected, networks.len());
        if networks.len() > LISTED {
            networks.sort_by_key(|network| network.connected);
            networks.truncate(LISTED);
        }
        networks.sort_by(|a, b| a.name.cmp(&b.name));
        for message in networks.iter_mut().filter_map(|network| network.message.as_mut()) {
            *message = cut(message, LONGEST_MESSAGE);
        }
        let acceptance = self.acceptance_of(entry, left_out);
        Some(Answer { acceptance, networks, connected: counts })
    }

    fn line(
        &self,
        entry: &Entry,
        network: &Network,
        left_out: &BTreeMap<NetworkName, LeftOut>,
    ) -> SelectedNetwork {
        let why = left_out.get(&network.name);
        let message = match why {
            Some(why) => Some(why.message.clone()),
            None => self.apart(entry, network, left_out),
        };
        SelectedNetwork {
            name: network.object(),
            kind: match network.origin {
                NetworkOrigin::Namespaced(..) => SelectedKind::UserDefinedNetwork,
                _ => SelectedKind::ClusterUserDefinedNetwork,
            },
            topology: Some(network.topology),
            connected: why.is_none(),
            reason: why.map(|why| why.reason.as_str().to_owned()),
            message,
        }
    }

    /// Whom of a connected network's namespaces the connection does not reach: those on siblings that it does not join.
    fn apart(
        &self,
        entry: &Entry,
        network: &Network,
        left_out: &BTreeMap<NetworkName, LeftOut>,
    ) -> Option<String> {
        let joined = |name: &&NetworkName| entry.selected.contains(*name) && !left_out.contains_key(*name);
        let apart = self.beside.of(&network.name).filter(|name| !joined(name));
        let named = |name: &NetworkName| match self.networks.get(name) {
            Some(network) => network.to_string(),
            None => format!("'{name}'"),
        };
        let names: Vec<String> = apart.map(named).collect();
        (!names.is_empty()).then(|| {
            format!(
                "Connected. Pods of its namespaces that are on {} are not on this road: select these networks, too, if they \
                 are to be",
                names.join(", ")
            )
        })
    }

    /// Why each network that is not connected is not.
    fn left_out_now(&self, entry: &Entry) -> BTreeMap<NetworkName, LeftOut> {
        if let Some(refused) = &entry.refused {
            return entry.selected.iter().map(|name| (name.clone(), refused.clone())).collect();
        }
        let mut clashes = Clashes::new();
        let mut explain = |(network, then)| self.explain(entry, network, then, &mut clashes);
        entry.left_out.iter().map(|(name, then)| (name.clone(), explain((name, then)))).collect()
    }

    fn acceptance_of(&self, entry: &Entry, left_out: BTreeMap<NetworkName, LeftOut>) -> Acceptance {
        if let Some(refused) = &entry.refused {
            return Acceptance::of(vec![refused.clone()]);
        }
        let lost = entry.lost.iter().map(|lost| self.sentence(lost)).collect();
        let connected = entry.selected.len() - left_out.len();
        let mut left_out: Vec<LeftOut> = left_out.into_values().collect();
        left_out.extend(self.nodes_left_out(entry));
        if connected < 2 {
            let absent = self.absent_of(&entry.connect);
            left_out.push(LeftOut::insufficient(entry.selected.len(), connected, absent));
        }
        Acceptance::of(left_out).with(lost)
    }

    /// What is said of a place that the object came with and that could not be kept.
    fn sentence(&self, lost: &LostBlock) -> String {
        let network = self.ids.get(&lost.owner.network()).and_then(|name| self.networks.get(name));
        let who = network.map_or_else(|| lost.owner.to_string(), |network| format!("network {network}"));
        format!("The annotated place of {who} was not kept: {}", lost.reason)
    }

    /// Whether the connection is accepted.
    pub fn acceptance(&self, name: &ConnectName) -> Option<Acceptance> {
        let entry = self.entries.get(name)?;
        Some(self.acceptance_of(entry, self.left_out_now(entry)))
    }
}
