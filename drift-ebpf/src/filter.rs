//! Whether anybody declared it.

use drift_common::abi::{Key, NameKey, SWEEP_SLOT, maybe_bit};

use crate::{
    fault::Fault,
    kernel::{Dentry, File, Inode},
    key,
    map::{DIRS, INODES, MAYBE, NAMES, NAMES_ANYWHERE},
};

/// Whether an inode may be one that is declared. `false` is certain.
#[inline(always)]
pub fn maybe(inode: Inode) -> Result<bool, Fault> {
    let (word, bit) = maybe_bit(inode.number()?);
    Ok(MAYBE.get(word).is_some_and(|bits| *bits & bit != 0))
}

#[inline(always)]
pub fn inode(key: &Key) -> Option<u32> {
    // SAFETY: the value is a plain u32 that only the agent writes; a torn read is not possible.
    unsafe { INODES.get(key) }.copied()
}

#[inline(always)]
pub fn name(dir: Key, name: u64) -> Option<u32> {
    // SAFETY: as in `inode`.
    unsafe { NAMES.get(NameKey { dir, name }) }.copied()
}

/// The slot of a directory in which every name is watched, declared or not.
#[inline(always)]
pub fn inside(dir: Key) -> Option<u32> {
    // SAFETY: as in `inode`.
    let slot = unsafe { DIRS.get(dir) }.copied()?;
    (slot != SWEEP_SLOT).then_some(slot)
}

#[inline(always)]
pub fn name_anywhere(name: u64) -> Option<u32> {
    // SAFETY: as in `inode`.
    unsafe { NAMES_ANYWHERE.get(name) }.copied()
}

/// The watched object behind an open file: by its inode, else by the name it was opened under. The second finds a file that has just come to stand
/// where a declared one belongs, and that the agent has not learned yet.
#[inline(always)]
pub fn file(file: File, key: &Key) -> Result<Option<u32>, Fault> {
    match inode(key) {
        Some(slot) => Ok(Some(slot)),
        None => entry(file.dentry()?),
    }
}

/// The watched object that an entry of a directory is, or the directory itself where every name in it is watched.
#[inline(always)]
pub fn entry(dentry: Dentry) -> Result<Option<u32>, Fault> {
    let Some((dir, name_hash)) = watched_name(dentry)? else {
        return Ok(None);
    };
    Ok(match name(dir, name_hash) {
        Some(slot) => Some(slot),
        None => inside(dir),
    })
}

/// The watched object that an entry of a directory is.
#[inline(always)]
pub fn declared_entry(dentry: Dentry) -> Result<Option<u32>, Fault> {
    let Some((dir, name_hash)) = watched_name(dentry)? else {
        return Ok(None);
    };
    Ok(name(dir, name_hash))
}

/// Directory and name of an entry, if any name in that directory is watched.
#[inline(always)]
fn watched_name(dentry: Dentry) -> Result<Option<(Key, u64)>, Fault> {
    let dir = key::of_inode(dentry.parent()?.inode()?)?;
    // SAFETY: as in `inode`.
    if unsafe { DIRS.get(dir) }.is_none() {
        return Ok(None);
    }
    Ok(Some((dir, dentry.name_hash()?)))
}
