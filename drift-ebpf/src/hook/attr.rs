//! Mode, owner, size or another attribute was changed by a call that is complete in itself.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::Kind;

use crate::{
    call::{Call, Named, WORKING_DIRECTORY},
    fault::finish,
    kernel::argument,
};

/// `chmod(path, …)`, `chown(path, …)`, `lchown(path, …)`, `truncate(path, …)`, `setxattr(path, …)`, `removexattr(path, …)` and their `l…` kin.
#[tracepoint]
pub fn attr_enter(ctx: TracePointContext) -> u32 {
    finish(Call::enter(
        Kind::Attr,
        Named::path(WORKING_DIRECTORY, argument(&ctx, 0)),
        Named::NONE,
    ))
}

/// `fchmodat(dirfd, path, …)`, `fchmodat2`, `fchownat(dirfd, path, …)`, `setxattrat`, `removexattrat`, `file_setattr`.
#[tracepoint]
pub fn attrat_enter(ctx: TracePointContext) -> u32 {
    finish(Call::enter(
        Kind::Attr,
        Named::path(argument(&ctx, 0) as i32, argument(&ctx, 1)),
        Named::NONE,
    ))
}

/// `utime(path, …)`, `utimes(path, …)`.
#[tracepoint]
pub fn times_enter(ctx: TracePointContext) -> u32 {
    finish(Call::enter(
        Kind::Times,
        Named::path(WORKING_DIRECTORY, argument(&ctx, 0)),
        Named::NONE,
    ))
}

/// `futimesat(dirfd, path, …)`, `utimensat(dirfd, path, …)`; without a path the descriptor's own.
#[tracepoint]
pub fn timesat_enter(ctx: TracePointContext) -> u32 {
    finish(Call::enter(
        Kind::Times,
        Named::path(argument(&ctx, 0) as i32, argument(&ctx, 1)),
        Named::NONE,
    ))
}

/// `fchmod(fd, …)`, `fchown(fd, …)`, `fsetxattr(fd, …)`, `fremovexattr(fd, …)`, `ftruncate(fd, …)`, `fallocate(fd, …)`.
#[tracepoint]
pub fn attrfd_enter(ctx: TracePointContext) -> u32 {
    finish(Call::enter(
        Kind::Attr,
        Named::descriptor(argument(&ctx, 0) as i32),
        Named::NONE,
    ))
}

/// The flags of a file (`chattr`), as 64-bit and as 32-bit programs ask for them, and with the other attributes of its file system.
const SETFLAGS: u32 = 0x4008_6602;
const SETFLAGS_32: u32 = 0x4004_6602;
const FSSETXATTR: u32 = 0x401c_5820;

/// Blocks of another file: `FICLONE`, `FICLONERANGE`, and those of XFS exchanged.
const CLONE: u32 = 0x4004_9409;
const CLONE_RANGE: u32 = 0x4020_940d;
const EXCHANGE_RANGE: u32 = 0x4028_5881;

/// `ioctl(fd, FS_IOC_SETFLAGS, …)` and the others above. Every other one is let go at once.
#[tracepoint]
pub fn ioctl_enter(ctx: TracePointContext) -> u32 {
    match argument(&ctx, 1) as u32 {
        SETFLAGS | SETFLAGS_32 | FSSETXATTR | CLONE | CLONE_RANGE | EXCHANGE_RANGE => {
            finish(Call::enter(
                Kind::Attr,
                Named::descriptor(argument(&ctx, 0) as i32),
                Named::NONE,
            ))
        }
        _ => 0,
    }
}
