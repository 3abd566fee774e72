//! Replace one file: at any instant, and after a power cut, the path is wholly old or wholly new.
//!
//! A nameless file in the same directory; content; owner, then mode, then extended attributes (a change of owner clears setuid, a write clears capabilities);
//! read back; sync; a temporary name; rename; sync of the directory. Never a moment with a wrong owner, mode, access list or label under the declared name. Only
//! the flags come after the name: what is immutable cannot be given one.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    time::SystemTime,
};

use drift_common::policy::ACCESS_ACL;
use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, XattrFlags, fchmod, fgetxattr,
        flistxattr, fremovexattr, fsetxattr, fsync, linkat, openat, openat2, renameat,
        renameat_with, statat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};

use crate::{
    compare::structured::MAX_SIZE,
    declare::{Body, Content, Declared},
    observe::Stat,
    store::Store,
    sync::sync_directory,
};

use super::{
    attribute,
    execute::{HealError, Healed, place, set_owner},
    sparse::Sparse,
};
use crate::observe::{Host, Place};

/// Bytes in memory, or wherever what is declared is.
#[derive(Clone, Copy)]
pub(super) enum Bytes<'a> {
    Held(&'a [u8]),
    Declared(&'a Body),
}

/// What the new file holds.
pub(super) struct New<'a> {
    pub(super) bytes: Bytes<'a>,
    /// BLAKE3 of `bytes`.
    pub(super) digest: blake3::Hash,
    /// Only in the place of a file that holds this: who has written to it meanwhile has not written in vain.
    pub(super) instead_of: Option<blake3::Hash>,
}

impl<'a> New<'a> {
    pub(super) fn of(content: &'a Content) -> Result<Self, HealError> {
        Ok(Self {
            bytes: Bytes::Declared(content.bytes.as_ref().ok_or(HealError::NoContent)?),
            digest: content.digest,
            instead_of: None,
        })
    }
}

/// What a missing file gets where nothing is declared.
const DEFAULT_MODE: u32 = 0o644;

/// The largest value the kernel allows (XATTR_SIZE_MAX).
const MOST_XATTR: usize = 64 << 10;

/// The name a new file has for a moment, before it takes its place. One for each path: what a killed heal leaves is found again.
pub fn temporary_name(path: &Path) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    let digest = blake3::hash(path.as_os_str().as_bytes()).to_hex();
    OsString::from(format!(".drift-{}.tmp", &digest[..16]))
}

/// Puts a file as declared in place of whatever stands there. `like`: the regular file that is replaced; what is not declared stays as it was there. `keep`: where
/// that file is moved.
pub(super) fn replace(
    host: &Host,
    declared: &Declared,
    new: &New<'_>,
    like: Option<&Stat>,
    keep: Option<&Store>,
) -> Result<Healed, HealError> {
    let mut healed = Healed::default();
    let (dir, name) = place(host, declared, &mut healed.notes)?;
    let temporary = temporary_name(declared.real());
    let mut lifted = None;
    let result = stage(&dir, &name, declared, new, like).and_then(|file| {
        // Before it takes the name: what a power cut leaves there is whole.
        fsync(&file).map_err(HealError::at("sync the file"))?;
        lifted = attribute::lift_named(&dir, &name, declared)?;
        match (&new.instead_of, keep.filter(|_| like.is_some())) {
            (None, None) => rename_over(&dir, &temporary, &name),
            (Some(seen), None) => exchange(&dir, &temporary, &name, seen),
            (seen, Some(store)) => {
                let seen = seen.as_ref();
                set_aside(&dir, &temporary, &name, seen, store, &mut healed.notes)
            }
        }
        .map(|()| file)
    });
    if let Some(lifted) = lifted {
        lifted.give_back();
    }
    if matches!(&result, Err(error) if !matches!(error, HealError::Io { step: PUT_BACK, .. })) {
        // The first error is the one to tell. What could not be removed is removed at the next heal, or at the next start.
        let _kept_until_then = unlinkat(&dir, &temporary, AtFlags::empty());
    }
    let file = result?;
    if declared.attributes.flags.is_some() {
        attribute::put_flags(file.as_fd(), declared)?;
        fsync(&file).map_err(HealError::at("sync the file"))?;
    }
    Ok(healed)
}

