//! A process read a watched file. The hottest call of any system: while no process has opened a watched file and not read it yet, the hook returns after one
//! look at one flag.

use aya_ebpf::{
    macros::{fentry, tracepoint},
    programs::{FEntryContext, TracePointContext},
};
use drift_common::abi::{Function, Kind};

use crate::{
    actor, emit,
    fault::{Fault, finish},
    filter,
    kernel::{File, argument},
    key,
    map::{READ_ARMED, READERS},
    traced::Traced,
};

/// `sys_enter` of the calls that read from a descriptor, their first argument.
#[tracepoint]
pub fn read_enter(ctx: TracePointContext) -> u32 {
    finish(Kind::Read, try_read_enter::<0>(&ctx))
}

/// `sys_enter_sendfile64(out_fd, in_fd, …)`.
#[tracepoint]
pub fn sendfile_enter(ctx: TracePointContext) -> u32 {
    finish(Kind::Read, try_read_enter::<1>(&ctx))
}

const MAP_ANONYMOUS: u64 = 0x20;

/// `sys_enter_mmap(addr, length, prot, flags, fd, …)`: what is mapped is read without a call.
#[tracepoint]
pub fn mmap_enter(ctx: TracePointContext) -> u32 {
    if argument(&ctx, 3) & MAP_ANONYMOUS != 0 {
        return 0;
    }
    finish(Kind::Read, try_read_enter::<4>(&ctx))
}

/// `FD`: which argument is the descriptor that is read from.
#[inline(always)]
fn try_read_enter<const FD: usize>(ctx: &TracePointContext) -> Result<(), Fault> {
    if !is_armed() {
        return Ok(());
    }
    let Some(opened) = READERS.get_ptr_mut(actor::ids().0) else {
        return Ok(());
    };
    match File::of(argument(ctx, FD) as i32)? {
        Some(file) => read(file, opened),
        None => Ok(()),
    }
}

const MAY_READ: u64 = 4;

/// `security_file_permission(file, mask)`: asked before anything is read from a file or written to it, by whatever call (sendfile, splice, io_uring).
#[fentry(function = "security_file_permission")]
pub fn read_permitted(ctx: FEntryContext) -> i32 {
    if !is_armed() {
        return 0;
    }
    let call = Traced::new(&ctx, Function::SecurityFilePermission);
    if call.second() & MAY_READ == 0 {
        return 0;
    }
    finish(Kind::Read, try_read(call)) as i32
}

/// `vfs_read(file, …)`: where the kernel has no security modules to ask.
#[fentry(function = "vfs_read")]
pub fn read_begun(ctx: FEntryContext) -> i32 {
    if !is_armed() {
        return 0;
    }
    finish(Kind::Read, try_read(Traced::new(&ctx, Function::VfsRead))) as i32
}

/// `security_mmap_file(file, …)`: what is mapped is read without a call.
#[fentry(function = "security_mmap_file")]
pub fn mapped(ctx: FEntryContext) -> i32 {
    if !is_armed() {
        return 0;
    }
    let call = Traced::new(&ctx, Function::SecurityMmapFile);
    // Memory without a file.
    if call.first().is_null() {
        return 0;
    }
    finish(Kind::Read, try_read(call)) as i32
}

#[inline(always)]
fn try_read(call: Traced) -> Result<(), Fault> {
    match READERS.get_ptr_mut(actor::ids().0) {
        Some(opened) => read(call.file(), opened),
        None => Ok(()),
    }
}

#[inline(always)]
fn is_armed() -> bool {
    READ_ARMED.get(0).is_some_and(|armed| *armed != 0)
}

/// `opened`: how many watched files this process has open and not read.
#[inline(always)]
fn read(file: File, opened: *mut u32) -> Result<(), Fault> {
    let inode = file.inode()?;
    if !filter::maybe(inode)? {
        return Ok(());
    }
    let key = key::of_inode(inode)?;
    let Some(slot) = filter::inode(&key) else {
        return Ok(());
    };
    emit::load(slot, Kind::Read, key);
    // SAFETY: the pointer is into the map.
    let left = unsafe {
        *opened = (*opened).saturating_sub(1);
        *opened
    };
    if left == 0 {
        forget(actor::ids().0);
    }
    Ok(())
}

/// This process has read what it opened, or is gone.
#[inline(always)]
pub fn forget(tgid: u32) {
    // Most processes are not in the table.
    let _absent = READERS.remove(tgid);
}

/// Switches the read hook on. The agent switches it off: first the flag, then a look at `READERS`, and on again if somebody is in it; as here the entry
/// comes before the flag, neither order of the two can leave a reader unseen.
#[inline(always)]
pub fn arm() {
    if let Some(armed) = READ_ARMED.get_ptr_mut(0) {
        // SAFETY: an aligned u32 in an array map.
        unsafe { *armed = 1 };
    }
}
