//! How much one NetworkPolicy may ask of every node with a pod that it is about. Of what is more nothing counts, so it fails closed, and
//! the policy's author hears which bound it was.

use super::{PolicyPeer, PolicyPort, PolicyRule};

/// Rules, both ways together.
const MOST_RULES: usize = 500;
/// Peers by labels, in all rules.
const MOST_SELECTORS: usize = 500;
/// Conditions on labels, in all of these.
const MOST_CONDITIONS: usize = 2000;
/// Subnets in all rules, when those that they except are taken out.
pub const MOST_SUBNETS: usize = 4096;
/// Ports in all rules.
const MOST_PORTS: usize = 1000;
/// Those of them that are named.
const MOST_NAMES: usize = 100;
/// Peers by labels times names, in rules for egress: a set of addresses each.
const MOST_NAMED_SETS: usize = 1000;

/// Takes out of a policy's rules what is beyond a bound; says what that was.
pub(super) fn keep(ingress: &mut Vec<PolicyRule>, egress: &mut Vec<PolicyRule>) -> Vec<String> {
    let mut rules = Rules { ingress, egress, problems: Vec::new() };
    rules.all_of_them();
    rules.peers();
    rules.ports();
    rules.problems
}

struct Rules<'a> {
    ingress: &'a mut Vec<PolicyRule>,
    egress: &'a mut Vec<PolicyRule>,
    problems: Vec<String>,
}

impl Rules<'_> {
    /// Whether a count is beyond a bound, which is said then.
    fn is_over(&mut self, count: usize, most: usize, what: &str) -> bool {
        if count > most {
            self.problems.push(format!("it has more than {most} {what}: none of them counts"));
        }
        count > most
    }

    fn all_of_them(&mut self) {
        if self.is_over(self.ingress.len() + self.egress.len(), MOST_RULES, "rules") {
            self.ingress.clear();
            self.egress.clear();
        }
    }

    fn peers(&mut self) {
        let selected = || self.every().flat_map(|rule| rule.peers.iter().flatten());
        let selectors = selected().filter(|peer| matches!(peer, PolicyPeer::Pods { .. })).count();
        let conditions = selected().map(conditions).sum();
        // Not all are counted where the first of them are too many.
        let rest = selected().try_fold(MOST_SUBNETS, |left, peer| Some(left - subnets(peer, left)?));
        let subnets = if rest.is_none() { MOST_SUBNETS + 1 } else { 0 };
        let too_many = self.is_over(selectors, MOST_SELECTORS, "peers by labels");
        if self.is_over(conditions, MOST_CONDITIONS, "conditions on labels of peers") || too_many {
            self.keep_peers(|peer| matches!(peer, PolicyPeer::Block { .. }));
        }
        if self.is_over(subnets, MOST_SUBNETS, "subnets, without those that it excepts") {
            self.keep_peers(|peer| matches!(peer, PolicyPeer::Pods { .. }));
        }
    }

    fn ports(&mut self) {
        let ports = self.every().flat_map(|rule| &rule.ports).map(Vec::len).sum();
        let named = self.every().map(names).sum();
        let sets = self.egress.iter().map(|rule| names(rule) * bearers(rule)).sum();
        if self.is_over(ports, MOST_PORTS, "ports") {
            self.keep_ports(|_| false);
        }
        let too_many = self.is_over(named, MOST_NAMES, "named ports");
        if self.is_over(sets, MOST_NAMED_SETS, "named ports times peers by labels, for egress") || too_many {
            self.keep_ports(|port| !matches!(port, PolicyPort::Named(..)));
        }
    }

    fn every(&self) -> impl Iterator<Item = &PolicyRule> {
        self.ingress.iter().chain(&*self.egress)
    }

    /// A rule that is left without peers is about nobody.
    fn keep_peers(&mut self, is_kept: impl Fn(&PolicyPeer) -> bool) {
        let rules = self.ingress.iter_mut().chain(&mut *self.egress);
        rules.flat_map(|rule| &mut rule.peers).for_each(|peers| peers.retain(&is_kept));
    }

    /// One that is left without ports lets nothing through.
    fn keep_ports(&mut self, is_kept: impl Fn(&PolicyPort) -> bool) {
        let rules = self.ingress.iter_mut().chain(&mut *self.egress);
        rules.flat_map(|rule| &mut rule.ports).for_each(|ports| ports.retain(&is_kept));
    }
}

fn conditions(peer: &PolicyPeer) -> usize {
    match peer {
        PolicyPeer::Pods { namespaces, pods } => {
            namespaces.iter().chain(pods).map(|labels| labels.conditions()).sum()
        }
        PolicyPeer::Block { .. } => 0,
    }
}

/// How many subnets a peer is; none if it is more than these.
fn subnets(peer: &PolicyPeer, most: usize) -> Option<usize> {
    match peer {
        PolicyPeer::Pods { .. } => Some(0),
        PolicyPeer::Block { cidr, except } => cidr.without(except, most).map(|left| left.len()),
    }
}