/// Puts a file as declared under the temporary name beside `name`: complete and read back. The caller syncs it before it takes its name, and the directory after
/// that. Its flags are still to be set. On an error something may be left under the temporary name.
pub(super) fn stage(
    dir: &OwnedFd,
    name: &OsString,
    declared: &Declared,
    new: &New<'_>,
    like: Option<&Stat>,
) -> Result<File, HealError> {
    let temporary = temporary_name(declared.real());
    let (mut file, named) = new_file(dir, &temporary)?;
    fill(&mut file, dir, name, declared, new, like)?;
    if !named {
        give_name(&file, dir, &temporary)?;
    }
    Ok(file)
}

/// A nameless file, or, where the file system has none, one with the temporary name.
fn new_file(dir: &OwnedFd, temporary: &OsString) -> Result<(File, bool), HealError> {
    let private = Mode::from_raw_mode(0o600);
    match openat(
        dir,
        ".",
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        private,
    ) {
        Ok(file) => return Ok((File::from(file), false)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(error) => return Err(HealError::at("make a new file")(error)),
    }
    remove_stale(dir, temporary)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, temporary, flags, private).map_err(HealError::at("make a new file"))?;
    Ok((File::from(file), true))
}

/// Removes a name, of a directory too where that is empty. False: there was nothing.
pub(super) fn remove(dir: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOENT) => Ok(false),
            other => other.map(|()| true),
        },
        Err(Errno::NOENT) => Ok(false),
        other => other.map(|()| true),
    }
}

/// A heal that was killed may have left the temporary name.
pub(super) fn remove_stale(dir: &OwnedFd, temporary: &OsString) -> Result<(), HealError> {
    remove(dir, temporary)
        .map(drop)
        .map_err(HealError::at("remove a leftover"))
}

fn fill(
    file: &mut File,
    dir: &OwnedFd,
    name: &OsString,
    declared: &Declared,
    new: &New<'_>,
    like: Option<&Stat>,
) -> Result<(), HealError> {
    let old = match like {
        Some(_) => old_file(dir, name)?,
        None => None,
    };
    if let Some(old) = &old {
        // Before the content: some of them say how that is kept.
        attribute::copy_flags(old.as_fd(), file.as_fd());
    }
    let mut sparse = Sparse::new(file);
    match new.bytes {
        Bytes::Held(bytes) => sparse.part(bytes).map_err(io("write"))?,
        Bytes::Declared(body) => body.each(&mut |part| sparse.part(part)).map_err(|error| {
            if error.kind() == std::io::ErrorKind::InvalidData {
                HealError::Unfit(error)
            } else {
                io("write")(error)
            }
        })?,
    }
    sparse.end().map_err(io("write"))?;
    let as_it_was = like.map(|stat| match &old {
        Some(old) => attribute::mode_alone(old.as_fd(), declared, stat.mode),
        None => stat.mode,
    });
    let mode = declared.mode.or(as_it_was).unwrap_or(DEFAULT_MODE);
    // An agent that is not root leaves what nobody said as it is.
    let root = geteuid().is_root().then_some(0);
    let uid = declared.uid.or(like.map(|stat| stat.uid)).or(root);
    let gid = declared.gid.or(like.map(|stat| stat.gid)).or(root);
    set_owner(file.as_fd(), uid, gid)?;
    fchmod(&*file, Mode::from_raw_mode(mode)).map_err(HealError::at("set the mode"))?;
    if let Some(old) = &old {
        copy_attributes(old.as_fd(), file.as_fd(), declared)?;
        // An access list brings the group bits of its mask along.
        fchmod(&*file, Mode::from_raw_mode(mode)).map_err(HealError::at("set the mode"))?;
    }
    attribute::set(Place::Open(file.as_fd()), declared)?;
    file.seek(SeekFrom::Start(0)).map_err(io("read back"))?;
    let is_right = digest(file).map_err(io("read back"))? == new.digest;
    if is_right && attribute::are_set(file.as_fd(), declared)? {
        Ok(())
    } else {
        Err(HealError::ReadBack)
    }
}

