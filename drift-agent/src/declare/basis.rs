//! What an outcome rests on: the names in the policy folder, and all files that were read or looked for.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{Body, Keep};

/// A file's identity and its times. Equal stamps mean an unchanged file, unless the file was changed within the grain of its clock: see
/// [`Basis::rests_in`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    dev: u64,
    ino: u64,
    mode: u32,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            mode: metadata.mode(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// How much longer a change could leave this stamp as it is.
    fn rests_in(&self, now: Duration) -> Option<Duration> {
        let (seconds, nanos) = self.changed;
        // The kernel's clock for files ticks every few milliseconds; some file systems keep (even) seconds only.
        let grain = Duration::from_millis(if nanos == 0 { 2000 } else { 20 });
        let changed = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        grain.checked_sub(now.checked_sub(changed)?)
    }
}

/// What an outcome rests on. It holds as long as the same would be read again.
#[derive(Debug)]
pub struct Basis {
    folder: PathBuf,
    /// The names of the policy files, sorted. `None`: the folder could not be read.
    names: Option<Vec<OsString>>,
    /// `None`: it was not there, or not to be looked at.
    files: BTreeMap<PathBuf, Option<Stamp>>,
    /// When the last stamp was taken, since 1970.
    taken: Duration,
    keep: Keep,
    read: Sources,
}

/// The files of a policy folder that were read, and what they held. By their paths beneath the folder.
pub type Sources = BTreeMap<PathBuf, Body>;

impl Basis {
    pub(super) fn new(folder: &Path, keep: Keep) -> Self {
        Self {
            folder: folder.to_owned(),
            names: None,
            files: BTreeMap::new(),
            taken: Duration::ZERO,
            keep,
            read: Sources::new(),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files that were read or looked for.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// Lists the policy files.
    pub(super) fn list(&mut self) -> io::Result<Vec<OsString>> {
        let names = list(&self.folder);
        self.names = names.as_ref().ok().cloned();
        names
    }

    /// A file was opened, before anything was read from it (or could not be opened).
    pub(super) fn saw(&mut self, path: PathBuf, metadata: Option<&Metadata>) {
        self.taken = now();
        self.files.insert(path, metadata.map(Stamp::of));
    }

    /// A file beneath the folder was read. Kept for who keeps bytes.
    pub(super) fn read(&mut self, path: PathBuf, bytes: impl FnOnce() -> Body) {
        if self.keep == Keep::Bytes {
            self.read.insert(path, bytes());
        }
    }

    /// What was read beneath the folder, where that was not given away.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.read
    }

    /// What was read beneath the folder. It is given away, not kept: contents are large.
    pub fn take_sources(&mut self) -> Sources {
        std::mem::take(&mut self.read)
    }

    /// Whether the same names and files are there still.
    pub(super) fn holds(&self) -> bool {
        let same = |(path, stamp): (&PathBuf, &Option<Stamp>)| {
            fs::metadata(path).ok().as_ref().map(Stamp::of) == *stamp
        };
        list(&self.folder).ok() == self.names && self.files.iter().all(same)
    }

    /// How long it takes until no change can hide in the grain of a file's clock any more, if there is such a file.
    pub(super) fn rests_in(&self) -> Option<Duration> {
        let stamps = self.files.values().flatten();
        stamps.filter_map(|stamp| stamp.rests_in(self.taken)).max()
    }
}

fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Whether a file of this name in the policy folder is a policy file. Hidden ones are not: editors keep theirs there.
pub(super) fn is_policy_name(name: &OsStr) -> bool {
    let name = name.as_bytes();
    !name.starts_with(b".") && (name.ends_with(b".yaml") || name.ends_with(b".yml"))
}

fn list(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if is_policy_name(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
