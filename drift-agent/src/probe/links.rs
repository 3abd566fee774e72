//! Whether the programs are still attached, as the kernel has it.
//!
//! A link goes away when its descriptor is closed, by whoever can make this process do so. The kernel's list of links says which programs are attached how
//! many times; what it said after attaching is what it must go on saying.

use std::collections::HashMap;

use aya::{Ebpf, programs::loaded_links};

/// The programs, and how often each was attached.
#[derive(Debug)]
pub(super) struct Standing {
    programs: HashMap<u32, (String, usize)>,
}

impl Standing {
    /// As it is now. Kernels before 5.15 do not list perf tracepoints: there they count as not attached, and are not missed.
    pub(super) fn now(ebpf: &Ebpf) -> Standing {
        let links = links();
        let programs = ebpf.programs().filter_map(|(name, program)| {
            // A program that was not loaded has no number.
            let id = program.info().ok()?.id();
            Some((id, (name.to_owned(), links.get(&id).copied().unwrap_or(0))))
        });
        Standing {
            programs: programs.collect(),
        }
    }

    /// The programs that are attached less often than they were, sorted.
    pub(super) fn detached(&self) -> Vec<String> {
        let links = links();
        let less = |(id, (_, before)): &(&u32, &(String, usize))| {
            links.get(*id).copied().unwrap_or(0) < *before
        };
        let mut names: Vec<String> = self
            .programs
            .iter()
            .filter(less)
            .map(|(_, (name, _))| name.clone())
            .collect();
        names.sort_unstable();
        names
    }
}

/// How many links each program has, of all there are on this machine. One that goes while they are listed is none.
fn links() -> HashMap<u32, usize> {
    let mut counts = HashMap::new();
    for link in loaded_links().flatten() {
        *counts.entry(link.program_id()).or_default() += 1;
    }
    counts
}
