//! Nodes, namespaces, pods and what zones report: what others have to do when one comes, changes or goes.

use causeway_record::{Namespace, Node, ObjectKey, Pod, ZoneReport};
use causeway_types::{NamespaceName, NodeName};

use super::Manager;
use crate::OwnerKey;
use crate::keys::Wait;
use crate::namespaces::is_labelled;
use crate::nodes::node_target;
use crate::zone_reports::Zones;

impl Manager {
    pub(super) fn node_applied(&mut self, node: Node) {
        let (name, live) = (node.name.clone(), node.live);
        let Some(change) = self.nodes.apply(node, self.desk.now_ms) else { return };
        self.desk.writes.seen(&node_target(&name));
        self.zone_reports.set_live(&name, live, self.desk.now_ms);
        if change.fresh {
            self.desk.dirty.clashes_with_nodes();
        }
        if change.live {
            self.all_statuses();
        }
        if change.mtu {
            self.desk.dirty.statuses(self.owners.keys().cloned());
        }
        if change.addresses {
            self.node_addresses_changed();
        }
        if change.ends {
            self.vteps.see_node(&name, &mut self.desk.dirty);
        }
        self.desk.dirty.nodes(change.claims);
    }

    pub(super) fn node_deleted(&mut self, name: &NodeName) {
        self.desk.writes.seen(&node_target(name));
        let concerned = self.nodes.remove(name);
        let zones = Zones { nodes: &self.nodes, reports: &self.zone_reports };
        self.numbers.fence_deleted_node(name, zones, &mut self.connects, &mut self.desk.writes);
        self.node_addresses_changed();
        self.vteps.see_node(name, &mut self.desk.dirty);
        self.desk.dirty.nodes(concerned);
        self.zone_reports.set_live(name, false, self.desk.now_ms);
        self.desk.dirty.reach_node(name);
        self.all_statuses();
        self.desk.dirty.clashes_with_nodes();
        self.desk.dirty.pods(self.pods.waiting_on(name));
        self.expire_numbers();
        // It may have been the one without a part, or with the smallest MTU.
        self.desk.dirty.statuses(self.owners.keys().cloned());
    }

    /// Networks that were refused because of a node, and endpoints at nodes, are looked at again.
    fn node_addresses_changed(&mut self) {
        self.desk.dirty.owners(self.owners.refused());
        self.desk.dirty.nads(self.attachments.refused());
        self.desk.dirty.endpoint_slices(self.mirrors.by_address());
    }

    /// Connections and policies hear of a node that comes, goes or falls silent.
    pub(super) fn all_statuses(&mut self) {
        self.connects.all_statuses(&mut self.desk.dirty);
        self.desk.dirty.policies(self.policies.all());
    }

    pub(super) fn settle_node(&mut self, name: &NodeName) {
        let around = (&self.vteps, &self.owners);
        if self.nodes.settle(name, &self.config.cluster, around, &mut self.desk) {
            self.desk.dirty.reach_node(name);
            self.expire_numbers();
            // Networks that have no subnet for some node say so.
            self.desk.dirty.statuses(self.networks.owners_of_parted());
            self.pods.wake(&Wait::Node(name.clone()), &mut self.desk.dirty);
        }
    }

    pub(super) fn namespace_applied(&mut self, namespace: Namespace) {
        let name = namespace.name.clone();
        let before = self.namespaces.insert(namespace.clone());
        let dirty = &mut self.desk.dirty;
        self.policies.see_namespace(before.as_ref(), Some(&namespace), dirty);
        if before.as_ref().is_none_or(|before| is_labelled(before) != is_labelled(&namespace)) {
            dirty.nads(self.attachments.keys_in(&name));
        }
        if before.is_none() {
            let (networks, nads) = self.attachments.claiming(&name);
            dirty.clashes(networks);
            dirty.nads(nads);
        }
        for candidate in self.namespaces.selected_by([&namespace].into_iter().chain(&before)) {
            self.owners.reselect(&OwnerKey::Cudn(candidate), &name, Some(&namespace), dirty);
        }
        dirty.owners_in(self.owners.wanting(&name).cloned(), &name);
        dirty.reach_namespace(&name);
        if before.as_ref() != Some(&namespace) {
            dirty.endpoint_slices(self.mirrors.in_namespace(&name));
        }
        if namespace.deleting {
            self.desk.writes.withdraw_creations_in(name.as_str());
        }
        self.pods.wake(&Wait::Namespace(name), &mut self.desk.dirty);
    }

    pub(super) fn namespace_deleted(&mut self, name: &NamespaceName) {
        let dirty = &mut self.desk.dirty;
        dirty.reach_namespace(name);
        if let Some(before) = self.namespaces.remove(name) {
            self.policies.see_namespace(Some(&before), None, dirty);
            for candidate in self.namespaces.selected_by([&before]) {
                self.owners.reselect(&OwnerKey::Cudn(candidate), name, None, dirty);
            }
        }
        self.desk.writes.withdraw_all_in(name.as_str());
        // What is on its way out and still there, since somebody let the namespace go by force, has to be let go all the same.
        let here = |key: &&OwnerKey| matches!(key, OwnerKey::Udn(namespace, _) if namespace == name);
        dirty.owners(self.owners.going().filter(here).cloned());
    }

    pub(super) fn pod_applied(&mut self, pod: Pod) {
        let (pods, around, desk) = self.pods();
        pods.applied(pod, around, desk);
    }

    pub(super) fn pod_deleted(&mut self, key: &ObjectKey) {
        let (pods, around, desk) = self.pods();
        pods.deleted(key, around, desk);
    }

    pub(super) fn report_applied(&mut self, report: ZoneReport) {
        let node = report.node.clone();
        if self.report_changed(&node, Some(report)) {
            // Who is listened to again counts among those that numbers wait for.
            let zones = Zones { nodes: &self.nodes, reports: &self.zone_reports };
            self.numbers.lift_fences(zones, &self.connects, &mut self.desk.writes);
            self.expire_numbers();
        }
    }

    pub(super) fn report_deleted(&mut self, node: &NodeName) {
        self.report_changed(node, None);
    }

    /// Whether the zone has cleared other numbers than before.
    fn report_changed(&mut self, node: &NodeName, report: Option<ZoneReport>) -> bool {
        let news = self.zone_reports.set(node, report);
        self.connects.zone_lost(node, &news.lost, self.desk.now_ms);
        let dirty = &mut self.desk.dirty;
        dirty.connect_statuses(news.connects);
        dirty.policies(news.policies);
        dirty.statuses(news.networks.iter().filter_map(|name| self.networks.get(name)?.owner().cloned()));
        if news.cut {
            dirty.statuses(self.owners.keys().cloned());
        }
        news.cleared
    }
}
