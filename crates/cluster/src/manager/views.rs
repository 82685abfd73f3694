//! Who sees what: each area with those that it may ask. Nobody is shown anything that he could change.

use super::Manager;
use crate::attachments::Admission;
use crate::connections::{Connects, Surroundings};
use crate::desk::Desk;
use crate::mirrors::{self, Mirrors};
use crate::numbers::Numbers;
use crate::owners::{Ground, Observed, Owners};
use crate::pods::{self, Pods};

impl Manager {
    pub(super) fn admission(&self) -> Admission<'_> {
        let Self { config, nodes, namespaces, owners, attachments, networks, pods, .. } = self;
        Admission { config, nodes, namespaces, owners, attachments, networks, pods }
    }

    pub(super) fn owners(&mut self) -> (&mut Owners, Ground<'_>, &mut Desk) {
        let Self { config, nodes, namespaces, owners, attachments, networks, pods, connects, desk, .. } =
            self;
        (owners, Ground { config, nodes, namespaces, attachments, networks, pods, connects }, desk)
    }

    pub(super) fn statuses(&mut self) -> (&mut Owners, Observed<'_>, &mut Desk) {
        let Self {
            config, nodes, namespaces, owners, attachments, networks, pods, zone_reports, desk, ..
        } = self;
        let (now_ms, cluster_mtu, most_nodes) = (desk.now_ms, config.cluster.mtu, config.max_nodes);
        let observed = Observed {
            now_ms,
            cluster_mtu,
            most_nodes,
            nodes,
            namespaces,
            attachments,
            networks,
            pods,
            zone_reports,
        };
        (owners, observed, desk)
    }

    pub(super) fn pods(&mut self) -> (&mut Pods, pods::Around<'_>, &mut Desk) {
        let Self {
            config,
            nodes,
            namespaces,
            owners,
            attachments,
            networks,
            zone_reports,
            mirrors,
            pods,
            desk,
            ..
        } = self;
        let around =
            pods::Around { config, nodes, namespaces, owners, attachments, networks, zone_reports, mirrors };
        (pods, around, desk)
    }

    pub(super) fn connects(&mut self) -> (&mut Connects, Surroundings<'_>, &mut Numbers, &mut Desk) {
        let Self {
            config, nodes, namespaces, owners, attachments, networks, numbers, connects, desk, ..
        } = self;
        let around = Surroundings { config, networks, owners, namespaces, attachments, nodes };
        (connects, around, numbers, desk)
    }

    pub(super) fn mirrors(&mut self) -> (&mut Mirrors, mirrors::Around<'_>, &mut Desk) {
        let Self {
            config,
            mirrors,
            namespaces,
            owners,
            attachments,
            networks,
            pods,
            nodes,
            connects,
            desk,
            ..
        } = self;
        let cluster = &config.cluster;
        let around =
            mirrors::Around { cluster, namespaces, owners, attachments, networks, pods, nodes, connects };
        (mirrors, around, desk)
    }
}
