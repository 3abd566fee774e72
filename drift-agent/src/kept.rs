//! Files that a run leaves for the next one and that may be lost: a head that names their form, what they hold, and a digest of both.
//!
//! Caches: replaced whole, and not synced. One that is cut off, of another form, in anything not as it was written, or open to others' writing, is as good as none.

use std::{
    fs::{File, Permissions},
    io::{self, BufWriter, Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use rustix::fs::{Mode, OFlags, open};
use thiserror::Error;

use crate::confine;

/// What a file begins with.
pub type Head = [u8; 16];

/// Bytes that are read at most.
const MOST: u64 = 256 << 20;

/// Why a file says nothing. A closed set.
#[derive(Debug, Error)]
pub enum Unusable {
    #[error("there is none yet")]
    Absent,
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("others than this user can write to it, or it is no regular file")]
    NotOurs,
    #[error("it is damaged, or of another version")]
    Damaged,
}

/// The head and what comes after it.
///
/// # Errors
/// Why there is nothing to be believed.
pub fn read(path: &Path, head: &Head) -> Result<Vec<u8>, Unusable> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Err(Unusable::Absent),
        Err(error) => return Err(Unusable::Unreadable(error.into())),
    };
    let metadata = file.metadata().map_err(Unusable::Unreadable)?;
    if !metadata.is_file() || !confine::is_own(metadata.uid()) || metadata.mode() & 0o022 != 0 {
        return Err(Unusable::NotOurs);
    }
    if metadata.len() > MOST {
        return Err(Unusable::Damaged);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    file.take(MOST + 1)
        .read_to_end(&mut bytes)
        .map_err(Unusable::Unreadable)?;
    let end = match bytes.split_last_chunk::<{ blake3::OUT_LEN }>() {
        Some((rest, digest)) if rest.starts_with(head) && blake3::hash(rest) == *digest => {
            rest.len()
        }
        _ => return Err(Unusable::Damaged),
    };
    bytes.truncate(end);
    Ok(bytes)
}

/// Puts what `fill` writes in the place of what a file holds.
///
/// # Errors
/// It cannot be written; what was there still is.
pub fn replace(
    path: &Path,
    head: &Head,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
    let hashing = Hashing {
        file,
        hasher: blake3::Hasher::new(),
    };
    let mut out = BufWriter::with_capacity(1 << 20, hashing);
    out.write_all(head)?;
    fill(&mut out)?;
    let Hashing { mut file, hasher } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.write_all(hasher.finalize().as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

struct Hashing<W> {
    file: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
