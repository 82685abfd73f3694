//! Sections of FRR's configuration as an output, by the program `vtysh`.
//!
//! FRR keeps no comments, so the mark is an object of its own in the same configuration: a route map that nobody uses, named after the section,
//! whose description says for whom the section is and how it begins. A section is written in the words in which `show running-config`
//! prints it. Its lines are compared one by one: what is there already is not said again, so that no session ends by a change beside it.
//! `vtysh` ends well where FRR has refused something, so what it prints counts, and the driver reads everything back.

mod leaving;
mod text;

use crate::diff::diff;
use crate::error::{Error, Result};
use crate::output::{Actual, Op, Output, Seen, Wanted, Whose};
use crate::program::run_and_hear;
use causeway_types::hashed_name;
use causeway_types::host::{FrrSection, HostPlan, Item, Key, Owner, Planned};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use text::{Line, Section};
use tracing::debug;

/// Without one of these, only half of the configuration is seen.
const DAEMONS: [&str; 2] = ["zebra", "bgpd"];
/// Where daemons have their sockets unless they were told otherwise.
const SOCKETS: &str = "/run/frr";
/// What `vtysh` says while all goes well.
const CHATTER: [&str; 4] = ["sending configuration", "] done", "Waiting for children", "No changes found"];
const TAG: &str = "tag:";
/// So often FRR is asked to let go for one plan, if it fails. What comes after is told all the same.
const TRIES: u8 = 3;

/// The sections of the FRR that runs on this machine.
#[derive(Debug)]
pub struct Frr {
    program: PathBuf,
    /// Where its daemons have their sockets, and `vtysh` its own configuration, if not at the usual place.
    folder: Option<PathBuf>,
    mark: &'static str,
    /// The planned lines in the order in which they were planned.
    planned: BTreeMap<String, Vec<Line>>,
    /// Our sections, as they were read last.
    ours: BTreeSet<String>,
    leaving: Leaving,
}

/// What FRR was asked to let go for last.
#[derive(Debug, Default)]
struct Leaving {
    part: Option<HostPlan>,
    /// How often it may be asked again; never once it has let go.
    tries: u8,
}

impl Frr {
    /// The beginning of the node role's marks.
    pub const NODE: &'static str = "causeway-";
    /// The beginning of the EVPN agent's marks.
    pub const EVPN: &'static str = "causeway-evpn-";

    /// The sections whose marks begin so.
    pub fn new(program: impl Into<PathBuf>, mark: &'static str) -> Frr {
        let (planned, ours) = (BTreeMap::new(), BTreeSet::new());
        Frr { program: program.into(), folder: None, mark, planned, ours, leaving: Leaving::default() }
    }

    /// The same for daemons with their sockets in this folder, where `vtysh.conf` is, too.
    pub fn at(mut self, folder: &Path) -> Frr {
        self.folder = Some(folder.to_owned());
        self
    }

