//! Attributes beside mode and owner: set only where they differ, so that an agent which may not set some can still heal all else.

use std::ffi::OsStr;

use drift_common::policy::{ACCESS_ACL, Acl, CAPABILITY, Flags};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{
        AtFlags, FileType, IFlags, Mode, OFlags, ResolveFlags, XattrFlags, fchmod, fgetxattr,
        fremovexattr, fsetxattr, fstat, ioctl_getflags, ioctl_setflags, lremovexattr, lsetxattr,
        openat2, statat,
    },
    io::Errno,
};

use crate::{
    compare::attribute::{Verdict, verdict},
    declare::{Attribute, Declared, Expect},
    observe::{Place, Reading, read_attribute},
};

use super::execute::HealError;

/// Sets what is declared, but for the flags. What the file system does not have is left out: the look that follows says so.
pub(super) fn set(place: Place<'_>, declared: &Declared) -> Result<(), HealError> {
    for attribute in &declared.attributes.named {
        if verdict_now(place, attribute)? == Verdict::Same {
            continue;
        }
        match put(place, attribute) {
            Err(Errno::OPNOTSUPP) => bits(place, &attribute.expect)?,
            other => other.map_err(HealError::at("set an attribute"))?,
        }
    }
    Ok(())
}

fn verdict_now(place: Place<'_>, attribute: &Attribute) -> Result<Verdict, HealError> {
    let mode = match place {
        Place::Open(file) => mode_of(file)?,
        Place::Named(..) => 0,
    };
    let reading = read_attribute(place, attribute);
    Ok(verdict(&attribute.expect, &reading, mode))
}

fn mode_of(file: BorrowedFd<'_>) -> Result<u32, HealError> {
    let stat = fstat(file).map_err(HealError::at("look at the file"))?;
    Ok(stat.st_mode & 0o7777)
}

fn put(place: Place<'_>, attribute: &Attribute) -> Result<(), Errno> {
    let value = match &attribute.expect {
        Expect::Absent => {
            let removed = match place {
                Place::Open(file) => fremovexattr(file, &*attribute.name),
                Place::Named(directory, name) => {
                    lremovexattr(Place::path(directory, name), &*attribute.name)
                }
            };
            return match removed {
                Err(Errno::NODATA) => Ok(()),
                other => other,
            };
        }
        Expect::Value(bytes) => bytes.clone(),
        Expect::Label(label) => {
            let mut value = label.clone().into_bytes();
            value.push(0);
            value
        }
        Expect::Capabilities(capabilities) => capabilities.to_xattr(),
        Expect::Access(acl) | Expect::Default(acl) => acl.to_xattr(),
    };
    let flags = XattrFlags::empty();
    match place {
        Place::Open(file) => fsetxattr(file, &*attribute.name, &value, flags),
        Place::Named(directory, name) => lsetxattr(
            Place::path(directory, name),
            &*attribute.name,
            &value,
            flags,
        ),
    }
}

/// An access list that says no more than a mode can be one where there are no access lists, too.
fn bits(place: Place<'_>, expect: &Expect) -> Result<(), HealError> {
    match (place, expect) {
        (Place::Open(file), Expect::Access(acl)) if acl.mask.is_none() => {
            let mode = mode_of(file)? & 0o7000 | acl.mode();
            fchmod(file, Mode::from_raw_mode(mode)).map_err(HealError::at("set the mode"))
        }
        _ => Ok(()),
    }
}

