//! Makes the names in a directory last.

use rustix::{
    fd::AsFd,
    fs::{Mode, OFlags, fsync, openat},
    io::{Errno, Result},
};

/// What was given, changed or taken away in an open directory is on the disk when this returns.
///
/// An xfs that has shut down, because its disk fails, answers the sync of a directory with success (seen in Linux 6.18): by then the inode waits for nothing any more.
/// It opens nothing, however. So the directory is opened once more: where the file system has shut down after a sync that was one, this fails too, and what is done
/// again does no harm.
///
/// # Errors
/// The kernel's. `EIO`: its file system may have lost them.
pub fn sync_directory(dir: impl AsFd) -> Result<()> {
    fsync(&dir)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(&dir, ".", flags, Mode::empty()) {
        Err(Errno::IO) => Err(Errno::IO),
        // Gone, or not to be opened by whom it is for now: it was synced.
        Ok(_) | Err(_) => Ok(()),
    }
}
