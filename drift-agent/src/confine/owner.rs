//! The state folder belongs to who the detector becomes.

use std::{io, os::fd::AsFd, os::unix::ffi::OsStrExt, path::Path};

use drift_common::escape;
use rustix::{
    fd::{BorrowedFd, OwnedFd},
    fs::{
        AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fstat, openat, statat,
    },
    io::Errno,
    process::geteuid,
};

use crate::store::FILES;

/// Whether what belongs to this user is the agent's own: this process's, or, where that is root, who the detector is.
#[must_use]
pub fn is_own(user: u32) -> bool {
    let own = geteuid();
    user == own.as_raw() || own.is_root() && user == super::DETECTOR
}

/// Folders in each other, at most: the store has fewer.
const MOST_DEPTH: usize = 64;

/// Gives the state folder, and all that is in it but files that are kept as they were, to this user and the group of the same number. No link is followed.
///
/// # Errors
/// Something in it stays another's.
pub fn give(folder: &Path, owner: u32) -> io::Result<()> {
    // Links on the way to it are the user's own.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, folder, flags, Mode::empty())?;
    let stat = fstat(&folder)?;
    beneath(&folder, Some(FILES), owner, MOST_DEPTH)?;
    if is_others(&stat, owner) {
        let (user, group) = ids(owner);
        rustix::fs::fchown(&folder, user, group)?;
    }
    Ok(())
}

fn beneath(folder: &OwnedFd, except: Option<&str>, owner: u32, depth: usize) -> io::Result<()> {
    let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_left = except.is_some_and(|except| name.to_bytes() == except.as_bytes());
        if is_left || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match one(
            folder.as_fd(),
            std::ffi::OsStr::from_bytes(name.to_bytes()),
            owner,
            depth,
        ) {
            // Somebody has removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

fn one(folder: BorrowedFd<'_>, name: &std::ffi::OsStr, owner: u32, depth: usize) -> io::Result<()> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inside = openat(folder, name, flags, Mode::empty())?;
        beneath(&inside, None, owner, depth)?;
    }
    if is_others(&stat, owner) {
        // A second name of a file of somebody else's, planted here, gives nobody that file.
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink > 1 {
            return Err(io::Error::other(format!(
                "{} has another name",
                escape::path(Path::new(name))
            )));
        }
        let (user, group) = ids(owner);
        chownat(folder, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn is_others(stat: &Stat, owner: u32) -> bool {
    stat.st_uid != owner || stat.st_gid != owner
}

fn ids(owner: u32) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))
}
