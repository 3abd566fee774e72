//! From a descriptor to the identity of what it is open on.

use drift_common::abi::Key;

use crate::{fault::Fault, kernel::Inode};

/// The identity of an inode, as the kernel has it.
#[inline(always)]
pub fn of_inode(inode: Inode) -> Result<Key, Fault> {
    Ok(Key {
        ino: inode.number()?,
        dev: inode.device()?,
        generation: inode.generation()?,
    })
}
