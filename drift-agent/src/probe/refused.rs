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
        "this kernel is {release}, and kernel probes need {FLOOR} or newer ({why}): boot a newer one; until then changes are found by scanning"
    )]
    TooOld { release: String, why: Box<Refused> },
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
            Refused::TooOld { .. } => "old-kernel",
            Refused::TooMany(..) => "too-many-objects",
        }
    }

    /// What this comes to in a kernel of this release. Nothing is concluded from a version alone: it has been tried, and explains why it did not work.
    pub(super) fn in_kernel(self, release: &str) -> Refused {
        match self {
            why @ (Refused::NoBtf { .. }
            | Refused::Btf(_)
            | Refused::Program { .. }
            | Refused::Load(_))
                if is_too_old(release) =>
            {
                Refused::TooOld {
                    release: release.to_owned(),
                    why: Box::new(why),
                }
            }
            other => other,
        }
    }
}

/// The oldest kernel in which the programs run.
const FLOOR: &str = "5.10";

/// Whether this release is older than [`FLOOR`]. What cannot be read is not.
fn is_too_old(release: &str) -> bool {
    let numbers = |text: &str| -> Option<[u32; 2]> {
        let mut parts = text.split(|letter: char| !letter.is_ascii_digit());
        Some([parts.next()?.parse().ok()?, parts.next()?.parse().ok()?])
    };
    numbers(release)
        .zip(numbers(FLOOR))
        .is_some_and(|(release, floor)| release < floor)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// B100: an old kernel refuses the programs with pages of the verifier's log.
    #[test]
    fn in_an_old_kernel_the_floor_and_what_to_do_are_said_in_a_sentence() {
        let refused = |release: &str| {
            let reason = last_line(
                "0: (bf) r6 = r1\nunknown func bpf_ringbuf_output#130\nprocessed 7 insns (limit 1000000)\n",
            );
            Refused::Program {
                program: "open_exit",
                reason,
            }
            .in_kernel(release)
        };
        for release in ["4.18.0-553.el8_10.x86_64", "5.4.0", "5.9.16"] {
            let refused = refused(release);
            assert_eq!(refused.reason(), "old-kernel", "{release}");
            let expected = format!(
                "this kernel is {release}, and kernel probes need 5.10 or newer (the kernel refused the program `open_exit`: unknown func \
                 bpf_ringbuf_output#130): boot a newer one; until then changes are found by scanning"
            );
            assert_eq!(refused.to_string(), expected);
        }
        for release in ["5.10.0-33-amd64", "6.1.0", "10.0", "of somebody"] {
            assert_eq!(refused(release).reason(), "program-refused", "{release}");
        }
        // What has nothing to do with the kernel's age is said as it is.
        let old = Refused::PidNamespace.in_kernel("4.18.0");
        assert_eq!(old.reason(), "pid-namespace");
    }
}
