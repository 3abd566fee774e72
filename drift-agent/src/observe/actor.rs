//! Who did it: from the doorbell's numbers to a process that people know.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use drift_common::abi::{Event, TICK_NS};

use super::{
    clock,
    container::{self, InContainer},
};
use crate::report::{Actor, Container};

/// Cgroup directories remembered by number.
const MOST_CGROUPS: usize = 4096;

/// After a search of the tree it is not searched again for so many times as long as that took.
const REST: u32 = 20;

/// Turns doorbells into actors. What only a living process can tell (its executable, its cgroup) is asked at once and left out where it is too late.
#[derive(Debug, Default)]
pub struct Identify {
    tree: Option<Tree>,
    /// Containers may be in hierarchies of the first version alone, of which a doorbell has no number.
    has_v1: bool,
    /// Inode number of a cgroup v2 directory -> its path from the hierarchy's root.
    cgroups: HashMap<u64, String>,
    /// When the tree may be searched again.
    next_walk: Option<Instant>,
}

/// Where the cgroup v2 hierarchy is mounted: alone, or beside v1.
#[derive(Debug)]
struct Tree(PathBuf);

impl Identify {
    /// Knows the cgroups there are now, as the host has them.
    #[must_use]
    pub fn new(host_root: &Path) -> Identify {
        let own = fs::read_to_string("/proc/self/cgroup");
        let mut identify = Identify {
            tree: Tree::of(host_root),
            // Where that cannot be read, nothing is taken for granted.
            has_v1: own.map_or(true, |own| own.lines().any(|line| !line.starts_with("0::"))),
            ..Identify::default()
        };
        identify.walk();
        identify
    }

    /// Somebody has rung: where he is may be gone with him when it is asked for.
    pub fn meet(&mut self, event: &Event) {
        if event.cgroup != 0 && !self.cgroups.contains_key(&event.cgroup) {
            let own = own_cgroups(event.tgid, event.start_ns);
            self.path(event.cgroup, own.as_deref());
        }
    }

    /// The process behind a doorbell.
    pub fn actor(&mut self, event: &Event) -> Actor {
        let end = event
            .comm
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(event.comm.len());
        let exe = executable(event.tgid);
        // Asked for last: what was read before it is this process's.
        let own = own_cgroups(event.tgid, event.start_ns);
        let path = self.path(event.cgroup, own.as_deref());
        Actor {
            pid: event.tgid,
            start_ns: event.start_ns,
            comm: OsStr::from_bytes(&event.comm[..end]).to_owned(),
            exe: own.as_ref().and(exe),
            uid: event.uid,
            gid: event.gid,
            container: whose(path.as_deref(), own.as_deref(), self.has_v1),
            cgroup: path,
        }
    }

    /// The cgroup that has this number. A living process tells its cgroup itself. Of one that has ended the number is left: it is looked for in the tree, which takes
    /// some milliseconds and so is not done all the time.
    fn path(&mut self, number: u64, own: Option<&str>) -> Option<String> {
        if number == 0 {
            return None;
        }
        if self.cgroups.len() >= MOST_CGROUPS {
            self.cgroups.clear();
        }
        if let Some(path) = self.cgroups.get(&number) {
            return Some(path.clone());
        }
        if let Some(path) = own.and_then(v2_path) {
            // It may have been moved since it rang.
            let is_it = match &self.tree {
                Some(tree) => tree.number(path) == Some(number),
                None => true,
            };
            if is_it {
                self.cgroups.insert(number, path.to_owned());
                return Some(path.to_owned());
            }
        }
        if self.next_walk.is_none_or(|next| next <= Instant::now()) {
            self.walk();
        }
        self.cgroups.get(&number).cloned()
    }

    fn walk(&mut self) {
        let start = Instant::now();
        if let Some(Tree(root)) = &self.tree {
            collect_cgroups(root, root, &mut self.cgroups);
        }
        self.next_walk = Some(Instant::now() + start.elapsed() * REST);
    }
}

impl Tree {
    /// That of the host, which a pod may have to itself in part only; else that of this process.
    fn of(host_root: &Path) -> Option<Tree> {
        let places = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
        let roots = [host_root, Path::new("/")];
        let mut all = roots
            .iter()
            .flat_map(|root| places.map(|place| root.join(place)));
        all.find(|root| root.join("cgroup.procs").is_file())
            .map(Tree)
    }

    fn number(&self, path: &str) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        let path = self.0.join(path.strip_prefix('/')?);
        fs::symlink_metadata(path).ok().map(|found| found.ino())
    }
}

