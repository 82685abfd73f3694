//! The flows of a bridge as an output, by the program `ovs-ofctl`.
//!
//! The upper half of a flow's cookie says that it is ours, the lower half for whom it is. Flows are compared as the
//! program prints them. All changes go in one bundle, so that no packet meets half of them.
//!
//! A bridge may have ten thousand flows. What was read or written is remembered, and as long as the switch has as many of
//! ours as it should, nothing is read again; now and then everything is.

use crate::error::{Error, Result};
use crate::output::{Actual, Op, Output, Seen, Wanted, Whose};
use crate::program::run;
use causeway_types::host::{Flow, Item, Key, Owner, Planned};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DEFAULT_PRIORITY: u16 = 32768;
/// Bundles came with OpenFlow 1.4.
const PROTOCOL: &str = "--protocols=OpenFlow15";
/// What somebody else changed without changing the number of flows is seen after so long.
const FRESH: Duration = Duration::from_secs(50);

/// The flows of one bridge.
#[derive(Debug)]
pub struct Flows {
    program: PathBuf,
    bridge: String,
    target: String,
    /// The upper half of our cookies.
    mark: u32,
    /// What the program makes of a flow, by its text. It follows from the text alone.
    normal: BTreeMap<String, Flow>,
    known: Option<Known>,
}

/// All flows of the bridge, others' too.
#[derive(Debug)]
struct Known {
    flows: Actual,
    read: Instant,
    /// Whether they were read since the plan came: then they are read again after what is written.
    this_time: bool,
}

impl Known {
    fn ours(&self) -> usize {
        self.flows.values().filter(|seen| matches!(seen.whose, Whose::Tag(_))).count()
    }

    /// What was written is there.
    fn note(&mut self, op: &Op) {
        match op {
            Op::Create(Planned { item, owner }) | Op::Change { to: Planned { item, owner }, .. } => {
                let whose = Whose::Tag(owner.tag());
                self.flows.insert(item.key(), Seen { item: item.clone(), whose });
            }
            Op::Delete(item) => drop(self.flows.remove(&item.key())),
        }
    }
}

/// A flow, and whose it is.
#[derive(Debug, Eq, PartialEq)]
struct Line {
    flow: Flow,
    cookie: u64,
}

impl Flows {
    /// The upper half of the cookies of the node role's flows.
    pub const NODE: u32 = 0xca5e_3a70;
    /// The upper half of the cookies of the EVPN agent's flows.
    pub const EVPN: u32 = 0xca5e_3a71;

    /// The flows of a bridge, whose switch has its sockets in this folder.
    pub fn new(program: impl Into<PathBuf>, folder: &Path, bridge: &str) -> Flows {
        let target = format!("unix:{}", folder.join(format!("{bridge}.mgmt")).display());
        let (program, bridge) = (program.into(), bridge.to_owned());
        Flows { program, bridge, target, mark: Self::NODE, normal: BTreeMap::new(), known: None }
    }

    /// The same for flows with another mark.
    #[must_use]
    pub fn marked(mut self, mark: u32) -> Flows {
        self.mark = mark;
        self
    }

    fn ask(&self, words: &[&str], input: &str) -> Result<String> {
        let all: Vec<&str> =
            [PROTOCOL, "--timeout=10", "--no-names"].into_iter().chain(words.iter().copied()).collect();
        run(&self.program, &all, input)
    }

    fn send(&mut self, ops: &[Op]) -> Result<()> {
        let lines: String = ops.iter().filter_map(|op| line(op, self.mark)).collect();
        let outcome = self.ask(&["--bundle", "add-flows", &self.target, "-"], &lines);
        match (&outcome, &mut self.known) {
            (Ok(_), Some(known)) => ops.iter().for_each(|op| known.note(op)),
            // A bundle whose answer is lost may have been taken.
            (Err(_), known) => *known = None,
            (Ok(_), None) => {}
        }
        outcome.map(drop)
    }

    fn unreadable(&self, said: &str) -> Error {
        Error::Program { program: self.program.display().to_string(), said: said.to_owned() }
    }

    /// How many flows of ours the bridge has.
    fn count(&self) -> Result<usize> {
        let said = self.ask(&["dump-aggregate", &self.target, ours(self.mark).trim_end_matches(',')], "")?;
        let number = said.split("flow_count=").nth(1).and_then(|rest| rest.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).ok_or_else(|| self.unreadable(&said))
    }

    /// Whether flows of ours came or went since they were last read or written, by somebody else's hand. Cheap, however
    /// many there are. What cannot be counted counts as changed; a bridge that has none of ours is nobody's business.
    pub fn has_changed(&self) -> bool {
        let ours = self.known.as_ref().map_or(0, Known::ours);
        ours > 0 && self.count().ok() != Some(ours)
    }

