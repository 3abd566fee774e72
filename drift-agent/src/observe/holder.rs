//! Who still has a file that was replaced: it lives on without a name for as long as somebody has it open, mapped or mounted, and what is written to
//! it then is lost.
//!
//! Whether anybody has it, the kernel half tells at once, by what the kernel counts. Who that is is looked for in /proc after a heal, in a bounded time, and once
//! for all heals that wait for it.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fs,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::MetadataExt,
        },
    },
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use drift_common::abi::Key;
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, fstat, major, memfd_create, minor, openat};

use super::{Host, Stat, boot_ns};
use crate::{
    probe::Watch,
    report::{Holder, Holders},
};

/// What the end of a close may take.
const CLOSING: Duration = Duration::from_millis(1);
/// What one search may take.
const MOST_TIME: Duration = Duration::from_secs(1);
/// Searches that may be waited for at once; further ones are not made.
const MOST_WAITING: usize = 64;
/// Of each file, processes that are named.
const MOST_NAMED: usize = 10;

/// A file by what its users have: device and inode as `stat` shows them.
type Id = (u64, u64);

/// The file that is about to be replaced, held: its number is nobody else's while it is.
#[derive(Debug)]
pub struct OldFile {
    held: OwnedFd,
    id: Id,
    /// As the kernel half knows it.
    key: Option<Key>,
}

impl OldFile {
    /// `None`: no regular file stands there.
    #[must_use]
    pub fn at(host: &Host, path: &Path, watch: Option<&Watch>) -> Option<Self> {
        let parent = host.directory(path.parent()?, OFlags::PATH).ok()?;
        let name = path.file_name()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let since = boot_ns();
        let held = openat(&parent, name, flags, Mode::empty()).ok()?;
        let key = watch
            .and_then(|watch| watch.learned_of(held.as_fd(), since))
            .map(|learned| learned.key);
        let stat = fstat(&held).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| Self {
            id: (stat.st_dev, stat.st_ino),
            held,
            key,
        })
    }

    /// Whether it was replaced: something else was seen at its path since, or nothing.
    #[must_use]
    pub fn is_replaced(&self, now: Option<&Stat>) -> bool {
        let (device, inode) = self.id;
        now.is_none_or(|now| (now.dev, now.ino) != ((major(device), minor(device)), inode))
    }

    /// How often it is held, with this and the question itself. `None`: that cannot be told.
    fn held(&self, watch: &Watch) -> Option<u32> {
        let (key, held) = held(self.held.as_fd(), watch)?;
        // An answer about another inode is none.
        (Some(key) == self.key).then_some(held)
    }
}

/// How often the kernel counts a file as held, by whatever: open, mapped, mounted. Asked by opening it once more, which counts too.
fn held(file: BorrowedFd<'_>, watch: &Watch) -> Option<(Key, u32)> {
    let learned = watch.asked_of(file)?;
    (learned.holders != 0).then_some((learned.key, learned.holders))
}

/// [`held`] of a file that surely nobody else has: what the question itself counts for depends on where the sensor's program is.
fn held_alone(watch: &Watch) -> Option<u32> {
    let nobodys = || memfd_create("drift", MemfdFlags::CLOEXEC).ok();
    let (first, second) = (nobodys()?, nobodys()?);
    let (first, second) = (held(first.as_fd(), watch)?, held(second.as_fd(), watch)?);
    // The second answer is not what was left of the first.
    (first.0 != second.0 && first.1 == second.1).then_some(first.1)
}

/// Searches: one at a time, each for all files that wait by then.
#[derive(Debug, Default)]
pub struct Search {
    state: Mutex<State>,
    over: Condvar,
    /// See [`held_alone`].
    alone: OnceLock<Option<u32>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    queued: Vec<(u64, Id)>,
    waiting: usize,
    is_searching: bool,
    found: HashMap<u64, Holders>,
}

