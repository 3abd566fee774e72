//! Why the kernel half cannot run here: a sentence each, with what to do.

use std::{io, path::PathBuf};

use aya::programs::ProgramError;
use log::debug;
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
    #[error("no program can be attached to this kernel's functions: {0}")]
    NoFunctions(String),
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
            Refused::NoFunctions(_) => "no-functions",
            Refused::Load(_) => "load-failed",
            Refused::PidNamespace => "pid-namespace",
            Refused::TooMany(..) => "too-many-objects",
        }
    }
}

/// ENOTSUPP, which no C library knows.
const NOT_SUPPORTED: i32 = 524;

impl Refused {
    /// Of a program that all others on functions need.
    pub(super) fn on_functions(self, has_capabilities: bool) -> Refused {
        Refused::NoFunctions(match self {
            Refused::NotAllowed(error) if has_capabilities => format!(
                "{error}, although this process has the capabilities; a policy of this machine forbids it (a seccomp filter, a security module)"
            ),
            Refused::NotAllowed(error) => {
                format!("{error}: run as root, or with the capabilities CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN")
            }
            Refused::Program { reason, .. } if reason.contains(&format!("os error {NOT_SUPPORTED}")) => {
                "it has no way to call them there on this processor (arm64 has one since 6.4, on x86_64 it takes CONFIG_FUNCTION_TRACER)".to_owned()
            }
            other => other.to_string(),
        })
    }
}

/// EPERM and EACCES anywhere in the chain of causes: the process lacks a capability.
pub(super) fn not_allowed(error: &(dyn std::error::Error + 'static)) -> Option<io::Error> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::PermissionDenied
            && let Some(code) = io.raw_os_error()
        {
            return Some(io::Error::from_raw_os_error(code));
        }
        next = cause.source();
    }
    None
}

/// Why a program was not loaded or attached.
pub(super) fn denied(error: &ProgramError, program: &'static str) -> Refused {
    // The verifier says no with EACCES as well, and then it says why: that is not a missing capability.
    if let ProgramError::LoadError { verifier_log, .. } = error
        && !verifier_log.to_string().trim().is_empty()
    {
        debug!("verifier on {program}: {verifier_log}");
        return Refused::Program {
            program,
            reason: last_line(&verifier_log.to_string()),
        };
    }
    match not_allowed(error) {
        Some(io) => Refused::NotAllowed(io),
        None => Refused::Program {
            program,
            reason: sentence(error),
        },
    }
}

/// The verifier ends with a line of statistics; what it objects to stands before it.
fn last_line(log: &str) -> String {
    log.lines()
        .rev()
        .map(str::trim)
        .find(|line| {
            !line.is_empty()
                && !line.starts_with("processed ")
                && !line.starts_with("verification time")
                && !line.starts_with("stack depth")
        })
        .unwrap_or("no reason given")
        .to_owned()
}

/// An error with its causes, once each.
pub(super) fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
