//! The only reader of the host: what stands at a declared path, read once, stably.
//!
//! One walk to the parent directory without following links (`way`), one open, one read; `statx` of the name before and of the open file after must agree. Nothing
//! that stands there can make it hang or run on: FIFOs and devices are never opened, and a file larger than is declared possible is not read at all.

mod frame;
mod hash;
mod host;
mod list;
mod mounts;
mod observed;
mod places;
mod stat;
pub mod take;
mod way;

pub use host::Host;
pub use list::Unexpected;
pub use observed::{Found, Held, Known, Observed};
pub use places::{PathPlace, Places};
pub use stat::{Stat, Times};

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    os::unix::ffi::OsStringExt,
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, fdatasync, openat2, readlinkat},
    io::Errno,
};

use self::{
    hash::{Buffer, Wanted, hash},
    host::STRAIGHT,
    list::list,
    stat::{stat_at, stat_of},
};
use super::{
    attribute::{Place, read_all as read_attributes},
    boot_ns,
    seen::{self, Seen},
};
use crate::{
    compare::structured,
    declare::{Declared, Target},
    probe::Watch,
    report::FileType,
};

/// Looks at a file that somebody is writing, and the time between them.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Reads that may disagree before the verdict is [`Found::Unstable`].
const TRIES: usize = 4;

/// Called when the path's inodes are known and before anything is hashed, so that a change during the read rings.
pub type Rekey<'a> = &'a mut dyn FnMut(&Known);

/// Looks at one declared path.
pub fn observe(
    host: &Host,
    declared: &Declared,
    watch: Option<&Watch>,
    rekey: Rekey<'_>,
) -> Observed {
    Reader::new(host).observe(declared, watch, rekey)
}

/// Looks at one declared path, and again after a while where somebody is writing to it: for who has no doorbell to wait for.
#[must_use]
pub fn observe_at_rest(host: &Host, declared: &Declared) -> Observed {
    let mut reader = Reader::new(host);
    let mut observed = reader.observe(declared, None, &mut |_| {});
    for _ in 1..LOOKS {
        if observed.found != Found::Unstable {
            break;
        }
        thread::sleep(PAUSE);
        observed = reader.observe(declared, None, &mut |_| {});
    }
    observed
}

/// Looks at one path after the other, and uses again what it needs for that.
#[derive(Debug)]
pub struct Reader<'h> {
    host: &'h Host,
    buffer: Buffer,
    /// Files that are as they were then are not read.
    seen: Option<&'h Seen>,
    /// The row that is expected next.
    next: usize,
    /// The last file system that was asked about, and whether its times count.
    keeps_times: Option<((u32, u32), bool)>,
}

/// What was found at one of many paths.
#[derive(Debug)]
pub struct Look {
    pub observed: Observed,
    /// It was looked at, other than a file that is as an earlier look has seen it.
    pub is_fresh: bool,
}

impl<'h> Reader<'h> {
    #[must_use]
    pub fn new(host: &'h Host) -> Self {
        Self {
            host,
            buffer: Buffer::default(),
            seen: None,
            next: 0,
            keeps_times: None,
        }
    }

    /// Leaves out the files that are as they were then, where many are looked at.
    #[must_use]
    pub fn unless(self, seen: &'h Seen) -> Self {
        let seen = (!seen.is_empty()).then_some(seen);
        Self { seen, ..self }
    }

    /// Looks at one declared path.
    pub fn observe(
        &mut self,
        declared: &Declared,
        watch: Option<&Watch>,
        rekey: Rekey<'_>,
    ) -> Observed {
        let mut observed = self.once(declared, watch, rekey);
        for _ in 1..TRIES {
            if observed.found != Found::Unstable {
                break;
            }
            observed = self.once(declared, watch, rekey);
        }
        self.host.tell_unsupported(declared, &observed);
        observed
    }