/// Whether everything that its file system has is as declared; but for the flags, which come last.
pub(super) fn are_set(file: BorrowedFd<'_>, declared: &Declared) -> Result<bool, HealError> {
    for attribute in &declared.attributes.named {
        match verdict_now(Place::Open(file), attribute)? {
            Verdict::Same | Verdict::Unsupported => {}
            Verdict::Other | Verdict::Unknown(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// The capabilities that a change of owner would take away, where nothing is declared of them.
pub(super) fn undeclared_capabilities(
    file: BorrowedFd<'_>,
    declared: &Declared,
) -> Option<Vec<u8>> {
    let mut value = [0; 64];
    if declared.attributes.has(CAPABILITY.as_bytes()) {
        return None;
    }
    let length = fgetxattr(file, CAPABILITY, &mut value[..]).ok()?;
    Some(value[..length].to_vec())
}

/// Gives a file the capabilities that it had.
pub(super) fn put_capabilities(file: BorrowedFd<'_>, value: &[u8]) -> Result<(), HealError> {
    let mut now = [0; 64];
    if fgetxattr(file, CAPABILITY, &mut now[..]).is_ok_and(|length| now[..length] == *value) {
        return Ok(());
    }
    fsetxattr(file, CAPABILITY, value, XattrFlags::empty())
        .map_err(HealError::at("give the capabilities back"))
}

/// The mode without what an access list that may not be there makes of it: its mask stands in the place of the group's bits.
pub(super) fn mode_alone(file: BorrowedFd<'_>, declared: &Declared, mode: u32) -> u32 {
    let is_access = |attribute: &&Attribute| attribute.name.as_bytes() == ACCESS_ACL.as_bytes();
    let mut named = declared.attributes.named.iter();
    let Some(access) = named.find(is_access) else {
        return mode;
    };
    match (&access.expect, read_attribute(Place::Open(file), access)) {
        (Expect::Absent, Reading::Value(value)) => match Acl::from_xattr(&value) {
            Some(acl) => mode & !0o070 | u32::from(acl.group) << 3,
            None => mode,
        },
        _ => mode,
    }
}

const BOTH: IFlags = IFlags::IMMUTABLE.union(IFlags::APPEND);

/// What has lost its flags for a moment.
pub(super) struct Lifted {
    file: OwnedFd,
    flags: IFlags,
}

impl Lifted {
    /// Gives them back, where it still has a name: it was not replaced, or was not all there was of it.
    pub(super) fn give_back(self) {
        if fstat(&self.file).is_ok_and(|stat| stat.st_nlink > 0)
            && let Err(error) = ioctl_setflags(&self.file, self.flags)
        {
            log::warn!("the flags of a file that was to be replaced cannot be given back: {error}");
        }
    }
}

/// Takes flags that are declared, and so are ours to set, away from what is to be written; what they were, where there were some.
fn lift(file: BorrowedFd<'_>, declared: &Declared) -> Result<Option<IFlags>, HealError> {
    if declared.attributes.flags.is_none() {
        return Ok(None);
    }
    let Ok(flags) = ioctl_getflags(file) else {
        return Ok(None); // none here
    };
    if !flags.intersects(BOTH) {
        return Ok(None);
    }
    ioctl_setflags(file, flags.difference(BOTH)).map_err(HealError::at("take the flags away"))?;
    Ok(Some(flags))
}

/// The same for what is to be replaced.
pub(super) fn lift_named(
    dir: &OwnedFd,
    name: &OsStr,
    declared: &Declared,
) -> Result<Option<Lifted>, HealError> {
    if declared.attributes.flags.is_none() {
        return Ok(None);
    }
    // Nothing else has flags, and no device or FIFO is to be opened.
    let has_flags = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::RegularFile | FileType::Directory
        )
    });
    if !has_flags {
        return Ok(None);
    }
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat2(dir, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(file) => file,
        // Gone since.
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(HealError::at("open what stands there")(error)),
    };
    let flags = lift(file.as_fd(), declared)?;
    Ok(flags.map(|flags| Lifted { file, flags }))
}

/// Sets the declared flags. Nothing can be written, renamed or linked after that, so it comes last.
pub(super) fn put_flags(file: BorrowedFd<'_>, declared: &Declared) -> Result<(), HealError> {
    let Some(Flags { immutable, append }) = declared.attributes.flags else {
        return Ok(());
    };
    let mut wanted = IFlags::empty();
    wanted.set(IFlags::IMMUTABLE, immutable);
    wanted.set(IFlags::APPEND, append);
    let flags = match ioctl_getflags(file) {
        Ok(flags) => flags,
        // This file system has none: the look that follows says so.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(()),
        Err(error) => return Err(HealError::at("look at the flags")(error)),
    };
    let set = flags.difference(BOTH).union(wanted);
    if set == flags {
        return Ok(());
    }
    match ioctl_setflags(file, set) {
        Err(Errno::NOTTY | Errno::OPNOTSUPP) => Ok(()),
        other => other.map_err(HealError::at("set the flags")),
    }
}

/// Runs `write`, and then sets the declared flags again, whatever came of it. The first error is the one to tell.
pub(super) fn without_flags<T>(
    file: BorrowedFd<'_>,
    declared: &Declared,
    write: impl FnOnce() -> Result<T, HealError>,
) -> Result<T, HealError> {
    lift(file, declared)?;
    let written = write();
    let put = put_flags(file, declared);
    let written = written?;
    put.map(|()| written)
}

/// Flags of the users' own that a new file in the place of an old one takes over, where its file system lets it.
pub(super) fn copy_flags(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let kept = IFlags::NODUMP | IFlags::NOATIME | IFlags::SYNC | IFlags::COMPRESSED | IFlags::NOCOW;
    let (Ok(old), Ok(new)) = (ioctl_getflags(from), ioctl_getflags(to)) else {
        return;
    };
    let wanted = new.difference(kept).union(old.intersection(kept));
    if wanted != new
        && let Err(error) = ioctl_setflags(to, wanted)
    {
        log::debug!("the flags of the old file are not taken over: {error}");
    }
}
