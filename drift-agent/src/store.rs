//! What the node keeps, so that a restart is not a hole and healing needs nobody else: contents, the last good declaration, and what is known
//! of versions and paths.
//!
//! ```text
//! <state>/blobs/ab/cdef…   contents by their digest                                   blob
//! <state>/last-good        the policy folder as it was when it was good last          snapshot
//! <state>/holds            versions held instead of those the folder says, and failed ones   hold
//! <state>/pauses           healing that somebody holds for a time                    pause
//! <state>/journal          a change of versions that is under way                     journal
//! <state>/state.redb       versions seen, active and good; brakes: a cache            state
//! <state>/canary           the file by which the agent hears itself                       canary
//! <state>/history/N.log    what was reported                                          history
//! <state>/files/N          files that healing has put others in the place of          file
//! ```
//!
//! Everything blocks. After a kill or a power cut at any instant each of them is as it was before or as it should have become, and each
//! can be lost without the others. The folder is held by its descriptor, and no link in it is followed. One process at a time: the agent's lock.

mod abort;
mod blob;
mod canary;
mod declaration;
mod declared;
mod error;
mod evidence;
mod file;
mod folder;
mod history;
mod hold;
mod journal;
mod pause;
mod room;
mod sealed;
mod snapshot;
mod state;

pub use blob::MOST_BLOB;
pub use declaration::identity;
pub use declared::InForce;
pub use error::{Changed, StoreError};
pub use evidence::MOST_EVIDENCE;
pub use file::FILES;
pub use history::{Bounds, HistoryWriter, MOST_LINE, Past, read as read_history};
pub use hold::{Failure, Held, Holding};
pub use journal::{Change, Directory, Entry, Journal, Moved, Over, Stage};
pub use pause::{LONGEST_PAUSE, Pause, Pauses};
pub use room::Usage;
pub use sealed::PathForm;
pub(crate) use sealed::path_form;
pub use snapshot::Restored;
pub use state::{
    Activation, HeldBrake, Known, Longest, MOST_RETAINED, MOST_VERSIONS, Seen, Spent, State,
};

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use blake3::Hash;

use self::{blob::Blobs, folder::Folder, room::Room};
use crate::declare::Body;

/// Bytes on the disk for blobs, where nobody said otherwise.
pub const DEFAULT_QUOTA: u64 = 1 << 30;

/// Bytes of compressed blobs that are in memory at once while many are put.
const BATCH: usize = 16 << 20;

#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Whose users and groups policies name.
    host_root: PathBuf,
    folder: Folder,
    blobs: Blobs,
    state: State,
    holding: Mutex<hold::Known>,
    pauses: Mutex<Pauses>,
    quota: u64,
    /// Held by whoever adds or removes blobs.
    room: Mutex<Room>,
    notes: Vec<String>,
    /// Counts what has come into force.
    turns: AtomicU64,
    /// The turn of what was kept last.
    kept: Mutex<u64>,
}

impl Store {
    /// Names of users and groups in policies are those of the host with this root.
    #[must_use]
    pub fn rooted(self, host_root: &Path) -> Self {
        let host_root = host_root.to_owned();
        Self { host_root, ..self }
    }

    /// See [`Store::rooted`].
    #[must_use]
    pub fn host_root(&self) -> &Path {
        &self.host_root
    }

    /// Opens what is in `state_dir`, which must be there, or begins anew. `quota`: bytes on the disk for blobs.
    ///
    /// # Errors
    /// The folder cannot be read or written. What is in it is never a reason: see [`Store::notes`].
    pub fn open(state_dir: &Path, quota: u64) -> Result<Self, StoreError> {
        let unusable = |source| StoreError::Folder {
            path: state_dir.to_owned(),
            source,
        };
        let folder = Folder::named(state_dir).map_err(unusable)?;
        folder.remove_leftovers().map_err(unusable)?;
        let blobs = Blobs::open(&folder).map_err(unusable)?;
        let room = Room::new(&blobs.list().map_err(unusable)?);
        let mut notes = Vec::new();
        let state = State::open(&folder, &mut notes)?;
        Self::of(state_dir, folder, blobs, room, state, quota, notes)
    }

