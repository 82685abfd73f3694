//! Who gets which address, and who answers for it. Pure: what is there comes in, what shall be goes out.

use super::records::{Backends, Service, Wish};
use crate::address::{self, Family, underlay};
use causeway_record::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;

/// What a service shall have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// In its status, in the order of its families.
    pub(super) addresses: Vec<IpAddr>,
    /// The node that answers for them.
    pub(super) announcer: Option<String>,
    /// Why it has none, for people.
    pub(super) problem: Option<String>,
}

/// Decides about all services that are ours. A service has the same host number in each family.
pub(super) fn decide<'a>(
    services: &BTreeMap<ObjectKey, Service>,
    backends: impl Iterator<Item = &'a Backends>,
    nodes: &BTreeSet<&str>,
) -> BTreeMap<ObjectKey, Decision> {
    let local = nodes_of(backends);
    let numbers = numbers(services);
    let mut decisions = BTreeMap::new();
    for (key, service) in services {
        let decision = match &service.wish {
            Wish::Addresses { families, local: only_local, .. } => {
                let nowhere = BTreeSet::new();
                let own = local.get(key).unwrap_or(&nowhere);
                let fit = nodes.iter().filter(|node| !only_local || own.contains(*node));
                match &numbers[key] {
                    Ok(number) => Decision {
                        addresses: families.iter().map(|f| underlay(*f, *number).addr()).collect(),
                        announcer: favourite(key, fit.copied()),
                        problem: None,
                    },
                    Err(problem) => Decision { problem: Some(problem.clone()), ..Decision::default() },
                }
            }
            Wish::Nothing if service.given.iter().any(|ip| number(*ip).is_some()) => Decision::default(),
            Wish::Nothing | Wish::Foreign => continue,
        };
        decisions.insert(key.clone(), decision);
    }
    decisions
}

/// The host number of an address of the pool.
fn number(address: IpAddr) -> Option<u8> {
    let families = [Family::Ipv4, Family::Ipv6];
    address::POOL.into_iter().find(|host| families.iter().any(|f| underlay(*f, *host).addr() == address))
}

/// A host number for each service that wishes one, or why there is none. Older services come first, and who has a number
/// before who has none.
fn numbers(services: &BTreeMap<ObjectKey, Service>) -> BTreeMap<ObjectKey, Result<u8, String>> {
    let mut by_age: Vec<&Service> = services.values().collect();
    by_age.sort_by_key(|service| (service.created, &service.key));
    let mut taken: BTreeMap<u8, &ObjectKey> = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    // What somebody who is going, or another class, still has is not free.
    for service in services.values().filter(|service| service.wish == Wish::Foreign) {
        taken.extend(service.given.iter().filter_map(|ip| number(*ip)).map(|number| (number, &service.key)));
    }
    for turn in [kept, certain, lowest] {
        for service in &by_age {
            let Wish::Addresses { certain, .. } = &service.wish else { continue };
            if numbers.contains_key(&service.key) {
                continue;
            }
            if let Some(found) = turn(service, certain.as_deref(), &taken) {
                taken.extend(found.iter().map(|number| (*number, &service.key)));
                numbers.insert(service.key.clone(), found);
            }
        }
    }
    numbers
}

type Taken<'a> = BTreeMap<u8, &'a ObjectKey>;

/// The one that it has, unless it asks for another.
fn kept(service: &Service, certain: Option<&str>, taken: &Taken<'_>) -> Option<Result<u8, String>> {
    let has = service.given.iter().find_map(|ip| number(*ip)).filter(|number| !taken.contains_key(number))?;
    let asked = certain.map(|text| text.parse().ok().and_then(number));
    (asked.is_none() || asked == Some(Some(has))).then_some(Ok(has))
}

