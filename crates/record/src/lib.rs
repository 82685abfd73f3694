//! What passes between Kubernetes and the two brains: trimmed objects in, writes and events out.
//!
//! Everything here is a value that serialises, so that a recording of what came in can be played again. Reading an object
//! is done here once, for both roles: what somebody wrote badly becomes a value that says so, never an error of the
//! stream. Nothing here talks to anybody; that is `causeway-runtime`.

mod kinds;
mod note;
mod object;
mod services;
mod watch;
mod write;

pub use note::{EventNote, Regarding};
pub use object::*;
pub use watch::{Broken, Cause, Event, Watched};
pub use write::{Action, Ended, Kind, Outcome, Part, Priority, Request, Target};
