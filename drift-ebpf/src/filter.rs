//! Whether anybody declared it.

use drift_common::abi::{Key, NameKey, SWEEP_SLOT, maybe_bit};

use crate::{
    fault::Fault,
    kernel::{Dentry, File, Inode},
    key,
    map::{DIRS, INODES, MAYBE, NAMES, NAMES_ANYWHERE},
};

/// Whether the inode with this number may be one that is declared, or a directory on the way to one. `false` is certain, and all that most files of a machine
/// are asked.
#[inline(always)]
pub fn maybe(ino: u64) -> bool {
    let (word, bit) = maybe_bit(ino);
    MAYBE.get(word).is_some_and(|bits| *bits & bit != 0)
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

/// The watched object that an inode is. `key`: filled in where there is one; left alone where the inode's number says that there is none.
#[inline(always)]
pub fn known(inode: Inode, key: &mut Key) -> Result<Option<u32>, Fault> {
    let ino = inode.number()?;
    if !maybe(ino) {
        return Ok(None);
    }
    *key = key::numbered(inode, ino)?;
    Ok(self::inode(key))
}

/// The watched object behind an open file: by its inode, else by the name it was opened under. `key`: filled in where there is one.
#[inline(always)]
pub fn file(file: File, inode: Inode, key: &mut Key) -> Result<Option<u32>, Fault> {
    match known(inode, key)? {
        Some(slot) => Ok(Some(slot)),
        None => newcomer(file, inode, key),
    }
}

/// The watched object in whose place a file is that the agent has not learned yet: it has just come to stand there. `key`: filled in where there is one.
#[inline(always)]
pub fn newcomer(file: File, inode: Inode, key: &mut Key) -> Result<Option<u32>, Fault> {
    let slot = entry(file.dentry()?)?;
    if slot.is_some() {
        *key = key::of_inode(inode)?;
    }
    Ok(slot)
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
    let dir = dentry.parent()?.inode()?;
    let ino = dir.number()?;
    if !maybe(ino) {
        return Ok(None);
    }
    let dir = key::numbered(dir, ino)?;
    // SAFETY: as in `inode`.
    if unsafe { DIRS.get(dir) }.is_none() {
        return Ok(None);
    }
    Ok(Some((dir, dentry.name_hash()?)))
}
