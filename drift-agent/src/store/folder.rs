//! A folder of the store's own, held by its descriptor: no name in it is ever followed if it is a link, and what is written is wholly there
//! or not at all.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, RawMode, ResolveFlags, Stat, fchmod, fstat, fsync,
        mkdirat, open, openat2, renameat, statat, syncfs, unlinkat,
    },
    io::Errno,
};

use crate::sync::sync_directory;

const PRIVATE_FILE: RawMode = 0o600;
const PRIVATE_FOLDER: RawMode = 0o700;

/// What a name begins with while its file is being written.
const TEMPORARY: &str = ".new-";

/// Makes names of files under way different from each other, within a process.
static UNDER_WAY: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
}

/// A file that is complete but has not taken its name.
#[derive(Debug)]
pub(super) struct Unnamed<'f> {
    folder: &'f Folder,
    file: File,
    /// `None` once it has its name.
    temporary: Option<String>,
}

impl Folder {
    /// The folder the user named: links on the way to it are the user's own.
    pub(super) fn named(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            fd: open(path, flags, Mode::empty())?,
        })
    }

    /// The folder `name` in this one, made if it is not there. Where something else has the name it is removed, if it is not a folder
    /// itself: nothing but folders of the store belongs there.
    pub(super) fn folder(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        for _ in 0..3 {
            match self.open(name, flags, 0) {
                Ok(fd) => {
                    let mode = Mode::from_raw_mode(PRIVATE_FOLDER);
                    if Mode::from_raw_mode(fstat(&fd)?.st_mode) != mode {
                        fchmod(&fd, mode)?;
                    }
                    return Ok(Self { fd });
                }
                Err(Errno::NOENT) => {
                    match mkdirat(&self.fd, name, Mode::from_raw_mode(PRIVATE_FOLDER)) {
                        Ok(()) => sync_directory(&self.fd)?,
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(Errno::LOOP | Errno::NOTDIR) => self.remove_name(name)?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::LOOP.into())
    }

    /// The folder `name`, if it is there and is one.
    pub(super) fn existing(&self, name: &OsStr) -> io::Result<Option<Self>> {
        match self.open(name, OFlags::RDONLY | OFlags::DIRECTORY, 0) {
            Ok(fd) => Ok(Some(Self { fd })),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn open(&self, name: &OsStr, flags: OFlags, mode: RawMode) -> Result<OwnedFd, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // Without O_NONBLOCK a planted FIFO would be waited at for ever.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        openat2(&self.fd, name, flags, Mode::from_raw_mode(mode), resolve)
    }

    /// The regular file `name`, for reading. Something else at that name is as if nothing were there, but said: `Err` of `InvalidData`.
    pub(super) fn file(&self, name: &str) -> io::Result<Option<File>> {
        match self.open(OsStr::new(name), OFlags::RDONLY, 0) {
            Ok(fd) => regular(fd).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => Err(not_regular()),
            Err(error) => Err(error.into()),
        }
    }

    /// The regular file `name`, for reading and writing, made if it is not there.
    pub(super) fn file_to_change(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        match self.open(OsStr::new(name), flags, PRIVATE_FILE) {
            Ok(fd) => {
                let mode = Mode::from_raw_mode(PRIVATE_FILE);
                if Mode::from_raw_mode(fstat(&fd)?.st_mode) != mode {
                    fchmod(&fd, mode)?;
                }
                regular(fd)
            }
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => Err(not_regular()),
            Err(error) => Err(error.into()),
        }
    }

    /// All of the regular file `name`.
    ///
    /// # Errors
    /// `InvalidData`: more than `most` bytes, or no regular file.
    pub(super) fn read(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too large"));
        }
        Ok(Some(bytes))
    }

    /// What stands at `name`.
    pub(super) fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A file that has everything but its name. Not synced.
    pub(super) fn write_unnamed(&self, bytes: &[u8]) -> io::Result<Unnamed<'_>> {
        self.unnamed(|file| file.write_all(bytes))
    }

    /// The same, with what `write` writes.
    pub(super) fn unnamed(
        &self,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<Unnamed<'_>> {
        let number = UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        // Of this process: the restorer writes here too.
        let name = format!("{TEMPORARY}{}-{number}", std::process::id());
        // What an agent that was killed has left under this name.
        self.remove(&name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let fd = self.open(OsStr::new(&name), flags, PRIVATE_FILE)?;
        let mut unnamed = Unnamed {
            folder: self,
            file: File::from(fd),
            temporary: Some(name),
        };
        write(&mut unnamed.file)?;
        Ok(unnamed)
    }

    /// Puts `bytes` at `name`: after a kill or a power cut there is what was there before, or these bytes.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unnamed = self.write_unnamed(bytes)?;
        fsync(&unnamed.file)?;
        unnamed.take_name(self, name)?;
        self.sync()
    }

    /// Gives the name to another; what had that one before is gone.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        renameat(&self.fd, from, &self.fd, to)?;
        self.sync()
    }

    /// Removes `name`, be it a file, a link, or an empty folder. Not being there is fine.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        self.remove_name(OsStr::new(name))
    }

    pub(super) fn remove_name(&self, name: &OsStr) -> io::Result<()> {
        let result = match unlinkat(&self.fd, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => unlinkat(&self.fd, name, AtFlags::REMOVEDIR),
            other => other,
        };
        match result {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes everything in it. `depth`: folders in each other, at most.
    pub(super) fn clear(&self, depth: usize) -> io::Result<()> {
        for name in self.names()? {
            if let Some(folder) = self.existing(&name)? {
                let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
                folder.clear(depth)?;
            }
            self.remove_name(&name)?;
        }
        Ok(())
    }

    /// Its names, without `.` and `..`.
    pub(super) fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        use std::os::unix::ffi::OsStrExt;
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Removes what was under way when an agent was killed.
    pub(super) fn remove_leftovers(&self) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        for name in self.names()? {
            if name.as_bytes().starts_with(TEMPORARY.as_bytes()) {
                self.remove_name(&name)?;
            }
        }
        Ok(())
    }

    /// Makes its names last.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(sync_directory(&self.fd)?)
    }

    /// Makes everything of this file system last: one wait for many files. (Kernels tell failures here since 5.8.)
    pub(super) fn sync_all(&self) -> io::Result<()> {
        Ok(syncfs(&self.fd)?)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Unnamed<'_> {
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.file)?)
    }

    /// How many bytes it has.
    pub(super) fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Takes `name` in `folder`, on the same file system. Whatever had it is gone; a link is replaced, not followed.
    pub(super) fn take_name(mut self, folder: &Folder, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        if let Some(temporary) = &self.temporary {
            let place = || renameat(&self.folder.fd, temporary, &folder.fd, name);
            match place() {
                Err(Errno::ISDIR) => {
                    folder.remove_name(name)?;
                    place()?;
                }
                other => other?,
            }
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // What stays is removed at the next start; the error that led here is the one to tell.
            let _removed_at_the_next_start = self.folder.remove(temporary);
        }
    }
}

pub(super) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn regular(fd: OwnedFd) -> io::Result<File> {
    if is_regular(&fstat(&fd)?) {
        Ok(fd.into())
    } else {
        Err(not_regular())
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a regular file")
}
