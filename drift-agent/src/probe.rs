//! The kernel half, as the agent uses it: load, attach, say what is watched, listen.

use std::fmt;

use serde::Serialize;

mod attach;
mod batch;
mod btf;
mod counters;
mod doorbell;
mod hook;
mod layout;
mod links;
mod load;
mod mirror;
mod offsets;
mod refused;
mod signatures;
mod support;
mod tables;
mod tracefs;
mod watch;

pub use attach::{Fate, Tried};
pub use btf::BtfError;
pub use counters::{Counters, Counts};
pub use doorbell::{Doorbell, MountTable};
pub use hook::{Hook, Place, hooks};
pub use layout::layout;
pub use load::{Attached, Probe, ProbeSettings, Said, own_start, own_tgid};
pub use mirror::Tampered;
pub use refused::Refused;
pub use signatures::Known;
pub use support::{Machine, Stated};
pub use tracefs::confine as confine_loader;
pub use watch::{Names, Process, Watch};

/// How the kernel half sees changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sensor {
    /// Programs on the kernel's own functions, found by its BTF: calls that change no file pay nothing.
    Btf,
    /// Programs on the tracepoints of system calls.
    Tracepoint,
}

impl Sensor {
    /// Its name in flags, records and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Sensor::Btf => "btf",
            Sensor::Tracepoint => "tracepoint",
        }
    }
}

impl fmt::Display for Sensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
