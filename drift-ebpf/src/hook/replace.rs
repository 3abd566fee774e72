//! A rename: onto a watched name, or away from it.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::Kind;

use crate::{
    call::{Call, Named, WORKING_DIRECTORY},
    fault::finish,
    kernel::argument,
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
