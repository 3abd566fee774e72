//! A name came into being without an open: a link, a directory, a node.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::Kind;

use crate::{
    call::{Call, Named, WORKING_DIRECTORY},
    fault::{Fault, finish},
    kernel::argument,
};

#[inline(always)]
fn enter(fd: i32, path: u64) -> Result<(), Fault> {
    Call::enter(Kind::Create, Named::path(fd, path), Named::NONE)
}

/// `mkdir(path, …)`, `mknod(path, …)`.
#[tracepoint]
pub fn make_enter(ctx: TracePointContext) -> u32 {
    finish(Kind::Create, enter(WORKING_DIRECTORY, argument(&ctx, 0)))
}

/// `mkdirat(dirfd, path, …)`, `mknodat(dirfd, path, …)`.
#[tracepoint]
pub fn makeat_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Create,
        enter(argument(&ctx, 0) as i32, argument(&ctx, 1)),
    )
}

/// `link(old, new)`.
#[tracepoint]
pub fn link_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Create,
        Call::enter(
            Kind::Create,
            Named::path(WORKING_DIRECTORY, argument(&ctx, 1)),
            Named::source(WORKING_DIRECTORY, argument(&ctx, 0)),
        ),
    )
}

/// `linkat(olddirfd, old, newdirfd, new, flags)`.
#[tracepoint]
pub fn linkat_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Create,
        Call::enter(
            Kind::Create,
            Named::path(argument(&ctx, 2) as i32, argument(&ctx, 3)),
            Named::source(argument(&ctx, 0) as i32, argument(&ctx, 1)),
        ),
    )
}

/// `symlink(target, new)`.
#[tracepoint]
pub fn symlink_enter(ctx: TracePointContext) -> u32 {
    finish(Kind::Create, enter(WORKING_DIRECTORY, argument(&ctx, 1)))
}

/// `symlinkat(target, newdirfd, new)`.
#[tracepoint]
pub fn symlinkat_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Create,
        enter(argument(&ctx, 1) as i32, argument(&ctx, 2)),
    )
}
