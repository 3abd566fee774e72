//! What is in a directory that may not be there.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
};

use rustix::fs::Dir;

use crate::declare::Exhaustive;

/// Names in a directory that may not be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unexpected {
    /// Sorted, the first [`MOST_NAMES`] of them.
    pub names: Vec<OsString>,
    pub count: usize,
}

/// Names that are kept of what may not be in a directory.
pub const MOST_NAMES: usize = 1024;

/// What may not be in a directory.
pub(super) fn list(directory: &File, exhaustive: &Exhaustive) -> io::Result<Unexpected> {
    let mut names = BTreeSet::new();
    let mut count = 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." || exhaustive.allows(name) {
            continue;
        }
        count += 1;
        names.insert(name.to_owned());
        if names.len() > MOST_NAMES {
            names.pop_last();
        }
    }
    Ok(Unexpected {
        names: names.into_iter().collect(),
        count,
    })
}
