//! The policy folder as it was when it was good last: with it the agent starts, and heals, though the folder is gone or not valid.
//!
//! What is kept is the text of the policies and the contents beside them, not what came of them: it goes the same way as any folder when it
//! is needed, and whatever the language of policies can say is kept exactly.
//!
//! A file beside the database, not in it: losing the one must not lose the other. It names blobs.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    io::{self, Write},
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use blake3::Hash;
use serde::{Deserialize, Serialize};

use super::{
    Store, StoreError,
    sealed::{self, PathForm},
};
use crate::declare::{Body, Sources};

const NAME: &str = "last-good";
const MAGIC: &str = "drift-last-good-1";

/// Where the files are laid out again.
const RESTORED: &str = "restored";

/// Bytes of the list of files, at most.
const MOST: u64 = 256 << 20;

/// Folders in each other, at most.
const MOST_DEPTH: usize = 128;

/// A policy folder as it was when it was good last.
#[derive(Debug, PartialEq, Eq)]
pub struct Restored {
    /// Where its files are now.
    pub folder: PathBuf,
    /// When they were saved first.
    pub since: SystemTime,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    folder: PathForm,
    since: SystemTime,
    files: Vec<FileForm>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    /// Beneath the folder.
    path: PathForm,
    digest: String,
}

impl Store {
    /// Keeps `sources`, which make up the policy folder `folder`, as the last good ones. The contents last before the list of them does, and
    /// the list before stays until then.
    ///
    /// Returns whether they are others than before.
    pub fn save(
        &self,
        folder: &Path,
        sources: &Sources,
        now: SystemTime,
    ) -> Result<bool, StoreError> {
        let digests: Vec<Hash> = sources.values().map(Body::digest).collect();
        let mut manifest = Manifest {
            folder: folder.into(),
            since: now,
            files: sources
                .keys()
                .zip(&digests)
                .map(|(path, digest)| FileForm {
                    path: path.as_path().into(),
                    digest: digest.to_string(),
                })
                .collect(),
        };
        if let Ok(Some(known)) = self.read_manifest()
            && known.folder == manifest.folder
            && known.files == manifest.files
        {
            if self.has_all(&digests)? {
                return Ok(false);
            }
            manifest.since = known.since;
        }
        let contents: BTreeMap<[u8; 32], &Body> = digests
            .iter()
            .zip(sources.values())
            .map(|(digest, body)| (*digest.as_bytes(), body))
            .collect();
        let (mut held, mut large) = (Vec::new(), Vec::new());
        // Nothing of it is given up for another one of it.
        let mut all: Vec<(Hash, &[u8])> = Vec::new();
        for (digest, body) in contents {
            let digest = Hash::from_bytes(digest);
            match body {
                Body::Held(bytes) => held.push((digest, &**bytes)),
                Body::Large(_) => large.push((digest, body)),
            }
            all.push((digest, &[]));
        }
        self.put_large(&large, &all)?;
        self.put_all(&held)?;
        let bytes = sealed::seal(MAGIC, &manifest).map_err(|error| unusable(error.to_string()))?;
        self.folder
            .write(NAME, &bytes)
            .map_err(StoreError::io("save the last good policies"))?;
        Ok(true)
    }

    /// Lays out the last good files of the policy folder `folder`, if there are any, in the state folder. They stay until the next time.
    ///
    /// # Errors
    /// They are not whole: [`StoreError::LastGood`], or what is wrong with a blob. Or they cannot be written.
    pub fn restore(&self, folder: &Path) -> Result<Option<Restored>, StoreError> {
        let folder = PathForm::from(folder);
        let Some(manifest) = self.read_manifest()?.filter(|known| known.folder == folder) else {
            return Ok(None);
        };
        let io = StoreError::io("lay out the last good policies");
        let restored = self.folder.folder(RESTORED).map_err(&io)?;
        restored.clear(MOST_DEPTH).map_err(&io)?;
        for FileForm { path, digest } in &manifest.files {
            let path = path
                .path()
                .ok_or_else(|| unusable("a path is none".to_owned()))?;
            let body = self.body(&hash(digest)?)?;
            let (folders, name) = names(&path)?;
            let mut folder = None;
            for name in folders {
                let inside = folder.as_ref().unwrap_or(&restored);
                folder = Some(inside.folder(name).map_err(&io)?);
            }
            let folder = folder.as_ref().unwrap_or(&restored);
            let lay = || {
                let unnamed = folder.unnamed(|file| body.each(&mut |part| file.write_all(part)))?;
                unnamed.take_name(folder, name)
            };
            lay().map_err(&io)?;
        }
        Ok(Some(Restored {
            folder: self.path.join(RESTORED),
            since: manifest.since,
        }))
    }

    /// The policy folder that the last good files are of, where it is not this one.
    pub(super) fn other_folder(&self, folder: &Path) -> Option<PathBuf> {
        let known = self.read_manifest().ok()??.folder;
        if known == PathForm::from(folder) {
            return None;
        }
        known.path()
    }

    /// The blobs that the last good policies need. Of ones that cannot be read nothing can be used.
    pub(super) fn needed_by_last_good(&self) -> HashSet<Hash> {
        let manifest = self.read_manifest().ok().flatten();
        let files = manifest.into_iter().flat_map(|manifest| manifest.files);
        files.filter_map(|file| hash(&file.digest).ok()).collect()
    }

    fn has_all(&self, digests: &[Hash]) -> Result<bool, StoreError> {
        let has = |digest| self.blobs.size(digest).map(|size| size.is_some());
        digests
            .iter()
            .try_fold(true, |all, digest| io::Result::Ok(all && has(digest)?))
            .map_err(StoreError::io("look for a blob"))
    }

    fn read_manifest(&self) -> Result<Option<Manifest>, StoreError> {
        let bytes = match self.folder.read(NAME, MOST) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        };
        sealed::open(MAGIC, &bytes)
            .map(Some)
            .map_err(|why| unusable(format!("their list: {why}")))
    }
}

/// The folders on the way to a file, and its name.
fn names(path: &Path) -> Result<(Vec<&OsStr>, &OsStr), StoreError> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(unusable("a path leads out of the folder".to_owned()));
            }
        }
    }
    let name = names.pop();
    let name = name.ok_or_else(|| unusable("a path has no name".to_owned()))?;
    if names.len() >= MOST_DEPTH {
        return Err(unusable("a path is too deep".to_owned()));
    }
    Ok((names, name))
}

fn hash(hex: &str) -> Result<Hash, StoreError> {
    Hash::from_hex(hex).map_err(|_| unusable("a digest is none".to_owned()))
}

fn unusable(why: String) -> StoreError {
    StoreError::LastGood { why }
}