    /// Opens what the restorer needs while the agent has the rest open: contents, the journal, and which versions are held. What it would remember of versions
    /// is not kept.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn beside(state_dir: &Path) -> Result<Self, StoreError> {
        let unusable = |source| StoreError::Folder {
            path: state_dir.to_owned(),
            source,
        };
        let folder = Folder::named(state_dir).map_err(unusable)?;
        let blobs = Blobs::open_beside(&folder).map_err(unusable)?;
        let (room, state) = (Room::new(&[]), State::in_memory()?);
        Self::of(state_dir, folder, blobs, room, state, 0, Vec::new())
    }

    /// With what people have asked for, read from the folder.
    fn of(
        state_dir: &Path,
        folder: Folder,
        blobs: Blobs,
        room: Room,
        state: State,
        quota: u64,
        mut notes: Vec<String>,
    ) -> Result<Self, StoreError> {
        let holding = Mutex::new(hold::read(&folder, &mut notes)?);
        let pauses = Mutex::new(pause::read(&folder, &mut notes)?);
        Ok(Self {
            path: state_dir.to_owned(),
            host_root: PathBuf::from("/"),
            folder,
            blobs,
            state,
            holding,
            pauses,
            quota,
            room: Mutex::new(room),
            notes,
            turns: AtomicU64::new(0),
            kept: Mutex::new(0),
        })
    }

    /// What was not as it should be when it was opened, and what was done: a sentence each, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the state folder of an agent that does not run knows of versions. Changes nothing, locks nothing: of a database that somebody begins to
    /// write meanwhile nothing is told.
    ///
    /// # Errors
    /// The folder or the database cannot be read.
    pub fn peek(state_dir: &Path) -> Result<Known, StoreError> {
        match Folder::named(state_dir) {
            Ok(folder) => state::peek(&folder),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Known::default()),
            Err(source) => Err(StoreError::Peek { source }),
        }
    }

    /// What the state folder of an agent that does not run says is paused.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn peek_pauses(state_dir: &Path) -> Result<Pauses, StoreError> {
        match Folder::named(state_dir) {
            Ok(folder) => pause::read(&folder, &mut Vec::new()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Pauses::default()),
            Err(source) => Err(StoreError::Peek { source }),
        }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        self.room().usage(self.quota)
    }

    /// Keeps contents that are too large for memory, each of which has its digest.
    fn put_large(
        &self,
        contents: &[(Hash, &Body)],
        beside: &[(Hash, &[u8])],
    ) -> Result<(), StoreError> {
        for (digest, body) in contents {
            match self.body(digest) {
                Ok(_) => continue,
                Err(StoreError::Missing { .. } | StoreError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
            let blob = self.blobs.compress(body);
            let (blob, size) = blob.map_err(StoreError::io("compress a blob"))?;
            let mut room = self.room();
            self.make_room(&mut room, size, beside)?;
            let put = self.blobs.put_unnamed(digest, blob);
            put.map_err(StoreError::io("write a blob"))?;
            room.added(1, size);
        }
        Ok(())
    }

    /// Keeps `bytes`, and returns their digest. They last when it returns. Until a retained version needs them they may be given up for others.
    pub fn put(&self, bytes: &[u8]) -> Result<Hash, StoreError> {
        let digest = blake3::hash(bytes);
        self.put_all(&[(digest, bytes)])?;
        Ok(digest)
    }

    /// Keeps contents whose BLAKE3 digests are these, all of them: one wait for the disk for many. What is there and sound is left alone.
    pub fn put_all(&self, contents: &[(Hash, &[u8])]) -> Result<(), StoreError> {
        let mut room = self.room();
        let mut batch = Vec::new();
        let mut size = 0;
        for (digest, bytes) in contents {
            if bytes.len() as u64 > MOST_BLOB {
                return Err(StoreError::TooLarge {
                    size: bytes.len() as u64,
                });
            }
            match self.blobs.get(digest) {
                Ok(_) => continue,
                Err(StoreError::Missing { .. }) => {}
                // Removed, and put anew now.
                Err(StoreError::Corrupt { .. }) => self.count(&mut room)?,
                Err(error) => return Err(error),
            }
            let compressed = blob::compress(bytes).map_err(StoreError::io("compress a blob"))?;
            size += compressed.len();
            batch.push((*digest, compressed));
            if size >= BATCH {
                self.put_batch(&mut room, &std::mem::take(&mut batch), contents)?;
                size = 0;
            }
        }
        self.put_batch(&mut room, &batch, contents)
    }

    fn put_batch(
        &self,
        room: &mut Room,
        batch: &[(Hash, Vec<u8>)],
        beside: &[(Hash, &[u8])],
    ) -> Result<(), StoreError> {
        let size = batch
            .iter()
            .map(|(_, compressed)| blob::on_disk(compressed.len() as u64))
            .sum();
        self.make_room(room, size, beside)?;
        let result = self.blobs.put(batch);
        if let Err(source) = result {
            self.count(room)?;
            return Err(StoreError::io("write a blob")(source));
        }
        room.added(batch.len() as u64, size);
        Ok(())
    }

    /// The content with this digest: exactly those bytes, or an error.
    ///
    /// # Errors
    /// [`StoreError::Missing`]; [`StoreError::Corrupt`], and then it has been removed, so that it can be put again.
    pub fn get(&self, digest: &Hash) -> Result<Vec<u8>, StoreError> {
        let result = self.blobs.get(digest);
        if matches!(result, Err(StoreError::Corrupt { .. })) {
            self.count(&mut self.room())?;
        }
        result
    }

    /// As [`Store::get`]; a large content stays in its file.
    ///
    /// # Errors
    /// As there.
    pub fn body(&self, digest: &Hash) -> Result<Body, StoreError> {
        let result = self.blobs.body(digest);
        if matches!(result, Err(StoreError::Corrupt { .. })) {
            self.count(&mut self.room())?;
        }
        result
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        // Counts that a panic has left half done are wrong by one put at most, and counted anew at the next start.
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
