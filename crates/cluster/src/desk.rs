//! What every area works with.

use crate::dirty::Dirty;
use crate::writes::Writes;

/// The time, what must be looked at again, and what is to be written.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) now_ms: i64,
    pub(crate) dirty: Dirty,
    pub(crate) writes: Writes,
}
