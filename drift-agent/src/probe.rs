//! The kernel half, as the agent uses it: load, attach, say what is watched, listen.

mod attach;
mod btf;
mod counters;
mod doorbell;
mod hook;
mod load;
mod offsets;
mod refused;
mod support;
mod tracefs;
mod watch;

pub use attach::{Fate, Tried};
pub use counters::Counters;
pub use doorbell::Doorbell;
pub use hook::{HOOKS, Hook, Place};
pub use load::{Attached, Probe, ProbeSettings, own_tgid};
pub use refused::Refused;
pub use support::{Machine, Stated};
pub use watch::{Names, Watch};