    /// Looks at paths of one directory that no link leads to, without probes. The way to it is walked once for all of them, and once more afterwards: where it leads elsewhere then, what
    /// was seen is not what stands at these paths, and each is looked at by itself.
    pub fn observe_siblings(&mut self, siblings: &[Arc<Declared>]) -> Vec<Look> {
        let together = self.together(siblings, &mut |_| {});
        let alone = |reader: &mut Self, declared: &Declared| Look {
            observed: reader.observe(declared, None, &mut |_| {}),
            is_fresh: true,
        };
        let Some(mut looks) = together else {
            let each = siblings.iter();
            return each.map(|declared| alone(self, declared)).collect();
        };
        for (look, declared) in looks.iter_mut().zip(siblings) {
            if look.observed.found == Found::Unstable {
                *look = alone(self, declared);
            } else if look.is_fresh {
                self.host.tell_unsupported(declared, &look.observed);
            }
        }
        looks
    }

    /// `None` where the directory was not there, or not to the end.
    fn together(&mut self, siblings: &[Arc<Declared>], rekey: Rekey<'_>) -> Option<Vec<Look>> {
        let first = match siblings {
            [first] if self.seen.is_some() => first,
            [first, _, ..] => first,
            _ => return None, // nothing is gained
        };
        if siblings.iter().any(|declared| !declared.links().is_empty()) {
            return None; // each has a way of its own
        }
        let path = first.path.parent()?;
        let way = |reader: &Self| reader.host.directory(path, OFlags::PATH).ok();
        let parent = way(self)?;
        let then = stat_of(parent.as_fd()).ok()?;
        let mut looks = Vec::with_capacity(siblings.len());
        for declared in siblings {
            debug_assert_eq!(declared.path.parent(), Some(path));
            let name = declared.path.file_name()?;
            let look = match self.unchanged(parent.as_fd(), &then, name, declared) {
                Some(observed) => Look {
                    observed,
                    is_fresh: false,
                },
                None => {
                    let mut observed = Observed::nothing();
                    self.at(parent.as_fd(), name, declared, None, rekey, &mut observed);
                    Look {
                        observed,
                        is_fresh: true,
                    }
                }
            };
            looks.push(look);
        }
        let now = stat_of(way(self)?.as_fd()).ok()?;
        then.is_same_file(&now).then_some(looks)
    }

    /// What is known of a file that is as it was when it was read.
    fn unchanged(
        &mut self,
        parent: BorrowedFd<'_>,
        parent_stat: &Stat,
        name: &OsStr,
        declared: &Declared,
    ) -> Option<Observed> {
        let row = self.seen?.row(&declared.path, &mut self.next)?;
        let keeps_times = match self.keeps_times {
            Some((dev, keeps_times)) if dev == parent_stat.dev => keeps_times,
            _ => {
                let keeps_times = seen::keeps_times(parent);
                self.keeps_times = Some((parent_stat.dev, keeps_times));
                keeps_times
            }
        };
        let stat = stat_at(parent, name).ok()?;
        // A file that is mounted there is on another file system than its directory.
        (keeps_times && stat.dev == parent_stat.dev)
            .then(|| row.answers(&stat, declared))
            .flatten()
    }

    fn once(&mut self, declared: &Declared, watch: Option<&Watch>, rekey: Rekey<'_>) -> Observed {
        let mut observed = Observed::nothing();
        let Some(name) = declared.real().file_name() else {
            // The root directory: validation refuses it as a file's path.
            observed.found = Found::Other(FileType::Directory);
            return observed;
        };
        let since = boot_ns();
        let parent = match self.host.parent(declared, OFlags::PATH) {
            Ok(parent) => parent,
            Err(error) => {
                observed.found = in_the_way(error);
                if error == Errno::XDEV {
                    observed.on_top = self.on_top(declared.real());
                }
                rekey(&observed.known);
                return observed;
            }
        };
        observed.known.parent = watch
            .and_then(|watch| watch.learned_of(parent.as_fd(), since))
            .map(|learned| learned.key);
        if let Some(places) = self.host.places()
            && !places.is_own(declared.real(), parent.as_fd(), name)
        {
            observed.found = Found::Relocated;
            observed.on_top = self.on_top(declared.real());
            rekey(&observed.known);
            return observed;
        }
        self.at(parent.as_fd(), name, declared, watch, rekey, &mut observed);
        // The way must still lead to what was read.
        if self.host.links_hold(declared).is_err() {
            observed.found = Found::Unstable;
        }
        observed
    }