pub(super) fn io(step: &'static str) -> impl Fn(std::io::Error) -> HealError {
    move |source| match Errno::from_io_error(&source) {
        Some(errno) => HealError::at(step)(errno),
        None => HealError::Io { step, source },
    }
}

/// BLAKE3 of what is left to read of a file.
fn digest(file: &mut File) -> std::io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = [0; 64 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(length) => {
                hasher.update(&buffer[..length]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The regular file that is to be replaced; `None` where it is gone since it was looked at, and there is nothing to keep.
fn old_file(dir: &OwnedFd, name: &OsString) -> Result<Option<OwnedFd>, HealError> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat2(dir, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(old) => Ok(Some(old)),
        Err(Errno::NOENT | Errno::LOOP) => Ok(None),
        Err(error) => Err(HealError::at("open the old file")(error)),
    }
}

/// Extended attributes that nobody declared stay: labels, access lists, capabilities, the users' own.
fn copy_attributes(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    declared: &Declared,
) -> Result<(), HealError> {
    // One that the directory gives to what is new in it, and the old file did not have.
    match fremovexattr(to, ACCESS_ACL) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        Err(error) => return Err(HealError::at("remove the directory's access list")(error)),
    }
    let mut names = vec![0u8; MOST_XATTR];
    let length = match flistxattr(from, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(HealError::at("list the old file's attributes")(error)),
    };
    if length == 0 {
        return Ok(());
    }
    let mut value = vec![0u8; MOST_XATTR];
    for attribute in names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty() && !declared.attributes.has(name))
    {
        let Ok(attribute) = CString::new(attribute) else {
            continue;
        };
        let length = match fgetxattr(from, &*attribute, &mut value[..]) {
            Ok(length) => length,
            // Removed since it was listed, or one that this file system only pretends to have.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => continue,
            Err(error) => return Err(HealError::at("read the old file's attributes")(error)),
        };
        match fsetxattr(to, &*attribute, &value[..length], XattrFlags::empty()) {
            // Overlay's own bookkeeping cannot be set from above, and belongs to the old file.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(HealError::at("copy the old file's attributes")(error)),
        }
    }
    Ok(())
}

fn give_name(file: &File, dir: &OwnedFd, temporary: &OsString) -> Result<(), HealError> {
    let link = || {
        linkat(
            CWD,
            format!("/proc/self/fd/{}", file.as_raw_fd()),
            dir,
            temporary,
            AtFlags::SYMLINK_FOLLOW,
        )
    };
    match link() {
        Err(Errno::EXIST) => {
            remove_stale(dir, temporary)?;
            link().map_err(HealError::at("name the new file"))
        }
        other => other.map_err(HealError::at("name the new file")),
    }
}

/// As [`take_name`], but only where nothing has the name. Whether it was so.
pub(super) fn take_free_name(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
) -> Result<bool, HealError> {
    match renameat_with(dir, temporary, dir, name, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // This file system cannot do it: between the look and the rename somebody may write.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => take_name(dir, temporary, name).map(|()| true),
                other => other
                    .map(|_| false)
                    .map_err(HealError::at("look at what stands there")),
            }
        }
        Err(error) => Err(HealError::at("rename")(error)),
    }
}

/// What cannot be put back is kept under the temporary name until the next start.
const PUT_BACK: &str = "put back what somebody else has written meanwhile";

/// As [`rename_over`], but only where what had the name holds `seen`. It is looked at after it was moved aside, when nobody can reach it by its
/// name any more, and comes back where somebody was faster.
pub(super) fn exchange(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
    seen: &blake3::Hash,
) -> Result<(), HealError> {
    let exchange = || renameat_with(dir, temporary, dir, name, RenameFlags::EXCHANGE);
    match exchange() {
        // Gone meanwhile.
        Err(Errno::NOENT) => return Err(HealError::Changed),
        // This file system cannot do it: between the look and the rename somebody may write.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if !holds(dir, name, seen)? {
                return Err(HealError::Changed);
            }
            return rename_over(dir, temporary, name);
        }
        other => other.map_err(HealError::at("rename"))?,
    }
    if holds(dir, temporary, seen).is_ok_and(|holds| holds) {
        unlinkat(dir, temporary, AtFlags::empty()).map_err(HealError::at("remove the old file"))?;
        return sync_directory(dir).map_err(HealError::at("sync the directory"));
    }
    exchange_back(dir, temporary, name)?;
    Err(HealError::Changed)
}

