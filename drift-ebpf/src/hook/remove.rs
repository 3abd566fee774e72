//! A name was taken away.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::Kind;

use crate::{
    call::{Call, Named, WORKING_DIRECTORY},
    fault::finish,
    kernel::argument,
};

/// `unlink(path)`, `rmdir(path)`.
#[tracepoint]
pub fn unlink_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Remove,
        Call::enter(
            Kind::Remove,
            Named::path(WORKING_DIRECTORY, argument(&ctx, 0)),
            Named::NONE,
        ),
    )
}

/// `unlinkat(dirfd, path, flags)`.
#[tracepoint]
pub fn unlinkat_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Remove,
        Call::enter(
            Kind::Remove,
            Named::path(argument(&ctx, 0) as i32, argument(&ctx, 1)),
            Named::NONE,
        ),
    )
}
