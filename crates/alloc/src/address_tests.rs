use proptest::prelude::*;

use super::*;
use crate::Seniority;

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn routed(text: &str) -> PodSubnet {
    PodSubnet::routed(cidr(text), None, &[]).unwrap()
}

fn pool(subnets: Vec<PodSubnet>) -> AddressPool<String> {
    AddressPool::new(subnets).unwrap()
}

fn take(pool: &mut AddressPool<String>, owner: &str) -> Vec<String> {
    pool.reserve(&owner.to_owned()).unwrap().iter().map(IpNet::to_string).collect()
}

fn claim(owner: &str, address: &str, finished: bool) -> Claim<String, IpAddr> {
    Claim { seniority: Seniority { finished, created: 0 }, owner: owner.to_owned(), number: ip(address) }
}

/// udn-cases H001, H002, H004, G025.
#[test]
fn h001_h002_h004_g025_the_first_pod() {
    assert_eq!(take(&mut pool(vec![routed("10.0.0.0/24")]), "a"), ["10.0.0.3/24"]);
    assert_eq!(take(&mut pool(vec![routed("203.203.2.0/24")]), "a"), ["203.203.2.3/24"]);
    let mut dual = pool(vec![routed("10.0.0.0/24"), routed("2001:dbb::/64")]);
    assert_eq!(take(&mut dual, "a"), ["10.0.0.3/24", "2001:dbb::3/64"]);
    assert_eq!(take(&mut pool(vec![PodSubnet::flat(cidr("10.0.0.0/24"))]), "a"), ["10.0.0.1/24"]);
}

/// udn-cases H011, E017, J014.
#[test]
fn h011_e017_a_full_subnet() {
    let mut pool = pool(vec![routed("10.0.0.0/29")]);
    assert_eq!(pool.free(), 4);
    let got: Vec<String> = ["a", "b", "c", "d"].iter().flat_map(|owner| take(&mut pool, owner)).collect();
    assert_eq!(got, ["10.0.0.3/29", "10.0.0.4/29", "10.0.0.5/29", "10.0.0.6/29"]);
    assert_eq!(
        pool.reserve(&"pod ns/e".to_owned()).unwrap_err().to_string(),
        "subnet 10.0.0.0/29 is full: no address is left for pod ns/e"
    );
    pool.release(&"b".to_owned());
    assert_eq!(take(&mut pool, "pod ns/e"), ["10.0.0.4/29"]);
}

/// udn-cases H013.
#[test]
fn h013_a_freed_address_rests() {
    let mut pool = pool(vec![routed("10.0.0.0/24")]);
    assert_eq!(take(&mut pool, "a"), ["10.0.0.3/24"]);
    pool.release(&"a".to_owned());
    assert_eq!(take(&mut pool, "b"), ["10.0.0.4/24"]);
}

/// udn-cases H014.
#[test]
fn h014_excluded_ranges_are_never_handed_out() {
    let mut pool = pool(vec![PodSubnet::flat(cidr("10.0.0.0/24")).excluding(&[cidr("10.0.0.0/26")])]);
    assert_eq!(take(&mut pool, "a"), ["10.0.0.64/24"]);
    assert_eq!(pool.request(&"b".to_owned(), &[ip("10.0.0.9")]), Err(Error::AddressExcluded(ip("10.0.0.9"))));
    let everything = PodSubnet::flat(cidr("10.0.0.0/24")).excluding(&[cidr("10.0.0.0/8"), cidr("fd00::/8")]);
    assert_eq!(AddressPool::<String>::new(vec![everything]).unwrap().free(), 0);
}

