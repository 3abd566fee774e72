//! Something was mounted, moved or unmounted. Whether a declared path leads elsewhere for it is for the agent to find: the call may have been made in any mount
//! namespace.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::Kind;

use crate::{
    call::{Call, Named},
    fault::finish,
};

/// `mount`, `umount`, `move_mount`, `pivot_root`.
#[tracepoint]
pub fn mount_enter(_ctx: TracePointContext) -> u32 {
    finish(
        Kind::Mount,
        Call::enter(Kind::Mount, Named::NONE, Named::NONE),
    )
}
