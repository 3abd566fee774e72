//! What differs between Declared and Observed. Pure: no I/O, no clock, not async.

mod drift;
mod file;

pub use drift::Drift;
pub use file::file;
