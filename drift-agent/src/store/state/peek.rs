//! The database of an agent that does not run, looked at from outside: a copy of it in memory is opened, so that the file is neither locked nor
//! repaired under an agent that starts meanwhile.

use std::{collections::BTreeMap, io, path::PathBuf};

use redb::{Builder, StorageBackend, backends::InMemoryBackend};

use super::{
    ACTIVE, GOOD,
    brake::{self, HeldBrake},
    open::NAME,
    texts,
};
use crate::store::{Holding, StoreError, folder::Folder, hold};

/// Bytes of a database that is copied, at most: what the agent keeps in it is bounded far below.
const MOST: u64 = 128 << 20;

/// What was known of versions, and of paths that are held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// By policy.
    pub active: BTreeMap<String, String>,
    pub last_good: BTreeMap<String, String>,
    /// Versions that are held instead of those the policy folder says.
    pub holding: Holding,
    pub brakes: BTreeMap<PathBuf, HeldBrake>,
}

pub(in crate::store) fn peek(folder: &Folder) -> Result<Known, StoreError> {
    let holding = hold::peek(folder)?;
    let bytes = folder.read(NAME, MOST);
    let Some(bytes) = bytes.map_err(|source| StoreError::Peek { source })? else {
        return Ok(Known {
            holding,
            ..Known::default()
        });
    };
    let known = || -> Result<Known, redb::Error> {
        let copy = InMemoryBackend::new();
        copy.set_len(bytes.len() as u64)?;
        copy.write(0, &bytes)?;
        let database = Builder::new()
            .set_check_integrity_on_open(true)
            .create_with_backend(copy)?;
        let read = redb::ReadableDatabase::begin_read(&database)?;
        let whole = |error: StoreError| match error {
            StoreError::Database(error) => *error,
            other => redb::Error::Io(io::Error::other(other.to_string())),
        };
        Ok(Known {
            active: texts(&read, ACTIVE).map_err(whole)?,
            last_good: texts(&read, GOOD).map_err(whole)?,
            holding,
            brakes: brake::all(&read)?,
        })
    };
    known().map_err(|error| StoreError::Database(Box::new(error)))
}
