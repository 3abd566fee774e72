//! What an earlier look saw: a file whose inode, owner, mode, flags, links, size and times are all as they were then holds what it held, and need not be read again.
//!
//! This is no baseline. A row says what a file held, not what it should hold: the digest in it is compared with what is declared *now*, as one that was just read
//! is. A row counts only
//!
//! * where nothing could have changed without another `ctime`. That cannot be set, other than `mtime`: so it must be older than the look that read the file, by more
//!   than the grain of the file system's clock (two changes within one tick have one time);
//! * on file systems of this machine that keep it: what a server or a FUSE program says of times is its own affair, and images of read-only file systems are made
//!   with any times.
//!
//! Who can set the clock, or write to the disk beneath the file system, can deceive it: `check --full` reads everything.

use std::{
    io,
    os::{fd::BorrowedFd, unix::ffi::OsStrExt},
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::fs::fstatfs;

use super::{Found, Observed, Stat, Times};
use crate::{
    declare::{Attributes, Compare, Declared, Flags, Target},
    kept::{self, Unusable},
    report::FileType,
};

/// The form is another one when rows are.
const HEAD: &kept::Head = b"drift seen 2\0\0\0\0";

/// What was seen at many paths, in their order.
#[derive(Debug, Default)]
pub struct Seen {
    bytes: Vec<u8>,
    /// Where in `bytes` each row begins.
    rows: Vec<u32>,
}

/// Of one file: its attributes and the digests of its content, as they are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Row([u8; Row::SIZE]);

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (stat, digest, _) = self.decode();
        write!(f, "Row({stat:?}, {digest})")
    }
}

impl Row {
    const SIZE: usize = 6 * 4 + 2 * 8 + 2 * 12 + 2 + 2 * blake3::OUT_LEN;

    /// What is kept of a look that began at `start`; `None` where the file could change, or have changed, without showing it.
    #[must_use]
    pub fn of(observed: &Observed, start: SystemTime) -> Option<Row> {
        let (Found::File(Some(digest)), Some(stat)) = (&observed.found, &observed.stat) else {
            return None;
        };
        if !is_settled(stat.times, start) {
            return None;
        }
        let body = observed.body;
        let mut row = [0; Row::SIZE];
        let mut rest = &mut row[..];
        let mut put = |bytes: &[u8]| {
            if let Some((room, after)) = std::mem::take(&mut rest).split_at_mut_checked(bytes.len())
            {
                room.copy_from_slice(bytes);
                rest = after;
            }
        };
        for number in [
            stat.mode, stat.uid, stat.gid, stat.links, stat.dev.0, stat.dev.1,
        ] {
            put(&number.to_le_bytes());
        }
        for number in [stat.size, stat.ino] {
            put(&number.to_le_bytes());
        }
        for (seconds, nanoseconds) in [stat.times.mtime, stat.times.ctime] {
            put(&seconds.to_le_bytes());
            put(&nanoseconds.to_le_bytes());
        }
        put(&[flags_to_byte(stat.flags)]);
        put(digest.as_bytes());
        put(&[u8::from(body.is_some())]);
        let none = [0; blake3::OUT_LEN];
        put(body.as_ref().map_or(&none[..], |body| body.as_bytes()));
        Some(Row(row))
    }

    fn decode(&self) -> (Stat, blake3::Hash, Option<blake3::Hash>) {
        fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
            let (taken, after) = rest.split_first_chunk().unwrap_or((&[0; N], &[]));
            *rest = after;
            *taken
        }
        let rest = &mut &self.0[..];
        let u32 = |rest: &mut &[u8]| u32::from_le_bytes(take(rest));
        let [mode, uid, gid, links] = [(); 4].map(|()| u32(rest));
        let dev = (u32(rest), u32(rest));
        let [size, ino] = [(); 2].map(|()| u64::from_le_bytes(take(rest)));
        let [mtime, ctime] = [(); 2].map(|()| (i64::from_le_bytes(take(rest)), u32(rest)));
        let [flags] = take(rest);
        let digest = blake3::Hash::from_bytes(take(rest));
        let [has_body] = take(rest);
        let body = blake3::Hash::from_bytes(take(rest));
        let stat = Stat {
            file_type: FileType::File,
            mode,
            uid,
            gid,
            size,
            links,
            flags: flags_of_byte(flags),
            ino,
            dev,
            times: Times { mtime, ctime },
        };
        (stat, digest, (has_body != 0).then_some(body))
    }

    /// What a look at the file would see, where `stat` is what it has now and `declared` what it must be; `None`: it must be looked at.
    pub(super) fn answers(&self, stat: &Stat, declared: &Declared) -> Option<Observed> {
        let Target::File(content) = &declared.target else {
            return None;
        };
        let (then, digest, body) = self.decode();
        // What is compared by more than digests and what `stat` has (mode, owner, links) is looked at, and so is the way through links.
        let is_enough = content.compare == Compare::Exact
            && content.meaning.is_none()
            && declared.attributes == Attributes::default()
            && declared.links().is_empty()
            && content.lines.is_none()
            && (content.body.is_none() || body.is_some())
            && stat.size <= content.max_size;
        (then == *stat && is_enough).then(|| Observed {
            found: Found::File(Some(digest)),
            body,
            stat: Some(then),
            ..Observed::nothing()
        })
    }
}

