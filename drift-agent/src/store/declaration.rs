//! What a retained version was declared by: the files of the policy folder in which it was active last. With them a version that is in no folder
//! any more can be declared again.
//!
//! A blob like any other: a line that says what it is, then a line for each file, its digest and its path.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use blake3::Hash;
use drift_common::escape;

use super::{Store, StoreError};
use crate::declare::Sources;

const MAGIC: &str = "drift-declaration-1\n";

/// The blob for these files.
pub(super) fn bytes(sources: &Sources) -> Vec<u8> {
    let mut text = MAGIC.to_owned();
    for (path, body) in sources {
        let path = escape::bytes(path.as_os_str().as_bytes());
        text.push_str(&format!("{} {path}\n", body.digest()));
    }
    text.into_bytes()
}

/// What a policy folder was when it held these files.
pub fn identity(folder: &Path, sources: &Sources) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(folder.as_os_str().as_bytes());
    hasher.update(b"\0");
    hasher.update(&bytes(sources));
    hasher.finalize()
}

/// The digests in the blob; `None`: it is none of these.
fn files(bytes: &[u8]) -> Option<BTreeMap<PathBuf, Hash>> {
    let text = std::str::from_utf8(bytes).ok()?.strip_prefix(MAGIC)?;
    let file = |line: &str| {
        let (digest, path) = line.split_once(' ')?;
        let path = OsString::from_vec(escape::original(path));
        Some((path.into(), Hash::from_hex(digest).ok()?))
    };
    text.lines().map(file).collect()
}

impl Store {
    /// The files of the policy folder in which this version was active last, by their paths beneath it: all of them, each as it was. `None`: the
    /// version is not retained.
    ///
    /// # Errors
    /// One of them is not there or cannot be read.
    pub fn declaration(&self, policy: &str, version: &str) -> Result<Option<Sources>, StoreError> {
        let Some(first) = self.state.first_blob(policy, version)? else {
            return Ok(None);
        };
        let Some(files) = files(&self.get(&first)?) else {
            return Ok(None); // retained by an agent that did not keep it
        };
        let read = |(path, digest): (PathBuf, Hash)| Ok((path, self.body(&digest)?));
        files
            .into_iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}
