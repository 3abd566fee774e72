//! A tree that another one is compared with, as what an image has in `/usr/etc` is with `/etc`: what was changed, added and deleted.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsString},
    path::{Path, PathBuf},
};

use drift_common::policy::{Globs, MAX_CONTENT, SELINUX};

use super::Left;
use crate::{
    observe::{Host, Reading, Stat, Whole, take},
    report::FileType,
};

/// All of it, by paths from its root on; the root itself is the empty one.
#[derive(Debug, Default)]
pub struct Base {
    pub(super) prints: BTreeMap<PathBuf, Print>,
    /// What cannot be compared with, and why.
    pub(super) left: Vec<(PathBuf, Left)>,
}

/// What two paths have to have in common to be equal. The label is left out: the one tree is labelled for what it is, the other for where it
/// is copied to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Print {
    what: What,
    mode: u32,
    owner: (u32, u32),
    attributes: Vec<(CString, Reading)>,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    File(blake3::Hash),
    Link(OsString),
    Directory,
}

impl Print {
    /// `None`: nothing that can be declared.
    pub(super) fn of(
        whole: &Whole,
        stat: &Stat,
        attributes: &[(CString, Reading)],
    ) -> Option<Print> {
        let what = match whole {
            Whole::File(bytes) => What::File(blake3::hash(bytes)),
            Whole::Link(target) => What::Link(target.clone()),
            Whole::Directory(_) => What::Directory,
            Whole::Special(_) | Whole::Virtual | Whole::TooLarge | Whole::Not(_) => return None,
        };
        let attributes = attributes.iter();
        Some(Print {
            mode: if matches!(what, What::Link(_)) {
                0
            } else {
                stat.mode
            },
            what,
            owner: (stat.uid, stat.gid),
            attributes: attributes
                .filter(|(name, _)| name.to_bytes() != SELINUX.as_bytes())
                .cloned()
                .collect(),
        })
    }
}

impl Base {
    /// Reads all of it. `ignored`: names that are passed by.
    #[must_use]
    pub fn read(host: &Host, root: &Path, ignored: &Globs) -> Base {
        let mut base = Base::default();
        let mut paths = vec![root.to_owned()];
        while let Some(path) = paths.pop() {
            let is_ignored = path.file_name().is_some_and(|name| ignored.matches(name));
            if is_ignored && path != root {
                continue;
            }
            let taken = take(host, &path, MAX_CONTENT);
            let print = taken
                .stat
                .and_then(|stat| Print::of(&taken.whole, &stat, &taken.attributes));
            let Some(print) = print else {
                let is_directory = taken
                    .stat
                    .is_some_and(|stat| stat.file_type == FileType::Directory);
                base.left.push((path, Left::of(&taken.whole, is_directory)));
                continue;
            };
            if let Ok(rest) = path.strip_prefix(root) {
                base.prints.insert(rest.to_owned(), print);
            }
            if let Whole::Directory(names) = taken.whole {
                paths.extend(names.into_iter().map(|name| path.join(name)));
            }
        }
        base
    }
}

/// What has come of a comparison: by their declared paths.
#[derive(Debug, Default)]
pub struct Compared {
    pub changed: Vec<PathBuf>,
    pub added: Vec<PathBuf>,
    /// Without what was in deleted directories.
    pub deleted: Vec<PathBuf>,
    /// Equal, and not declared.
    pub same: usize,
}
