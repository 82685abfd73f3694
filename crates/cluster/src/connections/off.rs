//! Connections while they are switched off: nobody gets anything new, and nothing is said of them. What they have stays theirs until
//! they go, or a network of theirs does, so that they can be switched on again.

use causeway_api::annotations::{Annotation, ConnectBlocks, ConnectRouterKey, keys};
use causeway_api::crd::ClusterNetworkConnectStatus;
use causeway_record::Texts;
use causeway_types::ConnectName;

use super::Connects;
use super::status::is_ours;
use crate::desk::Desk;
use crate::numbers::Numbers;

impl Connects {
    /// What the connection keeps of what it carries: everything but the blocks of networks that it has lost. A network that comes
    /// later may have the number of one that has gone.
    pub(super) fn kept_annotations(&self, name: &ConnectName, numbers: &mut Numbers) -> Option<Texts> {
        let state = self.all.get(name)?;
        let mut texts = state.object.published.clone();
        let key = state.object.router_key.as_ref().ok().copied().flatten();
        if let Some(ConnectRouterKey(key)) = key.filter(|_| numbers.connect_key(name).is_none())
            && let Err(error) = numbers.keep_connect_key(name, key)
        {
            tracing::warn!(connect = %name, %error, "the connect router's tunnel key is not reserved");
        }
        let state = self.all.get(name)?;
        if let Some(written) = state.object.blocks.as_ref().ok()?.as_ref() {
            let model = self.model.as_ref()?;
            let kept = written.0.iter().filter(|(owner, _)| model.block(name, **owner).is_some());
            let blocks = ConnectBlocks(kept.map(|(owner, block)| (*owner, *block)).collect());
            for key in [keys::NETWORK_SUBNETS, keys::NETWORK_CONNECT_SUBNET] {
                texts.insert(key.to_owned(), blocks.text());
            }
        }
        Some(texts)
    }

    /// What was said of it holds no longer.
    pub(super) fn clear_status(&mut self, name: &ConnectName, desk: &mut Desk) {
        let Some(state) = self.all.get(name) else { return };
        let others = state.told().conditions.iter().filter(|condition| !is_ours(&condition.type_));
        let wanted =
            ClusterNetworkConnectStatus { conditions: others.cloned().collect(), ..Default::default() };
        if wanted != *state.told() {
            self.write_status(name, wanted, desk);
        }
    }
}
