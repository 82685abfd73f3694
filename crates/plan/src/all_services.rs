//! Pods that reach services of every network (`--all-services-namespaces`), with a network interface of their own.
//!
//! Owns the paths `all-services:…`. Such a pod is on the default network. What it sends to a service that is not there goes by the
//! management port to the node, which knows the ways to services of all networks; answers come back that way. Pods in the node's own
//! network have those ways already (`crate::host`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned};
use causeway_record::ObjectKey;
use causeway_types::{Cidr, Family, NamespaceName, NetworkName};
use causeway_zone::{Change, PodAddress, Subject, Zone};

use crate::network::{Result, Scope, of_network};
use crate::room::{Kind, Room, SliceKey as _, Slices};
use crate::row::{ids, router, set};

/// Pods that reach services of every network.
pub(crate) static ROOM: Room<Zone> = Room { name: "pods that reach all services", kinds: &[&Trusted] };

/// Above what leads to the node itself.
const TO_SERVICES: i64 = 1003;

crate::slice_key! {
    /// A pod.
    struct TrustedKey, TrustedKeys { namespace: NamespaceName, pod: String } at ["all-services", _, _]
}

impl TrustedKey {
    fn pod(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.pod.clone() }
    }
}

struct Trusted;

impl Kind<Zone> for Trusted {
    type Key = TrustedKey;

    fn slices(&self, zone: &Zone, only: &TrustedKeys) -> Vec<TrustedKey> {
        if zone.config().all_services.is_empty() {
            return Vec::new();
        }
        let asked = |pod: &ObjectKey| {
            only.namespace.as_ref().is_none_or(|namespace| *namespace == pod.namespace)
                && only.pod.as_ref().is_none_or(|name| *name == pod.name)
        };
        let pods = zone.pods_of(&NetworkName::default_network()).into_iter();
        let trusted = pods.filter(|pod| asked(pod) && address(zone, pod).is_some());
        trusted.map(|pod| TrustedKey { namespace: pod.namespace, pod: pod.name }).collect()
    }

    fn plan(&self, zone: &Zone, key: &TrustedKey) -> Plan {
        match address(zone, &key.pod()) {
            Some(address) => {
                of_network(zone, &NetworkName::default_network(), |scope| rows(scope, key, address))
            }
            None => Plan::Absent,
        }
    }

    fn priority(&self) -> u8 {
        46
    }

    fn blame(&self, _zone: &Zone, key: &TrustedKey) -> Vec<Subject> {
        vec![Subject::Pod(key.pod())]
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<TrustedKey>> {
        let trusted = |namespace: &NamespaceName| zone.config().all_services.contains(namespace);
        match change {
            Change::Pod { pod, network } if network.is_default() && trusted(&pod.namespace) => {
                vec![TrustedKey { namespace: pod.namespace.clone(), pod: pod.name.clone() }.into()]
            }
            Change::Network(name) if name.is_default() => vec![Slices::under(&TrustedKeys::default())],
            _ => Vec::new(),
        }
    }
}

/// The addresses of trusted pods of this node.
pub(crate) fn trusted(zone: &Zone) -> BTreeSet<IpAddr> {
    let pods = Trusted.slices(zone, &TrustedKeys::default());
    let of = |key: TrustedKey| address(zone, &key.pod());
    pods.into_iter().filter_map(of).flat_map(PodAddress::ips).map(|ip| ip.addr()).collect()
}

/// Whether a change may concern them.
pub(crate) fn concerns_trusted(zone: &Zone, change: &Change) -> bool {
    !Trusted.follows(zone, change).is_empty()
}

/// The address of a trusted pod of this node on the default network, if that is its primary one.
fn address<'a>(zone: &'a Zone, pod: &ObjectKey) -> Option<&'a PodAddress> {
    let info = zone.pod(pod).filter(|_| zone.config().all_services.contains(&pod.namespace))?;
    let port = info.primary().filter(|port| port.attachment.is_none() && info.local.is_some())?;
    port.address.as_ref()
}

fn rows(scope: &Scope<'_>, key: &TrustedKey, address: &PodAddress) -> Result<Vec<Planned>> {
    let services = scope.config.cluster.service_cidrs.iter().filter(|_| scope.is_shared_gateway());
    let mut rows = Vec::new();
    for service in services {
        let own = address.ips().find(|ip| Family::of(&ip.addr()) == service.family());
        let leg = scope.net.legs.iter().find(|leg| leg.family == service.family());
        if let Some((own, leg)) = own.zip(leg) {
            let row = nb::LogicalRouterPolicy {
                priority: TO_SERVICES,
                r#match: matches(scope, own.addr(), service).into(),
                action: "reroute".into(),
                nexthops: set([leg.management.addr()]),
                external_ids: ids(scope.net),
                ..Default::default()
            };
            let planned = Planned::new(key.path([service.to_string()]), row);
            rows.push(planned.within::<nb::LogicalRouter>(&router(scope.name()), "policies"));
        }
    }
    Ok(rows)
}

fn matches(scope: &Scope<'_>, own: IpAddr, service: &Cidr) -> String {
    let word = if own.is_ipv4() { "ip4" } else { "ip6" };
    format!("inport == \"{}\" && {word}.src == {own} && {word}.dst == {service}", scope.switch_port())
}
