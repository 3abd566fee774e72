//! Contents by their BLAKE3 digest: `blobs/ab/cdef…`, compressed with zstd, believed only after they were hashed again.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
};

use blake3::Hash;
use drift_common::policy::MAX_CONTENT;

use super::{
    StoreError,
    folder::{Folder, Unnamed, is_regular},
};
use crate::declare::{Body, Form};

/// Bytes of one blob, uncompressed, that is read into memory, at most: reading one takes bounded memory whatever stands on the disk.
pub const MOST_BLOB: u64 = 256 << 20;

/// Fast, and half of the size of most configuration.
const LEVEL: i32 = 3;

/// Files that are synced together when there are many.
const BATCH: usize = 256;

/// Where files under way are.
const INCOMING: &str = "incoming";

/// What a file takes of the disk, at least.
const BLOCK: u64 = 4096;

#[derive(Debug)]
pub(super) struct Blobs {
    folder: Folder,
    incoming: Folder,
}

/// A blob that is there.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) digest: Hash,
    /// Bytes on the disk.
    pub(super) size: u64,
    /// Seconds since 1970.
    pub(super) written: i64,
}

impl Blobs {
    pub(super) fn open(state: &Folder) -> io::Result<Self> {
        let folder = state.folder("blobs")?;
        let incoming = folder.folder(INCOMING)?;
        incoming.remove_leftovers()?;
        Ok(Self { folder, incoming })
    }

    /// While another process has them open, which alone puts any.
    pub(super) fn open_beside(state: &Folder) -> io::Result<Self> {
        let folder = state.folder("blobs")?;
        let incoming = folder.folder(INCOMING)?;
        Ok(Self { folder, incoming })
    }

    /// The content with this digest.
    ///
    /// # Errors
    /// [`StoreError::Missing`]; [`StoreError::Corrupt`], and then it has been removed, so that it can be put again.
    pub(super) fn get(&self, digest: &Hash) -> Result<Vec<u8>, StoreError> {
        match self.read(digest, MOST_BLOB)? {
            Body::Held(bytes) => Ok(bytes.to_vec()),
            large @ Body::Large(_) => Err(StoreError::TooLarge { size: large.size() }),
        }
    }

    /// As [`Blobs::get`]; what is larger than a content that is held in memory stays in its file.
    pub(super) fn body(&self, digest: &Hash) -> Result<Body, StoreError> {
        self.read(digest, MAX_CONTENT)
    }

