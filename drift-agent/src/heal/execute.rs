//! The only writer of the host: one match over [`Action`].

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::AsFd,
    path::Path,
};

use rustix::{
    fd::{BorrowedFd, OwnedFd},
    fs::{AtFlags, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, fsync, mkdirat, openat2, statat},
    io::Errno,
};
use thiserror::Error;

use crate::{
    compare::structured::EditError,
    declare::{Declared, HardLinks, Target},
    observe::{Host, Place, Stat},
    report::FileType,
    store::Store,
    sync::sync_directory,
};

use super::{
    action::Action,
    attribute, edit, other,
    replace::{self, New},
};

/// What was written, for the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    /// Something worth telling beside "healed".
    pub notes: Vec<String>,
}

/// Why the declared state could not be put back. Nothing is half done: each path is wholly as it was or wholly as declared.
#[derive(Debug, Error)]
pub enum HealError {
    #[error("the directory {path} cannot be reached ({source})")]
    Parent { path: String, source: io::Error },
    #[error(
        "a directory that is not empty stands there: move it away, drift does not delete what it did not write"
    )]
    DirectoryInTheWay,
    #[error(
        "the file is a mount point (bind mount, Kubernetes subPath): it cannot be replaced from here; declare `write: inPlace`, unmount it, or change what is mounted"
    )]
    Busy,
    #[error("the file system is read-only")]
    ReadOnly,
    #[error("no space left for a new file ({0})")]
    NoSpace(io::Error),
    #[error(
        "not permitted ({0}): the file or its directory may be immutable (lsattr), or the agent may lack a capability"
    )]
    NotPermitted(io::Error),
    #[error(
        "what was written does not read back the same: the disk or the file system is at fault"
    )]
    ReadBack,
    #[error("somebody else has written to it meanwhile, or it is something else now")]
    Changed,
    #[error(
        "it does not parse as {format} at {line}:{column}: only some of its keys are declared, and whoever writes the rest has to put it right"
    )]
    Unparsable {
        format: &'static str,
        line: u32,
        column: u32,
    },
    #[error("it is too large to change some of its keys")]
    TooLarge,
    #[error(transparent)]
    Edit(EditError),
    #[error(
        "the file has another name, under which what is written would be, too: remove that name, or declare `hardLinks: allow`"
    )]
    OtherNames,
    #[error("an earlier change that was interrupted cannot be brought to its end ({0})")]
    Earlier(String),
    #[error("the declared content is not here, only its digest is")]
    NoContent,
    #[error("the declared content cannot be used: {0}")]
    Unfit(io::Error),
    #[error("{step}: {source}")]
    Io {
        step: &'static str,
        source: io::Error,
    },
    /// What the restorer says of it, or why there is none to say so.
    #[error("{message}")]
    Restorer {
        reason: &'static str,
        message: String,
    },
}

impl HealError {
    /// A closed set, for records and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            HealError::Parent { .. } => "parent",
            HealError::DirectoryInTheWay => "directory-in-the-way",
            HealError::Busy => "busy-mount-point",
            HealError::ReadOnly => "read-only",
            HealError::NoSpace(_) => "no-space",
            HealError::NotPermitted(_) => "not-permitted",
            HealError::ReadBack => "read-back",
            HealError::Changed => "changed-meanwhile",
            HealError::Unparsable { .. } => "unparsable",
            HealError::TooLarge => "too-large",
            HealError::Edit(error) => error.reason(),
            HealError::OtherNames => "hardlinked",
            HealError::Earlier(_) => "earlier-unfinished",
            HealError::NoContent | HealError::Unfit(_) => "no-content",
            HealError::Io { .. } => "io",
            HealError::Restorer { reason, .. } => reason,
        }
    }

    pub(super) fn at(step: &'static str) -> impl Fn(Errno) -> HealError {
        move |errno| match errno {
            Errno::BUSY => HealError::Busy,
            Errno::ROFS => HealError::ReadOnly,
            Errno::NOSPC | Errno::DQUOT => HealError::NoSpace(errno.into()),
            Errno::PERM | Errno::ACCESS => HealError::NotPermitted(errno.into()),
            Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST => HealError::DirectoryInTheWay,
            other => HealError::Io {
                step,
                source: other.into(),
            },
        }
    }
}

/// Does it. Blocking: writes and syncs.
///
/// # Errors
/// It is as it was.
pub fn execute(
    host: &Host,
    declared: &Declared,
    action: &Action,
    observed: Option<&Stat>,
) -> Result<Healed, HealError> {
    carry_out(host, declared, action, observed, None)
}

