//! Mode, owner or size was changed by a call that is complete in itself.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::Kind;

use crate::{
    call::{Call, Named, WORKING_DIRECTORY},
    fault::finish,
    kernel::argument,
};

/// `chmod(path, …)`, `chown(path, …)`, `lchown(path, …)`, `truncate(path, …)`.
#[tracepoint]
pub fn attr_enter(ctx: TracePointContext) -> u32 {
    finish(Call::enter(
        Kind::Attr,
        Named::path(WORKING_DIRECTORY, argument(&ctx, 0)),
        Named::NONE,
    ))
}

/// `fchmodat(dirfd, path, …)`, `fchmodat2`, `fchownat(dirfd, path, …)`.
#[tracepoint]
pub fn attrat_enter(ctx: TracePointContext) -> u32 {
    finish(Call::enter(
        Kind::Attr,
        Named::path(argument(&ctx, 0) as i32, argument(&ctx, 1)),
        Named::NONE,
    ))
}

/// `fchmod(fd, …)`, `fchown(fd, …)`.
#[tracepoint]
pub fn attrfd_enter(ctx: TracePointContext) -> u32 {
    finish(Call::enter(
        Kind::Attr,
        Named::descriptor(argument(&ctx, 0) as i32),
        Named::NONE,
    ))
}