/// The container of a process: as its number says, and as it says itself while it is there. `None`: in none.
fn whose(path: Option<&str>, own: Option<&str>, has_v1: bool) -> Option<Result<Container, String>> {
    let by_number = path.and_then(container::of_path);
    let by_itself = own.map(container::of_process);
    let found = match (by_number, by_itself) {
        (Some(one), Some(Ok(Some(other)))) if one.id != other.id => {
            Err("its control groups do not agree: it may have been moved")
        }
        (Some(one), _) => Ok(one),
        (None, Some(Ok(None))) => return None,
        (None, Some(Ok(Some(one)))) => Ok(one),
        (None, Some(Err(container::Disagree))) => {
            Err("its control groups do not agree: it may have been moved")
        }
        // Gone, and its cgroup is no container's.
        (None, None) if path.is_some() && !has_v1 => return None,
        (None, None) => Err("it was gone before its control group could be read"),
    };
    Some(found.map(Container::from).map_err(str::to_owned))
}

impl From<InContainer> for Container {
    fn from(InContainer { id, pod_uid }: InContainer) -> Self {
        Self {
            id,
            pod_uid,
            pod: None,
            name: None,
            image: None,
        }
    }
}

/// What a living process says of its cgroups, if it is the one that has this number and started then.
fn own_cgroups(pid: u32, start_ns: u64) -> Option<String> {
    let text = read(pid, "cgroup").ok()?;
    // Numbers are used again: what was read is this process's where it is there still.
    is_same_process(pid, start_ns).then(|| String::from_utf8_lossy(&text).into_owned())
}

/// The place in the cgroup v2 hierarchy.
fn v2_path(cgroups: &str) -> Option<&str> {
    cgroups.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Whether the process with this number is the one that started then: numbers are used again. /proc counts in ticks, so this may err within 10 ms.
pub fn is_same_process(pid: u32, start_ns: u64) -> bool {
    let Ok(stat) = read(pid, "stat") else {
        return false;
    };
    start_ticks(&stat).is_some_and(|ticks| ticks.abs_diff(start_ns / TICK_NS) <= 1)
}

/// When a process started, in ticks since boot as the kernel half counts them: field 22 of proc_pid_stat(5).
pub fn start_ticks(stat: &[u8]) -> Option<u64> {
    // The name stands in parentheses and may hold anything, parentheses too; the fields after the last one are plain.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = String::from_utf8_lossy(&stat[end + 1..]);
    let ticks = rest.split_whitespace().nth(19)?.parse().ok()?;
    Some(clock::without_namespace(ticks))
}

/// A process that is there now, of which somebody else has told the user.
#[must_use]
pub fn actor_of(pid: u32, uid: u32, gid: u32) -> Option<Actor> {
    let stat = read(pid, "stat").ok()?;
    let comm = read(pid, "comm").ok()?;
    let start_ns = start_ticks(&stat)? * TICK_NS;
    let own = own_cgroups(pid, start_ns);
    Some(Actor {
        pid,
        start_ns,
        comm: OsStr::from_bytes(comm.strip_suffix(b"\n").unwrap_or(&comm)).to_owned(),
        exe: executable(pid),
        uid,
        gid,
        cgroup: own.as_deref().and_then(v2_path).map(str::to_owned),
        container: whose(None, own.as_deref(), true),
    })
}

/// What the kernel says of a process. It tells no size: a reader that does not know how much to expect asks seven times.
fn read(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    const EXPECTED: usize = 1024;
    let mut bytes = Vec::with_capacity(EXPECTED);
    File::open(format!("/proc/{pid}/{name}"))?
        .take(u64::MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn executable(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
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

    const ID: &str = "3f5c1f0bd6e29c4f2f8b6f1a0b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8";
    const OTHER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn a_container_is_known_where_the_number_and_the_process_agree_and_else_it_is_said_why_not() {
        let at = |id: &str| format!("/docker/{id}");
        let own = |id: &str| format!("0::/docker/{id}\n");
        let id = |found: Option<Result<Container, String>>| {
            found.map(|found| found.map(|it| it.id).ok())
        };
        let known = Some(Some(ID.to_owned()));
        assert_eq!(id(whose(Some(&at(ID)), Some(&own(ID)), false)), known);
        assert_eq!(id(whose(Some(&at(ID)), None, true)), known, "it is gone");
        assert_eq!(id(whose(None, Some(&own(ID)), true)), known, "no tree");
        // The second version's hierarchy is there, and not used.
        let first = format!("4:pids:/docker/{ID}\n0::/\n");
        assert_eq!(id(whose(Some("/"), Some(&first), true)), known);
        for (path, own, has_v1) in [
            (Some(at(ID)), Some(own(OTHER)), false),
            (None, None, false),
            (Some("/".to_owned()), None, true),
            (None, Some(own(ID) + &first.replace(ID, OTHER)), true),
        ] {
            let found = whose(path.as_deref(), own.as_deref(), has_v1);
            assert_eq!(id(found), Some(None), "{path:?} {own:?}");
        }
        for (path, own) in [(Some("/a.service"), None), (None, Some("0::/a.service\n"))] {
            assert_eq!(id(whose(path, own, false)), None, "{path:?} {own:?}");
        }
    }

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
