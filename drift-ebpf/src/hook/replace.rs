//! A rename: onto a watched name, or away from it.

use aya_ebpf::{
    EbpfContext,
    helpers::bpf_get_current_pid_tgid,
    macros::{fentry, fexit, tracepoint},
    programs::{FEntryContext, FExitContext, TracePointContext},
};
use drift_common::abi::{Function, Kind, SWEEP_SLOT};

use crate::{
    actor,
    call::{Call, Named, WORKING_DIRECTORY},
    emit,
    fault::{Fault, finish},
    filter,
    kernel::{Address, Dentry, argument},
    map::RENAMES,
    traced::Traced,
};

/// `rename(old, new)`.
#[tracepoint]
pub fn rename_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Replace,
        Call::enter(
            Kind::Replace,
            Named::path(WORKING_DIRECTORY, argument(&ctx, 0)),
            Named::path(WORKING_DIRECTORY, argument(&ctx, 1)),
        ),
    )
}

/// `renameat(olddirfd, old, newdirfd, new)` and `renameat2`, whose flags change nothing here: an exchange touches both names too.
#[tracepoint]
pub fn renameat_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Replace,
        Call::enter(
            Kind::Replace,
            Named::path(argument(&ctx, 0) as i32, argument(&ctx, 1)),
            Named::path(argument(&ctx, 2) as i32, argument(&ctx, 3)),
        ),
    )
}

/// `vfs_rename`, at its begin: the entries still have the names they are about to lose.
#[fentry(function = "vfs_rename")]
pub fn rename_begun(ctx: FEntryContext) -> i32 {
    finish(Kind::Replace, try_rename_begun(&ctx)) as i32
}

#[inline(always)]
fn try_rename_begun(ctx: &FEntryContext) -> Result<(), Fault> {
    if actor::is_ours() {
        return Ok(());
    }
    let (old, new) = pair(ctx)?;
    let slots = [slot(old)?, slot(new)?];
    if slots == [SWEEP_SLOT; 2] {
        return Ok(());
    }
    // An LRU table does not refuse.
    RENAMES
        .insert(way(old), slots, 0)
        .map_err(|_| Fault::CallsFull)
}

/// `vfs_rename`, at its end.
#[fexit(function = "vfs_rename")]
pub fn rename_ended(ctx: FExitContext) -> i32 {
    finish(Kind::Replace, try_rename_ended(&ctx)) as i32
}

#[inline(always)]
fn try_rename_ended(ctx: &FExitContext) -> Result<(), Fault> {
    let (old, _) = pair(ctx)?;
    let way = way(old);
    // SAFETY: the entry is this thread's own; nobody else writes it.
    let Some(slots) = (unsafe { RENAMES.get(way) }).copied() else {
        return Ok(());
    };
    // It was there a moment ago, and only this thread removes it.
    let _gone = RENAMES.remove(way);
    if Traced::new(ctx, Function::VfsRename).has_failed() {
        return Ok(());
    }
    for slot in slots {
        if slot != SWEEP_SLOT {
            emit::name(slot, Kind::Replace);
        }
    }
    Ok(())
}

#[inline(always)]
fn pair(ctx: &impl EbpfContext) -> Result<(Address, Address), Fault> {
    Traced::new(ctx, Function::VfsRename).pair()
}

/// What tells a rename from the one that it leads to in an overlay's layer.
#[inline(always)]
fn way(old: Address) -> [u64; 2] {
    [bpf_get_current_pid_tgid(), old.number()]
}

/// The slot that an entry rings, the sweep's (which no entry has) for none.
#[inline(always)]
fn slot(entry: Address) -> Result<u32, Fault> {
    Ok(filter::entry(Dentry::new(entry))?.unwrap_or(SWEEP_SLOT))
}