    /// What FRR says to a question.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn ask(&self, question: &str) -> Result<String> {
        self.vtysh(&["-c", question])
    }

    /// What is planned for FRR, and what of it must stay.
    fn part(plan: &HostPlan) -> HostPlan {
        let mut part = plan.hold_all().map_or_else(HostPlan::default, HostPlan::held);
        for planned in plan.items().values().filter(|planned| matches!(planned.item, Item::Section(_))) {
            part.add(&planned.owner, planned.item.clone());
        }
        plan.holds().iter().for_each(|(owner, reason)| part.hold(owner.clone(), reason));
        part
    }

    /// Has FRR let go of VRFs whose devices are about to go. What it does not let go of now it is told again when they are gone.
    ///
    /// # Errors
    /// If it cannot be asked, or refuses.
    pub fn let_go(&mut self, plan: &HostPlan) -> Result<()> {
        let sections = plan.items().values().filter(|planned| self.takes(&planned.item.key()));
        let sections: Vec<Planned> = sections.cloned().collect();
        let mut wanted = Wanted::new();
        for Planned { owner, item } in sections {
            // What nothing can be made of stays as it is.
            let item = self.normal(&item).unwrap_or(item);
            wanted.insert(item.key(), Planned { owner, item });
        }
        let actual = self.read(&wanted)?;
        for words in leaving::steps(&diff(plan, &wanted, &actual).ops, &self.ours) {
            debug!(words, "telling FRR which VRFs go");
            self.say(&words)?;
        }
        Ok(())
    }

    /// The same once for each plan, and a few times where it fails: devices go nevertheless, and [`bring`](crate::bring) says afterwards
    /// what FRR still has.
    pub fn let_go_once(&mut self, plan: &HostPlan) {
        let part = Self::part(plan);
        if self.leaving.part.as_ref() != Some(&part) {
            self.leaving = Leaving { part: Some(part), tries: TRIES };
        }
        if self.leaving.tries == 0 {
            return;
        }
        match self.let_go(plan) {
            Ok(()) => self.leaving.tries = 0,
            Err(error) => {
                self.leaving.tries -= 1;
                debug!(%error, "FRR does not let go of VRFs before their devices go");
            }
        }
    }

    /// Sockets of the daemons that forget what they were told when they end. Who is connected with one hears of its end.
    pub fn sockets(&self) -> BTreeSet<PathBuf> {
        let folder = self.folder.as_deref().unwrap_or(Path::new(SOCKETS));
        DAEMONS.iter().map(|daemon| folder.join(format!("{daemon}.vty"))).collect()
    }

    /// Whether there is anybody to ask.
    pub(crate) fn is_there(&self) -> bool {
        self.folder.as_deref().unwrap_or(Path::new(SOCKETS)).exists()
    }

    fn vtysh(&self, words: &[&str]) -> Result<String> {
        let folder = self.folder.as_ref().map(|folder| folder.display().to_string());
        let place = folder.iter().flat_map(|folder| ["--vty_socket", folder, "--config_dir", folder]);
        let said = run_and_hear(&self.program, &place.chain(words.iter().copied()).collect::<Vec<_>>());
        said.map_err(|error| match error {
            Error::Program { said, .. } => self.refused(without_chatter(&said)),
            other => other,
        })
    }

    /// The whole configuration.
    fn running(&self) -> Result<Vec<Section>> {
        let said = self.vtysh(&["-c", "show daemons", "-c", "show running-config"])?;
        let daemons: BTreeSet<&str> = said.lines().next().unwrap_or_default().split_whitespace().collect();
        match DAEMONS.iter().find(|daemon| !daemons.contains(*daemon)) {
            Some(daemon) => Err(self.refused(format!("{daemon} does not answer; look whether it runs"))),
            None => Ok(text::sections(&said)),
        }
    }

    fn refused(&self, said: String) -> Error {
        Error::Program { program: self.program.display().to_string(), said }
    }

    /// Has FRR read a text. `vtysh` gives it to every daemon, each of which opens it, so it must be a file.
    fn say(&self, text: &str) -> Result<()> {
        let failed = |source| Error::Refused { doing: "writing a file for vtysh".into(), source };
        let mut file = NamedTempFile::with_prefix("causeway-frr-").map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        let said = self.vtysh(&["-f", &file.path().display().to_string()])?;
        let complaint = |line: &&str| line.contains("% ") || line.contains("Configuration failed");
        match said.lines().find(complaint) {
            Some(_) => Err(self.refused(without_chatter(&said))),
            None => Ok(()),
        }
    }

    fn mark_of(&self, first: &str) -> String {
        format!("route-map {}{} permit 1", self.mark, hashed_name(first))
    }

    /// Whose section a mark is of, and how that begins.
    fn read_mark(&self, section: &Section) -> Option<(String, Whose)> {
        let said = section.lines.iter().find_map(|line| line.text.strip_prefix("description "))?;
        let (owner, first) = said.split_once(' ')?;
        let whose = match owner.strip_prefix(TAG).map(|tag| u32::from_str_radix(tag, 16)) {
            Some(Ok(tag)) => Whose::Tag(tag),
            _ => Whose::Owner(Owner::new(owner)),
        };
        (section.first == self.mark_of(first)).then(|| (first.to_owned(), whose))
    }

    fn words_of(&self, op: &Op) -> Result<String> {
        match op {
            Op::Create(Planned { item: Item::Section(section), owner }) => {
                let rivals = self.ours.iter().filter(|there| {
                    **there != section.first && text::seat(there) == text::seat(&section.first)
                });
                let gone: String = rivals.map(|there| self.removal(there, &[])).collect();
                Ok(gone + &self.marked(section, owner) + &text::set(&section.first, &self.lines_of(section)))
            }
            Op::Change { from: Item::Section(from), to: Planned { item: Item::Section(to), owner } } => {
                let (is, shall) = (text::lines(&from.lines), self.lines_of(to));
                let only = |some: &[Line], others: &[Line]| -> Vec<Line> {
                    some.iter().filter(|line| !others.contains(line)).cloned().collect()
                };
                let (gone, new) = (only(&is, &shall), only(&shall, &is));
                let new = if new.is_empty() { String::new() } else { text::set(&to.first, &new) };
                Ok(self.marked(to, owner) + &text::unset(&to.first, &gone) + &new)
            }
            Op::Delete(Item::Section(section)) => {
                Ok(self.removal(&section.first, &text::lines(&section.lines)))
            }
            _ => Err(Error::Unsupported),
        }
    }

    /// The mark comes first: a section without one would be somebody else's for ever.
    fn marked(&self, section: &FrrSection, owner: &Owner) -> String {
        let owner = match owner.as_str().contains(char::is_whitespace) {
            true => format!("{TAG}{:08x}", owner.tag()),
            false => owner.to_string(),
        };
        format!("{}\n description {owner} {}\nexit\n", self.mark_of(&section.first), section.first)
    }

    /// A VRF or an interface whose device is there cannot go, so its lines do.
    fn removal(&self, first: &str, lines: &[Line]) -> String {
        let stays = is_a_device(first);
        let emptied = if stays { text::unset(first, lines) } else { String::new() };
        let there = self.ours.contains(first);
        let gone = if there { format!("{}\n", text::undo(first)) } else { String::new() };
        let unmarked = format!("no {}\n", self.mark_of(first));
        if stays { emptied + &unmarked + &gone } else { gone + &unmarked }
    }

    /// The lines of a planned section in the order in which they were planned.
    fn lines_of(&self, section: &FrrSection) -> Vec<Line> {
        self.planned.get(&section.first).cloned().unwrap_or_else(|| text::lines(&section.lines))
    }

    fn is_gone(&self, first: &str) -> bool {
        let gone = |section: &Section| {
            section.first != self.mark_of(first)
                && (section.first != first || (is_a_device(first) && section.lines.is_empty()))
        };
        self.running().is_ok_and(|sections| sections.iter().all(gone))
    }
}

