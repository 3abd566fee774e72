//! The root of the host, and the way from it to a directory.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};

use super::stat::{Stat, stat_at};

/// Bytes of a path that is handed to the kernel, with the one that ends it.
const PATH_MAX: usize = 4096;

/// The host's file tree, from a pinned root.
#[derive(Debug)]
pub struct Host {
    root: OwnedFd,
}

/// No component of a declared path may be a link: a link that somebody plants would otherwise decide what is read and written.
pub(super) const STRAIGHT: ResolveFlags = ResolveFlags::NO_SYMLINKS
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::BENEATH);

impl Host {
    /// Pins the root directory.
    pub fn new(root: &Path) -> io::Result<Host> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Host {
            root: openat(CWD, root, flags, Mode::empty())?,
        })
    }

    /// A directory, reached without a link in its way. `flags` beside `O_DIRECTORY`.
    pub fn directory(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut rest = path.strip_prefix("/").unwrap_or(path);
        if rest.as_os_str().is_empty() {
            rest = Path::new(".");
        }
        let open = |dir: BorrowedFd<'_>, path: &Path, flags: OFlags| {
            let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat2(dir, path, flags, Mode::empty(), STRAIGHT)
        };
        // The kernel takes no longer text for a path. Directories may be deeper: they are walked to in steps.
        let mut reached: Option<OwnedFd> = None;
        while rest.as_os_str().len() >= PATH_MAX {
            let (step, further) = split(rest).ok_or(Errno::NAMETOOLONG)?;
            let from = reached.as_ref().unwrap_or(&self.root);
            reached = Some(open(from.as_fd(), step, OFlags::PATH)?);
            rest = further;
        }
        open(reached.as_ref().unwrap_or(&self.root).as_fd(), rest, flags)
    }

    /// What changes when a file does, without opening it; `None` where nothing can be looked at, or a link is in the way.
    pub fn stat(&self, path: &Path) -> Option<Stat> {
        let parent = self.directory(path.parent()?, OFlags::PATH).ok()?;
        stat_at(parent.as_fd(), path.file_name()?).ok()
    }
}

/// The longest beginning of a path that the kernel takes, and the rest.
fn split(path: &Path) -> Option<(&Path, &Path)> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes[..PATH_MAX].iter().rposition(|byte| *byte == b'/')?;
    let part = |bytes| Path::new(OsStr::from_bytes(bytes));
    Some((part(&bytes[..end]), part(&bytes[end + 1..])))
}
