//! The ways to files: each directory that is passed, and the names in it that matter.
//!
//! A file is changed by whatever changes a component of its path, or of a link in it: re-targeting `current -> releases/5` changes
//! everything beneath, and so does the kubelet when it swaps `..data` in a mounted ConfigMap.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{self, Component, Path, PathBuf},
};

use crate::declare::{Basis, basis::is_policy_name};

/// Links that are followed on the way to one file, at most (as the kernel does).
const MAX_LINKS: usize = 40;
/// Directories that are watched, at most.
const MAX_DIRS: usize = 512;

/// What matters in one directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) names: BTreeSet<OsString>,
    /// It is the policy folder: all policy files matter.
    pub(super) policies: bool,
    /// Files in it matter, not only directories and links on the way.
    pub(super) files: bool,
}

impl Interest {
    pub(super) fn covers(&self, name: &OsStr) -> bool {
        self.names.contains(name)
            || self.policies && (is_policy_name(name) || name.as_bytes().starts_with(b".."))
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.names.extend(other.names.iter().cloned());
        self.policies |= other.policies;
        self.files |= other.files;
    }
}

/// All ways to what an outcome rests on.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// By path, without links in it.
    pub(super) dirs: BTreeMap<PathBuf, Interest>,
    /// There are more directories than can be watched.
    pub(super) cut: bool,
}

impl Ways {
    pub(super) fn to(basis: &Basis) -> Self {
        let mut ways = Self::default();
        if let Some(folder) = ways.follow(basis.folder()) {
            let interest = ways.dirs.entry(folder).or_default();
            interest.policies = true;
            interest.files = true;
        }
        let mut folders: BTreeMap<&Path, Option<PathBuf>> = BTreeMap::new();
        for file in basis.files() {
            let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else {
                continue;
            };
            let dir = folders.entry(dir).or_insert_with(|| ways.follow(dir));
            if let Some(dir) = dir {
                ways.file(dir, name);
            }
        }
        ways
    }

    /// Notes the way to the directory `path`, and says where it really is; `None` where it is not.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let path = path::absolute(path).ok()?;
        self.walk(
            PathBuf::from("/"),
            path.components().filter_map(step).collect(),
            false,
        )
    }

    /// Notes the way to the file `name` in `dir`.
    fn file(&mut self, dir: &Path, name: &OsStr) {
        let rest = VecDeque::from([Step::To(name.to_owned())]);
        self.walk(dir.to_owned(), rest, true);
    }

    /// Goes from `at`, which has no links in it, along `rest`. The last is a file where `file` says so.
    fn walk(&mut self, mut at: PathBuf, mut rest: VecDeque<Step>, file: bool) -> Option<PathBuf> {
        let mut links = 0;
        while let Some(next) = rest.pop_front() {
            let Step::To(name) = next else {
                at.pop();
                continue;
            };
            self.note(&at, &name, file && rest.is_empty());
            let path = at.join(&name);
            let metadata = fs::symlink_metadata(&path).ok()?;
            if !metadata.is_symlink() {
                at = path;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return None;
            }
            let target = fs::read_link(&path).ok()?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for component in target.components().filter_map(step).rev() {
                rest.push_front(component);
            }
        }
        Some(at)
    }

    fn note(&mut self, dir: &Path, name: &OsStr, file: bool) {
        if self.dirs.len() == MAX_DIRS && !self.dirs.contains_key(dir) {
            self.cut = true;
            return;
        }
        let interest = self.dirs.entry(dir.to_owned()).or_default();
        interest.names.insert(name.to_owned());
        interest.files |= file;
    }
}

enum Step {
    Up,
    To(OsString),
}

/// The step that a component is, if it leads anywhere.
fn step(component: Component<'_>) -> Option<Step> {
    match component {
        Component::Normal(name) => Some(Step::To(name.to_owned())),
        Component::ParentDir => Some(Step::Up),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    }
}