fn names(rule: &PolicyRule) -> usize {
    rule.ports.iter().flatten().filter(|port| matches!(port, PolicyPort::Named(..))).count()
}

/// Whom a name is looked for at: each selector, and everybody where subnets or nobody are given.
fn bearers(rule: &PolicyRule) -> usize {
    let peers = || rule.peers.iter().flatten();
    let selectors = peers().filter(|peer| matches!(peer, PolicyPeer::Pods { .. })).count();
    selectors + usize::from(rule.peers.is_none() || peers().count() > selectors)
}

#[cfg(test)]
mod tests {
    use causeway_api::selector::LabelMatch;

    use super::*;
    use crate::Protocol;

    fn rule(peers: Vec<PolicyPeer>, ports: Vec<PolicyPort>) -> PolicyRule {
        PolicyRule { peers: Some(peers), ports: Some(ports) }
    }

    fn pods() -> PolicyPeer {
        PolicyPeer::Pods { namespaces: None, pods: Some(LabelMatch::everything()) }
    }

    fn block(cidr: &str, except: &[&str]) -> PolicyPeer {
        let read = |text: &str| text.parse().unwrap();
        PolicyPeer::Block { cidr: read(cidr), except: except.iter().map(|text| read(text)).collect() }
    }

    fn named(n: usize) -> PolicyPort {
        PolicyPort::Named(Protocol::Tcp, format!("port-{n}"))
    }

    fn number(n: usize) -> PolicyPort {
        PolicyPort::Numbers(Protocol::Udp, n as u16, n as u16)
    }

    /// What is left of rules for egress: rules, peers, ports, and what is said.
    fn left(mut egress: Vec<PolicyRule>) -> (usize, usize, usize, Vec<String>) {
        let problems = keep(&mut Vec::new(), &mut egress);
        let peers = egress.iter().flat_map(|rule| &rule.peers).map(Vec::len).sum();
        let ports = egress.iter().flat_map(|rule| &rule.ports).map(Vec::len).sum();
        (egress.len(), peers, ports, problems)
    }

    fn says(problems: &[String], what: &str) -> bool {
        matches!(problems, [one] if one.contains(what))
    }

    #[test]
    fn as_much_as_is_allowed_stays() {
        let all = |n: usize| rule(vec![pods(); n], vec![named(0); n]);
        assert_eq!(left(vec![all(1); 100]), (100, 100, 100, vec![]));
        assert_eq!(left(vec![rule(vec![pods()], vec![]); 500]), (500, 500, 0, vec![]));
        assert_eq!(left(vec![rule(vec![block("10.0.0.0/8", &[]); 4096], vec![])]).1, 4096);
    }

    #[test]
    fn of_too_many_none_counts() {
        let (rules, .., problems) = left(vec![rule(vec![pods()], vec![]); 501]);
        assert!(rules == 0 && says(&problems, "more than 500 rules"), "{problems:?}");
        let selectors = vec![rule([vec![pods(); 501], vec![block("10.0.0.0/8", &[])]].concat(), vec![])];
        let (_, peers, _, problems) = left(selectors);
        assert!(peers == 1 && says(&problems, "more than 500 peers by labels"), "{problems:?}");
        let (_, _, ports, problems) = left(vec![rule(vec![pods()], (0..1001).map(number).collect())]);
        assert!(ports == 0 && says(&problems, "more than 1000 ports"), "{problems:?}");
        let (_, _, ports, problems) =
            left(vec![rule(vec![pods()], (0..101).map(named).chain([number(1)]).collect())]);
        assert!(ports == 1 && says(&problems, "more than 100 named ports"), "{problems:?}");
        let (_, _, ports, problems) = left(vec![rule(vec![pods(); 51], (0..20).map(named).collect())]);
        assert!(ports == 0 && says(&problems, "more than 1000 named ports times"), "{problems:?}");
    }

    /// Many rules do not make more of what each may have.
    #[test]
    fn bounds_are_of_the_policy() {
        let everything_but_one = block("0.0.0.0/0", &["10.0.0.1/32"]);
        let rules = vec![rule(vec![everything_but_one, pods()], vec![]); 129];
        let (_, peers, _, problems) = left(rules);
        assert!(peers == 129 && says(&problems, "more than 4096 subnets"), "{problems:?}");
        let odd: Vec<String> = (0..30_000u32).map(|n| format!("10.{}.{}.1/32", n / 256, n % 256)).collect();
        let odd: Vec<&str> = odd.iter().map(String::as_str).collect();
        let (_, peers, _, problems) = left(vec![rule(vec![block("0.0.0.0/0", &odd)], vec![])]);
        assert!(peers == 0 && says(&problems, "more than 4096 subnets"), "{problems:?}");
    }
}
