//! The kernel half, as the agent uses it: load, attach, say what is watched, listen.

mod btf;
mod counters;
mod doorbell;
mod hook;
mod load;
mod offsets;
mod refused;
mod tracefs;
mod watch;

pub use counters::Counters;
pub use doorbell::Doorbell;
pub use hook::{HOOKS, Hook};
pub use load::{Attached, Probe, ProbeSettings};
pub use refused::Refused;
pub use watch::{Names, Watch};
