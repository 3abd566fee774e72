//! The only reader of the host: what stands at a declared path, read once, stably.
//!
//! One walk to the parent directory without following links (`way`), one open, one read; `statx` before and after must agree. Nothing that stands there can make
//! it hang or run on: FIFOs and devices are never opened, and a file larger than is declared possible is not read at all.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use drift_common::{abi::Key, escape};
use rustix::{
    fs::{
        AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, openat,
        openat2, readlinkat, statx,
    },
    io::Errno,
};

use super::attribute::{Place, Reading, read_all as read_attributes};
use crate::{
    compare::structured,
    declare::{Declared, Exhaustive, Flags, Target, without_final_newline},
    probe::Watch,
    report::FileType,
};

/// Reads that may disagree before the verdict is [`Found::Unstable`].
const TRIES: usize = 4;

/// The host's file tree, from a pinned root.
#[derive(Debug)]
pub struct Host {
    root: OwnedFd,
    /// Bytes of a file that are held even where nothing but their digest is compared.
    holds: usize,
    /// File systems of which was said that they do not have what is declared.
    told: Mutex<BTreeSet<(u32, u32)>>,
}

/// No component of a declared path may be a link: a link that somebody plants would otherwise decide what is read and written.
const STRAIGHT: ResolveFlags = ResolveFlags::NO_SYMLINKS
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::BENEATH);

impl Host {
    /// Pins the root directory.
    pub fn new(root: &Path) -> io::Result<Host> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Host {
            root: openat(CWD, root, flags, Mode::empty())?,
            holds: 0,
            told: Mutex::default(),
        })
    }

    /// The content of each file is held, and not only of those that are compared by what they say: for who shows what differs.
    #[must_use]
    pub fn holding(self) -> Host {
        let holds = structured::MAX_SIZE;
        Host { holds, ..self }
    }

    /// Says that the file system of `path` does not have what is declared there: once for each file system.
    fn tell_unsupported(&self, path: &Path, dev: (u32, u32)) {
        let Ok(mut told) = self.told.lock() else {
            return; // a thread that held it has panicked: nothing depends on this
        };
        if told.len() < MOST_TOLD && told.insert(dev) {
            let (major, minor) = dev;
            log::warn!(
                "the file system of {} (device {major}:{minor}) does not have attributes that are declared there: they drift (xattr), and are not put back",
                escape::path(path)
            );
        }
    }

    /// A directory, reached without a link in its way. `flags` beside `O_DIRECTORY`.
    pub fn directory(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let relative = path.strip_prefix("/").unwrap_or(path);
        let relative = if relative.as_os_str().is_empty() {
            Path::new(".")
        } else {
            relative
        };
        openat2(
            &self.root,
            relative,
            flags | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            STRAIGHT,
        )
    }

    /// What changes when a file does, without opening it; `None` where nothing can be looked at.
    pub fn stat(&self, path: &Path) -> Option<Stat> {
        let relative = path.strip_prefix("/").ok()?;
        stat_at(self.root.as_fd(), relative.as_os_str()).ok()
    }
}

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

/// What stands at the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing; or a directory on the way does not exist.
    Absent,
    /// A symbolic link that is not as declared, or something that is no directory, stands in the way: the path leads elsewhere.
    Relocated,
    /// It is there and cannot be read, and why.
    Unreadable(io::ErrorKind),
    /// No two looks agreed.
    Unstable,
    /// A symbolic link, and what it holds, which is a text and not a path: see [`Target::Symlink`].
    Link(OsString),
    /// A directory where one is declared, and what may not be in it.
    Directory(Unexpected),
    /// Something of another type than is declared.
    Other(FileType),
    /// A regular file; `None` where it is too large to read.
    File(Option<blake3::Hash>),
}

/// Names in a directory that may not be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unexpected {
    /// Sorted, the first [`MOST_NAMES`] of them.
    pub names: Vec<OsString>,
    pub count: usize,
}

/// File systems that are told of.
const MOST_TOLD: usize = 256;

/// Names that are kept of what may not be in a directory.
pub const MOST_NAMES: usize = 1024;

/// One observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub found: Found,
    /// Digest of a file's content without its final line end.
    pub body: Option<blake3::Hash>,
    /// The bytes that were hashed, where they are needed and are not as declared.
    pub held: Option<Held>,
    /// Of what stands there itself, not of what a link leads to.
    pub stat: Option<Stat>,
    /// What stands in each of the declared extended attributes.
    pub attributes: Vec<Reading>,
    /// The kernel's name of the file and of its directory, where probes tell it.
    pub known: Known,
    /// How many had the file open for writing, where probes tell it.
    pub writers: u32,
}

/// What a file held, as it was read: to be compared, edited or redacted, and never to be shown as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Held(Arc<[u8]>);

impl Held {
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({} bytes)", self.0.len())
    }
}

