//! What leaves the node, and how.

mod record;

pub use record::{Actor, Cause, Event, FileType, Outcome, Record, State};
