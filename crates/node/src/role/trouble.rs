//! What of a database is not as planned, and who is to be told: the same for reports and for what counts as rendered.

use causeway_ovn::Str;
use causeway_ovn::apply::Engine;
use causeway_plan::room::House;
use causeway_zone::{Subject, Zone};

/// A slice that is not as planned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Trouble {
    /// The slice.
    pub(super) slice: Str,
    /// Who is not as it was asked for; the first is the one to tell.
    pub(super) blame: Vec<Subject>,
    /// In one word.
    pub(super) reason: &'static str,
    /// In a sentence, with the slice.
    pub(super) message: String,
}

/// A slice is held because its input is incomplete. Whoever wrote that input is told by the index itself.
pub(super) const HELD: &str = "Held";

impl Trouble {
    /// All troubles of a database.
    pub(super) fn of(house: &House<'_, Zone>, engine: &Engine) -> Vec<Trouble> {
        let trouble = |slice: &Str, reason, text: &str| Trouble {
            slice: slice.clone(),
            blame: house.blame(slice),
            reason,
            message: format!("{slice} {text}"),
        };
        let failed = engine.failures().iter().map(|(slice, f)| trouble(slice, "DatabaseRefused", &f.error));
        let waiting = engine.waiting().iter().map(|(slice, text)| trouble(slice, "Waiting", text));
        let held = engine.held().iter().map(|(slice, text)| trouble(slice, HELD, text));
        failed.chain(waiting).chain(held).collect()
    }
}
