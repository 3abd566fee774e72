//! What differs between Declared and Observed. Pure: no I/O, no clock, not async.

mod drift;
mod file;
pub mod structured;
pub mod text;

pub use drift::Drift;
pub use file::file;