/// As [`execute`]. `keep`: where files are moved that give way.
pub(super) fn carry_out(
    host: &Host,
    declared: &Declared,
    action: &Action,
    observed: Option<&Stat>,
    keep: Option<&Store>,
) -> Result<Healed, HealError> {
    match action {
        Action::Edit => match &declared.target {
            Target::File(content) => edit::edit(host, declared, content, keep),
            Target::Symlink(_) | Target::Absent | Target::Directory(_) => Err(HealError::Changed),
        },
        Action::Attributes => attributes(host, declared, observed),
        Action::Remove => other::absent(host, declared, keep),
        Action::Clear(names) => other::clear(host, declared, names),
        Action::Replace => match &declared.target {
            Target::File(content) => {
                // Something that is no regular file has no attributes worth keeping.
                let like = observed.filter(|stat| stat.file_type == FileType::File);
                replace::replace(host, declared, &New::of(content)?, like, keep)
            }
            Target::Symlink(target) => other::link(host, declared, target),
            Target::Absent => other::absent(host, declared, keep),
            Target::Directory(_) => other::directory(host, declared),
        },
    }
}

/// Attributes of what is there, through one descriptor.
pub(super) fn attributes(
    host: &Host,
    declared: &Declared,
    observed: Option<&Stat>,
) -> Result<Healed, HealError> {
    let (dir, name) = parent_and_name(host, declared, OFlags::PATH)?;
    if let Target::Symlink(target) = &declared.target {
        // What has another name is not this path's alone.
        if observed.is_some_and(|stat| stat.links > 1) {
            return other::link(host, declared, target);
        }
        return other::link_attributes(&dir, &name, declared).map(|()| Healed::default());
    }
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(
        &dir,
        &name,
        flags,
        Mode::empty(),
        rustix::fs::ResolveFlags::NO_SYMLINKS,
    )
    .map_err(HealError::at("open the file"))?;
    if let Target::File(content) = &declared.target
        && content.hard_links == HardLinks::Report
        && !is_here_alone(&dir, &name, file.as_fd())?
    {
        if declared.target.is_in_place() {
            return Err(HealError::OtherNames);
        }
        return match &content.meaning {
            // What it holds says what is declared, and may hold more.
            Some(_) => edit::apart(host, declared, content),
            None => replace::replace(host, declared, &New::of(content)?, observed, None),
        };
    }
    attribute::without_flags(file.as_fd(), declared, || {
        set_attributes(file.as_fd(), declared)
    })?;
    fsync(&file).map_err(HealError::at("sync the file"))?;
    Ok(Healed::default())
}

/// Whether an open file is what the name leads to, and has no other name.
///
/// Who gives a file of others this name as a second one, and takes that away again when it has been opened, leaves it with one name, which is not ours: so the name
/// is asked, and tells both at once. That a call is cut in two by a removal is left; it would have to happen each time, within one tick of the clock.
///
/// # Errors
/// It cannot be told.
pub(super) fn is_here_alone(
    dir: &OwnedFd,
    name: &OsStr,
    file: BorrowedFd<'_>,
) -> Result<bool, HealError> {
    const LOOKS: usize = 3;
    let open = fstat(file).map_err(HealError::at("look at the file"))?;
    let face = |stat: &rustix::fs::Stat| {
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        (stat.st_dev, stat.st_ino, stat.st_nlink, changed)
    };
    if open.st_nlink != 1 {
        return Ok(false);
    }
    for _ in 0..LOOKS {
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if face(&named) == face(&open) => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(HealError::at("look at the name")(error)),
        }
    }
    Ok(true)
}

/// Owner before mode: a change of owner clears the setuid and setgid bits, and capabilities. Access lists after the mode, which sets their mask. The flags are
/// left to the caller.
pub(super) fn set_attributes(file: BorrowedFd<'_>, declared: &Declared) -> Result<(), HealError> {
    // The mode as it is must survive the change of owner where none is declared.
    let before = fstat(file)
        .map_err(HealError::at("look at the file"))?
        .st_mode
        & 0o7777;
    let before = attribute::mode_alone(file, declared, before);
    let capabilities = attribute::undeclared_capabilities(file, declared);
    set_owner(file, declared.uid, declared.gid)?;
    set_mode(file, declared.mode.unwrap_or(before))?;
    if let Some(capabilities) = capabilities {
        attribute::put_capabilities(file, &capabilities)?;
    }
    attribute::set(Place::Open(file), declared)
}