/// As [`exchange`], or whatever stands there; and what had the name is kept.
fn set_aside(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
    seen: Option<&blake3::Hash>,
    store: &Store,
    notes: &mut Vec<String>,
) -> Result<(), HealError> {
    match (
        renameat_with(dir, temporary, dir, name, RenameFlags::EXCHANGE),
        seen,
    ) {
        (Ok(()), _) => {}
        (Err(Errno::NOENT), None) => return rename_over(dir, temporary, name),
        (Err(Errno::NOENT), Some(_)) => return Err(HealError::Changed),
        (Err(error @ (Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)), _) => {
            notes.push(not_kept(&error.into()));
            return match seen {
                None => rename_over(dir, temporary, name),
                Some(seen) => exchange(dir, temporary, name, seen),
            };
        }
        (Err(error), _) => return Err(HealError::at("rename")(error)),
    }
    if let Some(seen) = seen
        && !holds(dir, temporary, seen).is_ok_and(|holds| holds)
    {
        exchange_back(dir, temporary, name)?;
        return Err(HealError::Changed);
    }
    let_go(dir, temporary, store, notes).map_err(HealError::at("remove the old file"))?;
    sync_directory(dir).map_err(HealError::at("sync the directory"))
}

/// A name goes: what has it is moved to where it is kept, if that can be.
pub(super) fn let_go(
    dir: &OwnedFd,
    name: &OsStr,
    store: &Store,
    notes: &mut Vec<String>,
) -> Result<(), Errno> {
    match store.keep_file(dir, name, SystemTime::now()) {
        Ok(Some(place)) => {
            notes.push(format!("the file itself is in {}", place.display()));
            return Ok(());
        }
        // Of what is no file there is only what it says.
        Ok(None) => {}
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
        Err(error) => notes.push(not_kept(&error)),
    }
    remove(dir, name).map(drop)
}

fn not_kept(error: &std::io::Error) -> String {
    let why = match Errno::from_io_error(error) {
        Some(Errno::XDEV) => "the state folder is on another file system".to_owned(),
        Some(Errno::FBIG) => "it is too large".to_owned(),
        _ => error.to_string(),
    };
    format!("the file itself is not kept: {why}")
}

/// What was moved aside comes back.
pub(super) fn exchange_back(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
) -> Result<(), HealError> {
    renameat_with(dir, temporary, dir, name, RenameFlags::EXCHANGE).map_err(|errno| HealError::Io {
        step: PUT_BACK,
        source: errno.into(),
    })
}

/// Whether a regular file of this name holds `seen`.
fn holds(dir: &OwnedFd, name: &OsString, seen: &blake3::Hash) -> Result<bool, HealError> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat2(dir, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(false),
        Err(error) => return Err(HealError::at("open the old file")(error)),
    };
    let metadata = file.metadata().map_err(io("look at the old file"))?;
    // What was seen was no larger than what is compared by structure.
    if !metadata.is_file() || metadata.len() > MAX_SIZE as u64 {
        return Ok(false);
    }
    let mut whole = file.take(MAX_SIZE as u64 + 1);
    let mut bytes = Vec::new();
    whole
        .read_to_end(&mut bytes)
        .map_err(io("read the old file"))?;
    Ok(blake3::hash(&bytes) == *seen)
}

/// Gives what has the temporary name the name it is for, whatever had that before, and syncs the directory.
pub(super) fn rename_over(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
) -> Result<(), HealError> {
    take_name(dir, temporary, name)?;
    sync_directory(dir).map_err(HealError::at("sync the directory"))
}

/// [`rename_over`] without the sync.
pub(super) fn take_name(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
) -> Result<(), HealError> {
    match renameat(dir, temporary, dir, name) {
        // An empty directory gives way; one that holds something does not.
        Err(Errno::ISDIR) => {
            unlinkat(dir, name, AtFlags::REMOVEDIR)
                .map_err(HealError::at("remove the directory that stands there"))?;
            renameat(dir, temporary, dir, name).map_err(HealError::at("rename"))
        }
        other => other.map_err(HealError::at("rename")),
    }
}
