//! What an agent could leave behind: kernel programs and mounts.
//!
//! Both are looked for by what *this* agent had, so that other agents on the machine do not disturb.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Numbers of the kernel programs that a process holds, by its descriptors of programs and links.
pub(super) fn programs_of(pid: u32) -> BTreeSet<u32> {
    programs_in(&PathBuf::from(format!("/proc/{pid}/fdinfo")))
}

fn programs_in(fdinfo: &Path) -> BTreeSet<u32> {
    let Ok(entries) = fs::read_dir(fdinfo) else {
        return BTreeSet::new(); // gone, or somebody else's
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .flat_map(|text| program_ids(&text).collect::<Vec<_>>())
        .collect()
}

/// From lines `prog_id: 123`.
fn program_ids(text: &str) -> impl Iterator<Item = u32> {
    text.lines()
        .filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
}

/// Those of `programs` that any process still holds. The numbers are never given out twice in so short a time.
pub(super) fn programs_still_there(programs: &BTreeSet<u32>) -> Vec<String> {
    if programs.is_empty() {
        return vec![];
    }
    let Ok(entries) = fs::read_dir("/proc") else {
        return vec!["/proc cannot be read, so nobody knows about kernel programs".to_owned()];
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| {
            let held = programs_of(pid);
            let left: Vec<String> = held.intersection(programs).map(u32::to_string).collect();
            (!left.is_empty()).then(|| format!("kernel programs {} (pid {pid})", left.join(" ")))
        })
        .chain(pinned())
        .collect()
}

/// Files of drift in the BPF file system keep programs without a process. The agent pins none.
fn pinned() -> impl Iterator<Item = String> {
    fs::read_dir("/sys/fs/bpf")
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("drift"))
        .map(|entry| format!("the pinned object {}", entry.path().display()))
}

/// The mounts of this mount namespace at one moment.
#[derive(Debug)]
pub(super) struct Mounts(BTreeSet<Mount>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mount {
    id: u32,
    point: String,
    kind: String,
}

/// What an agent might mount to reach the kernel.
const KERNEL_KINDS: [&str; 4] = ["tracefs", "debugfs", "securityfs", "bpf"];

impl Mounts {
    pub(super) fn now() -> Result<Mounts> {
        let text = fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
        Ok(Mounts(mounts(&text)))
    }

    /// Mounts that came since, in the scratch tree or of a kind that an agent might need.
    pub(super) fn added(&self, scratch: &Path) -> Result<Vec<String>> {
        let now = Mounts::now()?;
        Ok(now
            .0
            .difference(&self.0)
            .filter(|mount| {
                Path::new(&mount.point).starts_with(scratch) || KERNEL_KINDS.contains(&&*mount.kind)
            })
            .map(|mount| format!("the {} mount {}", mount.kind, mount.point))
            .collect())
    }
}

/// From lines `36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/root rw`.
fn mounts(text: &str) -> BTreeSet<Mount> {
    text.lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ');
            Some(Mount {
                id: fields.next()?.parse().ok()?,
                point: fields.nth(3)?.to_owned(),
                kind: after.split(' ').next()?.to_owned(),
            })
        })
        .collect()
}

/// Whether process ids here are those that the kernel programs see.
pub(super) fn is_initial_pid_namespace() -> bool {
    const PROC_PID_INIT_INO: &str = "pid:[4026531836]"; // linux/include/linux/proc_ns.h
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new(PROC_PID_INIT_INO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_information_on_descriptors() {
        let link = "pos:\t0\nflags:\t02000000\nlink_type:\tperf\nlink_id:\t4\nprog_tag:\ta1\nprog_id:\t123\n";
        assert_eq!(program_ids(link).collect::<Vec<_>>(), [123]);
        assert_eq!(program_ids("pos:\t0\nmap_id:\t7\n").count(), 0);
        assert!(programs_of(std::process::id()).is_empty());
        assert!(programs_still_there(&BTreeSet::new()).is_empty());
    }

    #[test]
    fn mounts_are_read_with_their_optional_fields() {
        let text = "36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/root rw\n\
                    40 36 0:7 / /sys/kernel/tracing rw - tracefs none rw\n";
        let found: Vec<_> = mounts(text)
            .into_iter()
            .map(|mount| format!("{} {} {}", mount.id, mount.point, mount.kind))
            .collect();
        assert_eq!(found, ["36 /mnt ext4", "40 /sys/kernel/tracing tracefs"]);
    }

    #[test]
    fn no_mount_comes_between_two_looks() {
        let before = Mounts::now().unwrap();
        let added = before.added(Path::new("/nowhere")).unwrap();
        assert_eq!(added, Vec::<String>::new());
    }
}
