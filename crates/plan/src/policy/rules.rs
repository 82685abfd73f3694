//! The rules of a policy on a network: ACLs in its groups.
//!
//! A rule is one ACL for each protocol of its ports, and one for each number that a port's name stands for. Names are true: they stand
//! for what the containers of the destination call so, and for nothing else. ACLs come after the addresses that they name. A rule that
//! matches nobody is no ACL at all. All ACLs of a direction change in one transaction: which of two wins hangs on their places, and places
//! move when a rule is put before others.

use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_record::Protocol;
use causeway_types::{Families, Family, NetworkName};
use causeway_zone::{
    Action, Change, Class, Direction, Peers, PolicyInfo, PolicyKey, RuleInfo, SetSpec, Subject, Subjects,
    Who, Zone,
};

use super::groups::GroupKey;
use super::matches::{self, Condition};
use super::{InPath, acl, from, logged, logging_of, name_of, networks, owner_of, peers, severity_of};
use crate::network::{Scope, of_network};
use crate::room::{Kind, SliceKey as _, Slices};
use crate::row::{set, with};

crate::slice_key! {
    /// The rules of a policy on a network.
    pub(super) struct RulesKey, RulesKeys { network: NetworkName, policy: InPath } at ["policy", "rules", _, _]
}

/// More subnets than this in one match get a set of their own.
const MOST_IN_A_MATCH: usize = 32;

pub(super) struct Rules;

impl Kind<Zone> for Rules {
    type Key = RulesKey;

    fn slices(&self, zone: &Zone, only: &RulesKeys) -> Vec<RulesKey> {
        let of = |network: &NetworkName| -> Vec<RulesKey> {
            let key = |policy| RulesKey { network: network.clone(), policy };
            zone.policies_on(network).cloned().map(InPath).map(key).collect()
        };
        networks(zone, only.network.as_ref()).flat_map(of).collect()
    }

    fn plan(&self, zone: &Zone, key: &RulesKey) -> Plan {
        let policy = &key.policy.0;
        let Some((info, subjects)) = zone.policy_here(policy, &key.network) else { return Plan::Absent };
        let Some(class) = zone.class_of(&key.network).filter(|_| zone.knows_reach(&key.network)) else {
            return Plan::Hold(format!("{policy}: not all ClusterNetworkConnects are known yet"));
        };
        of_network(zone, &key.network, |scope| Ok(Writer { zone, scope, key, info, subjects, class }.rows()))
    }

    fn priority(&self) -> u8 {
        25
    }

    fn blame(&self, _zone: &Zone, key: &RulesKey) -> Vec<Subject> {
        vec![Subject::Policy(key.policy.0.clone())]
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<RulesKey>> {
        let of = |policy: &PolicyKey, network: &NetworkName| {
            RulesKey { network: network.clone(), policy: InPath(policy.clone()) }.into()
        };
        match change {
            Change::Policy { policy, network } => vec![of(policy, network)],
            Change::Network(name) => {
                vec![Slices::under(&RulesKeys { network: Some(name.clone()), policy: None })]
            }
            // One network more on a road is one change of each other one's grants, and most have no policies.
            Change::Grants(name) => zone.policies_on(name).map(|policy| of(policy, name)).collect(),
            _ => Vec::new(),
        }
    }
}

/// The ACLs by which a policy drops something; without them no port that the policy is about may be there.
pub(super) fn denials(zone: &Zone, scope: &Scope<'_>, info: &PolicyInfo) -> Vec<Str> {
    let drops =
        |rules: Option<&[RuleInfo]>| rules.into_iter().flatten().any(|rule| rule.action == Action::Deny);
    let here = zone.policy_here(&info.key, scope.name()).zip(zone.class_of(scope.name()));
    let Some(((info, subjects), class)) =
        here.filter(|_| Direction::BOTH.into_iter().any(|direction| drops(info.rules(direction))))
    else {
        return Vec::new();
    };
    let key = &RulesKey { network: scope.name().clone(), policy: InPath(info.key.clone()) };
    let rows = Writer { zone, scope, key, info, subjects, class }.rows();
    let is_drop = |row: &Planned| row.column("action") == Some(&"drop".into());
    rows.into_iter().filter(is_drop).map(|row| row.path).collect()
}

/// Writes the rules of one policy.
struct Writer<'a> {
    zone: &'a Zone,
    scope: &'a Scope<'a>,
    key: &'a RulesKey,
    info: &'a PolicyInfo,
    subjects: &'a Subjects,
    class: &'a Class,
}

/// One rule with its place.
#[derive(Clone, Copy)]
struct Rule<'a> {
    direction: Direction,
    index: usize,
    rule: &'a RuleInfo,
}

