//! Rules of cluster-scoped network policies. They are the published ones, in our words.

use super::{Rule, Rules};
use crate::schema::messages as say;

pub(super) fn cluster() -> Vec<Rule> {
    let mut rules = egress("protocols", "destinationNamedPort", true);
    for direction in ["ingress", "egress"] {
        for protocol in ["tcp", "udp", "sctp"] {
            let at = format!("spec.{direction}[].protocols[].{protocol}.destinationPort.range");
            rules.extend(Rules::at(&at).own("order", "self.start < self.end", say::PORTS_ORDER).done());
        }
    }
    rules
}

pub(super) fn admin() -> Vec<Rule> {
    egress("ports", "namedPort", true)
}

pub(super) fn baseline() -> Vec<Rule> {
    let mut rules = egress("ports", "namedPort", false);
    rules.extend(Rules::at("").own("name", "self.metadata.name == 'default'", say::BASELINE_NAME).done());
    rules
}

/// What goes out: addresses are addresses, and only pods have named ports.
fn egress(ports: &str, named: &str, domains: bool) -> Vec<Rule> {
    let nameless = if domains {
        "has(p.networks) || has(p.nodes) || has(p.domainNames)"
    } else {
        "has(p.networks) || has(p.nodes)"
    };
    let rule = format!(
        "!(has(self.{ports}) && self.{ports}.exists(q, has(q.{named})) && self.to.exists(p, {nameless}))"
    );
    Rules::at("spec.egress[]").own("named-ports", rule, say::NAMED_PORTS).cidrs(".to[].networks").done()
}