/// udn-cases H016.
#[test]
fn h016_the_same_static_address_twice() {
    let mut pool = pool(vec![routed("10.0.0.0/24")]);
    assert_eq!(pool.request(&"a".to_owned(), &[ip("10.0.0.77")]).unwrap(), ["10.0.0.77/24".parse().unwrap()]);
    assert_eq!(
        pool.request(&"b".to_owned(), &[ip("10.0.0.77")]).unwrap_err().to_string(),
        "address 10.0.0.77 is already in use by a: provided IP is already allocated, choose another one"
    );
    assert_eq!(take(&mut pool, "a"), ["10.0.0.77/24"]);
    assert_eq!(
        pool.request(&"a".to_owned(), &[ip("10.0.0.78")]).unwrap_err().to_string(),
        "a already has address 10.0.0.77"
    );
}

#[test]
fn a_static_request_names_one_address_of_each_family() {
    let mut pool = pool(vec![routed("10.0.0.0/24"), routed("fd00::/64")]);
    let before = pool.clone();
    let owner = "a".to_owned();
    assert_eq!(
        pool.request(&owner, &[ip("10.0.0.9")]).unwrap_err().to_string(),
        "a request must name one address of each family of the network (IPv4, IPv6), not 0 of IPv6"
    );
    assert!(pool.request(&owner, &[ip("10.0.0.9"), ip("10.0.0.10"), ip("fd00::9")]).is_err());
    assert_eq!(pool.request(&owner, &[ip("11.0.0.9")]), Err(Error::AddressOutside(ip("11.0.0.9"))));
    assert!(pool.request(&owner, &[ip("10.0.0.9"), ip("fd00::1")]).is_err(), "the gateway's address");
    assert_eq!(pool, before);
}

/// udn-cases H022, H023, udn-ovn-cases D20.
#[test]
fn h022_h023_d20_gateway_and_management_port() {
    let table = [
        ("10.0.0.0/24", None, vec![], "10.0.0.1", "10.0.0.2"),
        ("10.0.0.0/24", Some("10.0.0.2"), vec![], "10.0.0.2", "10.0.0.1"),
        ("10.0.0.0/24", Some("10.0.0.254"), vec![], "10.0.0.254", "10.0.0.2"),
        ("10.0.0.0/24", None, vec!["10.0.0.8/30"], "10.0.0.8", "10.0.0.9"),
        ("203.203.0.0/16", Some("203.203.0.254"), vec!["203.203.0.248/29"], "203.203.0.254", "203.203.0.248"),
        ("10.0.0.0/24", None, vec!["fd00::/120", "10.0.0.0/30"], "10.0.0.1", "10.0.0.2"),
    ];
    for (subnet, gateway, infrastructure, expected_gateway, expected_management) in table {
        let infrastructure: Vec<Cidr> = infrastructure.iter().map(|range| cidr(range)).collect();
        let subnet = PodSubnet::routed(cidr(subnet), gateway.map(ip), &infrastructure).unwrap();
        assert_eq!(subnet.gateway(), Some(ip(expected_gateway)));
        assert_eq!(subnet.management(), Some(ip(expected_management)));
    }
    assert!(PodSubnet::routed(cidr("10.0.0.0/24"), Some(ip("10.0.0.255")), &[]).is_err());
    assert!(PodSubnet::routed(cidr("10.0.0.0/24"), Some(ip("10.1.0.1")), &[]).is_err());
    assert!(PodSubnet::routed(cidr("10.0.0.0/31"), None, &[]).is_err());
    assert!(PodSubnet::routed(cidr("10.0.0.0/24"), None, &[cidr("10.0.0.9/32")]).is_err());
}

#[test]
fn h023_pods_keep_out_of_the_infrastructure() {
    let subnet = PodSubnet::routed(cidr("10.0.0.0/28"), None, &[cidr("10.0.0.8/30")]).unwrap();
    let mut pool = pool(vec![subnet]);
    let got: Vec<String> = (0..10).flat_map(|n| take(&mut pool, &n.to_string())).collect();
    let expected = [1, 2, 3, 4, 5, 6, 7, 12, 13, 14].map(|n| format!("10.0.0.{n}/28"));
    assert_eq!(got, expected);
}

