//! The last good declaration, complete on this node: with it the agent starts, and heals, though its policy folder is gone or not valid.
//!
//! A file beside the database, not in it: losing the one must not lose the other. Its first line is the format and the digest of the rest;
//! the rest is JSON. Contents are blobs.

mod form;

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use blake3::Hash;

use self::form::Form;
use super::{Store, StoreError};
use crate::declare::{Mode, Snapshot};

const NAME: &str = "last-good";
const MAGIC: &str = "drift-last-good-1";

/// Bytes of the file, at most.
const MOST: u64 = 256 << 20;

/// A declaration that was saved.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved {
    pub snapshot: Snapshot,
    /// When it was declared first.
    pub since: SystemTime,
    /// What the agent was told beside the policies has changed since, and they are only watched: a sentence for people.
    pub note: Option<String>,
}

impl Store {
    /// Keeps `snapshot`, which was read from `folder` with `mode` on the command line, as the last good one. Its contents last before it does,
    /// and the one before stays until then.
    ///
    /// Returns whether it was another one than before.
    pub fn save(
        &self,
        folder: &Path,
        mode: Option<Mode>,
        snapshot: &Snapshot,
        now: SystemTime,
    ) -> Result<bool, StoreError> {
        let contents: BTreeMap<[u8; 32], &[u8]> = snapshot
            .files
            .iter()
            .map(|declared| (*declared.digest.as_bytes(), &*declared.content))
            .collect();
        let mut form = Form::of(folder, mode, snapshot, now);
        if let Ok(Some(known)) = self.read_form()
            && known.is_of_the_same(&form)
        {
            if self.has_all(contents.keys())? {
                return Ok(false);
            }
            form.since = known.since;
        }
        let contents: Vec<_> = contents
            .into_iter()
            .map(|(digest, bytes)| (Hash::from_bytes(digest), bytes))
            .collect();
        self.put_all(&contents)?;
        let body = serde_json::to_vec(&form).map_err(|error| StoreError::Snapshot {
            why: error.to_string(),
        })?;
        let mut bytes = format!("{MAGIC} {}\n", blake3::hash(&body)).into_bytes();
        bytes.extend_from_slice(&body);
        self.folder
            .write(NAME, &bytes)
            .map_err(StoreError::io("save the last good policies"))?;
        Ok(true)
    }

    /// The last good declaration that was read from `folder`, if there is one. `mode`: as on the command line now.
    ///
    /// # Errors
    /// There is one, but it is not whole: [`StoreError::Snapshot`], or what is wrong with a blob.
    pub fn last_good(
        &self,
        folder: &Path,
        mode: Option<Mode>,
    ) -> Result<Option<Saved>, StoreError> {
        let Some(form) = self.read_form()?.filter(|form| form.is_from(folder)) else {
            return Ok(None);
        };
        let mut contents: BTreeMap<[u8; 32], Arc<[u8]>> = BTreeMap::new();
        for digest in form.contents()? {
            contents.insert(*digest.as_bytes(), self.get(&digest)?.into());
        }
        form.snapshot(mode, &contents).map(Some)
    }

    /// The blobs that the saved declaration needs. Of one that cannot be read nothing can be used.
    pub(super) fn needed_by_last_good(&self) -> HashSet<Hash> {
        let form = self.read_form().ok().flatten();
        let contents = form.and_then(|form| form.contents().ok());
        contents.unwrap_or_default().into_iter().collect()
    }

    fn has_all<'d>(
        &self,
        mut digests: impl Iterator<Item = &'d [u8; 32]>,
    ) -> Result<bool, StoreError> {
        digests
            .try_fold(true, |all, digest| {
                let size = self.blobs.size(&Hash::from_bytes(*digest))?;
                Ok(all && size.is_some())
            })
            .map_err(StoreError::io("look for a blob"))
    }

    fn read_form(&self) -> Result<Option<Form>, StoreError> {
        let unusable = |why: String| StoreError::Snapshot { why };
        let bytes = match self.folder.read(NAME, MOST) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        };
        let cut = || unusable("the file is cut off".to_owned());
        let end = bytes
            .iter()
            .take(200)
            .position(|byte| *byte == b'\n')
            .ok_or_else(cut)?;
        let (head, body) = (&bytes[..end], &bytes[end + 1..]);
        if head != format!("{MAGIC} {}", blake3::hash(body)).as_bytes() {
            return Err(unusable(
                "its digest is not that of its content, or it is of another drift-agent".to_owned(),
            ));
        }
        serde_json::from_slice(body)
            .map(Some)
            .map_err(|error| unusable(error.to_string()))
    }
}