    fn is_fresh(&self) -> bool {
        let Some(known) = self.known.as_ref() else { return false };
        !known.this_time && known.read.elapsed() < FRESH && !self.has_changed()
    }

    fn dump(&self) -> Result<Actual> {
        let said = self.ask(&["--no-stats", "dump-flows", &self.target], "")?;
        let lines = said.lines().filter_map(|line| parse_dump(line, &self.bridge));
        let seen = |Line { flow, cookie }| {
            let ours = (cookie >> 32) as u32 == self.mark;
            let whose = if ours { Whose::Tag(cookie as u32) } else { Whose::Foreign };
            let item = Item::Flow(flow);
            (item.key(), Seen { item, whose })
        };
        Ok(lines.map(seen).collect())
    }

    /// What the program makes of many flows at once. Where it refuses, halves find the bad ones: they stay unknown here,
    /// and whoever asks for one hears why.
    fn learn(&mut self, flows: &[(String, &Flow)]) {
        let lines: String = flows.iter().map(|(text, _)| format!("{text}\n")).collect();
        let said = self.ask(&["parse-flows", "-"], &lines);
        let parsed: Vec<Flow> = said
            .iter()
            .flat_map(|said| said.lines())
            .filter_map(|line| parse_mod(line, &self.bridge))
            .collect();
        if parsed.len() == flows.len() {
            // The default of the program's table is any.
            let known = flows
                .iter()
                .zip(parsed)
                .map(|((text, flow), parsed)| (text.clone(), Flow { table: flow.table, ..parsed }));
            return self.normal.extend(known);
        }
        if flows.len() > 1 && !matches!(said, Err(Error::NoProgram { .. })) {
            let (first, second) = flows.split_at(flows.len() / 2);
            self.learn(first);
            self.learn(second);
        }
    }
}

impl Output for Flows {
    fn name(&self) -> &'static str {
        "flows"
    }

    fn takes(&self, key: &Key) -> bool {
        matches!(key, Key::Flow { bridge, .. } if *bridge == self.bridge)
    }

    fn prepare(&mut self, items: &[&Item]) {
        if let Some(known) = &mut self.known {
            known.this_time = false;
        }
        let flows = items.iter().filter_map(|item| match item {
            Item::Flow(flow) => Some((text(flow, ""), flow)),
            _ => None,
        });
        let all: Vec<(String, &Flow)> = flows.collect();
        let texts: BTreeSet<&String> = all.iter().map(|(text, _)| text).collect();
        self.normal.retain(|text, _| texts.contains(text));
        let new: Vec<(String, &Flow)> =
            all.iter().filter(|(text, _)| !self.normal.contains_key(text)).cloned().collect();
        if new.len() > 1 {
            self.learn(&new);
        }
    }

    fn normal(&mut self, item: &Item) -> Result<Item> {
        let Item::Flow(flow) = item else { return Err(Error::Unsupported) };
        let text = text(flow, "");
        if let Some(known) = self.normal.get(&text) {
            return Ok(Item::Flow(known.clone()));
        }
        let said = self.ask(&["parse-flow", &text], "")?;
        let parsed = said.lines().find_map(|line| parse_mod(line, &self.bridge));
        let parsed = Flow { table: flow.table, ..parsed.ok_or_else(|| self.unreadable(&said))? };
        self.normal.insert(text, parsed.clone());
        Ok(Item::Flow(parsed))
    }

    fn read(&mut self, wanted: &Wanted) -> Result<Actual> {
        if !self.is_fresh() {
            self.known = None;
            self.known = Some(Known { flows: self.dump()?, read: Instant::now(), this_time: true });
        }
        let all = self.known.iter().flat_map(|known| &known.flows);
        let asked = all.filter(|(key, seen)| seen.whose != Whose::Foreign || wanted.contains_key(key));
        Ok(asked.map(|(key, seen)| (key.clone(), seen.clone())).collect())
    }

    fn apply_together(&mut self, ops: &[Op]) -> Option<Result<()>> {
        Some(self.send(ops))
    }

    fn apply(&mut self, op: &Op) -> Result<()> {
        self.send(std::slice::from_ref(op))
    }
}

/// The cookies of our flows.
fn ours(mark: u32) -> String {
    format!("cookie={mark:#x}00000000/0xffffffff00000000,")
}

fn cookie(mark: u32, owner: &Owner) -> String {
    format!("cookie={:#x},", u64::from(mark) << 32 | u64::from(owner.tag()))
}