/// The inodes under which the kernel half knows a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub file: Option<Key>,
    pub parent: Option<Key>,
}

/// Called when the path's inodes are known and before anything is hashed, so that a change during the read rings.
pub type Rekey<'a> = &'a mut dyn FnMut(&Known);

/// Looks at one declared path.
pub fn observe(
    host: &Host,
    declared: &Declared,
    watch: Option<&Watch>,
    rekey: Rekey<'_>,
) -> Observed {
    let mut observed = once(host, declared, watch, rekey);
    for _ in 1..TRIES {
        if observed.found != Found::Unstable {
            break;
        }
        observed = once(host, declared, watch, rekey);
    }
    if let Some(stat) = &observed.stat
        && is_unsupported(declared, &observed.attributes, stat)
    {
        host.tell_unsupported(&declared.path, stat.dev);
    }
    observed
}

/// Whether something is declared to be there which the file system does not have.
fn is_unsupported(declared: &Declared, readings: &[Reading], stat: &Stat) -> bool {
    let mut named = declared.attributes.named.iter().zip(readings);
    let flags = declared.attributes.flags.unwrap_or_default();
    named.any(|(attribute, reading)| {
        *reading == Reading::Unsupported && attribute.expect.needs_an_attribute()
    }) || stat.flags.is_none() && flags != Flags::default()
}

fn once(host: &Host, declared: &Declared, watch: Option<&Watch>, rekey: Rekey<'_>) -> Observed {
    let mut observed = Observed {
        found: Found::Absent,
        body: None,
        held: None,
        stat: None,
        attributes: Vec::new(),
        known: Known::default(),
        writers: 0,
    };
    let Some(name) = declared.real().file_name() else {
        // The root directory: validation refuses it as a file's path.
        observed.found = Found::Other(FileType::Directory);
        return observed;
    };
    let parent = match host.parent(declared, OFlags::PATH) {
        Ok(parent) => parent,
        Err(error) => {
            observed.found = in_the_way(error);
            rekey(&observed.known);
            return observed;
        }
    };
    observed.known.parent = watch.and_then(Watch::learned).map(|learned| learned.key);
    let holds = host.holds;
    match read(
        parent.as_fd(),
        name,
        declared,
        holds,
        watch,
        &mut observed,
        rekey,
    ) {
        Ok(found) => observed.found = found,
        Err(error) => observed.found = failed(&error),
    }
    // The way must still lead to what was read.
    if host.links_hold(declared).is_err() {
        observed.found = Found::Unstable;
    }
    observed
}

/// What an error on the way to the directory means.
fn in_the_way(error: Errno) -> Found {
    match error {
        Errno::NOENT => Found::Absent,
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => Found::Relocated,
        other => Found::Unreadable(io::Error::from(other).kind()),
    }
}

/// What an error on the file itself means.
fn failed(error: &io::Error) -> Found {
    match error.kind() {
        io::ErrorKind::NotFound => Found::Absent,
        kind => Found::Unreadable(kind),
    }
}

fn read(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    declared: &Declared,
    holds: usize,
    watch: Option<&Watch>,
    observed: &mut Observed,
    rekey: Rekey<'_>,
) -> io::Result<Found> {
    let target = &declared.target;
    let named = &declared.attributes.named[..];
    let before = match stat_at(parent, name) {
        Ok(stat) => stat,
        Err(error) => {
            rekey(&observed.known);
            return Err(error);
        }
    };
    observed.stat = Some(before);
    let flags = match (before.file_type, target) {
        (FileType::File, Target::File(_)) => OFlags::NONBLOCK | OFlags::NOCTTY,
        (FileType::Directory, Target::Directory(_)) => OFlags::DIRECTORY,
        (other, _) => {
            rekey(&observed.known);
            return match other {
                FileType::Symlink => {
                    let found = link(parent, name)?;
                    if let (Found::Link(_), false) = (&found, named.is_empty()) {
                        observed.attributes = read_attributes(Place::Named(parent, name), named);
                        if stat_at(parent, name).ok() != Some(before) {
                            return Ok(Found::Unstable);
                        }
                    }
                    Ok(found)
                }
                other => Ok(Found::Other(other)),
            };
        }
    };
    let file = match open(parent, name, flags) {
        Ok(Some(file)) => file,
        other => {
            rekey(&observed.known);
            return other.map(|_| Found::Unstable);
        }
    };
    if let Some(learned) = watch.and_then(Watch::learned) {
        observed.known.file = Some(learned.key);
        observed.writers = learned.writers;
    }
    rekey(&observed.known);
    let opened = stat_of(file.as_fd())?;
    observed.stat = Some(opened);
    if opened.file_type != before.file_type {
        return Ok(Found::Unstable);
    }
    observed.attributes = read_attributes(Place::Open(file.as_fd()), named);
    let found = match target {
        Target::File(content) => {
            if opened.size > content.max_size {
                return Ok(Found::File(None));
            }
            let holds = match &content.meaning {
                Some(_) => structured::MAX_SIZE,
                None => holds,
            };
            let read = hash(&file, content.max_size, holds)?;
            observed.body = read.as_ref().map(|read| read.body);
            observed.held = read.as_ref().and_then(|read| {
                let held = read
                    .held
                    .as_ref()
                    .filter(|_| read.whole != content.digest)?;
                Some(Held(Arc::from(&held[..])))
            });
            read.map(|read| Found::File(Some(read.whole)))
        }
        Target::Directory(exhaustive) => {
            let unexpected = match exhaustive {
                Some(exhaustive) => list(&file, exhaustive)?,
                None => Unexpected::default(),
            };
            Some(Found::Directory(unexpected))
        }
        // Neither is opened.
        Target::Symlink(_) | Target::Absent => None,
    };
    let after = stat_of(file.as_fd())?;
    observed.stat = Some(after);
    // The name must still lead to what was read.
    let named = stat_at(parent, name).ok();
    let is_same = |named: Stat| (named.ino, named.dev) == (after.ino, after.dev);
    if opened != after || !named.is_some_and(is_same) {
        return Ok(Found::Unstable);
    }
    Ok(found.unwrap_or(Found::Unstable))
}

