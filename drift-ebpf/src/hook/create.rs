//! A name came into being without an open: a link, a directory, a node.

use aya_ebpf::{
    macros::{fexit, tracepoint},
    programs::{FExitContext, TracePointContext},
};
use drift_common::abi::{Function, Kind, Level};

use crate::{
    actor,
    call::{Call, Named, WORKING_DIRECTORY},
    emit::{self, Change},
    fault::{Fault, finish},
    filter,
    kernel::{Dentry, argument},
    key,
    traced::Traced,
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

/// `vfs_create(…, dentry, …)`: a plain file made without an open (by `mknod`, or by a server in the kernel).
#[fexit(function = "vfs_create")]
pub fn file_made(ctx: FExitContext) -> i32 {
    named(Traced::new(&ctx, Function::VfsCreate), Kind::Create)
}

/// `vfs_mkdir(…, dentry, …)`.
#[fexit(function = "vfs_mkdir")]
pub fn dir_made(ctx: FExitContext) -> i32 {
    named(Traced::new(&ctx, Function::VfsMkdir), Kind::Create)
}

/// `vfs_mknod(…, dentry, …)`.
#[fexit(function = "vfs_mknod")]
pub fn node_made(ctx: FExitContext) -> i32 {
    named(Traced::new(&ctx, Function::VfsMknod), Kind::Create)
}

/// `vfs_symlink(…, dentry, …)`.
#[fexit(function = "vfs_symlink")]
pub fn symlink_made(ctx: FExitContext) -> i32 {
    named(Traced::new(&ctx, Function::VfsSymlink), Kind::Create)
}

/// `vfs_link(old_dentry, …, new_dentry, …)`: a name came into being, and what it leads to has one more.
#[fexit(function = "vfs_link")]
pub fn link_made(ctx: FExitContext) -> i32 {
    let call = Traced::new(&ctx, Function::VfsLink);
    if call.has_failed() || actor::is_ours() {
        return 0;
    }
    finish(Kind::Create, try_link_made(call)) as i32
}

#[inline(always)]
fn try_link_made(call: Traced) -> Result<(), Fault> {
    let (old, new) = call.pair()?;
    let key = key::of_inode(Dentry::new(old).inode()?)?;
    if let Some(slot) = filter::inode(&key) {
        emit::change(&Change {
            slot,
            kind: Kind::Attr,
            level: Level::Done,
            key,
            writers: 0,
            parent_name: 0,
        });
    }
    if let Some(slot) = filter::entry(Dentry::new(new))? {
        emit::name(slot, Kind::Create);
    }
    Ok(())
}

/// The end of a function that puts or takes away the name of its first parameter.
#[inline(always)]
pub fn named(call: Traced, kind: Kind) -> i32 {
    if call.has_failed() || actor::is_ours() {
        return 0;
    }
    finish(kind, try_named(call.dentry(), kind)) as i32
}

#[inline(always)]
fn try_named(dentry: Dentry, kind: Kind) -> Result<(), Fault> {
    if let Some(slot) = filter::entry(dentry)? {
        emit::name(slot, kind);
    }
    Ok(())
}
