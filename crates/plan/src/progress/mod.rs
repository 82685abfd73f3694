//! How far a zone is: what of its plan databases, switch and host have carried out, who keeps them waiting, and what the cluster
//! manager is told of it.
//!
//! Pure, as plans are: what was seen goes in as values, time as a number. Who looks and who writes is the role's matter.

mod carried_out;
mod freed;
mod rendered;
mod report;
mod silence;
mod trouble;

pub use carried_out::CarriedOut;
pub use freed::{Gone, InUse};
pub use rendered::{Keys, Ports, Rendered, RoadProgress};
pub use report::{Progress, object, report};
pub use silence::{Component, Moment, Questions, Signs, Silence};
pub use trouble::{Trouble, Waits};
