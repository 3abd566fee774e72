//! Who did it: from the doorbell's numbers to a process that people know.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use drift_common::abi::{Event, TICK_NS};

use crate::report::Actor;

/// Cgroup directories remembered by number.
const MOST_CGROUPS: usize = 4096;

/// The tree is searched no more often than this.
const WALK_PAUSE: Duration = Duration::from_secs(10);

/// Turns doorbells into actors. What only a living process can tell (its executable, its cgroup) is asked at once and left out where it is too late.
#[derive(Debug, Default)]
pub struct Identify {
    /// Inode number of a cgroup v2 directory -> its path from the hierarchy's root.
    cgroups: HashMap<u64, String>,
    /// When the tree was last searched.
    walked: Option<Instant>,
}

impl Identify {
    /// Knows the cgroups there are now.
    #[must_use]
    pub fn new() -> Identify {
        let mut identify = Identify {
            walked: Some(Instant::now()),
            ..Identify::default()
        };
        if let Some(root) = cgroup_root() {
            collect_cgroups(&root, &root, &mut identify.cgroups);
        }
        identify
    }

    /// The process behind a doorbell.
    pub fn actor(&mut self, event: &Event) -> Actor {
        let end = event
            .comm
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(event.comm.len());
        let alive = is_same_process(event.tgid, event.start_ns);
        Actor {
            pid: event.tgid,
            start_ns: event.start_ns,
            comm: OsStr::from_bytes(&event.comm[..end]).to_owned(),
            exe: alive.then(|| executable(event.tgid)).flatten(),
            uid: event.uid,
            gid: event.gid,
            cgroup: self.cgroup(event, alive),
        }
    }

    /// A living process tells its cgroup itself. Of one that has ended the number is left: it is looked for in the tree, which takes some milliseconds and so is
    /// done rarely.
    fn cgroup(&mut self, event: &Event, alive: bool) -> Option<String> {
        let number = event.cgroup;
        if number == 0 {
            return None;
        }
        if self.cgroups.len() >= MOST_CGROUPS {
            self.cgroups.clear();
        }
        if let Some(path) = self.cgroups.get(&number) {
            return Some(path.clone());
        }
        if let Some(path) = alive.then(|| own_cgroup(event.tgid)).flatten() {
            self.cgroups.insert(number, path.clone());
            return Some(path);
        }
        if self
            .walked
            .is_none_or(|walked| walked.elapsed() > WALK_PAUSE)
        {
            self.walked = Some(Instant::now());
            let root = cgroup_root()?;
            collect_cgroups(&root, &root, &mut self.cgroups);
        }
        self.cgroups.get(&number).cloned()
    }
}

/// The process's place in the cgroup v2 hierarchy.
fn own_cgroup(pid: u32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/cgroup")).ok()?;
    String::from_utf8_lossy(&text)
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map(str::to_owned)
}

/// Whether the process with this number is the one that started then: numbers are used again. /proc counts in ticks, so this may err within 10 ms.
pub fn is_same_process(pid: u32, start_ns: u64) -> bool {
    let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else {
        return false;
    };
    start_ticks(&stat).is_some_and(|ticks| ticks.abs_diff(start_ns / TICK_NS) <= 1)
}

/// When a process started, in ticks since boot: field 22 of proc_pid_stat(5).
pub fn start_ticks(stat: &[u8]) -> Option<u64> {
    // The name stands in parentheses and may hold anything, parentheses too; the fields after the last one are plain.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = String::from_utf8_lossy(&stat[end + 1..]);
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// A process that is there now, of which somebody else has told the user.
#[must_use]
pub fn actor_of(pid: u32, uid: u32, gid: u32) -> Option<Actor> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(Actor {
        pid,
        start_ns: start_ticks(&stat)? * TICK_NS,
        comm: OsStr::from_bytes(comm.strip_suffix(b"\n").unwrap_or(&comm)).to_owned(),
        exe: executable(pid),
        uid,
        gid,
        cgroup: own_cgroup(pid),
    })
}

fn executable(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Where the cgroup v2 hierarchy is mounted: alone, or beside v1.
fn cgroup_root() -> Option<PathBuf> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .map(Path::new)
        .find(|root| root.join("cgroup.procs").is_file())
        .map(Path::to_owned)
}

fn collect_cgroups(root: &Path, dir: &Path, found: &mut HashMap<u64, String>) {
    use std::os::unix::fs::MetadataExt;
    if found.len() >= MOST_CGROUPS {
        return;
    }
    let Ok(meta) = fs::symlink_metadata(dir) else {
        return;
    };
    let name = dir.strip_prefix(root).unwrap_or(dir).to_string_lossy();
    found.insert(meta.ino(), format!("/{name}"));
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_cgroups(root, &entry.path(), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_itself_and_not_one_that_started_before() {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let ticks: u64 = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .nth(19)
            .unwrap()
            .parse()
            .unwrap();
        let start_ns = ticks * TICK_NS + 1;
        assert!(is_same_process(std::process::id(), start_ns));
        assert!(!is_same_process(
            std::process::id(),
            start_ns.saturating_sub(5_000_000_000)
        ));
        assert!(!is_same_process(u32::MAX, start_ns));
    }
}
