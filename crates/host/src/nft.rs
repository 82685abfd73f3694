//! Tables of nftables as an output, by the program `nft`.
//!
//! A table is ours by the beginning of its name; its comment says for whom it is. Texts are compared as `nft` lists them:
//! what is wanted is loaded into an empty namespace of its own first, so that the comparison sees what would be there,
//! and a text that `nft` refuses never reaches the node. A table is replaced as a whole, in one transaction.

use crate::error::{Error, Result};
use crate::namespace::on_own_thread;
use crate::output::{Actual, Op, Output, Seen, Wanted, Whose};
use crate::program::run;
use causeway_types::host::{Item, Key, NftElement, NftFamily, NftTable, Owner, Planned};
use nix::sched::{CloneFlags, unshare};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The kernel keeps comments of 128 bytes.
const LONGEST_LABEL: usize = 120;
const TAG: &str = "tag:";

/// The tables of the namespace that the calling thread is in.
#[derive(Debug)]
pub struct Nft {
    program: PathBuf,
    prefix: &'static str,
    /// The text that was wanted last of each table, and what `nft` makes of it, which follows from the text alone.
    normal: BTreeMap<Key, (String, String)>,
    /// The elements of this plan that have keys of their own.
    elements: Vec<NftElement>,
}

impl Nft {
    /// The beginning of the names of the node role's tables.
    pub const NODE: &'static str = "causeway-";

    /// The tables whose names begin so.
    pub fn new(program: impl Into<PathBuf>, prefix: &'static str) -> Nft {
        Nft { program: program.into(), prefix, normal: BTreeMap::new(), elements: Vec::new() }
    }

    fn ours(&self) -> Result<Vec<(NftFamily, String)>> {
        let listed = run(&self.program, &["list", "tables"], "")?;
        let table = |line: &str| {
            let (family, name) = line.strip_prefix("table ")?.split_once(' ')?;
            Some((NftFamily::of(family)?, name.to_owned()))
        };
        let ours = |(_, name): &(NftFamily, String)| name.starts_with(self.prefix);
        Ok(listed.lines().filter_map(table).filter(ours).collect())
    }
}

impl Output for Nft {
    fn name(&self) -> &'static str {
        "nftables"
    }

    fn takes(&self, key: &Key) -> bool {
        matches!(key, Key::Table { .. } | Key::Element { .. })
    }

    fn prepare(&mut self, items: &[&Item]) {
        let element = |item: &&Item| match item {
            Item::Element(element) => Some(element.clone()),
            _ => None,
        };
        self.elements = items.iter().filter_map(element).collect();
    }

    fn normal(&mut self, item: &Item) -> Result<Item> {
        let Item::Table(table) = item else { return Err(Error::Unsupported) };
        if !table.name.starts_with(self.prefix) {
            return Err(Error::Unmarked(self.prefix));
        }
        let table = &table.filled(&self.elements);
        let text = whole(table, "");
        let body = match self.normal.get(&item.key()) {
            Some((known, body)) if *known == text => body.clone(),
            _ => {
                let body = tried(&self.program, table, &text)?;
                self.normal.insert(item.key(), (text, body.clone()));
                body
            }
        };
        Ok(Item::Table(NftTable { body, ..table.clone() }))
    }

    fn read(&mut self, _wanted: &Wanted) -> Result<Actual> {
        let mut actual = Actual::new();
        for (family, name) in self.ours()? {
            let Listing { label, body } = list(&self.program, family, &name)?;
            let whose = match label.as_deref() {
                None => Whose::Ours,
                Some(label) => match label.strip_prefix(TAG).map(|tag| u32::from_str_radix(tag, 16)) {
                    Some(Ok(tag)) => Whose::Tag(tag),
                    _ => Whose::Owner(Owner::new(label)),
                },
            };
            let item = Item::Table(NftTable { family, name, body });
            actual.insert(item.key(), Seen { item, whose });
        }
        Ok(actual)
    }

    fn apply(&mut self, op: &Op) -> Result<()> {
        let text = match op {
            Op::Create(Planned { item: Item::Table(table), owner })
            | Op::Change { to: Planned { item: Item::Table(table), owner }, .. } => {
                whole(table, &label(owner))
            }
            Op::Delete(Item::Table(table)) => {
                format!("delete table {} {}\n", table.family.word(), table.name)
            }
            _ => return Err(Error::Unsupported),
        };
        run(&self.program, &["-f", "-"], &text).map(drop)
    }
}

fn label(owner: &Owner) -> String {
    let plain = owner.as_str().len() <= LONGEST_LABEL && !owner.as_str().contains('"');
    if plain { owner.to_string() } else { format!("{TAG}{:08x}", owner.tag()) }
}

/// The text that replaces a table: a table that is added can be deleted, whether it was there or not.
fn whole(table: &NftTable, label: &str) -> String {
    let NftTable { family, name, body } = table;
    let family = family.word();
    let comment = if label.is_empty() { String::new() } else { format!("comment \"{label}\"\n") };
    format!(
        "add table {family} {name}\ndelete table {family} {name}\ntable {family} {name} {{\n{comment}{body}\n}}\n"
    )
}

/// What `nft` makes of a text, where nothing else is.
fn tried(program: &Path, table: &NftTable, text: &str) -> Result<String> {
    on_own_thread(|| {
        let refused = |error: nix::Error| Error::Refused {
            doing: "making a namespace to try a table in".into(),
            source: error.into(),
        };
        unshare(CloneFlags::CLONE_NEWNET).map_err(refused)?;
        run(program, &["-f", "-"], text)?;
        list(program, table.family, &table.name).map(|listing| listing.body)
    })
}

#[derive(Debug, Eq, PartialEq)]
struct Listing {
    label: Option<String>,
    body: String,
}

/// Without what packets change: counters and the like.
fn list(program: &Path, family: NftFamily, name: &str) -> Result<Listing> {
    let words = ["--stateless", "--numeric", "list", "table", family.word(), name];
    Ok(parse(&run(program, &words, "")?))
}

fn parse(text: &str) -> Listing {
    let mut lines: Vec<&str> = text.lines().skip(1).collect();
    while lines.last().is_some_and(|line| matches!(line.trim(), "" | "}")) {
        if lines.pop().is_some_and(|line| line == "}") {
            break;
        }
    }
    let comment = |line: &&str| Some(line.strip_prefix("\tcomment \"")?.strip_suffix('"')?.to_owned());
    let label = lines.first().and_then(comment);
    let body = lines.into_iter().skip(usize::from(label.is_some())).collect::<Vec<_>>().join("\n");
    Listing { label, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_a_label_and_a_body() {
        let text = "table inet causeway-red {\n\tcomment \"network:red\"\n\tchain c {\n\t\taccept\n\t}\n}\n";
        let body = "\tchain c {\n\t\taccept\n\t}".to_owned();
        assert_eq!(parse(text), Listing { label: Some("network:red".into()), body });
        assert_eq!(parse("table ip causeway-x {\n}\n"), Listing { label: None, body: String::new() });
    }

    #[test]
    fn a_label_fits_into_a_comment() {
        assert_eq!(label(&Owner::new("network:red")), "network:red");
        let long = Owner::new("x".repeat(200));
        assert_eq!(label(&long), format!("tag:{:08x}", long.tag()));
    }
}