#[test]
fn reserved_ranges_are_for_those_who_ask() {
    let subnet = PodSubnet::flat(cidr("10.0.0.0/24")).on_request(&[cidr("10.0.0.0/28")]);
    let mut pool = pool(vec![subnet]);
    assert_eq!(take(&mut pool, "a"), ["10.0.0.16/24"]);
    assert!(pool.request(&"b".to_owned(), &[ip("10.0.0.5")]).is_ok());
    pool.release(&"b".to_owned());
    assert_eq!(take(&mut pool, "c"), ["10.0.0.17/24"]);
}

/// udn-cases H025.
#[test]
fn h025_a_restart_reserves_what_is_annotated_first() {
    let mut old = pool(vec![routed("10.0.0.0/20")]);
    for n in 0..1000 {
        let owner = format!("p{n}");
        take(&mut old, &owner);
        old.commit(&owner);
    }
    let claims = (0..1000).rev().map(|n| {
        let owner = format!("p{n}");
        let address = old.addresses_of(&owner)[0].addr();
        Claim { seniority: Seniority::default(), owner, number: address }
    });
    let mut new = pool(vec![routed("10.0.0.0/20")]);
    assert_eq!(new.restore(claims.collect(), &old.records()), vec![]);
    assert_eq!(new, old);
}

/// udn-cases H026.
#[test]
fn h026_the_running_pod_keeps_an_address_that_a_completed_one_claims() {
    let mut pool = pool(vec![routed("10.0.0.0/24")]);
    let claims = vec![claim("completed", "10.0.0.5", true), claim("running", "10.0.0.5", false)];
    let lost = pool.restore(claims, &[]);
    assert_eq!(pool.holder(ip("10.0.0.5")), Some(&"running".to_owned()));
    let error = Error::AddressTaken { address: ip("10.0.0.5"), holder: "running".to_owned() };
    assert_eq!(lost, vec![LostAddress { owner: "completed".to_owned(), address: ip("10.0.0.5"), error }]);
}

#[test]
fn an_annotated_address_outside_the_network_is_reported() {
    let mut pool = pool(vec![routed("10.0.0.0/24")]);
    let lost = pool.restore(vec![claim("a", "10.9.0.5", false), claim("b", "10.0.0.1", false)], &[]);
    let errors: Vec<Error> = lost.into_iter().map(|lost| lost.error).collect();
    assert_eq!(errors, [Error::AddressOutside(ip("10.9.0.5")), Error::AddressExcluded(ip("10.0.0.1"))]);
}

#[test]
fn what_is_left_of_a_pod_that_lost_one_family_stays_its_own() {
    let mut pool = pool(vec![routed("10.0.0.0/24"), routed("fd00::/64")]);
    let claims =
        vec![claim("a", "10.0.0.5", false), claim("b", "10.0.0.5", false), claim("b", "fd00::5", false)];
    assert_eq!(pool.restore(claims, &[]).len(), 1);
    assert_eq!(pool.holder(ip("fd00::5")), Some(&"b".to_owned()));
    assert_eq!(take(&mut pool, "b"), ["10.0.0.3/24", "fd00::5/64"]);
}

/// udn-cases H029, H031, H032: a claim and two attachments of one pod are three owners.
#[test]
fn h029_h031_h032_owners() {
    let (namespace, name) = (NamespaceName::new("ns").unwrap(), ObjectName::new("vm").unwrap());
    let key = |text| NadKey::new(text).unwrap();
    let owners = [
        AddressOwner::Claim(namespace.clone(), name.clone()),
        AddressOwner::Pod(namespace.clone(), name.clone(), key("ns/sec")),
        AddressOwner::Pod(namespace.clone(), name.clone(), key("ns/sec/1")),
    ];
    let mut pool = AddressPool::new(vec![routed("10.0.0.0/24")]).unwrap();
    let first = owners.clone().map(|owner| pool.reserve(&owner).unwrap()[0].to_string());
    assert_eq!(first, ["10.0.0.3/24", "10.0.0.4/24", "10.0.0.5/24"]);
    pool.release(&owners[1]);
    assert_eq!(pool.reserve(&owners[0]).unwrap()[0].to_string(), "10.0.0.3/24");
    assert_eq!(owners[0].to_string(), "IPAMClaim ns/vm");
    assert_eq!(AddressOwner::DefaultPod(namespace, name).to_string(), "pod ns/vm");
}

