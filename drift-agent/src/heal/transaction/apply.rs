//! After the commit: each change happens, and can happen again without harm.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, fchmod, openat, openat2, statat},
    io::Errno,
};

use crate::{
    heal::{
        execute::{HealError, set_owner, split, unreachable_parent},
        in_place::{self, Only},
        other,
        replace::{self, take_name, temporary_name},
    },
    observe::Host,
    store::{Change, Entry, Journal, Over},
    sync::sync_directory,
};

/// How far one change has come.
#[derive(Debug)]
pub(in crate::heal) enum Applied {
    /// It has happened, or there is nothing left to do.
    All,
    /// What was staged is gone, so that there is no other try.
    GivenUp(HealError),
}

impl Applied {
    /// What was staged goes.
    pub(in crate::heal) fn given_up(
        dir: &OwnedFd,
        temporary: &OsString,
        why: HealError,
    ) -> Result<Self, HealError> {
        replace::remove_stale(dir, temporary)?;
        Ok(Self::GivenUp(why))
    }
}

type Failed = Vec<(PathBuf, HealError)>;

/// All of them, in their order, and then the syncs of their directories. `check`: this may be another process than the one that has staged.
/// Returns what could not be done and can be tried again; what cannot is added to `given_up`.
pub(super) fn all(host: &Host, journal: &Journal, check: bool, given_up: &mut Failed) -> Failed {
    let mut left = Failed::new();
    let mut places: BTreeMap<&Path, OwnedFd> = BTreeMap::new();
    for Entry { path, change } in &journal.entries {
        let result = split(path).and_then(|(parent, name)| {
            if !places.contains_key(parent) {
                match host.directory(parent, OFlags::RDONLY) {
                    Ok(dir) => drop(places.insert(parent, dir)),
                    Err(Errno::NOENT) if *change == Change::Remove => return Ok(Applied::All),
                    Err(error) => return Err(unreachable_parent(parent, error)),
                }
            }
            match places.get(parent) {
                Some(dir) => one(dir, path, &name, change, check),
                None => Ok(Applied::All), // it is there: see above
            }
        });
        match result {
            Ok(Applied::All) => {}
            Ok(Applied::GivenUp(why)) => given_up.push((path.clone(), why)),
            Err(error) => left.push((path.clone(), error)),
        }
    }
    for (path, dir) in places {
        match sync_directory(&dir) {
            // Removed with what was in it.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => left.push((path.to_owned(), HealError::at("sync the directory")(error))),
        }
    }
    left
}

fn one(
    dir: &OwnedFd,
    path: &Path,
    name: &OsString,
    change: &Change,
    check: bool,
) -> Result<Applied, HealError> {
    let temporary = temporary_name(path);
    let done = match change {
        Change::File { digest, over } => {
            if !is_there(dir, &temporary)? {
                return Ok(Applied::All); // it has taken its name before
            }
            let is_whole = || is_whole(dir, &temporary, digest);
            match over {
                Over::Text { digest: seen } if !check || is_whole()? => {
                    instead_of(dir, &temporary, name, seen)
                }
                Over::Text { digest: seen } => exchanged(dir, &temporary, name, digest, seen),
                Over::Anything | Over::Nothing if check && !is_whole()? => {
                    // Not what was staged: whoever put it there does not decide what is declared.
                    return Applied::given_up(dir, &temporary, HealError::ReadBack);
                }
                Over::Anything => take_name(dir, &temporary, name),
                Over::Nothing => {
                    if !replace::take_free_name(dir, &temporary, name)? {
                        replace::remove_stale(dir, &temporary)?;
                    }
                    Ok(())
                }
            }
        }
        Change::Into { .. } if !is_there(dir, &temporary)? => Ok(()), // it was written before
        Change::Into {
            digest,
            seen,
            alone,
        } => {
            let only = Only {
                seen: seen.as_deref().filter(|_| !check),
                alone: *alone,
            };
            return in_place::take_in(dir, &temporary, name, digest, only);
        }
        Change::Link if is_there(dir, &temporary)? => take_name(dir, &temporary, name),
        Change::Link => Ok(()),
        Change::Directory => match file_type(dir, name)? {
            // There already, or the other half of an exchange.
            Some(FileType::Directory) => replace::remove_stale(dir, &temporary),
            _ if file_type(dir, &temporary)? == Some(FileType::Directory) => {
                other::exchange(dir, &temporary, name)
            }
            _ => Ok(()),
        },
        Change::Attributes { mode, uid, gid } => attributes(dir, name, *mode, *uid, *gid),
        Change::Remove => match replace::remove(dir, name) {
            // Something has come into it: the look that follows says so.
            Ok(_) | Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(error) => Err(HealError::at("remove what stands there")(error)),
        },
    };
    done.map(|()| Applied::All)
}

/// What is staged was made from the text that stood there: where somebody has written to that since, it is of no use any more, and what is declared
/// of the file is put right by the look that follows. Where only attributes change, a kill between the exchange and the removal cannot be told from one
/// before it: then they are as they were, until the look at the start.
fn instead_of(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
    seen: &str,
) -> Result<(), HealError> {
    let seen = blake3::Hash::from_hex(seen).map_err(|_| HealError::Changed)?;
    match replace::exchange(dir, temporary, name, &seen) {
        Err(HealError::Changed) => replace::remove_stale(dir, temporary),
        other => other,
    }
}

/// The temporary name has something else than what was staged. Either a crash came between the exchange and what follows it, and this is what
/// stood there: where it is not what the new text was made from, it comes back. Or somebody has put it there.
fn exchanged(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
    staged: &str,
    seen: &str,
) -> Result<(), HealError> {
    if is_there(dir, name)?
        && is_whole(dir, name, staged)?
        && file_type(dir, temporary)? == Some(FileType::RegularFile)
        && !is_whole(dir, temporary, seen)?
    {
        replace::exchange_back(dir, temporary, name)?;
    }
    replace::remove_stale(dir, temporary)
}

/// Owner before mode, as everywhere.
fn attributes(
    dir: &OwnedFd,
    name: &OsStr,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<(), HealError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory =
        openat(dir, name, flags, Mode::empty()).map_err(HealError::at("open the directory"))?;
    set_owner(directory.as_fd(), uid, gid)?;
    if let Some(mode) = mode {
        fchmod(&directory, Mode::from_raw_mode(mode)).map_err(HealError::at("set the mode"))?;
    }
    sync_directory(&directory).map_err(HealError::at("sync the directory"))
}

fn file_type(dir: &OwnedFd, name: &OsStr) -> Result<Option<FileType>, HealError> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(HealError::at("look at what was staged")(error)),
    }
}

fn is_there(dir: &OwnedFd, temporary: &OsStr) -> Result<bool, HealError> {
    Ok(file_type(dir, temporary)?.is_some())
}

/// Whether a staged file holds what was staged.
fn is_whole(dir: &OwnedFd, temporary: &OsStr, digest: &str) -> Result<bool, HealError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    let file = match openat2(dir, temporary, flags, Mode::empty(), resolve) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP | Errno::NXIO) => return Ok(false),
        Err(error) => return Err(HealError::at("open what was staged")(error)),
    };
    let step = "read what was staged";
    let failed = |source: io::Error| HealError::Io { step, source };
    if !file.metadata().map_err(failed)?.is_file() {
        return Ok(false);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(failed)?;
    Ok(hasher.finalize().to_hex().as_str() == digest)
}
