//! Atoms and datums in one canonical form, so that equality is equality of meaning.
//!
//! Sets are sorted and have no duplicates; maps are sorted by key; a set of one element is that element, since the
//! wire makes no difference. Nothing here knows column types: the decoder applies them.

use std::cmp::Ordering;
use uuid::Uuid;

/// A string that is cheap to clone and stores up to 15 bytes in place.
pub type Str = ecow::EcoString;

/// One value of one of the five atomic types, or a reference to a row of the same transaction.
#[derive(Clone, Debug)]
pub enum Atom {
    /// A 64-bit integer.
    Integer(i64),
    /// A double. Compared by total order, so that it can live in a set.
    Real(f64),
    /// JSON `true` or `false`.
    Boolean(bool),
    /// A JSON string: any Unicode text.
    String(Str),
    /// The UUID of a row.
    Uuid(Uuid),
    /// The symbolic name of a row inserted by the same transaction. Never comes from a server.
    Named(Str),
}

impl Atom {
    fn rank(&self) -> u8 {
        match self {
            Atom::Integer(_) => 0,
            Atom::Real(_) => 1,
            Atom::Boolean(_) => 2,
            Atom::String(_) => 3,
            Atom::Uuid(_) => 4,
            Atom::Named(_) => 5,
        }
    }

    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&Str> {
        if let Atom::String(s) = self { Some(s) } else { None }
    }

    /// The UUID, if this is one.
    pub fn as_uuid(&self) -> Option<Uuid> {
        if let Atom::Uuid(u) = self { Some(*u) } else { None }
    }

    /// The integer, if this is one.
    pub fn as_integer(&self) -> Option<i64> {
        if let Atom::Integer(i) = self { Some(*i) } else { None }
    }

