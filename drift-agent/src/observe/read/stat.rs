//! `statx`, as far as drift looks at it.

use std::{ffi::OsStr, io, os::fd::BorrowedFd};

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};

use crate::{declare::Flags, report::FileType};

/// A moment of the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub mtime: (i64, u32),
    pub ctime: (i64, u32),
}

/// `statx`, as far as drift looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub file_type: FileType,
    /// 07777.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub links: u32,
    /// `None`: the file system does not say.
    pub flags: Option<Flags>,
    pub ino: u64,
    /// (major, minor) as user space sees it.
    pub dev: (u32, u32),
    pub times: Times,
}

pub(super) fn stat_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Stat> {
    Ok(Stat::from(statx(
        dir,
        name,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        StatxFlags::BASIC_STATS,
    )?))
}

pub(super) fn stat_of(file: BorrowedFd<'_>) -> io::Result<Stat> {
    Ok(Stat::from(statx(
        file,
        c"",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS,
    )?))
}

impl Stat {
    /// Whether it is the same inode, whatever has become of it.
    pub(super) fn is_same_file(&self, other: &Stat) -> bool {
        (self.ino, self.dev) == (other.ino, other.dev)
    }
}

impl From<rustix::fs::Statx> for Stat {
    fn from(statx: rustix::fs::Statx) -> Stat {
        let mode = u32::from(statx.stx_mode);
        Stat {
            file_type: file_type(mode),
            mode: mode & 0o7777,
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            size: statx.stx_size,
            links: statx.stx_nlink,
            flags: flags(&statx),
            ino: statx.stx_ino,
            dev: (statx.stx_dev_major, statx.stx_dev_minor),
            times: Times {
                mtime: (statx.stx_mtime.tv_sec, statx.stx_mtime.tv_nsec),
                ctime: (statx.stx_ctime.tv_sec, statx.stx_ctime.tv_nsec),
            },
        }
    }
}

fn flags(statx: &rustix::fs::Statx) -> Option<Flags> {
    let (immutable, append) = (StatxAttributes::IMMUTABLE, StatxAttributes::APPEND);
    statx
        .stx_attributes_mask
        .contains(immutable | append)
        .then(|| Flags {
            immutable: statx.stx_attributes.contains(immutable),
            append: statx.stx_attributes.contains(append),
        })
}

pub(super) fn file_type(mode: u32) -> FileType {
    match mode & 0o170_000 {
        0o040_000 => FileType::Directory,
        0o120_000 => FileType::Symlink,
        0o010_000 => FileType::Fifo,
        0o140_000 => FileType::Socket,
        0o060_000 => FileType::Block,
        0o020_000 => FileType::Char,
        _ => FileType::File,
    }
}
