//! The last component of a path in user memory.
//!
//! A path string is never evidence: another thread may change it while the call runs, and it says nothing of links and mounts. It only selects what
//! the agent looks at again, by name; what it does not select is found by the sweep or the scan.

use aya_ebpf::helpers::bpf_probe_read_user_str_bytes;
use drift_common::abi::{INSIDE, Key, NAME_HASH_START, name_hash_step};

use crate::{
    call::{Named, WORKING_DIRECTORY},
    fault::Fault,
    filter,
    kernel::Task,
    key,
    map::PATH,
};

/// What a path string says.
struct Last {
    name: u64,
    /// Hash of the component before, 0 if there is none.
    parent: u64,
    slashed: bool,
    empty: bool,
}

/// Two components of NAME_MAX bytes and the slash between them.
const TAIL: usize = 511;

#[inline(always)]
fn last(path: u64) -> Result<Last, Fault> {
    let buffer = PATH.get_ptr_mut(0).ok_or(Fault::User)?;
    // SAFETY: this CPU's own buffer; a BPF program is not moved to another CPU while it runs.
    let buffer = unsafe { &mut *buffer };
    // SAFETY: the helper checks the user address and writes at most the buffer's length.
    let length = unsafe { bpf_probe_read_user_str_bytes(path as *const u8, buffer) }
        .map_err(|_| Fault::User)?
        .len();
    let start = length.saturating_sub(TAIL);
    let mut last = Last {
        name: NAME_HASH_START,
        parent: 0,
        // What was cut off held a slash: a component has at most 255 bytes.
        slashed: start > 0,
        empty: length == 0,
    };
    let mut between = false;
    for i in 0..TAIL {
        let at = start + i;
        if at >= length {
            break;
        }
        let byte = buffer[at & 4095];
        if byte == b'/' {
            // A slash at the end does not end a component: `rmdir dir/` names `dir`.
            between = true;
            last.slashed = true;
        } else {
            if between {
                last.parent = last.name;
                last.name = NAME_HASH_START;
                between = false;
            }
            last.name = name_hash_step(last.name, byte);
        }
    }
    Ok(last)
}

/// What a call's name means to drift.
pub enum Found {
    /// The watched object with this slot; its inode, where a descriptor led to it.
    Object { slot: u32, key: Option<Key> },
    /// Some watched object of this name, in a directory that only the agent can tell.
    Anywhere { slot: u32, parent_name: u64 },
    /// No declared name, in a directory that may hold nothing else. The object may still be a declared one: through a link.
    Inside { slot: u32, parent_name: u64 },
    /// No declared name. The object may still be a declared one: through a link.
    Nobody,
}

/// Looks a name up as far as it is certain: a descriptor by its inode, a bare name by its directory's inode.
#[inline(always)]
pub fn find(named: &Named) -> Result<Found, Fault> {
    if named.path == 0 {
        return descriptor(named.fd);
    }
    let last = last(named.path)?;
    if last.empty {
        // AT_EMPTY_PATH: the descriptor itself.
        return descriptor(named.fd);
    }
    if last.slashed {
        return Ok(match filter::name_anywhere(last.name) {
            Some(slot) => Found::Anywhere {
                slot,
                parent_name: last.parent,
            },
            None => match filter::name_anywhere(last.parent ^ INSIDE) {
                Some(slot) => Found::Inside {
                    slot,
                    parent_name: last.parent,
                },
                None => Found::Nobody,
            },
        });
    }
    let task = Task::current();
    let dir = if named.fd == WORKING_DIRECTORY {
        task.working_directory()?
    } else {
        match task.file(named.fd)? {
            Some(file) => file.inode()?,
            None => return Ok(Found::Nobody),
        }
    };
    let dir = key::of_inode(dir)?;
    Ok(match filter::name(dir, last.name) {
        Some(slot) => Found::Object { slot, key: None },
        None => match filter::inside(dir) {
            Some(slot) => Found::Inside {
                slot,
                parent_name: 0,
            },
            None => Found::Nobody,
        },
    })
}

#[inline(always)]
fn descriptor(fd: i32) -> Result<Found, Fault> {
    let Some(file) = Task::current().file(fd)? else {
        return Ok(Found::Nobody);
    };
    let key = key::of_inode(file.inode()?)?;
    Ok(match filter::file(file, &key)? {
        Some(slot) => Found::Object {
            slot,
            key: Some(key),
        },
        None => Found::Nobody,
    })
}
