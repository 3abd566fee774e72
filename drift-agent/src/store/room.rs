//! The quota: what blobs take of the disk, and which are given up when it is reached.

use std::collections::HashSet;

use blake3::Hash;

use super::{Store, StoreError, blob::Stored};

/// How full the store is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub blobs: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    pub quota: u64,
    /// Blobs that were given up for others since the start.
    pub evicted: u64,
    /// Versions whose blobs were given up for those of others since the start.
    pub released: u64,
    /// Blobs that found no room since the start.
    pub refused: u64,
}

impl Usage {
    /// What to tell people when the quota was reached; `None`: it was not.
    pub fn sentence(&self) -> Option<String> {
        let Self {
            blobs,
            bytes,
            quota,
            evicted,
            released,
            refused,
        } = self;
        (evicted + released + refused > 0).then(|| {
            format!(
                "the store's quota of {quota} bytes was reached: {evicted} blobs that no kept version needs and {released} old versions were \
                 given up, {refused} times there was no room; {blobs} blobs take {bytes} bytes now"
            )
        })
    }
}

#[derive(Debug)]
pub(super) struct Room {
    usage: Usage,
}

impl Room {
    pub(super) fn new(stored: &[Stored]) -> Self {
        let mut room = Self {
            usage: Usage::default(),
        };
        room.counted(stored);
        room
    }

    pub(super) fn usage(&self, quota: u64) -> Usage {
        Usage {
            quota,
            ..self.usage.clone()
        }
    }

    pub(super) fn added(&mut self, blobs: u64, bytes: u64) {
        self.usage.blobs += blobs;
        self.usage.bytes += bytes;
    }

    fn counted(&mut self, stored: &[Stored]) {
        self.usage.blobs = stored.len() as u64;
        self.usage.bytes = stored.iter().map(|stored| stored.size).sum();
    }
}

impl Store {
    /// Counts anew, after something went wrong.
    pub(super) fn count(&self, room: &mut Room) -> Result<(), StoreError> {
        let stored = self.blobs.list();
        room.counted(&stored.map_err(StoreError::io("list the blobs"))?);
        Ok(())
    }

    /// Makes room for `size` bytes on the disk: gives up what no retained version needs, oldest first; then, if that is not enough, versions
    /// that are neither active nor last good, oldest first. Nothing of `beside` is given up.
    pub(super) fn make_room(
        &self,
        room: &mut Room,
        size: u64,
        beside: &[(Hash, &[u8])],
    ) -> Result<(), StoreError> {
        while room.usage.bytes.saturating_add(size) > self.quota {
            self.evict(room, size, beside)?;
            if room.usage.bytes.saturating_add(size) <= self.quota {
                break;
            }
            if self.state.release_oldest()?.is_none() {
                room.usage.refused += 1;
                return Err(StoreError::Quota {
                    needed: size,
                    used: room.usage.bytes,
                    quota: self.quota,
                });
            }
            room.usage.released += 1;
        }
        Ok(())
    }

    /// As [`Store::make_room`], for what may be kept: nothing that a version needs is given up for it, be the version old.
    pub(super) fn make_room_for_evidence(
        &self,
        room: &mut Room,
        size: u64,
    ) -> Result<(), StoreError> {
        if room.usage.bytes.saturating_add(size) > self.quota {
            self.evict(room, size, &[])?;
        }
        if room.usage.bytes.saturating_add(size) > self.quota {
            return Err(StoreError::Quota {
                needed: size,
                used: room.usage.bytes,
                quota: self.quota,
            });
        }
        Ok(())
    }

    fn evict(
        &self,
        room: &mut Room,
        size: u64,
        beside: &[(Hash, &[u8])],
    ) -> Result<(), StoreError> {
        let io = StoreError::io("give up a blob");
        let mut needed: HashSet<Hash> = self.state.needed()?;
        needed.extend(self.needed_by_last_good());
        needed.extend(beside.iter().map(|(digest, _)| *digest));
        let mut stored = self.blobs.list().map_err(&io)?;
        room.counted(&stored);
        stored.sort_by_key(|stored| stored.written);
        for blob in stored {
            if room.usage.bytes.saturating_add(size) <= self.quota {
                break;
            }
            if !needed.contains(&blob.digest) {
                self.blobs.remove(&blob.digest).map_err(&io)?;
                room.usage.blobs -= 1;
                room.usage.bytes -= blob.size;
                room.usage.evicted += 1;
            }
        }
        Ok(())
    }
}