/// Opens what was just seen, for reading. `None`: it was something else a moment ago.
fn open(parent: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> io::Result<Option<File>> {
    // Non-blocking, should a FIFO have come to stand here since; no controlling terminal, should it be one.
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Looking must leave no trace. Only the owner and root may ask for that.
    let open = |flags| openat2(parent, name, flags, Mode::empty(), STRAIGHT);
    let opened = match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open(flags),
        other => other,
    };
    match opened {
        Ok(file) => Ok(Some(File::from(file))),
        Err(Errno::LOOP | Errno::NOENT | Errno::NXIO | Errno::NOTDIR) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// What a link holds.
fn link(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Found> {
    match readlinkat(parent, name, Vec::new()) {
        Ok(target) => Ok(Found::Link(OsString::from_vec(target.into_bytes()))),
        // It was a link a moment ago.
        Err(Errno::INVAL) => Ok(Found::Unstable),
        Err(error) => Err(error.into()),
    }
}

/// What may not be in a directory.
fn list(directory: &File, exhaustive: &Exhaustive) -> io::Result<Unexpected> {
    let mut names = BTreeSet::new();
    let mut count = 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." || exhaustive.allows(name) {
            continue;
        }
        count += 1;
        names.insert(name.to_owned());
        if names.len() > MOST_NAMES {
            names.pop_last();
        }
    }
    Ok(Unexpected {
        names: names.into_iter().collect(),
        count,
    })
}

/// A content that was read.
struct Hashed {
    whole: blake3::Hash,
    /// Without its final line end.
    body: blake3::Hash,
    /// The bytes themselves, where they are not more than was asked for.
    held: Option<Vec<u8>>,
}

/// The digests of all that can be read, and at most `holds` bytes of it; `None` when it turns out to be longer than `most`.
fn hash(mut file: &File, most: u64, holds: usize) -> io::Result<Option<Hashed>> {
    // The last two bytes are held back: they may be a line end.
    const HELD: usize = 2;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = [0; HELD + (64 << 10)];
    let mut held = 0;
    let mut read = 0u64;
    let mut bytes = (holds > 0).then(Vec::new);
    loop {
        match file.read(&mut buffer[held..]) {
            Ok(0) => break,
            Ok(length) => {
                read += length as u64;
                if read > most {
                    return Ok(None);
                }
                let end = held + length;
                if let Some(kept) = &mut bytes {
                    kept.extend_from_slice(&buffer[held..end]);
                }
                bytes.take_if(|kept| kept.len() > holds);
                held = end.min(HELD);
                hasher.update(&buffer[..end - held]);
                buffer.copy_within(end - held..end, 0);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let rest = &buffer[..held];
    let end = |rest: &[u8]| hasher.clone().update(rest).finalize();
    let (whole, body) = (end(rest), without_final_newline(rest));
    Ok(Some(Hashed {
        held: bytes,
        whole,
        body: if body == rest { whole } else { end(body) },
    }))
}

fn stat_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Stat> {
    Ok(Stat::from(statx(
        dir,
        PathBuf::from(OsStr::from_bytes(name.as_bytes())),
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        StatxFlags::BASIC_STATS,
    )?))
}

fn stat_of(file: BorrowedFd<'_>) -> io::Result<Stat> {
    Ok(Stat::from(statx(
        file,
        c"",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS,
    )?))
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

fn file_type(mode: u32) -> FileType {
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

pub mod take;
mod way;

#[cfg(test)]
mod tests;
