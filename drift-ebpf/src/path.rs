//! The last component of a path in user memory.
//!
//! A path string is never evidence: another thread may change it while the call runs, and it says nothing of links and mounts. It only selects what
//! the agent looks at again, by name; what it does not select is found by the sweep or the scan.

use aya_ebpf::helpers::bpf_probe_read_user_str_bytes;
use drift_common::abi::{INSIDE, Key, NAME_HASH_START, SWEEP_SLOT, name_hash_step};

use crate::{
    call::{Named, WORKING_DIRECTORY},
    emit::NO_KEY,
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
        // The compiler knows that it is below 4096 and would leave the mask out; the verifier of older kernels (seen: 5.10, 6.1) does not.
        let byte = buffer[core::hint::black_box(at) & 4095];
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

/// What a call's name means to drift. Every field is always set: the compiler reads the payload of a variant before it asks which one it is, and the verifier
/// of older kernels (seen: 5.10, 6.1) refuses to read what was never written.
#[derive(Clone, Copy)]
pub struct Found {
    pub how: How,
    /// 0 (the sweep's) for [`How::Nobody`].
    pub slot: u32,
    /// The object's inode, where a descriptor led to it.
    pub key: Key,
    pub parent_name: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum How {
    /// It is the watched object with this slot.
    Object = 1,
    /// Some watched object of this name, in a directory that only the agent can tell.
    Anywhere = 2,
    /// No declared name, in a directory that may hold nothing else. The object may still be a declared one: through a link.
    Inside = 3,
    /// No declared name. The object may still be a declared one: through a link.
    Nobody = 4,
}

const NOBODY: Found = Found {
    how: How::Nobody,
    slot: SWEEP_SLOT,
    key: NO_KEY,
    parent_name: 0,
};

impl Found {
    #[inline(always)]
    fn new(how: How, slot: u32) -> Found {
        Found {
            how,
            slot,
            ..NOBODY
        }
    }
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
        let found = match filter::name_anywhere(last.name) {
            Some(slot) => Found::new(How::Anywhere, slot),
            None => match filter::name_anywhere(last.parent ^ INSIDE) {
                Some(slot) => Found::new(How::Inside, slot),
                None => return Ok(NOBODY),
            },
        };
        return Ok(Found {
            parent_name: last.parent,
            ..found
        });
    }
    let task = Task::current();
    let dir = if named.fd == WORKING_DIRECTORY {
        task.working_directory()?
    } else {
        match task.file(named.fd)? {
            Some(file) => file.inode()?,
            None => return Ok(NOBODY),
        }
    };
    let dir = key::of_inode(dir)?;
    Ok(match filter::name(dir, last.name) {
        Some(slot) => Found::new(How::Object, slot),
        None => match filter::inside(dir) {
            Some(slot) => Found::new(How::Inside, slot),
            None => NOBODY,
        },
    })
}

#[inline(always)]
fn descriptor(fd: i32) -> Result<Found, Fault> {
    let Some(file) = Task::current().file(fd)? else {
        return Ok(NOBODY);
    };
    let key = key::of_inode(file.inode()?)?;
    Ok(match filter::file(file, &key)? {
        Some(slot) => Found {
            key,
            ..Found::new(How::Object, slot)
        },
        None => NOBODY,
    })
}
