//! Something was mounted, moved or unmounted. Whether a declared path leads elsewhere for it is for the agent to find: the call may have been made in any mount
//! namespace.

use aya_ebpf::{
    macros::{fexit, tracepoint},
    programs::{FExitContext, TracePointContext},
};
use drift_common::abi::{Function, Kind};

use crate::{
    actor,
    call::{Call, Named},
    emit,
    fault::finish,
    traced::Traced,
};

/// `mount`, `umount`, `move_mount`, `pivot_root`.
#[tracepoint]
pub fn mount_enter(_ctx: TracePointContext) -> u32 {
    finish(
        Kind::Mount,
        Call::enter(Kind::Mount, Named::NONE, Named::NONE),
    )
}

/// `mount`, at its end. The functions of these four calls alone are hooked: no other call pays.
#[fexit]
pub fn mounted(ctx: FExitContext) -> i32 {
    ended(Traced::new(&ctx, Function::Mount))
}

/// `umount`.
#[fexit]
pub fn unmounted(ctx: FExitContext) -> i32 {
    ended(Traced::new(&ctx, Function::Umount))
}

/// `move_mount`.
#[fexit]
pub fn mount_moved(ctx: FExitContext) -> i32 {
    ended(Traced::new(&ctx, Function::MoveMount))
}

/// `pivot_root`.
#[fexit]
pub fn root_moved(ctx: FExitContext) -> i32 {
    ended(Traced::new(&ctx, Function::PivotRoot))
}

#[inline(always)]
fn ended(call: Traced) -> i32 {
    if !call.has_failed() && !actor::is_agent() {
        emit::mount();
    }
    0
}