/// The one that it asks for.
fn certain(_: &Service, certain: Option<&str>, taken: &Taken<'_>) -> Option<Result<u8, String>> {
    let text = certain?;
    let Some(asked) = text.parse().ok().and_then(number) else {
        return Some(Err(format!("loadBalancerIP {text} is none of the sandbox's: {}", range())));
    };
    Some(match taken.get(&asked) {
        Some(owner) => Err(format!("loadBalancerIP {text} belongs to the service {owner}")),
        None => Ok(asked),
    })
}

fn lowest(_: &Service, _: Option<&str>, taken: &Taken<'_>) -> Option<Result<u8, String>> {
    let free = address::POOL.into_iter().find(|number| !taken.contains_key(number));
    Some(free.ok_or_else(|| format!("all addresses are taken: {}", range())))
}

fn range() -> String {
    let (first, last) = (*address::POOL.start(), *address::POOL.end());
    let of = |family| format!("{} to {}", underlay(family, first).addr(), underlay(family, last).addr());
    format!("{}, {}", of(Family::Ipv4), of(Family::Ipv6))
}

fn nodes_of<'a>(backends: impl Iterator<Item = &'a Backends>) -> BTreeMap<&'a ObjectKey, BTreeSet<&'a str>> {
    let mut all: BTreeMap<&ObjectKey, BTreeSet<&str>> = BTreeMap::new();
    for slice in backends {
        if let Some(service) = &slice.service {
            all.entry(service).or_default().extend(slice.nodes.iter().map(String::as_str));
        }
    }
    all
}

