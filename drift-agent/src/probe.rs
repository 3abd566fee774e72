//! The kernel half, as the agent uses it: load, attach, say what is watched, listen.

mod attach;
mod batch;
mod btf;
mod counters;
mod doorbell;
mod hook;
mod links;
mod load;
mod mirror;
mod offsets;
mod refused;
mod support;
mod tracefs;
mod watch;

pub use attach::{Fate, Tried};
pub use counters::{Counters, Counts};
pub use doorbell::Doorbell;
pub use hook::{HOOKS, Hook, Place};
pub use load::{Attached, Probe, ProbeSettings};
pub use mirror::Tampered;
pub use refused::Refused;
pub use support::{Machine, Stated};
pub use watch::{Names, Watch};