/// Asks for a change only where there is one: who may not give files away can still heal all else.
pub(super) fn set_owner(
    file: BorrowedFd<'_>,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<(), HealError> {
    let now = fstat(file).map_err(HealError::at("look at the file"))?;
    let uid = uid.filter(|uid| *uid != now.st_uid).map(Uid::from_raw);
    let gid = gid.filter(|gid| *gid != now.st_gid).map(Gid::from_raw);
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    fchown(file, uid, gid).map_err(HealError::at("set the owner"))
}

/// As [`set_owner`]: what has become another's by it may not be changed any more by who may not change files of others, and where only the owner was wrong, all is well.
fn set_mode(file: BorrowedFd<'_>, mode: u32) -> Result<(), HealError> {
    let now = fstat(file).map_err(HealError::at("look at the file"))?;
    if now.st_mode & 0o7777 == mode {
        return Ok(());
    }
    fchmod(file, Mode::from_raw_mode(mode)).map_err(HealError::at("set the mode"))
}

/// The directory that a declared path is in, opened with `flags`, and the name it has there.
pub(super) fn parent_and_name(
    host: &Host,
    declared: &Declared,
    flags: OFlags,
) -> Result<(OwnedFd, OsString), HealError> {
    let (above, name) = split(declared.real())?;
    let dir = host.parent(declared, flags);
    Ok((dir.map_err(|error| unreachable_parent(above, error))?, name))
}

/// A path's directory and the name it has there.
pub(super) fn split(path: &Path) -> Result<(&Path, OsString), HealError> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name.to_owned())),
        // Validation refuses such a path; here it must not become a write to somewhere.
        _ => Err(HealError::DirectoryInTheWay),
    }
}

pub(super) fn unreachable_parent(path: &Path, error: Errno) -> HealError {
    HealError::Parent {
        path: path.display().to_string(),
        source: error.into(),
    }
}

/// As [`parent_and_name`], for writing: opens the directory for syncing, and makes what is missing of it. Links on the way are not made.
pub(super) fn place(
    host: &Host,
    declared: &Declared,
    notes: &mut Vec<String>,
) -> Result<(OwnedFd, OsString), HealError> {
    let (above, name) = split(declared.real())?;
    match host.parent(declared, OFlags::RDONLY) {
        Err(Errno::NOENT) => {
            directory_for_writing(host, above, notes)?;
            parent_and_name(host, declared, OFlags::RDONLY)
        }
        dir => Ok((dir.map_err(|error| unreachable_parent(above, error))?, name)),
    }
}

/// Opens a directory for syncing, and makes what is missing of it: root's, 0755. What is there already is never touched.
pub(super) fn directory_for_writing(
    host: &Host,
    path: &Path,
    notes: &mut Vec<String>,
) -> Result<OwnedFd, HealError> {
    match host.directory(path, OFlags::RDONLY) {
        Err(Errno::NOENT) => {}
        other => return other.map_err(|error| unreachable_parent(path, error)),
    }
    let (above, name) = split(path)?;
    let dir = directory_for_writing(host, above, notes)?;
    match mkdirat(&dir, &name, Mode::from_raw_mode(0o755)) {
        // Another process was faster.
        Err(Errno::EXIST) => {}
        Err(error) => return Err(unreachable_parent(path, error)),
        Ok(()) => {
            let made = host
                .directory(path, OFlags::RDONLY)
                .map_err(|error| unreachable_parent(path, error))?;
            // The agent's umask must not decide.
            fchmod(&made, Mode::from_raw_mode(0o755))
                .map_err(HealError::at("set the mode of a new directory"))?;
            sync_directory(&dir).map_err(HealError::at("sync the directory"))?;
            notes.push(format!("made the missing directory {}", path.display()));
        }
    }
    host.directory(path, OFlags::RDONLY)
        .map_err(|error| unreachable_parent(path, error))
}

/// Removes what a heal that was killed may have left beside a declared path. True when there was something.
pub fn sweep_leftovers(host: &Host, declared: &Declared) -> Result<bool, HealError> {
    let Some(dir) = beside(host, declared)? else {
        return Ok(false);
    };
    replace::remove(&dir, &replace::temporary_name(declared.real()))
        .map_err(HealError::at("remove a leftover"))
}

/// Whether [`sweep_leftovers`] has something to do.
#[must_use]
pub fn has_leftovers(host: &Host, declared: &Declared) -> bool {
    let dir = beside(host, declared).ok().flatten();
    let name = replace::temporary_name(declared.real());
    dir.is_some_and(|dir| statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
}

/// The directory in which a declared path really is, whatever the links on its way hold now.
fn beside(host: &Host, declared: &Declared) -> Result<Option<OwnedFd>, HealError> {
    let (above, _) = split(declared.real())?;
    Ok(host.directory(above, OFlags::PATH).ok())
}
