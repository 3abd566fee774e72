//! What is no file: links, directories, and nothing.

use std::ffi::{OsStr, OsString};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{
        AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid, chownat, fstat, mkdirat, openat,
        renameat_with, symlinkat,
    },
    io::Errno,
};

use crate::{
    declare::Declared,
    observe::{Host, Place},
    store::Store,
    sync::sync_directory,
};

use super::{
    attribute,
    execute::{
        HealError, Healed, is_here_alone, parent_and_name, place, set_attributes,
        unreachable_parent,
    },
    replace::{let_go, remove, remove_stale, rename_over, temporary_name},
};

/// What a missing directory gets where nothing is declared.
const DEFAULT_MODE: u32 = 0o755;

/// Puts a symbolic link in place of whatever stands there.
pub(super) fn link(host: &Host, declared: &Declared, target: &OsStr) -> Result<Healed, HealError> {
    let mut healed = Healed::default();
    let (dir, name) = place(host, declared, &mut healed.notes)?;
    let temporary = temporary_name(declared.real());
    let made =
        stage_link(&dir, declared, target).and_then(|()| rename_over(&dir, &temporary, &name));
    tidied(made, &dir, &temporary)?;
    Ok(healed)
}

/// Puts a link as declared under the temporary name.
pub(super) fn stage_link(
    dir: &OwnedFd,
    declared: &Declared,
    target: &OsStr,
) -> Result<(), HealError> {
    let temporary = temporary_name(declared.real());
    remove_stale(dir, &temporary)?;
    symlinkat(target, dir, &temporary).map_err(HealError::at("make a link"))?;
    link_attributes(dir, &temporary, declared)
}

/// Sets the owner and the attributes of a link itself.
pub(super) fn link_attributes(
    dir: &OwnedFd,
    name: &OsString,
    declared: &Declared,
) -> Result<(), HealError> {
    if declared.uid.is_some() || declared.gid.is_some() {
        let (uid, gid) = (
            declared.uid.map(Uid::from_raw),
            declared.gid.map(Gid::from_raw),
        );
        // By its descriptor: the name may be that of another's file when the owner is set.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link =
            openat(dir, name, flags, Mode::empty()).map_err(HealError::at("open the link"))?;
        let stat = fstat(&link).map_err(HealError::at("look at the link"))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink
            || !is_here_alone(dir, name, link.as_fd())?
        {
            return Err(HealError::Changed);
        }
        chownat(&link, "", uid, gid, AtFlags::EMPTY_PATH)
            .map_err(HealError::at("set the owner of the link"))?;
    }
    attribute::set(Place::Named(dir.as_fd(), name), declared)
}

/// Makes a directory in place of whatever stands there: complete before it has its name.
pub(super) fn directory(host: &Host, declared: &Declared) -> Result<Healed, HealError> {
    let mut healed = Healed::default();
    let (dir, name) = place(host, declared, &mut healed.notes)?;
    if let Ok(there) = host.inside(declared, OFlags::RDONLY) {
        // Made meanwhile: by somebody, or for a declared file in it. What is in it is not ours to move.
        attribute::without_flags(there.as_fd(), declared, || {
            set_attributes(there.as_fd(), declared)
        })?;
        sync_directory(&there).map_err(HealError::at("sync the directory"))?;
        return Ok(healed);
    }
    let temporary = temporary_name(declared.real());
    let mut stands = None;
    let made = stage_directory(&dir, declared).and_then(|made| {
        stands = attribute::lift_named(&dir, &name, declared)?;
        exchange(&dir, &temporary, &name)?;
        sync_directory(&dir).map_err(HealError::at("sync the directory"))?;
        Ok(made)
    });
    if let Some(stands) = stands {
        stands.give_back();
    }
    let made = tidied(made, &dir, &temporary)?;
    attribute::put_flags(made.as_fd(), declared)?;
    sync_directory(&made).map_err(HealError::at("sync the directory"))?;
    Ok(healed)
}

/// Puts a directory as declared under the temporary name, but for its flags.
pub(super) fn stage_directory(dir: &OwnedFd, declared: &Declared) -> Result<OwnedFd, HealError> {
    let temporary = temporary_name(declared.real());
    remove_stale(dir, &temporary)?;
    mkdirat(dir, &temporary, Mode::from_raw_mode(0o700))
        .map_err(HealError::at("make a directory"))?;
    fill(dir, &temporary, declared)
}

fn fill(dir: &OwnedFd, temporary: &OsString, declared: &Declared) -> Result<OwnedFd, HealError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(dir, temporary, flags, Mode::empty())
        .map_err(HealError::at("open the new directory"))?;
    // The agent's umask must not decide.
    let mode = Mode::from_raw_mode(declared.mode.unwrap_or(DEFAULT_MODE));
    rustix::fs::fchmod(&made, mode).map_err(HealError::at("set the mode"))?;
    set_attributes(made.as_fd(), declared)?;
    sync_directory(&made).map_err(HealError::at("sync the directory"))?;
    Ok(made)
}

/// Exchanges the new directory with what stands there, and removes that: at no moment there is nothing.
pub(super) fn exchange(
    dir: &OwnedFd,
    temporary: &OsString,
    name: &OsString,
) -> Result<(), HealError> {
    match renameat_with(dir, temporary, dir, name, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => {
            let exchange = || {
                renameat_with(dir, temporary, dir, name, RenameFlags::EXCHANGE)
                    .map_err(HealError::at("exchange"))
            };
            exchange()?;
            if let Err(error) = remove_stale(dir, temporary) {
                // A directory that is not empty: it goes back to where it stood.
                exchange()?;
                return Err(error);
            }
            Ok(())
        }
        other => other.map_err(HealError::at("rename")),
    }
}

/// Removes what stands there.
pub(super) fn absent(
    host: &Host,
    declared: &Declared,
    keep: Option<&Store>,
) -> Result<Healed, HealError> {
    let mut healed = Healed::default();
    let (dir, name) = parent_and_name(host, declared, OFlags::RDONLY)?;
    match keep {
        Some(store) => let_go(&dir, &name, store, &mut healed.notes),
        None => remove(&dir, &name).map(drop),
    }
    .map_err(HealError::at("remove what stands there"))?;
    sync_directory(&dir).map_err(HealError::at("sync the directory"))?;
    Ok(healed)
}

/// Removes names from a directory.
pub(super) fn clear(
    host: &Host,
    declared: &Declared,
    names: &[OsString],
) -> Result<Healed, HealError> {
    let dir = host
        .inside(declared, OFlags::RDONLY)
        .map_err(|error| unreachable_parent(declared.real(), error))?;
    let mut first = Ok(());
    attribute::without_flags(dir.as_fd(), declared, || {
        for name in names {
            let removed = remove(&dir, name).map_err(HealError::at("remove what may not be there"));
            // One that cannot be removed must not keep the others there.
            first = std::mem::replace(&mut first, Ok(())).and(removed.map(drop));
        }
        set_attributes(dir.as_fd(), declared)
    })?;
    sync_directory(&dir).map_err(HealError::at("sync the directory"))?;
    first.map(|()| Healed::default())
}

/// What is left under the temporary name goes when something went wrong.
fn tidied<T>(
    result: Result<T, HealError>,
    dir: &OwnedFd,
    temporary: &OsString,
) -> Result<T, HealError> {
    if result.is_err() {
        // The first error is the one to tell. What could not be removed is removed at the next heal, or at the next start.
        let _kept_until_then = remove(dir, temporary);
    }
    result
}
