//! The root of the host, and the way from it to a directory.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, Mutex},
};

use drift_common::escape;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};

use super::{
    Observed,
    frame::{self, Frame},
    places::Places,
    stat::{Stat, stat_at},
};
use crate::{
    compare::structured,
    declare::{ActivePolicy, Declared},
    observe::Reading,
    report::complain,
};

/// File systems that are told of.
const MOST_TOLD: usize = 256;

/// Directories that are told of, each by itself, where the host's are not mounted.
const MOST_MISSING: usize = 8;

/// Bytes of a path that is handed to the kernel, with the one that ends it.
const PATH_MAX: usize = 4096;

/// The host's file tree, from a pinned root.
#[derive(Debug)]
pub struct Host {
    root: OwnedFd,
    /// The root is a pod's, and the host's directories are mounted beneath it.
    frame: Option<Frame>,
    /// Bytes of a file that are held even where nothing but their digest is compared.
    holds: usize,
    /// Where declared paths must be, for who watches them.
    places: Option<Places>,
    /// File systems of which was said that they do not have what is declared. `None`: that is another process's to say.
    told: Option<Mutex<BTreeSet<(u32, u32)>>>,
}

/// No component of a declared path may be a link: a link that somebody plants would otherwise decide what is read and written.
pub(super) const STRAIGHT: ResolveFlags = ResolveFlags::NO_SYMLINKS
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::BENEATH);

impl Host {
    /// Pins the root directory.
    ///
    /// # Errors
    /// It cannot be opened, or is a pod's own.
    pub fn new(root: &Path) -> io::Result<Host> {
        if let Some(why) = frame::refused(root) {
            return Err(io::Error::other(why));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, root, flags, Mode::empty())?;
        Ok(Host {
            frame: Frame::of(root, &opened),
            root: opened,
            holds: 0,
            places: None,
            told: Some(Mutex::default()),
        })
    }

    /// The content of each file is held, and not only of those that are compared by what they say: for who shows what differs.
    #[must_use]
    pub fn holding(self) -> Host {
        let holds = structured::MAX_SIZE;
        Host { holds, ..self }
    }

    /// Another process looks at the same, and says what there is to say.
    #[must_use]
    pub fn silent(self) -> Host {
        Host { told: None, ..self }
    }

    /// A declared path that is elsewhere than when it was declared is relocated, and not reached for anything.
    ///
    /// # Errors
    /// The table of mounts cannot be read.
    pub fn minding_places(self, root: &Path) -> io::Result<Host> {
        let places = Some(Places::of(root)?);
        Ok(Host { places, ..self })
    }

    /// From now on these paths are declared: see [`Places::declare`].
    pub fn declare(&self, files: &[Arc<Declared>]) {
        if let Some(places) = &self.places {
            // Neighbours mostly have the same policy.
            let mut last: Option<(&Arc<ActivePolicy>, Arc<str>)> = None;
            let each = files.iter().map(|file| {
                let policy = &file.policy;
                let known = last.take().filter(|(known, _)| Arc::ptr_eq(known, policy));
                let tag = match known {
                    Some((_, tag)) => tag,
                    None => format!("{} {}", policy.name, policy.version).into(),
                };
                last = Some((policy, Arc::clone(&tag)));
                (file.real(), tag)
            });
            places.declare(each);
        }
        if self.told.is_some() {
            self.tell_missing_mounts(files);
        }
    }

    /// Which directories of the host would have to be mounted, where this is a pod.
    fn tell_missing_mounts(&self, files: &[Arc<Declared>]) {
        let above = files.iter().filter_map(|file| file.real().parent());
        let directories: BTreeSet<&Path> = above.collect();
        let missing = directories
            .into_iter()
            .filter_map(|path| Some((path, self.missing_mount(path)?)));
        let missing: Vec<(&Path, String)> = missing.collect();
        for (path, told) in missing.iter().take(MOST_MISSING) {
            complain(format_args!(
                "degraded: what is declared in {} cannot be looked at (relocated): {told}.",
                escape::path(path)
            ));
        }
        if let Some(more @ 1..) = missing.len().checked_sub(MOST_MISSING) {
            complain(format_args!(
                "degraded: so it is with {more} other directories."
            ));
        }
    }