/// One of the nodes: for each service another order of preference, so that a node that comes or goes moves only what was,
/// or will be, its own.
fn favourite<'a>(service: &ObjectKey, nodes: impl Iterator<Item = &'a str>) -> Option<String> {
    let weight = |node: &&str| {
        let mut hash = DefaultHasher::new();
        (service, node).hash(&mut hash);
        hash.finish()
    };
    nodes.max_by_key(weight).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_types::NamespaceName;

    fn key(name: &str) -> ObjectKey {
        ObjectKey { namespace: NamespaceName::new("blue").unwrap(), name: name.into() }
    }

    fn service(name: &str, created: i64) -> Service {
        let families = vec![Family::Ipv4, Family::Ipv6];
        let wish = Wish::Addresses { families, certain: None, local: false };
        Service { key: key(name), uid: name.into(), created, wish, given: Vec::new() }
    }

    fn asking(mut asks: Service, address: &str) -> Service {
        if let Wish::Addresses { certain, .. } = &mut asks.wish {
            *certain = Some(address.into());
        }
        asks
    }

    fn having(mut has: Service, addresses: &[&str]) -> Service {
        has.given = addresses.iter().map(|address| address.parse().unwrap()).collect();
        has
    }

    fn decided(services: &[Service], backends: &[Backends], nodes: &[&str]) -> BTreeMap<String, Decision> {
        let services = services.iter().map(|service| (service.key.clone(), service.clone())).collect();
        let decisions = decide(&services, backends.iter(), &nodes.iter().copied().collect());
        decisions.into_iter().map(|(key, decision)| (key.name, decision)).collect()
    }

    fn addresses(decision: &Decision) -> Vec<String> {
        decision.addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_service_has_an_address_of_each_family_the_oldest_first() {
        let found = decided(&[service("a", 2), service("b", 1)], &[], &["n1"]);
        assert_eq!(addresses(&found["b"]), ["172.30.0.200", "fd00:172:30::c8"]);
        assert_eq!(addresses(&found["a"]), ["172.30.0.201", "fd00:172:30::c9"]);
        assert_eq!(found["a"].announcer.as_deref(), Some("n1"));
    }

    #[test]
    fn who_has_an_address_keeps_it_and_a_freed_one_is_used_again() {
        let has = having(service("new", 9), &["172.30.0.200", "fd00:172:30::c8"]);
        let found = decided(&[service("old", 1), has.clone()], &[], &[]);
        assert_eq!(addresses(&found["new"]), ["172.30.0.200", "fd00:172:30::c8"]);
        assert_eq!(addresses(&found["old"])[0], "172.30.0.201");
        // Two claim one: the elder has it.
        let thief = having(service("a", 10), &["172.30.0.200"]);
        let found = decided(&[thief, has], &[], &[]);
        assert_eq!(
            [&found["new"], &found["a"]].map(|d| addresses(d)[0].clone()),
            ["172.30.0.200", "172.30.0.201"]
        );
    }

    #[test]
    fn a_certain_address_is_given_if_it_is_free_and_of_the_pool() {
        let services = [
            asking(service("first", 1), "172.30.0.210"),
            asking(service("late", 2), "172.30.0.210"),
            asking(service("wrong", 3), "192.0.2.1"),
            asking(having(service("moves", 4), &["172.30.0.205"]), "fd00:172:30::cf"),
        ];
        let found = decided(&services, &[], &[]);
        assert_eq!(addresses(&found["first"])[0], "172.30.0.210");
        assert_eq!(
            found["late"].problem.as_deref(),
            Some("loadBalancerIP 172.30.0.210 belongs to the service blue/first")
        );
        assert!(found["wrong"].problem.as_deref().unwrap().contains("172.30.0.200 to 172.30.0.240"));
        assert_eq!(addresses(&found["moves"])[0], "172.30.0.207");
    }

    #[test]
    fn the_last_address_is_the_last() {
        let many: Vec<Service> = (0..42).map(|n| service(&format!("s{n:02}"), n)).collect();
        let found = decided(&many, &[], &[]);
        assert_eq!(addresses(&found["s40"])[0], "172.30.0.240");
        assert!(found["s41"].problem.as_deref().unwrap().starts_with("all addresses are taken"));
    }

    #[test]
    fn what_is_no_load_balancer_any_more_gives_back_what_is_ours() {
        let plain = |given: &[&str]| Service { wish: Wish::Nothing, ..having(service("plain", 1), given) };
        assert_eq!(decided(&[plain(&["172.30.0.200"])], &[], &[])["plain"], Decision::default());
        assert_eq!(decided(&[plain(&["192.0.2.1"])], &[], &[]), BTreeMap::new());
        let foreign = Service { wish: Wish::Foreign, ..having(service("foreign", 5), &["172.30.0.200"]) };
        let found = decided(&[foreign, service("other", 6)], &[], &[]);
        assert_eq!((found.len(), addresses(&found["other"])[0].as_str()), (1, "172.30.0.201"));
    }

    #[test]
    fn a_local_service_is_announced_where_an_endpoint_is() {
        let mut web = service("web", 1);
        if let Wish::Addresses { local, .. } = &mut web.wish {
            *local = true;
        }
        let slice = |nodes: &[&str]| Backends {
            key: key("web-1"),
            service: Some(key("web")),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        let on = |nodes: &[&str], fit: &[&str]| {
            decided(std::slice::from_ref(&web), &[slice(nodes)], fit)["web"].announcer.clone()
        };
        assert_eq!(on(&["n2"], &["n1", "n2", "n3"]).as_deref(), Some("n2"));
        assert_eq!(on(&["n2", "n3"], &["n1", "n3"]).as_deref(), Some("n3"));
        assert_eq!(on(&["n2"], &["n1", "n3"]), None);
    }

    #[test]
    fn only_what_was_on_a_node_moves_when_it_goes() {
        let many: Vec<Service> = (0..30).map(|n| service(&format!("s{n}"), n)).collect();
        let before = decided(&many, &[], &["n1", "n2", "n3"]);
        let after = decided(&many, &[], &["n1", "n3"]);
        let moved = before.iter().filter(|(name, was)| was.announcer != after[*name].announcer);
        assert!(moved.clone().all(|(_, was)| was.announcer.as_deref() == Some("n2")));
        assert!(moved.count() > 2, "and all three have some");
    }
}
