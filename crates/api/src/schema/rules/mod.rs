//! The CEL rules of the custom resources, as data.
//!
//! Every rule has an id, the place in the schema it belongs to, and the message a user sees. The rules
//! use only what the oldest supported API server and the local evaluator both know: no two-variable macros.

mod cnc;
mod cudn;
mod flat;
mod layer2;
mod layer3;
mod localnet;
mod policy;
mod udn;
mod vtep;

use crate::schema::messages as say;

/// A CEL rule of a custom resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// Unique within its kind, for example `spec.layer3/mtu-ipv6`.
    pub id: String,
    /// Where the rule is evaluated: a path such as `spec.layer3.subnets[]`, `[]` being each item of a list.
    pub at: String,
    /// The CEL expression; `self` is the value at the path.
    pub rule: String,
    /// What the user is told when the expression is false.
    pub message: String,
}

/// The rules of UserDefinedNetwork.
pub fn user_defined_network() -> Vec<Rule> {
    let mut rules = udn::rules();
    rules.extend(layer3::rules("spec.layer3"));
    rules.extend(layer2::rules("spec.layer2"));
    rules.extend(flat::rules("spec", flat::Place::UserDefinedNetwork));
    rules
}

/// The rules of ClusterUserDefinedNetwork.
pub fn cluster_user_defined_network() -> Vec<Rule> {
    let mut rules = cudn::rules();
    rules.extend(layer3::rules("spec.network.layer3"));
    rules.extend(layer2::rules("spec.network.layer2"));
    rules.extend(localnet::rules("spec.network.localnet"));
    rules.extend(flat::rules("spec.template", flat::Place::Template));
    rules.extend(flat::rules("spec.template.spec", flat::Place::TemplateSpec));
    rules
}

/// The rules of ClusterNetworkConnect.
pub fn cluster_network_connect() -> Vec<Rule> {
    cnc::rules()
}

/// The rules of VTEP.
pub fn vtep() -> Vec<Rule> {
    vtep::rules()
}

/// The rules of ClusterNetworkPolicy.
pub fn cluster_network_policy() -> Vec<Rule> {
    policy::cluster()
}

/// The rules of AdminNetworkPolicy.
pub fn admin_network_policy() -> Vec<Rule> {
    policy::admin()
}

/// The rules of BaselineAdminNetworkPolicy.
pub fn baseline_admin_network_policy() -> Vec<Rule> {
    policy::baseline()
}

/// Collects the rules of one part of a schema.
struct Rules {
    base: String,
    rules: Vec<Rule>,
}

impl Rules {
    fn at(base: &str) -> Self {
        Self { base: base.to_owned(), rules: Vec::new() }
    }

    /// A rule on the base itself.
    fn own(self, name: &str, rule: impl Into<String>, message: &str) -> Self {
        self.below("", name, rule, message)
    }

    /// A rule on something below the base; `path` starts with `.` or `[]`.
    fn below(mut self, path: &str, name: &str, rule: impl Into<String>, message: &str) -> Self {
        let at = format!("{}{path}", self.base);
        let id = format!("{at}/{name}");
        self.rules.push(Rule { id, at, rule: rule.into(), message: message.to_owned() });
        self
    }

    /// Each item of a list of CIDRs must be one.
    fn cidrs(self, path: &str) -> Self {
        self.below(&format!("{path}[]"), "cidr", "isCIDR(self)", say::CIDR_INVALID)
    }

    /// Each item of a list of pod subnets, or a field of it, keeps clear of addresses with a meaning of their own.
    fn pod_subnets(self, path: &str) -> Self {
        self.below(path, "special", ordinary("self"), say::SPECIAL)
    }

    /// Two CIDRs of a list must be of different families.
    fn families(self, path: &str) -> Self {
        let rule = different_families("isCIDR", "self[0]", "self[1]");
        self.below(path, "families", rule, say::FAMILIES)
    }

    /// An optional field that keeps its value, or its absence.
    fn immutable_field(self, field: &str, message: &str) -> Self {
        let rule = format!(
            "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
        );
        self.own(&format!("{field}-immutable"), rule, message)
    }

    fn done(self) -> Vec<Rule> {
        self.rules
    }
}

/// True unless the list has two items that parse and are of one family. Of valid addresses exactly the IPv6
/// ones have a colon, which is much cheaper than parsing in the API server's cost estimate.
fn different_families(parses: &str, first: &str, second: &str) -> String {
    format!(
        "size(self) != 2 || !{parses}({first}) || !{parses}({second}) || {first}.contains(':') != {second}.contains(':')"
    )
}

/// True unless the text is a CIDR that shares addresses with those that have a meaning of their own. What is not a CIDR is refused
/// by another rule. 224.0.0.0/3 is multicast and reserved, ::/127 the unspecified address and loopback.
fn ordinary(cidr: &str) -> String {
    let special =
        "['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3', '::/127', 'fe80::/10', 'ff00::/8']";
    format!(
        "!isCIDR({cidr}) || !{special}.exists(r, cidr(r).containsCIDR({cidr}) || cidr({cidr}).containsCIDR(r))"
    )
}

/// Whether IPAM is switched off in the object at hand.
const IPAM_DISABLED: &str = "(has(self.ipam) && has(self.ipam.mode) && self.ipam.mode == 'Disabled')";

const LIFECYCLE_RULE: &str = "!has(self.lifecycle) || !has(self.mode) || self.mode == 'Enabled'";

const EXCLUDE_NEEDS_SUBNETS_RULE: &str = "!has(self.excludeSubnets) || has(self.subnets)";