impl Writer<'_> {
    fn rows(&self) -> Vec<Planned> {
        let mut rows = Vec::new();
        for direction in Direction::BOTH {
            for (index, rule) in self.info.rules(direction).into_iter().flatten().enumerate() {
                self.rule(Rule { direction, index, rule }, &mut rows);
            }
        }
        rows
    }

    fn families(&self) -> Families {
        self.scope.net.families()
    }

    fn groups(&self) -> GroupKey {
        GroupKey::new(self.scope.name(), self.info)
    }

    /// The group of all ports that the policy is about.
    fn everybody(&self) -> Str {
        self.groups().all(self.info)
    }

    fn rule(&self, rule: Rule<'_>, rows: &mut Vec<Planned>) {
        if rule.rule.has_numbers() || rule.direction == Direction::Ingress {
            let Some(peers) = self.peers(rule, rows) else { return };
            self.numbered(rule, "", &peers, rows);
            if rule.direction == Direction::Ingress {
                self.named_here(rule, "", &peers, rows);
                if let Some(itself) = self.itself(rule) {
                    self.numbered(rule, " itself", &itself, rows);
                    self.named_here(rule, " itself", &itself, rows);
                }
                return;
            }
        }
        self.named_there(rule, rows);
    }

    /// Ports by number, or all of them.
    fn numbered(&self, rule: Rule<'_>, who: &str, peers: &Condition, rows: &mut Vec<Planned>) {
        for (protocol, ports) in matches::ports(rule.rule.ports.as_ref()) {
            rows.push(self.acl(rule, &format!("{protocol}{who}"), &self.everybody(), peers, &ports));
        }
    }

    /// Ports by name at the pods that the policy is about.
    fn named_here(&self, rule: Rule<'_>, who: &str, peers: &Condition, rows: &mut Vec<Planned>) {
        for (protocol, name) in rule.rule.named() {
            for number in self.subjects.numbers(protocol, name) {
                let group = self.groups().named(self.info, protocol, name, number);
                let part = format!("{} {name} {number}{who}", matches::word(protocol));
                rows.push(self.acl(rule, &part, &group, peers, &matches::port(protocol, number)));
            }
        }
    }

    /// A pod that comes to itself by a service has the address for that as its source, whoever it is; it is one of the rule's peers if
    /// its destination is. Tenants' policies never ask: there everybody reaches himself. An ACL of its own, since ovn-controller
    /// follows a set member by member only where a match names it once.
    fn itself(&self, rule: Rule<'_>) -> Option<Condition> {
        let peers = rule.rule.peers.as_ref().filter(|_| self.info.key.namespace().is_none())?;
        let mut sets = Vec::new();
        let mut conditions = Vec::new();
        // A network whose addresses cannot be computed has no rows at all.
        for source in self.scope.itself().unwrap_or_default() {
            let family = Family::of(&source);
            let named: Vec<(Str, String)> = self.selected(peers, family).collect();
            let texts = named.iter().map(|(_, name)| format!("${name}")).collect();
            let Some(to) = matches::one_of(Direction::Egress, &[(family, texts)]) else { continue };
            sets.extend(named.into_iter().map(|(path, _)| path));
            conditions.push(format!("({} && {to})", from(source)));
        }
        (!conditions.is_empty()).then(|| Condition { text: matches::either(conditions), sets })
    }

    /// Sets of those whom selectors name, with their paths.
    fn selected<'b>(&'b self, peers: &'b Peers, family: Family) -> impl Iterator<Item = (Str, String)> + 'b {
        let spec = |who: &Who| SetSpec { who: who.clone(), port: None };
        peers.selected.iter().map(move |who| peers::named(self.zone, &spec(who), self.class, None, family))
    }

    /// Ports by name at the other end: for each number those that have it.
    fn named_there(&self, rule: Rule<'_>, rows: &mut Vec<Planned>) {
        for (protocol, name) in rule.rule.named() {
            let bearing = |who| SetSpec { who, port: Some((protocol, name.to_owned())) };
            let mut numbers: Vec<u16> =
                rule.rule.bearers().flat_map(|who| self.numbers(&bearing(who))).collect();
            numbers.sort_unstable();
            numbers.dedup();
            for number in numbers {
                if let Some(peers) = self.bearers(rule, protocol, name, number) {
                    let part = format!("{} {name} {number}", matches::word(protocol));
                    rows.push(self.acl(
                        rule,
                        &part,
                        &self.everybody(),
                        &peers,
                        &matches::port(protocol, number),
                    ));
                }
            }
        }
    }

    fn numbers(&self, spec: &SetSpec) -> Vec<u16> {
        let here = self.zone.peer_set(&self.zone.set_mark(spec), &self.class.key);
        let numbers = here.map(|here| here.numbers()).unwrap_or_default();
        numbers.into_iter().flatten().map(|(_, number)| number).collect()
    }

    /// Those at the other end at which a port's name has a number.
    fn bearers(&self, rule: Rule<'_>, protocol: Protocol, name: &str, number: u16) -> Option<Condition> {
        let mut sets = Vec::new();
        let mut conditions = Vec::new();
        for family in self.families().iter() {
            let mut set_of = |who: Who| {
                let spec = SetSpec { who, port: Some((protocol, name.to_owned())) };
                let (path, text) =
                    peers::named(self.zone, &spec, self.class, Some((protocol, number)), family);
                self.numbers(&spec).contains(&number).then(|| {
                    sets.push(path);
                    format!("${text}")
                })
            };
            let selected = rule.rule.peers.iter().flat_map(|peers| peers.selected.iter().cloned());
            let items: Vec<String> = selected.filter_map(&mut set_of).collect();
            conditions.extend(matches::one_of(rule.direction, &[(family, items)]));
            let everybody = Who::Pods(causeway_zone::PodSelector::everybody());
            let blocks = rule.rule.peers.as_ref().map(|peers| blocks(peers.blocks.iter(), family));
            if blocks.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let Some(bearers) = set_of(everybody) else { continue };
            let bearers = matches::one_of(rule.direction, &[(family, vec![bearers])]);
            let within = blocks.and_then(|blocks| matches::one_of(rule.direction, &[(family, blocks)]));
            let both: Vec<String> = bearers.into_iter().chain(within).collect();
            conditions.push(if both.len() > 1 { format!("({})", both.join(" && ")) } else { both.concat() });
        }
        (!conditions.is_empty()).then(|| Condition { text: matches::either(conditions), sets })
    }

    /// The other end of a rule; none if it is nobody. Many subnets get a set of their own.
    fn peers(&self, rule: Rule<'_>, rows: &mut Vec<Planned>) -> Option<Condition> {
        let Some(peers) = &rule.rule.peers else { return Some(matches::anybody(self.families())) };
        let mut sets = Vec::new();
        let mut items = Vec::new();
        for family in self.families().iter() {
            let mut texts = Vec::new();
            for (path, name) in self.selected(peers, family) {
                sets.push(path);
                texts.push(format!("${name}"));
            }
            let subnets = blocks(peers.blocks.iter(), family);
            if subnets.len() > MOST_IN_A_MATCH {
                let (path, name) = self.block_set(family, subnets, rows);
                sets.push(path);
                texts.push(format!("${name}"));
            } else {
                texts.extend(subnets);
            }
            items.push((family, texts));
        }
        matches::one_of(rule.direction, &items).map(|text| Condition { text, sets })
    }

    /// A set of subnets, one for all rules that name these. It never has others: with others there is another one.
    fn block_set(&self, family: Family, subnets: Vec<String>, rows: &mut Vec<Planned>) -> (Str, String) {
        let mark = causeway_zone::mark(&subnets.join(" "));
        let path = self.key.path(["subnets", &*mark, &family.to_string()]);
        let name = name_of::<nb::AddressSet>(&path);
        if rows.iter().any(|row| row.path == path) {
            return (path, name);
        }
        let row = nb::AddressSet {
            name: name.as_str().into(),
            addresses: set(subnets),
            external_ids: owner_of(self.scope, &self.info.key),
        };
        rows.extend(Planned::new(path.clone(), row).members_apart("addresses"));
        (path, name)
    }

    fn at(&self, rule: Rule<'_>, part: &str) -> Str {
        self.key.path([rule.direction.as_str(), &rule.index.to_string(), part])
    }

    /// All ACLs of a direction, those that go too.
    fn atom(&self, direction: Direction) -> Str {
        self.key.path([direction.as_str(), ""])
    }

    fn acl(&self, rule: Rule<'_>, part: &str, group: &Str, peers: &Condition, ports: &str) -> Planned {
        let port = matches::port_in(rule.direction, &name_of::<nb::PortGroup>(group));
        let conditions = [peers.text.as_str(), ports, &port].into_iter().filter(|text| !text.is_empty());
        let matches = conditions.collect::<Vec<_>>().join(" && ");
        let standing = self.info.standing;
        let below = if standing.ordered { i64::try_from(rule.index).unwrap_or_default() } else { 0 };
        let action = match rule.rule.action {
            Action::Allow if self.info.stateless && self.zone.config().stateless_policies => {
                "allow-stateless"
            }
            Action::Allow => "allow-related",
            Action::Deny => "drop",
            Action::Pass => "pass",
        };
        let row = acl(rule.direction, (standing.tier, standing.priority - below), action, matches);
        let key = &self.info.key;
        let of = key.namespace().map(|namespace| format!("{namespace}:")).unwrap_or_default();
        let name = format!("{}:{of}{}:{}:{}", key.kind(), key.name(), rule.direction.as_str(), rule.index);
        let row = logged(row, name, severity_of(logging_of(self.zone, self.info), rule.rule.action));
        let external_ids = with(
            owner_of(self.scope, key),
            [("direction", rule.direction.as_str().to_owned()), ("gress-index", rule.index.to_string())],
        );
        let planned = Planned::new(self.at(rule, part), nb::Acl { external_ids, ..row })
            .within::<nb::PortGroup>(group, "acls")
            .bound_to(self.atom(rule.direction))
            .in_phase(Phase::Steering);
        peers.sets.iter().fold(planned, |planned, set| planned.guarded_by::<nb::AddressSet>(set))
    }
}

fn blocks<'a>(all: impl Iterator<Item = &'a causeway_types::Cidr>, family: Family) -> Vec<String> {
    all.filter(|cidr| cidr.family() == family).map(ToString::to_string).collect()
}