    fn on_top(&self, path: &Path) -> Option<String> {
        let missing = path
            .parent()
            .and_then(|above| self.host.missing_mount(above));
        missing.or_else(|| self.host.places()?.told(path))
    }

    /// What stands under a name in a directory.
    fn at(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        declared: &Declared,
        watch: Option<&Watch>,
        rekey: Rekey<'_>,
        observed: &mut Observed,
    ) {
        observed.found = match self.read(parent, name, declared, watch, observed, rekey) {
            Ok(found) => found,
            Err(error) => failed(&error),
        };
    }

    fn read(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        declared: &Declared,
        watch: Option<&Watch>,
        observed: &mut Observed,
        rekey: Rekey<'_>,
    ) -> io::Result<Found> {
        let named = &declared.attributes.named[..];
        let before = match stat_at(parent, name) {
            Ok(stat) => stat,
            Err(error) => {
                rekey(&observed.known);
                return Err(error);
            }
        };
        observed.stat = Some(before);
        let flags = match (before.file_type, &declared.target) {
            (FileType::File, Target::File(_)) => OFlags::NONBLOCK | OFlags::NOCTTY,
            (FileType::Directory, Target::Directory(_)) => OFlags::DIRECTORY,
            (FileType::Symlink, _) => {
                rekey(&observed.known);
                let found = link(parent, name)?;
                observed.attributes = read_attributes(Place::Named(parent, name), named);
                let is_same = stat_at(parent, name)? == before;
                return Ok(if is_same { found } else { Found::Unstable });
            }
            (other, _) => {
                rekey(&observed.known);
                return Ok(Found::Other(other));
            }
        };
        let since = boot_ns();
        let file = match open(parent, name, flags) {
            Ok(Some(file)) => file,
            other => {
                rekey(&observed.known);
                return other.map(|_| Found::Unstable);
            }
        };
        if let Some(learned) = watch.and_then(|watch| watch.learned_of(file.as_fd(), since)) {
            observed.known.file = Some(learned.key);
            observed.known.real = (learned.real.ino != 0).then_some(learned.real);
            observed.writers = learned.writers;
        }
        rekey(&observed.known);
        // Whoever has it open for writing may have its pages dirty already, and who stores into those again through a mapping rings nobody. Once they are on the
        // disk the next store does. Where that fails (a read-only file system, a full disk) nothing is lost but that.
        let before = if observed.writers > 0 && fdatasync(&file).is_ok() {
            let now = stat_of(file.as_fd())?;
            if !now.is_same_file(&before) {
                return Ok(Found::Unstable);
            }
            now
        } else {
            before
        };
        observed.attributes = read_attributes(Place::Open(file.as_fd()), named);
        let found = match &declared.target {
            Target::File(content) if before.size > content.max_size => Found::File(None),
            Target::File(content) => {
                let holds = match &content.meaning {
                    Some(_) => structured::MAX_SIZE,
                    None => self.host.holds(),
                };
                let most = content.max_size;
                let wanted = Wanted {
                    most,
                    holds,
                    lines: content.lines.as_ref().map(|_| content.body.is_none()),
                };
                let read = hash(&file, before.size, wanted, &mut self.buffer)?;
                observed.body = read.as_ref().map(|read| read.body);
                observed.lines = read.as_ref().and_then(|read| read.lines);
                // One that did not grow meanwhile, and gives more than it says, is too large too.
                let whole = read.as_ref().map(|read| read.whole);
                let held = read.and_then(|read| read.held);
                let held = held.filter(|_| whole != Some(content.digest));
                observed.held = held.map(|held| Held(held.into()));
                Found::File(whole)
            }
            Target::Directory(exhaustive) => Found::Directory(match exhaustive {
                Some(exhaustive) => list(&file, exhaustive)?,
                None => Unexpected::default(),
            }),
            // Neither is opened.
            Target::Symlink(_) | Target::Absent => Found::Unstable,
        };
        // What had the name before it was opened is what was opened, and nothing has changed since: so this is what stood at the path at that moment.
        let after = stat_of(file.as_fd())?;
        observed.stat = Some(after);
        Ok(if before == after {
            found
        } else {
            Found::Unstable
        })
    }
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

#[cfg(test)]
mod tests;
