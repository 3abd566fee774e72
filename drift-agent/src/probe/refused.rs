//! Why the kernel half cannot run here: a sentence each, with what to do.

use std::{io, path::PathBuf};

use thiserror::Error;

use super::btf::BtfError;

/// Why probes were refused. The agent then goes on by scanning (sensor `auto`) or ends (sensor `tracepoint`).
#[derive(Debug, Error)]
pub enum Refused {
    #[error(
        "this drift-agent was built without kernel programs: build it with `cargo xtask build`"
    )]
    NotBuiltIn,
    #[error(
        "not allowed to load kernel programs ({0}): run as root, or with the capabilities CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"
    )]
    NotAllowed(io::Error),
    #[error(
        "{path} cannot be read ({source}): the kernel must be built with CONFIG_DEBUG_INFO_BTF, and /sys must be mounted"
    )]
    NoBtf { path: PathBuf, source: io::Error },
    #[error("this kernel's structures are not understood: {0}")]
    Btf(#[from] BtfError),
    #[error(
        "the tracing file system cannot be reached ({0}): mount it (mount -t tracefs none /sys/kernel/tracing) or run as root"
    )]
    NoTracefs(io::Error),
    #[error("the kernel refused the program `{program}`: {reason}")]
    Program {
        program: &'static str,
        reason: String,
    },
    #[error("the kernel programs could not be loaded: {0}")]
    Load(String),
    #[error(
        "process numbers differ from the kernel's own: the agent must run in the initial pid namespace (hostPID in a pod)"
    )]
    PidNamespace,
    #[error(
        "{0} objects are declared; the kernel tables hold {1} at most: split the policies over fewer paths"
    )]
    TooMany(usize, usize),
}

impl Refused {
    /// A closed set, for records and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Refused::NotBuiltIn => "not-built-in",
            Refused::NotAllowed(_) => "not-allowed",
            Refused::NoBtf { .. } => "no-btf",
            Refused::Btf(_) => "unknown-kernel",
            Refused::NoTracefs(_) => "no-tracefs",
            Refused::Program { .. } => "program-refused",
            Refused::Load(_) => "load-failed",
            Refused::PidNamespace => "pid-namespace",
            Refused::TooMany(..) => "too-many-objects",
        }
    }
}
