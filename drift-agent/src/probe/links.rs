//! Whether the programs are still attached.
//!
//! A link goes away when its descriptor is closed, by whoever can make this process do so. What the kernel says of this process's descriptors tells which
//! programs are attached how many times; what it said after attaching is what it must go on saying. (Its list of all links is for CAP_SYS_ADMIN alone.)

use std::{
    collections::HashMap,
    fs::{self, File},
    os::fd::{IntoRawFd, RawFd},
    path::Path,
};

use aya::Ebpf;
use rustix::io::fcntl_dupfd_cloexec;

/// The programs, and how often each was attached.
#[derive(Debug)]
pub(super) struct Standing {
    programs: HashMap<u32, (String, usize)>,
    /// The descriptors of this process that hold their links.
    descriptors: Vec<RawFd>,
}

impl Standing {
    /// As it is now. Kernels before 5.15 have no links of perf tracepoints: there they count as not attached, and are not missed.
    pub(super) fn now(ebpf: &Ebpf) -> Standing {
        let links = links();
        let programs = ebpf.programs().filter_map(|(name, program)| {
            // A program that was not loaded has no number.
            let id = program.info().ok()?.id();
            Some((id, (name.to_owned(), count(&links, id))))
        });
        let programs: HashMap<_, _> = programs.collect();
        let of_these = links
            .into_iter()
            .filter(|(_, program)| programs.contains_key(program));
        Standing {
            descriptors: of_these.map(|(descriptor, _)| descriptor).collect(),
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
        let less = |(id, (_, before)): &(&u32, &(String, usize))| count(&links, **id) < *before;
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

/// The descriptors of this process that hold links, and the program of each. One that goes while they are listed is none.
fn links() -> Vec<(RawFd, u32)> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let link = |entry: fs::DirEntry| -> Option<(RawFd, u32)> {
        if !is_link(&fs::read_link(entry.path()).ok()?) {
            return None;
        }
        let descriptor: RawFd = entry.file_name().to_str()?.parse().ok()?;
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
        let id = info
            .lines()
            .find_map(|line| line.strip_prefix("prog_id:"))?;
        Some((descriptor, id.trim().parse().ok()?))
    };
    entries.flatten().filter_map(link).collect()
}

fn count(links: &[(RawFd, u32)], program: u32) -> usize {
    links.iter().filter(|(_, of)| *of == program).count()
}

fn is_link(target: &Path) -> bool {
    target.to_string_lossy().contains("bpf_link")
}