/// Both or none: the smaller family decides, and nothing of the larger is kept.
#[test]
fn a_pod_without_one_family_gets_nothing() {
    let mut pool = pool(vec![routed("fd00::/64"), routed("10.0.0.0/30")]);
    assert_eq!(pool.free(), 0);
    let before = pool.clone();
    assert!(pool.reserve(&"a".to_owned()).is_err());
    assert_eq!(pool, before);
    assert_eq!(
        AddressPool::<String>::new(vec![routed("10.0.0.0/24"), routed("10.1.0.0/24")]),
        Err(Error::TwoSubnets(Family::Ipv4))
    );
}

#[test]
fn a_pool_of_2_to_the_64_costs_nothing() {
    let mut pool = pool(vec![routed("fd00::/64").excluding(&[cidr("fd00::/66")])]);
    assert_eq!(take(&mut pool, "a"), ["fd00::4000:0:0:0/64"]);
    assert_eq!(pool.free(), 3 * (1 << 62) - 1);
}

#[derive(Debug, Clone)]
enum Step {
    Reserve(u8),
    Request(u8, u8),
    Commit(u8),
    Abort(u8),
    Release(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12u8).prop_map(Step::Reserve),
        1 => (0..12u8, 0..16u8).prop_map(|(owner, last)| Step::Request(owner, last)),
        3 => (0..12u8).prop_map(Step::Commit),
        1 => (0..12u8).prop_map(Step::Abort),
        2 => (0..12u8).prop_map(Step::Release),
    ]
}

fn apply(pool: &mut AddressPool<u8>, step: &Step) {
    match step {
        Step::Reserve(owner) => drop(pool.reserve(owner)),
        Step::Request(owner, last) => {
            drop(pool.request(owner, &[ip(&format!("10.0.0.{last}")), ip(&format!("fd00::{last:x}"))]));
        }
        Step::Commit(owner) => pool.commit(owner),
        Step::Abort(owner) => pool.abort(owner),
        Step::Release(owner) => pool.release(owner),
    }
}

fn small() -> AddressPool<u8> {
    let four = routed("10.0.0.0/28").excluding(&[cidr("10.0.0.8/31")]).on_request(&[cidr("10.0.0.12/31")]);
    AddressPool::new(vec![four, routed("fd00::/124")]).unwrap()
}

proptest! {
    #[test]
    fn nobody_shares_an_address_and_nobody_has_half(steps in proptest::collection::vec(step(), 0..80)) {
        let mut pool = small();
        for step in &steps {
            apply(&mut pool, step);
            let mut all: Vec<IpNet> = Vec::new();
            for owner in 0..12 {
                let addresses = pool.addresses_of(&owner);
                prop_assert!(addresses.is_empty() || addresses.len() == 2);
                all.extend(addresses);
            }
            let count = all.len();
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), count);
        }
    }

    #[test]
    fn a_restart_reproduces_the_state(steps in proptest::collection::vec(step(), 0..80)) {
        let mut old = small();
        for step in &steps {
            apply(&mut old, step);
        }
        let mut claims = Vec::new();
        for owner in (0..12).rev() {
            old.abort(&owner);
            let address = |net: IpNet| Claim { seniority: Seniority::default(), owner, number: net.addr() };
            claims.extend(old.addresses_of(&owner).into_iter().map(address));
        }
        let mut new = small();
        prop_assert_eq!(new.restore(claims, &old.records()), vec![]);
        prop_assert_eq!(new, old);
    }
}