fn line(op: &Op, mark: u32) -> Option<String> {
    match op {
        Op::Create(Planned { item: Item::Flow(flow), owner })
        | Op::Change { to: Planned { item: Item::Flow(flow), owner }, .. } => {
            Some(format!("add {}\n", text(flow, &cookie(mark, owner))))
        }
        Op::Delete(Item::Flow(flow)) => Some(format!("delete_strict {}\n", place(flow, &ours(mark)))),
        _ => None,
    }
}

fn place(flow: &Flow, cookie: &str) -> String {
    let comma = if flow.matches.is_empty() { "" } else { "," };
    format!("{cookie}table={},priority={}{comma}{}", flow.table, flow.priority, flow.matches)
}

fn text(flow: &Flow, cookie: &str) -> String {
    format!("{} actions={}", place(flow, cookie), flow.actions)
}

/// A line such as `OFPT_FLOW_MOD (OF1.5) (xid=0x1): ADD table:3 priority=7,ip actions=drop`.
fn parse_mod(line: &str, bridge: &str) -> Option<Flow> {
    let (head, actions) = line.split_once(": ADD ")?.1.split_once("actions=")?;
    let place = head.split(' ').find(|word| !word.is_empty() && !is_note(word)).unwrap_or_default();
    Some(flow(bridge, 0, place, actions))
}

/// What the program says of a change beside priority and match: `table:3`, `cookie:0x1`.
fn is_note(word: &str) -> bool {
    ["table:", "cookie:", "idle:", "hard:", "importance:"].iter().any(|note| word.starts_with(note))
}

/// A line such as ` cookie=0x5, table=3, priority=7,ip actions=drop`.
fn parse_dump(line: &str, bridge: &str) -> Option<Line> {
    let (head, actions) = line.split_once("actions=")?;
    let (mut cookie, mut table, mut place) = (0, 0, "");
    for word in head.trim().split(", ").map(str::trim) {
        match word.split_once('=') {
            Some(("cookie", number)) => {
                cookie = u64::from_str_radix(number.trim_start_matches("0x"), 16).ok()?;
            }
            Some(("table", number)) => table = number.parse().ok()?,
            _ => place = word,
        }
    }
    Some(Line { flow: flow(bridge, table, place, actions), cookie })
}

fn flow(bridge: &str, table: u8, place: &str, actions: &str) -> Flow {
    let mut priority = DEFAULT_PRIORITY;
    let mut matches = Vec::new();
    for word in place.split(',').filter(|word| !word.is_empty()) {
        match word.strip_prefix("priority=").and_then(|number| number.parse().ok()) {
            Some(number) => priority = number,
            None => matches.push(word),
        }
    }
    let (bridge, matches, actions) = (bridge.to_owned(), matches.join(","), actions.trim().to_owned());
    Flow { bridge, table, priority, matches, actions }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(table: u8, priority: u16, matches: &str, actions: &str) -> Flow {
        let (bridge, matches, actions) = ("br".into(), matches.into(), actions.into());
        Flow { bridge, table, priority, matches, actions }
    }

    #[test]
    fn lines_of_the_program_are_read() {
        let dumps = [
            (" cookie=0x5, table=3, priority=7,ip,nw_dst=10.0.0.0/8 actions=output:2", 5, 3, 7),
            (
                " cookie=0xca5e3a7000000001, ip,nw_dst=10.0.0.0/8 actions=output:2",
                0xca5e_3a70_0000_0001,
                0,
                32768,
            ),
        ];
        for (line, cookie, table, priority) in dumps {
            let flow = wanted(table, priority, "ip,nw_dst=10.0.0.0/8", "output:2");
            assert_eq!(parse_dump(line, "br"), Some(Line { flow, cookie }));
        }
        assert_eq!(parse_dump("OFPST_FLOW reply (OF1.5) (xid=0x2):", "br"), None);
        let line =
            "OFPT_FLOW_MOD (OF1.5) (xid=0x1): ADD table:3 priority=7,ip cookie:0x5 actions=ct(commit),2";
        assert_eq!(parse_mod(line, "br"), Some(wanted(0, 7, "ip", "ct(commit),2")));
        let line = "OFPT_FLOW_MOD (OF1.5) (xid=0x1): ADD actions=drop";
        assert_eq!(parse_mod(line, "br"), Some(wanted(0, 32768, "", "drop")));
    }

    #[test]
    fn only_flows_of_ours_are_deleted() {
        let gone = Op::Delete(Item::Flow(wanted(3, 7, "ip", "drop")));
        let want = "delete_strict cookie=0xca5e3a7000000000/0xffffffff00000000,table=3,priority=7,ip\n";
        assert_eq!(line(&gone, Flows::NODE), Some(want.into()));
    }
}
