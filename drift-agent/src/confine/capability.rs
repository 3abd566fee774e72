//! Capabilities: which process holds which, what for, and what fails without. docs/security.md has this table; a test holds it to it.

use rustix::{
    io,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
        clear_ambient_capability_set, configure_capability_in_ambient_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

/// Who holds a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Whoever starts the agent, until it listens: nobody holds it afterwards.
    Start,
    /// The process that looks, compares, decides and reports.
    Detector,
    /// The process that writes, and the keeper that starts it.
    Restorer,
}

/// One capability.
#[derive(Clone, Copy, Debug)]
pub struct Capability {
    /// As `capabilities(7)` has it.
    pub name: &'static str,
    pub set: CapabilitySet,
    pub part: Part,
    /// What it is held for.
    pub purpose: &'static str,
    /// What fails without: a phrase after "without it".
    pub without: &'static str,
}

/// All that are used.
pub const CAPABILITIES: [Capability; 18] = [
    Capability {
        name: "CAP_BPF",
        set: CapabilitySet::BPF,
        part: Part::Detector,
        purpose: "load kernel programs, and use their tables",
        without: "no probes: changes are found by scanning, and nobody can say who made them",
    },
    Capability {
        name: "CAP_PERFMON",
        set: CapabilitySet::PERFMON,
        part: Part::Detector,
        purpose: "let kernel programs read kernel memory, and attach them",
        without: "no probes: changes are found by scanning, and nobody can say who made them",
    },
    Capability {
        name: "CAP_DAC_READ_SEARCH",
        set: CapabilitySet::DAC_READ_SEARCH,
        part: Part::Detector,
        purpose: "read declared files and policies, whoever may",
        without: "what is not readable for everybody is unreadable",
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        set: CapabilitySet::SYS_PTRACE,
        part: Part::Detector,
        purpose: "tell the executable of a process that made a change",
        without: "records name who made a change without the executable",
    },
    Capability {
        name: "CAP_CHECKPOINT_RESTORE",
        set: CapabilitySet::CHECKPOINT_RESTORE,
        part: Part::Detector,
        purpose: "tell who still has a file mapped that was replaced",
        without: "records of heals do not name who still has the old file mapped",
    },
    Capability {
        name: "CAP_DAC_OVERRIDE",
        set: CapabilitySet::DAC_OVERRIDE,
        part: Part::Restorer,
        purpose: "write into directories of others",
        without: "files in directories that root may not write to are not put back",
    },
    Capability {
        name: "CAP_CHOWN",
        set: CapabilitySet::CHOWN,
        part: Part::Restorer,
        purpose: "give files their declared owner",
        without: "owners are not put back",
    },
    Capability {
        name: "CAP_FOWNER",
        set: CapabilitySet::FOWNER,
        part: Part::Restorer,
        purpose: "set modes and attributes of files of others",
        without: "modes and attributes of files of others are not put back",
    },
    Capability {
        name: "CAP_FSETID",
        set: CapabilitySet::FSETID,
        part: Part::Restorer,
        purpose: "set the setgid bit of files of other groups",
        without: "setgid bits of files of other groups are not put back",
    },
    Capability {
        name: "CAP_SETFCAP",
        set: CapabilitySet::SETFCAP,
        part: Part::Restorer,
        purpose: "give files their declared capabilities",
        without: "capabilities of files are not put back",
    },
    Capability {
        name: "CAP_LINUX_IMMUTABLE",
        set: CapabilitySet::LINUX_IMMUTABLE,
        part: Part::Restorer,
        purpose: "set and lift the flags immutable and append-only",
        without: "flags, and files that have them, are not put back",
    },
    Capability {
        name: "CAP_SYS_ADMIN",
        set: CapabilitySet::SYS_ADMIN,
        part: Part::Restorer,
        purpose: "set trusted and security attributes (system calls beside that are denied)",
        without: "trusted and security attributes are not put back",
    },
    Capability {
        name: "CAP_KILL",
        set: CapabilitySet::KILL,
        part: Part::Restorer,
        purpose: "send signals to programs of other users after a heal",
        without: "programs of other users get no signal",
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        set: CapabilitySet::SYS_PTRACE,
        part: Part::Restorer,
        purpose: "find the processes of a program that gets a signal (tracing itself is denied)",
        without: "programs that have other privileges are not found, and get no signal",
    },
    Capability {
        name: "CAP_SETPCAP",
        set: CapabilitySet::SETPCAP,
        part: Part::Start,
        purpose: "give up what no process of the agent may ever have again",
        without: "the bounding set stays; nothing that is started can use it",
    },
    Capability {
        name: "CAP_SETUID",
        set: CapabilitySet::SETUID,
        part: Part::Start,
        purpose: "let the detector become a user who owns nothing",
        without: "the detector stays root, and Landlock keeps it from writing",
    },
    Capability {
        name: "CAP_SETGID",
        set: CapabilitySet::SETGID,
        part: Part::Start,
        purpose: "let the detector leave its groups",
        without: "the detector stays root, and Landlock keeps it from writing",
    },
    Capability {
        name: "CAP_SYS_RESOURCE",
        set: CapabilitySet::SYS_RESOURCE,
        part: Part::Start,
        purpose: "raise the limit of locked memory, on kernels before 5.11",
        without: "no probes on those, where the limit is low",
    },
];

