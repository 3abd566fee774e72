//! Contents that nobody declares, kept for people: what healing has taken away, what a command has printed. They have no claim on their room: when the quota is reached
//! they go before anything that a version needs, oldest first.

use std::path::Path;

use blake3::Hash;

use super::{
    Store, StoreError,
    blob::{self, Blobs},
    folder::Folder,
};

/// Bytes of one that is kept.
pub const MOST_EVIDENCE: u64 = 1 << 20;

impl Store {
    /// Keeps `bytes` without waiting for the disk: a heal must not. A kill loses nothing of it; a power cut in the half minute after may, and then it is found to be
    /// damaged, and not believed.
    ///
    /// # Errors
    /// There is no room, or it cannot be written.
    pub fn put_evidence(&self, bytes: &[u8]) -> Result<Hash, StoreError> {
        if bytes.len() as u64 > MOST_EVIDENCE {
            return Err(StoreError::TooLarge {
                size: bytes.len() as u64,
            });
        }
        let digest = blake3::hash(bytes);
        // Read, not only looked for: what a power cut has damaged is written again.
        match self.get(&digest) {
            Ok(_) => return Ok(digest),
            Err(StoreError::Missing { .. } | StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        let compressed = blob::compress(bytes).map_err(StoreError::io("compress a blob"))?;
        let size = blob::on_disk(compressed.len() as u64);
        let mut room = self.room();
        self.make_room_for_evidence(&mut room, size)?;
        self.blobs
            .put_lazily(&digest, &compressed)
            .map_err(StoreError::io("write a blob"))?;
        room.added(1, size);
        Ok(digest)
    }

    /// The content with this digest, from the state folder of whatever agent. Changes nothing.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn peek_blob(state_dir: &Path, digest: &Hash) -> Result<Vec<u8>, StoreError> {
        let folder = Folder::named(state_dir).map_err(|source| StoreError::Peek { source })?;
        Blobs::peek(&folder, digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DEFAULT_QUOTA;

    #[test]
    fn evidence_is_kept_and_what_is_too_large_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), DEFAULT_QUOTA).unwrap();
        let digest = store.put_evidence(b"evil\n").unwrap();
        assert_eq!(store.put_evidence(b"evil\n").unwrap(), digest);
        assert_eq!(store.usage().blobs, 1);
        assert_eq!(Store::peek_blob(dir.path(), &digest).unwrap(), b"evil\n");
        let large = vec![0; MOST_EVIDENCE as usize + 1];
        assert!(matches!(
            store.put_evidence(&large),
            Err(StoreError::TooLarge { .. })
        ));
        let none = Store::peek_blob(dir.path(), &blake3::hash(b"none"));
        assert!(matches!(none, Err(StoreError::Missing { .. })));
    }

    #[test]
    fn damaged_evidence_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), DEFAULT_QUOTA).unwrap();
        let digest = store.put_evidence(b"evil\n").unwrap();
        let hex = digest.to_hex();
        let file = dir.path().join("blobs").join(&hex[..2]).join(&hex[2..]);
        std::fs::write(&file, b"").unwrap();
        let before = store.usage();
        assert_eq!(store.put_evidence(b"evil\n").unwrap(), digest);
        assert_eq!(Store::peek_blob(dir.path(), &digest).unwrap(), b"evil\n");
        assert_eq!(store.usage().blobs, before.blobs);
    }

    #[test]
    fn the_oldest_evidence_goes_first_and_never_takes_the_room_of_a_version() {
        let dir = tempfile::tempdir().unwrap();
        let quota = 8 * 4096;
        let store = Store::open(dir.path(), quota).unwrap();
        let text = |n: u32| format!("content {n}");
        let all: Vec<Hash> = (0..8)
            .map(|n| store.put_evidence(text(n).as_bytes()).unwrap())
            .collect();
        // The file system's clock is coarse: they are made older by hand.
        for (age, digest) in all.iter().rev().enumerate() {
            let hex = digest.to_hex();
            let path = dir.path().join("blobs").join(&hex[..2]).join(&hex[2..]);
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let age = std::time::Duration::from_secs(60 * (age as u64 + 1));
            file.set_modified(std::time::SystemTime::now() - age)
                .unwrap();
        }
        let new = store.put_evidence(b"the newest").unwrap();
        assert!(Store::peek_blob(dir.path(), &new).is_ok());
        assert!(Store::peek_blob(dir.path(), &all[0]).is_err(), "the oldest");
        assert!(Store::peek_blob(dir.path(), &all[1]).is_ok());
        assert!(store.usage().bytes <= quota);
        assert_eq!(store.usage().released, 0);
    }
}
