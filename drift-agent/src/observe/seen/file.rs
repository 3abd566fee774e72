//! The file that outlives a check: rows behind one another, between a head that names their form and a digest of it all.
//!
//! A cache: replaced whole, and not synced. One that is cut off, of another form, or in anything not as it was written, is as good as none.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, open},
    process::geteuid,
};
use thiserror::Error;

use super::{Row, Seen};

/// What each begins with. The form is another one when rows are.
const HEAD: &[u8; 16] = b"drift seen 1\0\0\0\0";
/// Bytes that are read at most: rows of more than a million paths.
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

pub(super) fn read(path: &Path) -> Result<Seen, Unusable> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Err(Unusable::Absent),
        Err(error) => return Err(Unusable::Unreadable(error.into())),
    };
    let metadata = file.metadata().map_err(Unusable::Unreadable)?;
    if !metadata.is_file() || metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(Unusable::NotOurs);
    }
    if metadata.len() > MOST {
        return Err(Unusable::Damaged);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    file.take(MOST + 1)
        .read_to_end(&mut bytes)
        .map_err(Unusable::Unreadable)?;
    decode(bytes).ok_or(Unusable::Damaged)
}

fn decode(mut bytes: Vec<u8>) -> Option<Seen> {
    let (rest, digest) = bytes.split_last_chunk::<{ blake3::OUT_LEN }>()?;
    if !rest.starts_with(HEAD) || blake3::hash(rest) != *digest {
        return None;
    }
    let end = rest.len();
    bytes.truncate(end);
    let mut rows = Vec::new();
    let mut at = HEAD.len();
    while at < end {
        rows.push(u32::try_from(at).ok()?);
        let (length, _) = bytes.get(at..)?.split_first_chunk::<4>()?;
        at = at.checked_add(4 + Row::SIZE + u32::from_le_bytes(*length) as usize)?;
    }
    (at == end).then_some(Seen { bytes, rows })
}

pub(super) fn write<'p>(
    path: &Path,
    rows: impl Iterator<Item = (&'p Path, Row)>,
) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = Vec::with_capacity(1 << 20);
    buffer.extend_from_slice(HEAD);
    for (path, row) in rows {
        let bytes = path.as_os_str().as_bytes();
        let Ok(length) = u32::try_from(bytes.len()) else {
            continue;
        };
        buffer.extend_from_slice(&length.to_le_bytes());
        buffer.extend_from_slice(&row.0);
        buffer.extend_from_slice(bytes);
        if buffer.len() > (1 << 20) - (8 << 10) {
            hasher.update(&buffer);
            file.write_all(&buffer)?;
            buffer.clear();
        }
    }
    hasher.update(&buffer);
    buffer.extend_from_slice(hasher.finalize().as_bytes());
    file.write_all(&buffer)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
