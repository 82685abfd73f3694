//! UserDefinedNetworks and ClusterUserDefinedNetworks: when what they ask for becomes a network, and when that ends.

use causeway_api::intent::{Network, changes};
use causeway_record::{Cudn, Udn};

use super::Manager;
use crate::OwnerKey;
use crate::dirty::Scope;
use crate::networks::canonical;
use crate::numbers::{NUMBERS_EXHAUSTED, Source};
use crate::owners::{Report, udn_key};
use crate::trouble::Trouble;

impl Manager {
    pub(super) fn udn_applied(&mut self, udn: Udn) {
        let Some(key) = udn_key(&udn.key) else { return };
        self.forget_predecessor(&key, &udn.defined.uid);
        self.owners.udn_applied(key, udn, &self.config.cluster, &mut self.desk);
    }

    pub(super) fn cudn_applied(&mut self, cudn: Cudn) {
        self.forget_predecessor(&OwnerKey::Cudn(cudn.name.clone()), &cudn.defined.uid);
        self.owners.cudn_applied(cudn, &self.config.cluster, &mut self.namespaces, &mut self.desk);
    }

    /// An object that was deleted and created anew while nobody watched is another one.
    fn forget_predecessor(&mut self, key: &OwnerKey, uid: &str) {
        if self.owners.is_another(key, uid) {
            self.owner_deleted(key);
        }
    }

    /// The object is gone, and with it its network: it went only after its attachments.
    pub(super) fn owner_deleted(&mut self, key: &OwnerKey) {
        let Some(gone) = self.owners.deleted(key, &mut self.namespaces, &mut self.desk.writes) else {
            return;
        };
        self.networks.feed(key);
        let network = key.network();
        // Somebody has taken the finalizer away by force: the numbers rest all the same.
        if !gone.retired {
            self.numbers.quarantine(&network, &mut self.connects, &mut self.desk.writes);
        }
        self.end_network(&network);
        self.desk.dirty.clashes([network]);
        self.desk.dirty.owners(gone.others);
    }

    /// Looks at an owner: provides what it wants, or takes away what it leaves behind.
    pub(super) fn settle_owner(&mut self, key: &OwnerKey, scope: Scope) {
        let Some((before, stood)) = self.owners.look(key, &self.networks) else { return };
        let report =
            if self.owners.is_going(key) { self.take_away(key) } else { self.provide(key, scope, before) };
        self.owners.looked(key, report, stood, &self.networks, &mut self.desk.dirty);
        if self.networks.get(&key.network()).is_none() {
            // Connections say why it is not there.
            self.desk.dirty.reach_network(&key.network());
        }
        self.desk.dirty.statuses([key.clone()]);
    }

    fn provide(&mut self, key: &OwnerKey, scope: Scope, before: Report) -> Report {
        if !self.vteps.are_known() && self.owners.is_on_fabric(key) {
            // Whether it can be on the fabric is not known yet, so nothing is said and nothing goes.
            self.keep_running(key);
            return before.unchanged();
        }
        let usable = self.usable(key);
        if usable.is_err() {
            self.keep_running(key);
        }
        let (owners, ground, desk) = self.owners();
        owners.provide(key, scope, (usable, before), ground, &mut desk.writes)
    }

    /// The network as it can be rendered, registered with its numbers.
    fn usable(&mut self, key: &OwnerKey) -> Result<Network, Trouble> {
        if let Some(flag) = self.config.features.without_networks() {
            let message = format!("user-defined networks are switched off in this cluster ({flag})");
            return Err(Trouble::new("FeatureDisabled", message));
        }
        let Some((intent, is_wanted)) = self.owners.intent(key) else {
            return Err(Trouble::new("NotFound", format!("{key} is not there")));
        };
        let network = intent.map_err(Clone::clone)?.clone();
        if let Some(clash) = self.networks.clash_of(&network.name) {
            return Err(clash.clone().into());
        }
        let wanted = canonical(&network, &self.config.cluster)?;
        self.keep_running(key);
        self.vteps.check(&network)?;
        self.networks.check_underlay(&wanted, &self.nodes)?;
        self.owners.check_siblings(key, &wanted, &self.networks, &self.config)?;
        if let Some(state) = self.networks.get(&network.name) {
            let problems = changes(state.intent(), &wanted);
            if !problems.is_empty() {
                return Err(Trouble::from(&problems[..]));
            }
        }
        // A network has its numbers from its first namespace on, until it goes.
        if self.numbers.has_id(&network.name) || is_wanted {
            self.register_owned(wanted, key)?;
        }
        Ok(network)
    }

    fn register_owned(&mut self, intent: Network, key: &OwnerKey) -> Result<(), Trouble> {
        let fresh = self.networks.get(&intent.name).is_none();
        let registered = self.register(intent, &Source::Owner(key.clone()));
        match &registered {
            Ok(()) if fresh => self.desk.dirty.nads(self.owners.rendered_from(key, &self.attachments)),
            Ok(()) => {}
            Err(trouble) if trouble.reason == NUMBERS_EXHAUSTED => self.networks.starve(key),
            // Who waits for the namespace's budget is woken by it; everything else shows in an event.
            Err(_) => {}
        }
        registered
    }

    /// A network that has been rendered exists as its attachments say, also while its object says something else.
    pub(super) fn keep_running(&mut self, key: &OwnerKey) {
        if self.networks.get(&key.network()).is_some() {
            return;
        }
        if let Some(rendered) = self.owners.rendered(key, &self.attachments) {
            // Its numbers have been restored; where they are not to be had, the object's own trouble is said.
            let _said_elsewhere = self.register_owned(rendered, key);
        }
    }

    fn take_away(&mut self, key: &OwnerKey) -> Report {
        self.keep_running(key);
        let network = key.network();
        if let Some(id) = self.networks.set_going(&network) {
            // Who waits for an address here waits for another network now.
            self.desk.dirty.pods(self.pods.waiting_for_network(id));
            // Mirrors in its namespaces name a network that stays.
            for nad in self.networks.get(&network).into_iter().flat_map(|state| state.nads()) {
                self.desk.dirty.endpoint_slices(self.mirrors.in_namespace(&nad.namespace));
            }
        }
        let Self { owners, attachments, pods, numbers, connects, desk, .. } = self;
        owners.take_away(key, (attachments, pods), numbers, connects, &mut desk.writes)
    }

    /// Has those looked at that have waited for connections to follow.
    pub(super) fn wake_grown(&mut self) -> bool {
        let (owners, ground, desk) = self.owners();
        owners.wake_grown(ground, &mut desk.dirty)
    }
}
