//! A file's content may have changed: it was made dirty, its last writer closed it, or its writer ended.

use aya_ebpf::{
    EbpfContext,
    macros::{fentry, fexit, raw_tracepoint, tracepoint},
    programs::{FEntryContext, FExitContext, RawTracePointContext, TracePointContext},
};
use drift_common::abi::{Function, Key, Kind, Level};

use crate::{
    actor,
    emit::{self, Change},
    fault::{Fault, finish},
    filter,
    kernel::{Address, File, Inode, argument},
    key,
    map::WRITERS,
    traced::Traced,
};

/// `I_DIRTY_PAGES`: bit 2 before 6.12, bit 6 since. In either kernel the other one is a state that nobody marks an inode dirty with.
const I_DIRTY_PAGES: u64 = 1 << 2 | 1 << 6;

/// `writeback_mark_inode_dirty(inode, flags)`: inode-keyed, paid by nobody but those who dirty an inode, and it sees what no system call shows (io_uring,
/// stores through a mapping). Fires when clean pages become dirty, not for each write.
#[raw_tracepoint]
pub fn inode_dirtied(ctx: RawTracePointContext) -> i32 {
    finish(Kind::Write, try_inode_dirtied(&ctx)) as i32
}

#[inline(always)]
fn try_inode_dirtied(ctx: &RawTracePointContext) -> Result<(), Fault> {
    let arguments = ctx.as_ptr().cast::<u64>();
    // SAFETY: the tracepoint has two arguments; the verifier checks the constant offsets.
    let (inode, flags) = unsafe { (*arguments, *arguments.add(1)) };
    let inode = Inode::new(Address::new(inode));
    if !filter::maybe(inode)? {
        return Ok(());
    }
    let key = key::of_inode(inode)?;
    let Some(slot) = filter::inode(&key) else {
        return Ok(());
    };
    if actor::is_silent(slot) {
        return Ok(());
    }
    if flags & I_DIRTY_PAGES == 0 {
        emit::stirred(slot, key);
        return Ok(());
    }
    writing(slot, inode, key)
}

/// A process writes to a watched file, and has it open still.
#[inline(always)]
pub fn writing(slot: u32, inode: Inode, key: Key) -> Result<(), Fault> {
    // It may have had the file open before the agent started. An LRU table does not refuse.
    let _always = WRITERS.insert(actor::ids().0, slot, 0);
    emit::change(&Change {
        slot,
        kind: Kind::Write,
        level: Level::Open,
        key,
        writers: inode.writers()?,
        parent_name: 0,
    });
    Ok(())
}

/// `sys_enter_close`: the first argument is the descriptor that goes away.
#[tracepoint]
pub fn close_enter(ctx: TracePointContext) -> u32 {
    finish(Kind::Close, try_close(argument(&ctx, 0) as i32))
}

/// `sys_enter_dup2`, `sys_enter_dup3`: what the second argument was open on goes away.
#[tracepoint]
pub fn dup_enter(ctx: TracePointContext) -> u32 {
    finish(Kind::Close, try_close(argument(&ctx, 1) as i32))
}

/// On entry, for then the file is still there. Its content is final: the writes have returned. Only the last reference counts: a shell redirects by
/// opening, duplicating and closing the first descriptor before anything is written.
#[inline(always)]
fn try_close(fd: i32) -> Result<(), Fault> {
    let Some(file) = File::of(fd)? else {
        return Ok(());
    };
    let (_, writes) = file.access()?;
    if !writes || !file.is_last_reference()? {
        return Ok(());
    }
    closed(file)
}

/// `__fput(file)`: the last reference is gone, of whatever kind (descriptor, mapping, io_uring, a message under way), and the file is about to be.
#[fentry(function = "__fput")]
pub fn file_closed(ctx: FEntryContext) -> i32 {
    finish(
        Kind::Close,
        try_file_closed(Traced::new(&ctx, Function::Fput).file()),
    ) as i32
}

#[inline(always)]
fn try_file_closed(file: File) -> Result<(), Fault> {
    let (_, writes) = file.access()?;
    if !writes || !file.is_opened()? {
        return Ok(());
    }
    closed(file)
}

#[inline(always)]
fn closed(file: File) -> Result<(), Fault> {
    let inode = file.inode()?;
    let key: Key = key::of_inode(inode)?;
    let Some(slot) = filter::file(file, &key)? else {
        return Ok(());
    };
    if actor::is_silent(slot) {
        return Ok(());
    }
    emit::change(&Change {
        slot,
        kind: Kind::Close,
        level: Level::Done,
        key,
        // This writer is about to go.
        writers: inode.writers()?.saturating_sub(1),
        parent_name: 0,
    });
    Ok(())
}

/// `vfs_fallocate(file, …)`: punches holes, on tmpfs without making the inode dirty.
#[fexit(function = "vfs_fallocate")]
pub fn space_changed(ctx: FExitContext) -> i32 {
    stored(Traced::new(&ctx, Function::VfsFallocate))
}

/// `vfs_clone_file_range(…, file_out, …)`: FICLONE, of which no inode becomes dirty.
#[fexit(function = "vfs_clone_file_range")]
pub fn range_cloned(ctx: FExitContext) -> i32 {
    stored(Traced::new(&ctx, Function::VfsCloneFileRange))
}

#[inline(always)]
fn stored(call: Traced) -> i32 {
    if call.has_failed() || actor::is_ours() {
        return 0;
    }
    finish(Kind::Write, try_stored(call.file())) as i32
}

/// Its writer still has it open.
#[inline(always)]
fn try_stored(file: File) -> Result<(), Fault> {
    let inode = file.inode()?;
    let key = key::of_inode(inode)?;
    let Some(slot) = filter::inode(&key) else {
        return Ok(());
    };
    emit::change(&Change {
        slot,
        kind: Kind::Write,
        level: Level::Open,
        key,
        writers: inode.writers()?,
        parent_name: 0,
    });
    Ok(())
}

/// `sched_process_exit`: files that are still open are closed without a system call.
#[tracepoint]
pub fn process_exit(_ctx: TracePointContext) -> u32 {
    let (tgid, thread) = actor::ids();
    if tgid != thread {
        return 0;
    }
    super::read::forget(tgid);
    if WRITERS.remove(tgid).is_ok() {
        emit::ended();
    }
    0
}
