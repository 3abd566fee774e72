//! A process read a watched file. The hottest call of any system: while no process has opened a watched file and not read it yet, the hook returns after one
//! look at one flag.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::Kind;

use crate::{
    actor, emit,
    fault::{Fault, finish},
    filter,
    kernel::{Task, argument},
    key,
    map::{READ_ARMED, READERS},
};

/// `sys_enter` of the calls that read from a descriptor, their first argument.
#[tracepoint]
pub fn read_enter(ctx: TracePointContext) -> u32 {
    finish(Kind::Read, try_read_enter(&ctx))
}

#[inline(always)]
fn try_read_enter(ctx: &TracePointContext) -> Result<(), Fault> {
    if READ_ARMED.get(0).is_none_or(|armed| *armed == 0) {
        return Ok(());
    }
    let tgid = actor::ids().0;
    let Some(opened) = READERS.get_ptr_mut(tgid) else {
        return Ok(());
    };
    let Some(file) = Task::current().file(argument(ctx, 0) as i32)? else {
        return Ok(());
    };
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
        forget(tgid);
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