fn flags_to_byte(flags: Option<Flags>) -> u8 {
    flags.map_or(0, |Flags { immutable, append }| {
        1 | u8::from(immutable) << 1 | u8::from(append) << 2
    })
}

fn flags_of_byte(byte: u8) -> Option<Flags> {
    (byte != 0).then_some(Flags {
        immutable: byte & 2 != 0,
        append: byte & 4 != 0,
    })
}

/// Whether a change after `start` would show in the times.
fn is_settled(times: Times, start: SystemTime) -> bool {
    let (seconds, nanoseconds) = times.ctime;
    // The kernel's clock for files ticks every few milliseconds; some file systems keep (even) seconds only.
    let grain = Duration::from_millis(if nanoseconds == 0 { 2000 } else { 20 });
    let (Ok(seconds), Ok(now)) = (
        u64::try_from(seconds),
        start.duration_since(SystemTime::UNIX_EPOCH),
    ) else {
        return false;
    };
    Duration::new(seconds, nanoseconds).saturating_add(grain) < now
}

/// Whether the file system of an open directory keeps `ctime` by this machine's clock, whatever anybody does through it.
pub(super) fn keeps_times(directory: BorrowedFd<'_>) -> bool {
    /// ext2 to ext4, XFS, btrfs, F2FS, tmpfs, overlay.
    const KNOWN: [u32; 6] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0xf2f5_2010,
        0x0102_1994,
        0x794c_7630,
    ];
    // The magic number is 32 bits wide, whatever the field is.
    fstatfs(directory).is_ok_and(|is| KNOWN.contains(&(is.f_type as u32)))
}

impl Seen {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// A path and its row.
    fn at(&self, index: usize) -> Option<(&Path, Row)> {
        let start = *self.rows.get(index)? as usize;
        let (length, rest) = self.bytes.get(start..)?.split_first_chunk::<4>()?;
        let (row, rest) = rest.split_first_chunk()?;
        let path = rest.get(..u32::from_le_bytes(*length) as usize)?;
        Some((Path::new(std::ffi::OsStr::from_bytes(path)), Row(*row)))
    }

    /// The row of a path. `next` is where it is expected, and is moved: paths are asked for in their order.
    pub fn row(&self, path: &Path, next: &mut usize) -> Option<Row> {
        let is_it = |(at, _): &(&Path, Row)| at.as_os_str() == path.as_os_str();
        if self.at(*next).as_ref().is_none_or(|found| !is_it(found)) {
            let indexes = 0..self.rows.len();
            *next = partition_point(indexes, |index| {
                self.at(index).is_some_and(|(at, _)| at < path)
            });
        }
        let (_, row) = self.at(*next).filter(is_it)?;
        *next += 1;
        Some(row)
    }

    /// All rows, in their order.
    pub fn rows(&self) -> impl Iterator<Item = (&Path, Row)> {
        (0..self.rows.len()).filter_map(|index| self.at(index))
    }

    /// What a file at `path` holds.
    ///
    /// # Errors
    /// Why there is nothing to be believed.
    pub fn read(path: &Path) -> Result<Seen, Unusable> {
        let bytes = kept::read(path, HEAD)?;
        let mut rows = Vec::new();
        let mut at = HEAD.len();
        while at < bytes.len() {
            let length = bytes
                .get(at..)
                .and_then(|rest| rest.split_first_chunk::<4>());
            let (length, _) = length.ok_or(Unusable::Damaged)?;
            rows.push(u32::try_from(at).map_err(|_| Unusable::Damaged)?);
            at += 4 + Row::SIZE + u32::from_le_bytes(*length) as usize;
        }
        if at != bytes.len() {
            return Err(Unusable::Damaged);
        }
        Ok(Seen { bytes, rows })
    }

    /// Puts `rows` in the place of what a file holds.
    ///
    /// # Errors
    /// It cannot be written; what was there still is.
    pub fn write<'p>(
        path: &Path,
        mut rows: impl Iterator<Item = (&'p Path, Row)>,
    ) -> io::Result<()> {
        kept::replace(path, HEAD, |out| {
            rows.try_for_each(|(path, Row(row))| {
                let path = path.as_os_str().as_bytes();
                let length = u32::try_from(path.len()).map_err(io::Error::other)?;
                out.write_all(&length.to_le_bytes())?;
                out.write_all(&row)?;
                out.write_all(path)
            })
        })
    }
}

/// The first of `indexes` for which `is_before` does not hold.
fn partition_point(indexes: std::ops::Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (indexes.start, indexes.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests;