/// What a part of the agent holds.
#[must_use]
pub fn of(part: Part) -> CapabilitySet {
    let all = CAPABILITIES.iter().filter(|each| each.part == part);
    all.fold(CapabilitySet::empty(), |sum, each| sum | each.set)
}

/// What this thread can do now.
pub(super) fn effective() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// Whether attributes in the `trusted` name space are seen: from everybody else the kernel hides them.
#[must_use]
pub fn sees_trusted() -> bool {
    effective().contains(CapabilitySet::SYS_ADMIN)
}

/// Takes all but `kept` from what this thread, and whatever it executes, can ever have. Without CAP_SETPCAP the bounding set stays.
pub(super) fn bound(kept: CapabilitySet) {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(one) {
            Ok(true) if !kept.contains(one) => {
                if remove_capability_from_bounding_set(one).is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(_) => return, // this kernel has no more
        }
    }
}

/// Takes all but `kept` from this thread. `inherited`: what it executes has the same.
pub(super) fn keep(kept: CapabilitySet, inherited: bool) -> io::Result<()> {
    let permitted = capabilities(None)?.permitted & kept;
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: permitted,
            permitted,
            inheritable: if inherited {
                permitted
            } else {
                CapabilitySet::empty()
            },
        },
    )?;
    if inherited {
        for one in permitted.iter() {
            configure_capability_in_ambient_set(one, true)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_this_table() {
        let document = include_str!("../../../docs/security.md");
        let rows: Vec<&str> = document
            .lines()
            .filter(|line| line.starts_with("| `CAP_"))
            .collect();
        let expected = CAPABILITIES.iter().map(|each| {
            let who = match each.part {
                Part::Start => "until it listens",
                Part::Detector => "detector",
                Part::Restorer => "keeper, restorer",
            };
            let Capability {
                name,
                purpose,
                without,
                ..
            } = each;
            format!("| `{name}` | {who} | {purpose} | {without} |")
        });
        assert_eq!(rows, expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_two_parts_share_nothing_that_writes() {
        assert_eq!(
            of(Part::Detector) & of(Part::Restorer),
            CapabilitySet::SYS_PTRACE
        );
        let all = CAPABILITIES.iter().map(|each| each.set);
        let sum = all.fold(CapabilitySet::empty(), |sum, each| sum | each);
        assert_eq!(
            sum.iter().count() + 1,
            CAPABILITIES.len(),
            "each once for each"
        );
    }
}