    /// In a pod: what to mount for what is in a directory of the host that is not there. `None`: it is there.
    pub(super) fn missing_mount(&self, directory: &Path) -> Option<String> {
        let frame = self.frame.as_ref()?;
        self.is_missing(directory).then(|| frame.told(directory))
    }

    /// Whether a directory, or what is nearest above it, is a pod's own and not the host's.
    fn is_missing(&self, directory: &Path) -> bool {
        let Some(frame) = &self.frame else {
            return false;
        };
        for above in directory.ancestors() {
            match self.straight(above, OFlags::PATH) {
                Ok(opened) => return frame.has(&opened),
                Err(Errno::NOENT) => {}
                // A link or a file stands in the way, on whatever it is: that is told of by itself.
                Err(_) => return false,
            }
        }
        true
    }

    pub fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }

    pub(super) fn holds(&self) -> usize {
        self.holds
    }

    /// Says where the file system does not have what is declared: once for each file system.
    pub(super) fn tell_unsupported(&self, declared: &Declared, observed: &Observed) {
        let Some(stat) = observed.stat else {
            return;
        };
        if !is_unsupported(declared, &observed.attributes, &stat) {
            return;
        }
        // A thread that held it may have panicked: nothing depends on this.
        let Some(Ok(mut told)) = self.told.as_ref().map(Mutex::lock) else {
            return;
        };
        if told.len() < MOST_TOLD && told.insert(stat.dev) {
            let (major, minor) = stat.dev;
            log::warn!(
                "the file system of {} (device {major}:{minor}) does not have attributes that are declared there: they drift (xattr), and are not put back",
                escape::path(&declared.path)
            );
        }
    }

    /// A directory, reached without a link in its way. `flags` beside `O_DIRECTORY`. `EXDEV`: something is mounted over it, or over what it is in, or this is a pod and
    /// nothing of the host is mounted there.
    pub fn directory(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let opened = self.straight(path, flags);
        let is_missing = match (&self.frame, &opened) {
            (Some(frame), Ok(opened)) => frame.has(opened),
            (Some(_), Err(Errno::NOENT)) => self.is_missing(path),
            _ => false,
        };
        if is_missing {
            return Err(Errno::XDEV);
        }
        let Some(places) = &self.places else {
            return opened;
        };
        let in_place = match &opened {
            Ok(opened) => places.is_in_place(path, opened.as_fd()),
            Err(Errno::NOENT) if places.has_way(path) => path
                .ancestors()
                .skip(1)
                .find_map(|above| self.straight(above, OFlags::PATH).ok())
                .is_none_or(|above| places.would_be_in_place(path, above.as_fd())),
            Err(_) => true,
        };
        if in_place { opened } else { Err(Errno::XDEV) }
    }

    fn straight(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
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

/// Whether something is declared to be there which the file system does not have.
fn is_unsupported(declared: &Declared, readings: &[Reading], stat: &Stat) -> bool {
    let mut named = declared.attributes.named.iter().zip(readings);
    let flags = declared.attributes.flags.unwrap_or_default();
    named.any(|(attribute, reading)| {
        *reading == Reading::Unsupported && attribute.expect.needs_an_attribute()
    }) || stat.flags.is_none() && flags != Default::default()
}

/// The longest beginning of a path that the kernel takes, and the rest.
fn split(path: &Path) -> Option<(&Path, &Path)> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes[..PATH_MAX].iter().rposition(|byte| *byte == b'/')?;
    let part = |bytes| Path::new(OsStr::from_bytes(bytes));
    Some((part(&bytes[..end]), part(&bytes[end + 1..])))
}
