//! Plays a recording of a node again: the same messages, in the same order, make the same slices dirty, and plan the same.

use std::collections::BTreeMap;

use causeway_ovn::{Plan, Planned, Planner};
use causeway_ovsdb::encode_datum;
use causeway_record::Error;
use causeway_record::recording::{Header, messages};
use causeway_zone::{Input, Knowledge, ZoneConfig};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Dirty, northbound, southbound};

/// What recordings of a node's role say that they are of.
pub const ROLE: &str = "node";

/// What one slice was to be after a message.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// The line of the message in the recording.
    pub line: usize,
    /// Which database.
    pub database: &'static str,
    /// The path of one row or, with a `:` at its end, the beginning of many, such as `zone:common:`.
    pub slice: String,
    /// Rows and members; none means that what is there goes.
    pub rows: Vec<Row>,
    /// Why what is there stays as it is, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// A planned row or member.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name in the schema, such as `Logical_Switch`.
    pub table: &'static str,
    /// What it is known by.
    pub path: String,
    /// Its columns, as the database writes them.
    pub columns: BTreeMap<&'static str, Box<RawValue>>,
}

/// Plays a recording of a node's role. Nothing is written anywhere: the answers are all there is.
///
/// # Errors
/// If the header or a line cannot be read.
pub fn replay<'a>(
    header: &Header,
    lines: impl IntoIterator<Item = &'a str>,
) -> Result<impl Iterator<Item = Result<Answer, Error>>, Error> {
    let mut known = Knowledge::new(header.config::<ZoneConfig>(ROLE)?);
    Ok(messages::<Input>(lines).flat_map(move |message| match message {
        Ok((line, input)) => step(&mut known, line, input).into_iter().map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    }))
}

fn step(known: &mut Knowledge, line: usize, input: Input) -> Vec<Answer> {
    let effect = known.step(input);
    if !known.is_ready() {
        return Vec::new();
    }
    let zone = &known.zone;
    let dirty = if effect.became_ready { Dirty::everything() } else { Dirty::after(zone, &effect.changes) };
    let (nb, sb) = (northbound(zone), southbound(zone));
    let mut answers = answers(line, "northbound", &nb, &dirty.northbound);
    answers.extend(self::answers(line, "southbound", &sb, &dirty.southbound));
    answers
}

fn answers(line: usize, database: &'static str, planner: &dyn Planner, dirty: &[String]) -> Vec<Answer> {
    let slices = dirty.iter().flat_map(|prefix| planner.slices(prefix));
    let answer = |slice: causeway_ovn::Str| {
        let (rows, held) = match planner.plan(&slice) {
            Plan::Rows(rows) => (rows.iter().map(row).collect(), None),
            Plan::Absent | Plan::Keep => (Vec::new(), None),
            Plan::Hold(reason) => (Vec::new(), Some(reason)),
        };
        Answer { line, database, slice: slice.to_string(), rows, held }
    };
    slices.map(answer).collect()
}

fn row(planned: &Planned) -> Row {
    let column = |(at, datum): &(u8, causeway_ovsdb::Datum)| {
        let mut text = Vec::new();
        encode_datum(&mut text, datum);
        let value = RawValue::from_string(String::from_utf8(text).ok()?).ok()?;
        Some((*planned.meta.columns.get(usize::from(*at))?, value))
    };
    let columns = planned.columns.iter().filter_map(column).collect();
    Row { table: planned.meta.name, path: planned.path.to_string(), columns }
}
