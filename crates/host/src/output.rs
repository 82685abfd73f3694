//! The one shape of everything that is written on a node: items by key, read back, compared, applied.
//!
//! An [`Output`] reads what is there and applies one change; [`diff`](crate::diff()) compares, [`bring`](crate::bring())
//! does all three in turn. Outputs know nothing of each other and decide nothing.

use crate::error::{Error, Result};
use causeway_types::host::{HostPlan, Item, Key, Owner, Planned};
use std::collections::BTreeMap;
use std::fmt;

/// What shall be there, by key.
pub type Wanted = BTreeMap<Key, Planned>;

/// What is there, by key: everything of ours, and of the rest what stands under a wanted key.
pub type Actual = BTreeMap<Key, Seen>;

/// One thing that is there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// What it is, as far as anybody asks.
    pub item: Item,
    /// As its mark says; decides whether it may be changed or removed.
    pub whose: Whose,
}

/// Whose a thing is, as its mark says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Whose {
    /// Ours, for this owner.
    Owner(Owner),
    /// Ours, for the owner with this number.
    Tag(u32),
    /// Ours; for whom is not written on it.
    Ours,
    /// It carries no mark, or cannot: whoever plans it may change it and mark it; unmarked it never goes.
    Unmarked,
    /// Somebody else's: it is not touched.
    Foreign,
}

impl Whose {
    /// Whether the thing goes when nobody plans it.
    pub(crate) fn may_go(&self, plan: &HostPlan) -> bool {
        let nobody_held = plan.hold_all().is_none();
        match self {
            Whose::Owner(owner) => plan.hold_of(owner).is_none(),
            Whose::Tag(tag) => nobody_held && !plan.holds().keys().any(|owner| owner.tag() == *tag),
            Whose::Ours => nobody_held && plan.holds().is_empty(),
            Whose::Unmarked | Whose::Foreign => false,
        }
    }

    /// Whether a mark with this owner's name is missing.
    pub(crate) fn is_not_for(&self, owner: &Owner) -> bool {
        match self {
            Whose::Owner(is) => is != owner,
            Whose::Tag(tag) => *tag != owner.tag(),
            Whose::Unmarked => true,
            Whose::Ours | Whose::Foreign => false,
        }
    }
}

/// One change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Op {
    /// Nothing is there under the key.
    Create(Planned),
    /// Something else is there under the key.
    Change {
        /// What is there.
        from: Item,
        /// What shall be.
        to: Planned,
    },
    /// Ours, and nobody plans it.
    Delete(Item),
}

impl Op {
    /// The key of what changes.
    pub fn key(&self) -> Key {
        match self {
            Op::Create(planned) | Op::Change { to: planned, .. } => planned.item.key(),
            Op::Delete(item) => item.key(),
        }
    }

    /// For whom, where somebody asks for it.
    pub fn owner(&self) -> Option<&Owner> {
        match self {
            Op::Create(planned) | Op::Change { to: planned, .. } => Some(&planned.owner),
            Op::Delete(_) => None,
        }
    }

    pub(crate) fn needs(&self) -> Vec<Key> {
        match self {
            Op::Create(planned) | Op::Change { to: planned, .. } => planned.item.needs(),
            Op::Delete(_) => Vec::new(),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create(planned) => write!(f, "+ {}", planned.item),
            Op::Change { to, .. } => write!(f, "~ {}", to.item),
            Op::Delete(item) => write!(f, "- {item}"),
        }
    }
}

/// A place that has items of some kinds. All calls block.
pub trait Output {
    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// Whether items with this key belong here.
    fn takes(&self, key: &Key) -> bool;

    /// All items of a plan that belong here, before anything else is asked: what is cheaper for many at once is done now.
    fn prepare(&mut self, _items: &[&Item]) {}

    /// The item as reading it back would show it.
    ///
    /// # Errors
    /// If nothing could ever be made of the item. Only this item is held then.
    fn normal(&mut self, item: &Item) -> Result<Item> {
        Ok(item.clone())
    }

    /// What is there: all that is ours, and what else stands under a wanted key.
    ///
    /// # Errors
    /// If it cannot be known completely. Then nothing is written.
    fn read(&mut self, wanted: &Wanted) -> Result<Actual>;

    /// Makes all changes at once or none, where the output can do that; `None` where it cannot.
    fn apply_together(&mut self, _ops: &[Op]) -> Option<Result<()>> {
        None
    }

    /// Makes one change.
    ///
    /// # Errors
    /// If it is refused. Only this item, and what stands on it, is held then.
    fn apply(&mut self, op: &Op) -> Result<()>;
}

/// What could not be done, and whom that concerns.
#[derive(Debug)]
pub struct Problem {
    /// The item; `None` if the whole output cannot be read.
    pub key: Option<Key>,
    /// Who asked for it, where somebody did.
    pub owner: Option<Owner>,
    /// Why.
    pub error: Error,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.as_ref().map_or(Ok(()), |key| write!(f, "{key}: "))?;
        self.error.fmt(f)
    }
}

/// What came of a plan.
#[derive(Debug, Default)]
pub struct Applied {
    /// How many changes were made; none if everything was as planned.
    pub writes: usize,
    /// What could not be done. Everything else was.
    pub problems: Vec<Problem>,
}
