//! A name was taken away.

use aya_ebpf::{
    macros::{fexit, tracepoint},
    programs::{FExitContext, TracePointContext},
};
use drift_common::abi::{Function, Kind};

use crate::{
    call::{Call, Named, WORKING_DIRECTORY},
    fault::finish,
    kernel::argument,
    traced::Traced,
};

use super::create::named;

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

/// `vfs_unlink(…, dentry, …)`: the entry keeps its name after it was taken away.
#[fexit(function = "vfs_unlink")]
pub fn file_unlinked(ctx: FExitContext) -> i32 {
    named(Traced::new(&ctx, Function::VfsUnlink), Kind::Remove)
}

/// `vfs_rmdir(…, dentry)`.
#[fexit(function = "vfs_rmdir")]
pub fn dir_removed(ctx: FExitContext) -> i32 {
    named(Traced::new(&ctx, Function::VfsRmdir), Kind::Remove)
}
