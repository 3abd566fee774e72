//! From a descriptor to the identity of what it is open on.

use drift_common::abi::Key;

use crate::{fault::Fault, kernel::Inode};

/// The identity of an inode, as the kernel has it.
#[inline(always)]
pub fn of_inode(inode: Inode) -> Result<Key, Fault> {
    numbered(inode, inode.number()?)
}

/// The same, where the inode's number is known already.
#[inline(always)]
pub fn numbered(inode: Inode, ino: u64) -> Result<Key, Fault> {
    Ok(Key {
        ino,
        dev: inode.device()?,
        generation: inode.generation()?,
    })
}