/// FRR has a section for each device that it knows, also if nobody has said anything of it.
fn is_a_device(first: &str) -> bool {
    first.starts_with("vrf ") || first.starts_with("interface ")
}

fn seat_of(key: &Key) -> String {
    match key {
        Key::Section(first) => text::seat(first),
        _ => String::new(),
    }
}

fn without_chatter(said: &str) -> String {
    let matters = |line: &&str| !line.is_empty() && !CHATTER.iter().any(|words| line.contains(words));
    said.lines().filter(matters).collect::<Vec<_>>().join("; ")
}

impl Output for Frr {
    fn name(&self) -> &'static str {
        "FRR"
    }

    fn takes(&self, key: &Key) -> bool {
        matches!(key, Key::Section(_))
    }

    fn prepare(&mut self, items: &[&Item]) {
        let lines = |item: &&Item| match item {
            Item::Section(section) => Some((text::words(&section.first), text::lines(&section.lines))),
            _ => None,
        };
        self.planned = items.iter().filter_map(lines).collect();
    }

    fn normal(&mut self, item: &Item) -> Result<Item> {
        let Item::Section(FrrSection { first, lines }) = item else { return Err(Error::Unsupported) };
        if first.lines().count() != 1 || first.starts_with(&format!("route-map {}", self.mark)) {
            return Err(Error::Unsupported);
        }
        let lines = text::sorted(&text::lines(lines));
        Ok(Item::Section(FrrSection { first: text::words(first), lines }))
    }

    fn read(&mut self, wanted: &Wanted) -> Result<Actual> {
        let (mut marks, mut sections) = (BTreeMap::new(), BTreeMap::new());
        for section in self.running()? {
            match self.read_mark(&section) {
                Some((first, whose)) => drop(marks.insert(first, whose)),
                None => drop(sections.insert(section.first, section.lines)),
            }
        }
        self.ours = sections.keys().filter(|first| marks.contains_key(*first)).cloned().collect();
        let mut actual = Actual::new();
        for (first, lines) in sections {
            let unmarked = match is_a_device(&first) && lines.is_empty() {
                true => Whose::Unmarked,
                false => Whose::Foreign,
            };
            let whose = marks.remove(&first).unwrap_or(unmarked);
            let item = Item::Section(FrrSection { first, lines: text::sorted(&lines) });
            let concerns =
                wanted.contains_key(&item.key()) || !matches!(whose, Whose::Unmarked | Whose::Foreign);
            if concerns {
                actual.insert(item.key(), Seen { item, whose });
            }
        }
        // A mark whose section is gone goes when nobody wants that section any more.
        for (first, whose) in marks {
            let item = Item::Section(FrrSection { first, lines: String::new() });
            if !wanted.contains_key(&item.key()) {
                actual.insert(item.key(), Seen { item, whose });
            }
        }
        Ok(actual)
    }

    fn apply_together(&mut self, ops: &[Op]) -> Option<Result<()>> {
        let created = |op: &Op| matches!(op, Op::Create(_)).then(|| seat_of(&op.key()));
        let seats: BTreeSet<String> = ops.iter().filter_map(created).collect();
        // Whoever had the seat of a new one goes before it comes.
        let open = |op: &&Op| !matches!(op, Op::Delete(_)) || !seats.contains(&seat_of(&op.key()));
        let words: Result<String> = ops.iter().filter(open).map(|op| self.words_of(op)).collect();
        Some(words.and_then(|words| self.say(&words)))
    }

    /// What went in an earlier try cannot go again, and an empty section of a device stays with it.
    fn apply(&mut self, op: &Op) -> Result<()> {
        let there: BTreeSet<String> = self.running()?.into_iter().map(|section| section.first).collect();
        self.ours.retain(|first| there.contains(first));
        match (self.say(&self.words_of(op)?), op) {
            (Err(_), Op::Delete(Item::Section(section))) if self.is_gone(&section.first) => Ok(()),
            (said, _) => said,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_said_without_chatter() {
        let said = "[18549|zebra] sending configuration\nline 2: % Unknown command[20]:  frobnicate\n\
                    [18548|mgmtd] done\nWaiting for children to finish applying config...\n";
        assert_eq!(without_chatter(said), "line 2: % Unknown command[20]:  frobnicate");
    }

    #[test]
    fn a_mark_says_whose_and_what() {
        let frr = Frr::new("vtysh", Frr::NODE);
        let section = FrrSection { first: "router bgp 1 vrf blue".into(), lines: String::new() };
        for (owner, whose) in [
            (Owner::new("network:blue"), Whose::Owner(Owner::new("network:blue"))),
            (Owner::new("two words"), Whose::Tag(Owner::new("two words").tag())),
        ] {
            let running = format!("Current configuration:\n{}", frr.marked(&section, &owner));
            let read = frr.read_mark(&text::sections(&running)[0]);
            assert_eq!(read, Some((section.first.clone(), whose)));
        }
        let other = format!(
            "Current configuration:\n{}",
            Frr::new("vtysh", "other-").marked(&section, &Owner::new("x"))
        );
        assert_eq!(frr.read_mark(&text::sections(&other)[0]), None);
    }
}
