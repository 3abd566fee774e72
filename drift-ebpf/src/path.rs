//! The last component of a path in user memory.
//!
//! A path string is never evidence: another thread may change it while the call runs, and it says nothing of links and mounts. It only selects what
//! the agent looks at again, by name; what it does not select is found by the sweep or the scan.

use core::hint::black_box;

use aya_ebpf::helpers::bpf_probe_read_user_str_bytes;
use drift_common::abi::{INSIDE, Key, NAME_HASH_START, SWEEP_SLOT, WHOLE, name_hash_step};

use crate::{
    call::{Named, WORKING_DIRECTORY},
    emit::NO_KEY,
    fault::Fault,
    filter,
    kernel::{File, Task},
    key,
    map::{LAST, PATH},
};

/// What a path string says.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Last {
    name: u64,
    /// Hash of the component before, 0 if there is none.
    parent: u64,
    /// Not 0: there was a slash.
    slashed: u64,
    /// Not 0: there was nothing.
    empty: u64,
    /// Hash of all of it; 0 where it does not begin at the root, or is too long.
    whole: u64,
    /// Bytes of the path, and where its tail begins.
    length: usize,
    start: usize,
}

/// Two components of NAME_MAX bytes and the slash between them.
const TAIL: usize = 511;

#[inline(always)]
fn last(path: u64) -> Result<Last, Fault> {
    if read_last(path) != 0 {
        return Err(Fault::User);
    }
    // SAFETY: this CPU's own; a BPF program is not moved to another CPU while it runs.
    LAST.get(0).copied().ok_or(Fault::User)
}

/// Leaves what the path says in `LAST`; 0 if it could be read.
///
/// A global function: the verifier looks at it once, by itself. As a part of its callers it was followed again for each way they could have come, which
/// took 325,000 of the million instructions that it is patient for.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn read_last(path: u64) -> i32 {
    let (Some(buffer), Some(last)) = (PATH.get_ptr_mut(0), LAST.get_ptr_mut(0)) else {
        return 1;
    };
    // SAFETY: this CPU's own buffers; a BPF program is not moved to another CPU while it runs.
    let (buffer, last) = unsafe { (&mut *buffer, &mut *last) };
    // SAFETY: the helper checks the user address and writes at most the buffer's length.
    let Ok(text) = (unsafe { bpf_probe_read_user_str_bytes(path as *const u8, buffer) }) else {
        return 1;
    };
    let length = text.len();
    let start = length.saturating_sub(TAIL);
    last.empty = u64::from(length == 0);
    // What was cut off held a slash: a component has at most 255 bytes.
    last.slashed = u64::from(start > 0);
    // What comes out of a map the verifier knows nothing of, and so it has one way into the loop to follow, not one for each range of lengths.
    last.length = length;
    last.start = start;
    // SAFETY: both are this CPU's own, written just above.
    let (length, start, slashed) = unsafe {
        (
            core::ptr::read_volatile(&raw const last.length),
            core::ptr::read_volatile(&raw const last.start),
            core::ptr::read_volatile(&raw const last.slashed),
        )
    };
    let mut walk = Walk {
        name: NAME_HASH_START,
        whole: NAME_HASH_START,
        parent: 0,
        slashed,
        between: 0,
    };
    for i in 0..TAIL {
        let at = start + i;
        if at >= length {
            break;
        }
        // The compiler knows that it is below 4096 and would leave the mask out; the verifier of older kernels (seen: 5.10, 6.1) does not.
        walk.step(buffer[black_box(at) & 4095]);
    }
    last.name = walk.name;
    last.parent = walk.parent;
    last.slashed = walk.slashed;
    last.whole = if start == 0 && buffer[0] == b'/' {
        walk.whole
    } else {
        0
    };
    0
}

/// A path, byte by byte, without a branch: the verifier follows each way through each turn of a loop.
struct Walk {
    name: u64,
    whole: u64,
    parent: u64,
    /// 0 or 1: there was a slash.
    slashed: u64,
    /// 0 or 1: the last byte was a slash.
    between: u64,
}

impl Walk {
    #[inline(always)]
    fn step(&mut self, byte: u8) {
        // `black_box`, or the compiler makes branches of it again.
        let slash = black_box(u64::from(byte ^ b'/')).wrapping_sub(1) >> 63;
        // A slash at the end does not end a component: `rmdir dir/` names `dir`.
        let begins = black_box((self.between & (slash ^ 1)).wrapping_neg());
        self.parent = pick(begins, self.name, self.parent);
        self.name = pick(begins, NAME_HASH_START, self.name);
        let is_slash = black_box(slash.wrapping_neg());
        self.name = pick(is_slash, self.name, name_hash_step(self.name, byte));
        self.whole = name_hash_step(self.whole, byte);
        self.slashed |= slash;
        self.between = slash;
    }
}

/// `yes` where the mask has ones, `no` where it has zeros.
#[inline(always)]
fn pick(mask: u64, yes: u64, no: u64) -> u64 {
    (yes & mask) | (no & !mask)
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
    if named.path != 0 {
        let last = last(named.path)?;
        // Nothing (AT_EMPTY_PATH): the descriptor itself.
        if last.empty == 0 {
            return by_name(named, &last);
        }
    }
    descriptor(named.fd)
}

#[inline(always)]
fn by_name(named: &Named, last: &Last) -> Result<Found, Fault> {
    if last.slashed != 0 {
        if last.whole != 0
            && let Some(slot) = filter::name_anywhere(last.whole ^ WHOLE)
        {
            return Ok(Found::new(How::Object, slot));
        }
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
    let dir = if named.fd == WORKING_DIRECTORY {
        Task::current().working_directory()?
    } else {
        match File::of(named.fd)? {
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
    let Some(file) = File::of(fd)? else {
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
