//! Whether the programs are still attached, as the kernel has it.
//!
//! A link goes away when its descriptor is closed, by whoever can make this process do so. The kernel's list of links says which programs are attached how
//! many times; what it said after attaching is what it must go on saying.

use std::{
    collections::HashMap,
    fs::{self, File},
    os::fd::{IntoRawFd, RawFd},
    path::Path,
};

use aya::{Ebpf, programs::loaded_links};
use rustix::io::fcntl_dupfd_cloexec;

/// The programs, and how often each was attached.
#[derive(Debug)]
pub(super) struct Standing {
    programs: HashMap<u32, (String, usize)>,
    /// The descriptors of this process that hold their links.
    descriptors: Vec<RawFd>,
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
        let programs: HashMap<_, _> = programs.collect();
        Standing {
            descriptors: descriptors(&programs),
            programs,
        }
    }

    /// Puts something harmless where descriptors of links were closed, so that the links can be let go: whoever owns a descriptor closes it, and must not close
    /// another one that has its number by now. `false`: that cannot be helped, for the number is in use.
    pub(super) fn fill_gaps(&self) -> bool {
        // Above all of them: a file that is opened gets the lowest free number, which may be one of the gaps.
        let above = self.descriptors.iter().max().map_or(0, |last| last + 1);
        let Ok(null) =
            File::open("/dev/null").and_then(|null| Ok(fcntl_dupfd_cloexec(&null, above)?))
        else {
            return false;
        };
        self.descriptors.iter().all(|descriptor| {
            match fs::read_link(format!("/proc/self/fd/{descriptor}")) {
                Ok(target) => is_link(&target),
                // The lowest number that is free from there on.
                Err(_) => fcntl_dupfd_cloexec(&null, *descriptor).is_ok_and(|filled| {
                    let filled = filled.into_raw_fd();
                    filled == *descriptor
                }),
            }
        })
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

/// Which descriptors hold links of these programs.
fn descriptors(programs: &HashMap<u32, (String, usize)>) -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let of_these = |entry: fs::DirEntry| -> Option<RawFd> {
        if !is_link(&fs::read_link(entry.path()).ok()?) {
            return None;
        }
        let descriptor: RawFd = entry.file_name().to_str()?.parse().ok()?;
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
        let id = info
            .lines()
            .find_map(|line| line.strip_prefix("prog_id:"))?;
        let id: u32 = id.trim().parse().ok()?;
        programs.contains_key(&id).then_some(descriptor)
    };
    entries.flatten().filter_map(of_these).collect()
}

fn is_link(target: &Path) -> bool {
    target.to_string_lossy().contains("bpf_link")
}

/// How many links each program has, of all there are on this machine. One that goes while they are listed is none.
fn links() -> HashMap<u32, usize> {
    let mut counts = HashMap::new();
    for link in loaded_links().flatten() {
        *counts.entry(link.program_id()).or_default() += 1;
    }
    counts
}
