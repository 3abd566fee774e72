//! What this machine says of itself, as far as it explains why probes run or do not. Said beside the verdict, never instead of it: whether a program runs
//! is found by loading it.

use std::fs;

use serde::Serialize;

use super::{load::BTF, tracefs};
use crate::confine::CAPABILITIES;

/// What could be read, or why not: a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Stated {
    Known(String),
    Unknown { unknown: String },
}

impl std::fmt::Display for Stated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stated::Known(said) => f.write_str(said),
            Stated::Unknown { unknown } => write!(f, "not known: {unknown}"),
        }
    }
}

/// The machine, in its own words.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// As `uname -r` has it.
    pub kernel: String,
    pub architecture: String,
    /// Where the kernel's type information is, and how much.
    pub btf: Stated,
    /// Where tracepoints get their numbers from.
    pub tracefs: Stated,
    /// Security modules in force, in their order.
    pub security_modules: Stated,
    pub lockdown: Stated,
    /// Of those that drift uses, the capabilities this process does not have.
    pub missing_capabilities: Vec<&'static str>,
}

const SECURITY: &str = "/sys/kernel/security";

impl Machine {
    /// Reads it.
    #[must_use]
    pub fn look() -> Machine {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Machine {
            kernel: text(uname.release()),
            architecture: text(uname.machine()),
            btf: match fs::metadata(BTF) {
                Ok(meta) => Stated::Known(format!("{BTF}, {} KiB", meta.len() / 1024)),
                Err(error) => Stated::Unknown {
                    unknown: format!("{BTF}: {error}"),
                },
            },
            tracefs: tracefs::mounted().map_or_else(
                || {
                    Stated::Known(
                        "not mounted: the agent mounts it for itself while it attaches".to_owned(),
                    )
                },
                |place| Stated::Known(place.display().to_string()),
            ),
            security_modules: security("lsm", |text| Some(text.trim().to_owned())),
            lockdown: security("lockdown", chosen),
            missing_capabilities: fs::read_to_string("/proc/self/status")
                .ok()
                .and_then(|status| missing(&status))
                .unwrap_or_default(),
        }
    }
}

/// Whether this process has the capabilities that loading programs takes, as far as its status tells.
pub(super) fn may_load() -> bool {
    let missing = fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| missing(&status));
    missing.is_some_and(|missing| {
        !missing.contains(&"CAP_SYS_ADMIN")
            || !missing.contains(&"CAP_BPF") && !missing.contains(&"CAP_PERFMON")
    })
}

fn security(name: &str, read: impl Fn(&str) -> Option<String>) -> Stated {
    let path = format!("{SECURITY}/{name}");
    match fs::read_to_string(&path) {
        Ok(text) => read(&text).map_or_else(
            || Stated::Unknown {
                unknown: format!("{path} is of a form that is not known"),
            },
            Stated::Known,
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Stated::Unknown {
            unknown: format!(
                "{path} is not there (mount -t securityfs none {SECURITY} shows it, if this kernel has it)"
            ),
        },
        Err(error) => Stated::Unknown {
            unknown: format!("{path}: {error}"),
        },
    }
}

/// From `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    Some(chosen.to_owned())
}

/// From `/proc/self/status`.
fn missing(status: &str) -> Option<Vec<&'static str>> {
    let hex = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(hex.trim(), 16).ok()?;
    Some(
        CAPABILITIES
            .iter()
            .filter(|each| effective & each.set.bits() == 0)
            .map(|each| each.name)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lockdown_in_force_stands_in_brackets() {
        assert_eq!(
            chosen("none [integrity] confidentiality\n").as_deref(),
            Some("integrity")
        );
        assert_eq!(chosen("none\n"), None);
    }

    #[test]
    fn missing_capabilities_are_named() {
        let of = |hex: &str| missing(&format!("Name:\tx\nCapEff:\t{hex}\n"));
        assert_eq!(of("000001ffffffffff"), Some(vec![]));
        assert_eq!(
            of("000001fffeffffff"),
            Some(vec!["CAP_SYS_RESOURCE"]),
            "as on a machine whose root may not have it"
        );
        assert_eq!(of("0").map(|all| all.len()), Some(CAPABILITIES.len()));
        assert_eq!(missing("Name:\tx\n"), None);
    }
}