    fn read(&self, digest: &Hash, most: u64) -> Result<Body, StoreError> {
        let (shard, name) = place(digest);
        let missing = || StoreError::Missing { digest: *digest };
        let Some(shard) = self
            .folder
            .existing(OsStr::new(&shard))
            .map_err(StoreError::io("open a folder of blobs"))?
        else {
            return Err(missing());
        };
        let why = match shard.file(&name) {
            Ok(None) => return Err(missing()),
            Ok(Some(file)) => match Body::read(file, Form::Compressed, most) {
                Ok((body, found)) if found == *digest => return Ok(body),
                Ok(_) => "its content has another digest".to_owned(),
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            Err(error) => return Err(StoreError::io("read a blob")(error)),
        };
        shard
            .remove(&name)
            .map_err(StoreError::io("remove a corrupt blob"))?;
        Err(StoreError::Corrupt {
            digest: *digest,
            why,
        })
    }

    /// As [`Blobs::get`], of whatever agent's state folder: nothing is made, and nothing removed.
    pub(super) fn peek(state: &Folder, digest: &Hash) -> Result<Vec<u8>, StoreError> {
        let (shard, name) = place(digest);
        let io = StoreError::io("read a blob");
        let missing = || StoreError::Missing { digest: *digest };
        let blobs = state.existing(OsStr::new("blobs")).map_err(&io)?;
        let shard = match blobs {
            Some(blobs) => blobs.existing(OsStr::new(&shard)).map_err(&io)?,
            None => None,
        };
        let file = shard.ok_or_else(missing)?.file(&name).map_err(&io)?;
        let file = file.ok_or_else(missing)?;
        match Body::read(file, Form::Compressed, MOST_BLOB) {
            Ok((Body::Held(bytes), found)) if found == *digest => Ok(bytes.to_vec()),
            Ok((large @ Body::Large(_), found)) if found == *digest => {
                Err(StoreError::TooLarge { size: large.size() })
            }
            _ => Err(StoreError::Corrupt {
                digest: *digest,
                why: "its content has another digest".to_owned(),
            }),
        }
    }

    /// A content that is too large for memory, compressed, and what it takes of the disk. It has no name yet.
    pub(super) fn compress(&self, body: &Body) -> io::Result<(Unnamed<'_>, u64)> {
        let blob = self.incoming.unnamed(|file| {
            let mut encoder = zstd::stream::write::Encoder::new(file, LEVEL)?;
            body.each(&mut |part| encoder.write_all(part))?;
            encoder.finish().map(drop)
        })?;
        let size = on_disk(blob.size()?);
        Ok((blob, size))
    }

    /// Gives it its name. When it returns, it lasts.
    pub(super) fn put_unnamed(&self, digest: &Hash, blob: Unnamed<'_>) -> io::Result<()> {
        blob.sync()?;
        let (shard, name) = place(digest);
        let shard = self.folder.folder(&shard)?;
        blob.take_name(&shard, &name)?;
        shard.sync()
    }

    /// As [`Blobs::put`], without waiting until it lasts.
    pub(super) fn put_lazily(&self, digest: &Hash, compressed: &[u8]) -> io::Result<()> {
        let (shard, name) = place(digest);
        let unnamed = self.incoming.write_unnamed(compressed)?;
        unnamed.take_name(&self.folder.folder(&shard)?, &name)
    }

    /// What the blob takes of the disk, if there is one. Its content is not looked at.
    pub(super) fn size(&self, digest: &Hash) -> io::Result<Option<u64>> {
        let (shard, name) = place(digest);
        let Some(shard) = self.folder.existing(OsStr::new(&shard))? else {
            return Ok(None);
        };
        let stat = shard.stat(OsStr::new(&name))?;
        Ok(stat
            .filter(is_regular)
            .map(|stat| on_disk(u64::try_from(stat.st_size).unwrap_or(0))))
    }

    /// Puts what is compressed already under the digests of the contents; what stood there is replaced. When it returns, all last.
    pub(super) fn put(&self, blobs: &[(Hash, Vec<u8>)]) -> io::Result<()> {
        for batch in blobs.chunks(BATCH) {
            let mut unnamed = Vec::with_capacity(batch.len());
            for (digest, compressed) in batch {
                unnamed.push((digest, self.incoming.write_unnamed(compressed)?));
            }
            // Before the names: a name must never stand for less than all of its bytes.
            match unnamed.as_slice() {
                [(_, one)] => one.sync()?,
                _ => self.folder.sync_all()?,
            }
            let alone = unnamed.len() == 1;
            for (digest, file) in unnamed {
                let (shard, name) = place(digest);
                let shard = self.folder.folder(&shard)?;
                file.take_name(&shard, &name)?;
                if alone {
                    shard.sync()?;
                }
            }
            if !alone {
                self.folder.sync_all()?;
            }
        }
        Ok(())
    }

    pub(super) fn remove(&self, digest: &Hash) -> io::Result<()> {
        let (shard, name) = place(digest);
        match self.folder.existing(OsStr::new(&shard))? {
            Some(shard) => shard.remove(&name),
            None => Ok(()),
        }
    }

    /// All that is there. Whatever is not named as a blob is removed: nothing else belongs here, and it would take room that nobody counts.
    pub(super) fn list(&self) -> io::Result<Vec<Stored>> {
        let mut all = Vec::new();
        for shard_name in self.folder.names()? {
            if shard_name == INCOMING {
                continue;
            }
            let shard = match self.folder.existing(&shard_name)? {
                Some(shard) if shard_name.as_bytes().len() == 2 => shard,
                Some(_) => continue,
                None => {
                    self.folder.remove_name(&shard_name)?;
                    continue;
                }
            };
            for name in shard.names()? {
                let Some(stat) = shard.stat(&name)? else {
                    continue;
                };
                match digest(&shard_name, &name).filter(|_| is_regular(&stat)) {
                    Some(digest) => all.push(Stored {
                        digest,
                        size: on_disk(u64::try_from(stat.st_size).unwrap_or(0)),
                        written: stat.st_mtime,
                    }),
                    None if is_folder_with_something(&shard, &name)? => {}
                    None => shard.remove_name(&name)?,
                }
            }
        }
        Ok(all)
    }
}

fn is_folder_with_something(shard: &Folder, name: &OsStr) -> io::Result<bool> {
    match shard.existing(name)? {
        Some(folder) => Ok(!folder.names()?.is_empty()),
        None => Ok(false),
    }
}

/// Bytes as the disk counts them.
pub(super) fn on_disk(size: u64) -> u64 {
    size.div_ceil(BLOCK).max(1) * BLOCK
}

pub(super) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, LEVEL)
}

/// The folder and the name of a blob.
fn place(digest: &Hash) -> (String, String) {
    let mut shard = digest.to_hex().to_string();
    let name = shard.split_off(2);
    (shard, name)
}

fn digest(shard: &OsString, name: &OsString) -> Option<Hash> {
    let mut hex = shard.as_bytes().to_vec();
    hex.extend_from_slice(name.as_bytes());
    // Upper case would be another name for the same digest.
    Hash::from_hex(&hex)
        .ok()
        .filter(|digest| digest.to_hex().as_bytes() == hex)
}
