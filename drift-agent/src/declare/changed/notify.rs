//! inotify, as far as it is needed here.

use std::{
    collections::HashMap, ffi::OsStr, io, mem::MaybeUninit, os::unix::ffi::OsStrExt, path::PathBuf,
};

use drift_common::escape;
use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};
use tokio::io::{Interest as Readiness, unix::AsyncFd};

use super::way::{Interest, Ways};

/// Why not everything can be watched, and what helps.
#[derive(Debug, thiserror::Error)]
pub(super) enum Incomplete {
    #[error("cannot watch the policy folder: {}", limit(.0, "max_user_instances"))]
    Start(io::Error),
    #[error("cannot watch {}: {}", escape::path(.0), limit(.1, "max_user_watches"))]
    Watch(PathBuf, io::Error),
    #[error("the files that policies refer to are in too many directories to watch them all")]
    TooMany,
}

fn limit(error: &io::Error, name: &str) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => format!("no inotify watches left (raise fs.inotify.{name})"),
        _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            format!("no inotify instances left (raise fs.inotify.{name})")
        }
        _ => error.to_string(),
    }
}

#[derive(Debug)]
pub(super) struct Notify {
    fd: AsyncFd<OwnedFd>,
    /// By the number of the watch. Several paths can lead to one.
    watches: HashMap<i32, Interest>,
}

impl Notify {
    #[expect(
        deprecated,
        reason = "the replacement is unsafe for the sake of types whose descriptor can change; that of an OwnedFd cannot"
    )]
    pub(super) fn new() -> Result<Self, Incomplete> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(|fd| AsyncFd::with_interest(fd, Readiness::READABLE))
            .map_err(Incomplete::Start)?;
        let watches = HashMap::new();
        Ok(Self { fd, watches })
    }

    /// Watches these ways and no others.
    ///
    /// # Errors
    /// One of those that could not be watched; the others are.
    pub(super) fn watch(&mut self, ways: &Ways) -> Result<(), Incomplete> {
        let mut watches: HashMap<i32, Interest> = HashMap::new();
        let mut outcome = if ways.cut {
            Err(Incomplete::TooMany)
        } else {
            Ok(())
        };
        for (dir, interest) in &ways.dirs {
            match inotify::add_watch(self.fd.get_ref(), dir, flags(interest)) {
                Ok(watch) => watches.entry(watch).or_default().add(interest),
                // Gone in the meantime: an event in the directory above it said so.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => outcome = Err(Incomplete::Watch(dir.clone(), errno.into())),
            }
        }
        for old in self.watches.keys().filter(|old| !watches.contains_key(old)) {
            if let Err(errno) = inotify::remove_watch(self.fd.get_ref(), *old) {
                // The kernel removes the watch of a directory that is gone itself.
                log::trace!("watch {old}: {errno}");
            }
        }
        self.watches = watches;
        outcome
    }

    /// Waits for an event that matters.
    ///
    /// # Errors
    /// The descriptor cannot be read any more.
    pub(super) async fn event(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.fd.readable().await?;
            if read(self.fd.get_ref(), &self.watches)? {
                return Ok(());
            }
            ready.clear_ready();
        }
    }
}

/// Reads all events there are; whether one of them matters.
fn read(fd: &OwnedFd, watches: &HashMap<i32, Interest>) -> io::Result<bool> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(fd, &mut buffer);
    let mut matters = false;
    loop {
        match events.next() {
            Ok(event) => {
                let name = event
                    .file_name()
                    .map(|name| OsStr::from_bytes(name.to_bytes()));
                matters |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                    || watches.get(&event.wd()).is_some_and(|interest| match name {
                        Some(name) => interest.covers(name),
                        // The directory itself: moved, removed, unmounted, made unreadable.
                        None => true,
                    });
            }
            Err(Errno::AGAIN) => return Ok(matters),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn flags(interest: &Interest) -> WatchFlags {
    let names = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    let files = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
    let always = WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
    // Directories that are only passed can be busy ones, as /tmp is.
    if interest.files {
        names | files | always
    } else {
        names | always
    }
}