impl Search {
    /// Who has it. `None`: nobody. Where the kernel half cannot say that nobody has, this blocks, for two searches at most.
    #[must_use]
    pub fn holders(&self, old: &OldFile, watch: Option<&Watch>) -> Option<Holders> {
        if let Some(watch) = watch {
            if self.is_held_here_alone(old, watch) {
                return None;
            }
            // Who has just closed it may not be through with that: a close rings before it is over. A search takes longer than that.
            thread::sleep(CLOSING);
            if self.is_held_here_alone(old, watch) {
                return None;
            }
        }
        self.search(old)
    }

    fn is_held_here_alone(&self, old: &OldFile, watch: &Watch) -> bool {
        let alone = self.alone.get_or_init(|| held_alone(watch));
        alone.is_some() && old.held(watch) == *alone
    }

    fn search(&self, old: &OldFile) -> Option<Holders> {
        // Held until it is over.
        let OldFile {
            held: _held, id, ..
        } = old;
        let mut state = self.state();
        if state.waiting >= MOST_WAITING {
            return Some(Holders {
                incomplete: Some(
                    "too many files were healed at once: nobody was looked for".to_owned(),
                ),
                ..Holders::default()
            });
        }
        let ticket = state.next;
        state.next += 1;
        state.waiting += 1;
        state.queued.push((ticket, *id));
        loop {
            if let Some(found) = state.found.remove(&ticket) {
                state.waiting -= 1;
                return (found.count > 0 || found.incomplete.is_some()).then_some(found);
            }
            if state.is_searching {
                state = self
                    .over
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_searching = true;
            let batch = std::mem::take(&mut state.queued);
            drop(state);
            let found = search(&batch);
            state = self.state();
            state.found.extend(found);
            state.is_searching = false;
            self.over.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Replaced piece by piece, each whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn search(batch: &[(u64, Id)]) -> HashMap<u64, Holders> {
    let until = Instant::now() + MOST_TIME;
    let mut found: HashMap<Id, Holders> = HashMap::new();
    let ids: HashSet<Id> = batch.iter().map(|(_, id)| *id).collect();
    let inodes: HashSet<u64> = ids.iter().map(|(_, inode)| *inode).collect();
    let own = std::process::id();
    let pids: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .collect();
    let mut namespaces = HashSet::new();
    let mut looked = 0;
    for pid in &pids {
        if Instant::now() >= until {
            break;
        }
        looked += 1;
        let mut uses: HashMap<Id, (&'static str, Option<PathBuf>)> = HashMap::new();
        mapped(*pid, &ids, &inodes, &mut uses);
        open(*pid, &ids, &mut uses);
        if let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/mnt"))
            && namespaces.insert(namespace)
        {
            mounted(*pid, &ids, &mut uses);
        }
        for (id, (how, at)) in uses {
            let holders = found.entry(id).or_default();
            holders.count += 1;
            if holders.processes.len() < MOST_NAMED {
                holders.processes.push(holder(*pid, how, at));
            }
        }
    }
    let incomplete = (looked < pids.len()).then(|| {
        let most = MOST_TIME.as_millis();
        format!(
            "{looked} of {} processes were looked at in {most} ms",
            pids.len()
        )
    });
    batch
        .iter()
        .map(|(ticket, id)| {
            let mut holders = found.get(id).cloned().unwrap_or_default();
            holders.incomplete.clone_from(&incomplete);
            (*ticket, holders)
        })
        .collect()
}

fn holder(pid: u32, how: &'static str, at: Option<PathBuf>) -> Holder {
    let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let comm = comm.strip_suffix(b"\n").unwrap_or(&comm).to_vec();
    Holder {
        pid,
        comm: OsString::from_vec(comm),
        exe: fs::read_link(format!("/proc/{pid}/exe")).ok(),
        how,
        at,
    }
}

fn open(pid: u32, ids: &HashSet<Id>, uses: &mut HashMap<Id, (&'static str, Option<PathBuf>)>) {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return; // gone, or not ours to look at
    };
    for descriptor in descriptors.flatten() {
        let Ok(meta) = fs::metadata(descriptor.path()) else {
            continue;
        };
        let id = (meta.dev(), meta.ino());
        if !ids.contains(&id) {
            continue;
        }
        let how = if is_for_writing(pid, &descriptor.file_name()) {
            "writing"
        } else {
            "open"
        };
        // Who writes is told as that.
        let known = uses.entry(id).or_insert((how, None));
        if how == "writing" {
            known.0 = how;
        }
    }
}

fn is_for_writing(pid: u32, descriptor: &std::ffi::OsStr) -> bool {
    let path = Path::new("/proc")
        .join(pid.to_string())
        .join("fdinfo")
        .join(descriptor);
    let info = fs::read_to_string(path).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 3 != 0)
}

/// `/proc/PID/maps` shows the device as the kernel has it, which `stat` does not on every file system: the inode's number chooses, `map_files` tells.
fn mapped(
    pid: u32,
    ids: &HashSet<Id>,
    inodes: &HashSet<u64>,
    uses: &mut HashMap<Id, (&'static str, Option<PathBuf>)>,
) {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    for line in maps.split(|byte| *byte == b'\n') {
        let mut words = line
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        let (Some(range), Some(inode)) = (words.next(), words.nth(3)) else {
            continue;
        };
        let number = |text: &[u8]| std::str::from_utf8(text).ok().map(str::to_owned);
        let inode = number(inode).and_then(|inode| inode.parse::<u64>().ok());
        if !inode.is_some_and(|inode| inodes.contains(&inode)) {
            continue;
        }
        let Some(range) = number(range) else { continue };
        let Ok(meta) = fs::metadata(format!("/proc/{pid}/map_files/{range}")) else {
            continue;
        };
        if ids.contains(&(meta.dev(), meta.ino())) {
            uses.entry((meta.dev(), meta.ino()))
                .or_insert(("mapped", None));
        }
    }
}

/// A file that is mounted by itself stays what it was: containers have single files of ConfigMaps so.
fn mounted(pid: u32, ids: &HashSet<Id>, uses: &mut HashMap<Id, (&'static str, Option<PathBuf>)>) {
    let mounts = fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    for line in mounts.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [_, _, _, root, point, ..] = words.as_slice() else {
            continue;
        };
        if !root.ends_with(b"//deleted") {
            continue;
        }
        let point = unescaped(point);
        let point = Path::new(std::ffi::OsStr::from_bytes(&point));
        let seen = Path::new("/proc").join(pid.to_string()).join("root");
        let seen = seen.join(point.strip_prefix("/").unwrap_or(point));
        if let Ok(meta) = fs::symlink_metadata(seen)
            && ids.contains(&(meta.dev(), meta.ino()))
        {
            uses.entry((meta.dev(), meta.ino()))
                .or_insert(("mounted", None))
                .1
                .get_or_insert_with(|| point.to_owned());
        }
    }
}

/// Blanks, tabs, line ends and backslashes are octal there.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match (byte, octal) {
            (b'\\', Some(octal)) => {
                bytes.push(octal);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_has_the_old_file_open_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.conf");
        fs::write(&path, "old").unwrap();
        let host = Host::new(Path::new("/")).unwrap();
        let old = OldFile::at(&host, &path, None).unwrap();
        assert!(!old.is_replaced(host.stat(&path).as_ref()));
        let mut writer = Command::new("/bin/sh")
            .args(["-c", "exec 9>>\"$0\"; echo ready; read x"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(writer.stdout.as_mut().unwrap(), &mut ready).unwrap();
        fs::write(dir.path().join("new"), "new").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(old.is_replaced(host.stat(&path).as_ref()));
        let search = Search::default();
        let holders = search.holders(&old, None).expect("somebody has it");
        assert_eq!(holders.count, 1, "{holders:?}");
        assert_eq!(holders.processes[0].pid, writer.id());
        assert_eq!(holders.processes[0].how, "writing");
        drop(writer.stdin.take());
        writer.wait().unwrap();
        assert_eq!(search.holders(&old, None), None);
    }

    #[test]
    fn names_of_mount_points_are_octal() {
        assert_eq!(unescaped(b"/a\\040b\\134c\\"), b"/a b\\c\\");
        assert_eq!(unescaped(b"/plain"), b"/plain");
    }
}