    /// The Boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Atom::Boolean(b) = self { Some(*b) } else { None }
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Atom::Integer(a), Atom::Integer(b)) => a.cmp(b),
            // Adding zero makes the two zeros one, as the server has it.
            (Atom::Real(a), Atom::Real(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Atom::Boolean(a), Atom::Boolean(b)) => a.cmp(b),
            (Atom::String(a), Atom::String(b)) | (Atom::Named(a), Atom::Named(b)) => a.cmp(b),
            (Atom::Uuid(a), Atom::Uuid(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Atom {}

impl From<&str> for Atom {
    fn from(s: &str) -> Self {
        Atom::String(s.into())
    }
}

impl From<Str> for Atom {
    fn from(s: Str) -> Self {
        Atom::String(s)
    }
}

impl From<i64> for Atom {
    fn from(i: i64) -> Self {
        Atom::Integer(i)
    }
}

impl From<f64> for Atom {
    fn from(r: f64) -> Self {
        Atom::Real(r)
    }
}

impl From<bool> for Atom {
    fn from(b: bool) -> Self {
        Atom::Boolean(b)
    }
}

impl From<Uuid> for Atom {
    fn from(u: Uuid) -> Self {
        Atom::Uuid(u)
    }
}

/// The value of one column of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Exactly one atom.
    One(Atom),
    /// No atom, or two and more, sorted and distinct.
    Many(Box<[Atom]>),
    /// A map from strings to strings, sorted by key: nearly all maps in OVN, at two thirds of the memory.
    StrMap(Box<[(Str, Str)]>),
    /// Any other map, sorted by key.
    Map(Box<[(Atom, Atom)]>),
}

impl Datum {
    /// The empty set.
    pub fn empty() -> Datum {
        Datum::Many(Box::new([]))
    }

    /// A set in canonical form; duplicates count once.
    pub fn set(atoms: impl IntoIterator<Item = Atom>) -> Datum {
        Self::from_atoms(atoms.into_iter().collect())
    }

    pub(crate) fn from_atoms(mut atoms: Vec<Atom>) -> Datum {
        if !atoms.is_sorted_by(|a, b| a < b) {
            atoms.sort_unstable();
            atoms.dedup();
        }
        Self::from_sorted(atoms)
    }

    /// The same for atoms that are sorted and distinct: a large set is not looked through again.
    fn from_sorted(mut atoms: Vec<Atom>) -> Datum {
        match atoms.len() {
            1 => atoms.pop().map_or_else(Datum::empty, Datum::One),
            _ => Datum::Many(atoms.into_boxed_slice()),
        }
    }

    /// A string map in canonical form; of equal keys the last counts.
    pub fn str_map<K: Into<Str>, V: Into<Str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Datum {
        Self::from_str_pairs(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }

    pub(crate) fn from_str_pairs(mut pairs: Vec<(Str, Str)>) -> Datum {
        sort_pairs(&mut pairs);
        Datum::StrMap(pairs.into_boxed_slice())
    }

    /// A map in canonical form; of equal keys the last counts. String to string becomes [`Datum::StrMap`].
    pub fn map(pairs: impl IntoIterator<Item = (Atom, Atom)>) -> Datum {
        let mut pairs: Vec<(Atom, Atom)> = pairs.into_iter().collect();
        let all_strings = |p: &(Atom, Atom)| p.0.as_str().is_some() && p.1.as_str().is_some();
        if !pairs.is_empty() && pairs.iter().all(all_strings) {
            let strings =
                pairs.into_iter().filter_map(|(k, v)| Some((k.as_str()?.clone(), v.as_str()?.clone())));
            return Self::from_str_pairs(strings.collect());
        }
        sort_pairs(&mut pairs);
        Datum::Map(pairs.into_boxed_slice())
    }

    /// The atoms of a set; none for a map.
    pub fn atoms(&self) -> &[Atom] {
        match self {
            Datum::One(a) => std::slice::from_ref(a),
            Datum::Many(atoms) => atoms,
            Datum::StrMap(_) | Datum::Map(_) => &[],
        }
    }

    /// The single atom of a set of one.
    pub fn one(&self) -> Option<&Atom> {
        if let Datum::One(a) = self { Some(a) } else { None }
    }

    /// The string of a set of one string.
    pub fn as_str(&self) -> Option<&Str> {
        self.one().and_then(Atom::as_str)
    }

    /// The pairs of a string map; none for everything else.
    pub fn pairs(&self) -> &[(Str, Str)] {
        if let Datum::StrMap(pairs) = self { pairs } else { &[] }
    }

    /// The value of a key of a string map.
    pub fn get(&self, key: &str) -> Option<&Str> {
        let pairs = self.pairs();
        pairs.binary_search_by(|p| p.0.as_str().cmp(key)).ok().map(|i| &pairs[i].1)
    }

    /// Whether a set has this atom.
    pub fn contains(&self, atom: &Atom) -> bool {
        self.atoms().binary_search(atom).is_ok()
    }

    /// Whether this is a map.
    pub fn is_map(&self) -> bool {
        matches!(self, Datum::StrMap(_) | Datum::Map(_))
    }

    /// How many atoms or pairs there are.
    pub fn len(&self) -> usize {
        match self {
            Datum::One(_) => 1,
            Datum::Many(atoms) => atoms.len(),
            Datum::StrMap(pairs) => pairs.len(),
            Datum::Map(pairs) => pairs.len(),
        }
    }

    /// Whether there is no atom and no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The difference as `update2` writes it: what must be toggled in `self` to get `other`. For maps a key whose
    /// value differs is listed with its new value.
    pub fn difference(&self, other: &Datum) -> Datum {
        match (self, other) {
            (Datum::StrMap(a), Datum::StrMap(b)) => Datum::StrMap(toggle_pairs(a, b)),
            (Datum::Map(a), Datum::Map(b)) => Datum::Map(toggle_pairs(a, b)),
            _ => Datum::from_sorted(toggle_atoms(self.atoms(), other.atoms())),
        }
    }

    /// Applies a difference made by [`Datum::difference`] or by a server's `modify`.
    pub fn toggle(&mut self, difference: &Datum) {
        let old = std::mem::replace(self, Datum::empty());
        *self = match (old, difference) {
            (Datum::StrMap(a), Datum::StrMap(d)) => Datum::StrMap(toggle_owned_pairs(a, d)),
            (Datum::Map(a), Datum::Map(d)) => Datum::Map(toggle_owned_pairs(a, d)),
            (Datum::Many(a), d) => Datum::from_sorted(toggle_owned(a.into_vec(), d.atoms())),
            (old, d) => Datum::from_sorted(toggle_atoms(old.atoms(), d.atoms())),
        };
    }
}

impl From<Atom> for Datum {
    fn from(a: Atom) -> Self {
        Datum::One(a)
    }
}

impl From<&str> for Datum {
    fn from(s: &str) -> Self {
        Datum::One(s.into())
    }
}

pub(crate) fn sort_pairs<K: Ord, V>(pairs: &mut Vec<(K, V)>) {
    if pairs.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    // Stable and reversed, so that of equal keys the last one written comes first and survives the dedup.
    pairs.reverse();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs.dedup_by(|later, earlier| later.0 == earlier.0);
}

/// Up to here moving the tail for each element is cheaper than moving everything once.
const FEW: usize = 4;

/// Toggles atoms in a sorted set that may be large: a switch with 60,000 ports gains one, or a few hundred.
fn toggle_owned(mut set: Vec<Atom>, toggled: &[Atom]) -> Vec<Atom> {
    if toggled.len() <= FEW {
        for atom in toggled {
            match set.binary_search(atom) {
                Ok(at) => drop(set.remove(at)),
                Err(at) => {
                    // No more than is needed, so that nothing is copied to grow, nor to shrink again.
                    set.reserve_exact(1);
                    set.insert(at, atom.clone());
                }
            }
        }
        return set;
    }
    // Finding each place by bisection and moving what lies between as a block beats comparing everything.
    let mut out = Vec::with_capacity(set.len() + toggled.len());
    let mut rest = set.into_iter();
    for atom in toggled {
        match rest.as_slice().binary_search(atom) {
            Ok(at) => {
                out.extend(rest.by_ref().take(at));
                rest.next();
            }
            Err(at) => {
                out.extend(rest.by_ref().take(at));
                out.push(atom.clone());
            }
        }
    }
    out.extend(rest);
    out
}

/// The same for pairs of a map.
fn toggle_owned_pairs<K, V>(pairs: Box<[(K, V)]>, toggled: &[(K, V)]) -> Box<[(K, V)]>
where
    K: Ord + Clone,
    V: PartialEq + Clone,
{
    if toggled.len() > FEW {
        return toggle_pairs(&pairs, toggled);
    }
    let mut pairs = pairs.into_vec();
    for (key, value) in toggled {
        match pairs.binary_search_by(|(k, _)| k.cmp(key)) {
            Ok(at) if pairs[at].1 == *value => drop(pairs.remove(at)),
            Ok(at) => pairs[at].1 = value.clone(),
            Err(at) => {
                pairs.reserve_exact(1);
                pairs.insert(at, (key.clone(), value.clone()));
            }
        }
    }
    pairs.into_boxed_slice()
}

fn toggle_atoms(a: &[Atom], b: &[Atom]) -> Vec<Atom> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            Ordering::Less => {
                out.push(a[i].clone());
                i += 1;
            }
            Ordering::Greater => {
                out.push(b[j].clone());
                j += 1;
            }
            Ordering::Equal => {
                i += 1;
                j += 1;
            }
        }
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    out
}

/// Equal pairs vanish, a key on one side stays, of two values the right one wins: this is both the difference of two
/// maps and the application of a difference.
fn toggle_pairs<K, V>(a: &[(K, V)], b: &[(K, V)]) -> Box<[(K, V)]>
where
    K: Ord + Clone,
    V: PartialEq + Clone,
{
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].0.cmp(&b[j].0) {
            Ordering::Less => {
                out.push(a[i].clone());
                i += 1;
            }
            Ordering::Greater => {
                out.push(b[j].clone());
                j += 1;
            }
            Ordering::Equal => {
                if a[i].1 != b[j].1 {
                    out.push(b[j].clone());
                }
                i += 1;
                j += 1;
            }
        }
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    out.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strings(values: &[&str]) -> Datum {
        Datum::set(values.iter().map(|s| Atom::from(*s)))
    }

    #[test]
    fn a_datum_takes_three_words() {
        assert_eq!(std::mem::size_of::<Datum>(), 24);
    }

    #[test]
    fn equal_meaning_is_equal_value() {
        assert_eq!(strings(&["b", "a", "b"]), strings(&["a", "b"]));
        assert_eq!(strings(&["a"]), Datum::from("a"));
        assert_eq!(strings(&[]), Datum::empty());
        assert_eq!(
            Datum::map([("b".into(), "2".into()), ("a".into(), "1".into())]),
            Datum::str_map([("a", "1"), ("b", "2")])
        );
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        assert_eq!(
            Datum::str_map([("a", "1"), ("b", "2"), ("a", "3")]),
            Datum::str_map([("a", "3"), ("b", "2")])
        );
    }

    proptest! {
        #[test]
        fn toggling_the_difference_of_sets_gives_the_other_set(
            a in prop::collection::vec(0i64..40, 0..40),
            b in prop::collection::vec(0i64..40, 0..40),
        ) {
            let (mut a, b) = (Datum::set(a.into_iter().map(Atom::from)), Datum::set(b.into_iter().map(Atom::from)));
            let difference = a.difference(&b);
            a.toggle(&difference);
            prop_assert_eq!(a, b);
        }

        #[test]
        fn toggling_the_difference_of_maps_gives_the_other_map(
            a in prop::collection::btree_map("[a-e]{1,2}", "[a-c]", 0..12),
            b in prop::collection::btree_map("[a-e]{1,2}", "[a-c]", 0..12),
        ) {
            let (mut a, b) = (Datum::str_map(a), Datum::str_map(b));
            let difference = a.difference(&b);
            a.toggle(&difference);
            prop_assert_eq!(a, b);
        }
    }
}
