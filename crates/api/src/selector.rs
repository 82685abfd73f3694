//! Label selectors in one form, and an index of many of them.
//!
//! Two selectors that mean the same are the same value, however they were written: labels that must match are
//! requirements like any other, and keys and values are in order. So selectors of many policies that are equal are kept once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A label selector. Without requirements it selects everything.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct LabelMatch(BTreeSet<Requirement>);

/// One requirement of a selector.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
struct Requirement {
    key: String,
    rule: Rule,
}

/// What is required of the label with a key.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
enum Rule {
    /// It is there, with one of these values.
    In(BTreeSet<String>),
    /// It is not there, or has none of these values.
    NotIn(BTreeSet<String>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl LabelMatch {
    /// Selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Reads a selector.
    ///
    /// # Errors
    /// Which operator is unknown.
    pub fn read(selector: &LabelSelector) -> Result<Self, String> {
        let labels = selector.match_labels.iter().flatten().map(|(key, value)| {
            Ok(Requirement { key: key.clone(), rule: Rule::In(BTreeSet::from([value.clone()])) })
        });
        let expressions = selector.match_expressions.iter().flatten().map(requirement);
        labels.chain(expressions).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it selects an object with these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.0.iter().all(|one| one.holds(labels))
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// How many conditions on labels it has.
    pub fn conditions(&self) -> usize {
        self.0.len()
    }

    /// Labels of which everything that it selects has one; none if there are no such labels.
    pub fn needed(&self) -> Vec<(String, String)> {
        let needed = self.0.iter().filter_map(|one| match &one.rule {
            Rule::In(values) => Some((&one.key, values)),
            Rule::NotIn(_) | Rule::Exists | Rule::DoesNotExist => None,
        });
        let fewest = needed.min_by_key(|(_, values)| values.len());
        let labels =
            fewest.into_iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        labels.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

fn requirement(asked: &LabelSelectorRequirement) -> Result<Requirement, String> {
    let values: BTreeSet<String> = asked.values.iter().flatten().cloned().collect();
    let rule = match (asked.operator.as_str(), values.is_empty()) {
        ("In", false) => Rule::In(values),
        ("NotIn", false) => Rule::NotIn(values),
        ("Exists", true) => Rule::Exists,
        ("DoesNotExist", true) => Rule::DoesNotExist,
        ("In" | "NotIn", true) => return Err(format!("{} {} without values", asked.key, asked.operator)),
        ("Exists" | "DoesNotExist", false) => {
            return Err(format!("{} {} with values", asked.key, asked.operator));
        }
        (other, _) => return Err(format!("{} with the unknown operator {other:?}", asked.key)),
    };
    Ok(Requirement { key: asked.key.clone(), rule })
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.rule {
            Rule::In(values) => value.is_some_and(|value| values.contains(value)),
            Rule::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Rule::Exists => value.is_some(),
            Rule::DoesNotExist => value.is_none(),
        }
    }
}

/// The same text for equal selectors, and another one for others: quotes keep values apart.
impl fmt::Display for LabelMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, Requirement { key, rule }) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{key:?} ")?;
            match rule {
                Rule::In(values) => write!(f, "in {values:?}")?,
                Rule::NotIn(values) => write!(f, "not in {values:?}")?,
                Rule::Exists => f.write_str("exists")?,
                Rule::DoesNotExist => f.write_str("does not exist")?,
            }
        }
        f.write_str("}")
    }
}

/// Selectors by one label that each of them needs, so that an object is only compared with those that may select it.
#[derive(Clone, Debug)]
pub struct SelectorIndex<K> {
    by_label: BTreeMap<(String, String), BTreeSet<K>>,
    /// Selectors that need no label with a certain value.
    broad: BTreeSet<K>,
}

impl<K> Default for SelectorIndex<K> {
    fn default() -> Self {
        Self { by_label: BTreeMap::new(), broad: BTreeSet::new() }
    }
}

impl<K: Clone + Ord> SelectorIndex<K> {
    /// Takes in whatever has a selector that needs one of these labels; see [`LabelMatch::needed`].
    pub fn insert(&mut self, key: &K, needed: Vec<(String, String)>) {
        if needed.is_empty() {
            self.broad.insert(key.clone());
        }
        for label in needed {
            self.by_label.entry(label).or_default().insert(key.clone());
        }
    }

    /// Forgets it. `needed` is what it was taken in with.
    pub fn remove(&mut self, key: &K, needed: Vec<(String, String)>) {
        self.broad.remove(key);
        for label in needed {
            if let Some(keys) = self.by_label.get_mut(&label) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_label.remove(&label);
                }
            }
        }
    }

    /// Those that may select an object with these labels.
    pub fn candidates(&self, labels: &Labels) -> BTreeSet<K> {
        let matching =
            labels.iter().filter_map(|(key, value)| self.by_label.get(&(key.clone(), value.clone())));
        matching.flatten().chain(&self.broad).cloned().collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.broad.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> LabelMatch {
        LabelMatch::read(&serde_json::from_value(value).unwrap()).unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// POL-042
    #[test]
    fn selectors_that_mean_the_same_are_the_same() {
        let short = selector(json!({"matchLabels": {"b": "2", "a": "1"}}));
        let long = selector(json!({"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["1"]}, {"key": "b", "operator": "In", "values": ["2"]}]}));
        assert_eq!((&short, short.to_string()), (&long, long.to_string()));
        let either = |values| {
            selector(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}))
        };
        assert_eq!(either(json!(["x", "y"])), either(json!(["y", "x"])));
        assert_ne!(either(json!(["x", "y"])).to_string(), either(json!(["x, y"])).to_string());
    }

    /// POL-009
    #[test]
    fn requirements_are_those_of_kubernetes() {
        let one = |operator: &str, values: &[&str]| {
            selector(json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}))
        };
        let (with, other, without) = (labels(&[("a", "1")]), labels(&[("a", "2")]), labels(&[("b", "1")]));
        for (selector, expected) in [
            (one("In", &["1", "3"]), [true, false, false]),
            (one("NotIn", &["1"]), [false, true, true]),
            (one("Exists", &[]), [true, true, false]),
            (one("DoesNotExist", &[]), [false, false, true]),
            (LabelMatch::everything(), [true, true, true]),
        ] {
            assert_eq!(
                [&with, &other, &without].map(|labels| selector.selects(labels)),
                expected,
                "{selector}"
            );
        }
        let unknown = serde_json::from_value(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}));
        assert!(LabelMatch::read(&unknown.unwrap()).is_err_and(|error| error.contains("\"Near\"")));
    }

    #[test]
    fn an_object_is_compared_only_with_what_may_select_it() {
        let mut index = SelectorIndex::default();
        let all = [
            ("exact", selector(json!({"matchLabels": {"team": "a", "zone": "x"}}))),
            (
                "several",
                selector(
                    json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}),
                ),
            ),
            ("all", selector(json!({}))),
            (
                "not",
                selector(
                    json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}),
                ),
            ),
        ];
        all.iter().for_each(|(name, selector)| index.insert(name, selector.needed()));
        let candidates = |index: &SelectorIndex<&'static str>, team: &str| -> Vec<&str> {
            index.candidates(&labels(&[("team", team)])).into_iter().collect()
        };
        assert_eq!(candidates(&index, "a"), ["all", "exact", "not", "several"]);
        assert_eq!(candidates(&index, "b"), ["all", "not", "several"]);
        assert_eq!(candidates(&index, "c"), ["all", "not"]);
        index.remove(&"all", all[2].1.needed());
        index.remove(&"several", all[1].1.needed());
        assert_eq!(candidates(&index, "b"), ["not"]);
    }
}
