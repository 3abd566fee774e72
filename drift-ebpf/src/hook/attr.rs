//! Mode, owner, size or another attribute was changed by a call that is complete in itself.

use aya_ebpf::{
    macros::{fentry, fexit, tracepoint},
    programs::{FEntryContext, FExitContext, TracePointContext},
};
use drift_common::abi::{Function, Key, Kind, Level};

use crate::{
    actor,
    call::{Call, Named, WORKING_DIRECTORY},
    emit::{self, Change},
    fault::{Fault, finish},
    filter,
    kernel::{Address, Dentry, argument, attributes},
    key,
    traced::Traced,
};

/// `chmod(path, …)`, `chown(path, …)`, `lchown(path, …)`, `truncate(path, …)`, `setxattr(path, …)`, `removexattr(path, …)` and their `l…` kin.
#[tracepoint]
pub fn attr_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Attr,
        Call::enter(
            Kind::Attr,
            Named::path(WORKING_DIRECTORY, argument(&ctx, 0)),
            Named::NONE,
        ),
    )
}

/// `fchmodat(dirfd, path, …)`, `fchmodat2`, `fchownat(dirfd, path, …)`, `setxattrat`, `removexattrat`, `file_setattr`.
#[tracepoint]
pub fn attrat_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Attr,
        Call::enter(
            Kind::Attr,
            Named::path(argument(&ctx, 0) as i32, argument(&ctx, 1)),
            Named::NONE,
        ),
    )
}

/// `utime(path, …)`, `utimes(path, …)`.
#[tracepoint]
pub fn times_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Times,
        Call::enter(
            Kind::Times,
            Named::path(WORKING_DIRECTORY, argument(&ctx, 0)),
            Named::NONE,
        ),
    )
}

/// `futimesat(dirfd, path, …)`, `utimensat(dirfd, path, …)`; without a path the descriptor's own.
#[tracepoint]
pub fn timesat_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Times,
        Call::enter(
            Kind::Times,
            Named::path(argument(&ctx, 0) as i32, argument(&ctx, 1)),
            Named::NONE,
        ),
    )
}

/// `fchmod(fd, …)`, `fchown(fd, …)`, `fsetxattr(fd, …)`, `fremovexattr(fd, …)`, `ftruncate(fd, …)`, `fallocate(fd, …)`.
#[tracepoint]
pub fn attrfd_enter(ctx: TracePointContext) -> u32 {
    finish(
        Kind::Attr,
        Call::enter(
            Kind::Attr,
            Named::descriptor(argument(&ctx, 0) as i32),
            Named::NONE,
        ),
    )
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
        SETFLAGS | SETFLAGS_32 | FSSETXATTR | CLONE | CLONE_RANGE | EXCHANGE_RANGE => finish(
            Kind::Attr,
            Call::enter(
                Kind::Attr,
                Named::descriptor(argument(&ctx, 0) as i32),
                Named::NONE,
            ),
        ),
        _ => 0,
    }
}

const ATTR_MODE: u32 = 1;
const ATTR_UID: u32 = 1 << 1;
const ATTR_GID: u32 = 1 << 2;
const ATTR_SIZE: u32 = 1 << 3;
const ATTR_OPEN: u32 = 1 << 15;

/// `notify_change(…, dentry, attr, …)`: chmod, chown, truncate, times, by whatever call, and what an open truncates.
#[fexit(function = "notify_change")]
pub fn attr_changed(ctx: FExitContext) -> i32 {
    let call = Traced::new(&ctx, Function::NotifyChange);
    if call.has_failed() || actor::is_ours() {
        return 0;
    }
    finish(Kind::Attr, try_attr_changed(call)) as i32
}

#[inline(always)]
fn try_attr_changed(call: Traced) -> Result<(), Fault> {
    let dentry = call.dentry();
    let inode = dentry.inode()?;
    let key = key::of_inode(inode)?;
    let Some(slot) = slot(dentry, &key)? else {
        return Ok(());
    };
    let valid = attributes(Address::new(call.second()))?;
    let writers = inode.writers()?;
    let (kind, level) = if valid & (ATTR_MODE | ATTR_UID | ATTR_GID | ATTR_SIZE) == 0 {
        (Kind::Times, Level::Done)
    } else if valid & ATTR_OPEN != 0 && writers > 0 {
        // An open that truncates goes on to write.
        (Kind::Write, Level::Open)
    } else {
        (Kind::Attr, Level::Done)
    };
    emit::change(&Change {
        slot,
        kind,
        level,
        key,
        writers,
        parent_name: 0,
    });
    Ok(())
}

/// `vfs_setxattr(…, dentry, …)`: labels, capabilities; before 6.2 access lists too.
#[fexit(function = "vfs_setxattr")]
pub fn xattr_set(ctx: FExitContext) -> i32 {
    of_entry(Traced::new(&ctx, Function::VfsSetxattr))
}

/// `vfs_removexattr(…, dentry, …)`.
#[fexit(function = "vfs_removexattr")]
pub fn xattr_removed(ctx: FExitContext) -> i32 {
    of_entry(Traced::new(&ctx, Function::VfsRemovexattr))
}

/// `vfs_set_acl(…, dentry, …)`, since 6.2.
#[fexit(function = "vfs_set_acl")]
pub fn acl_set(ctx: FExitContext) -> i32 {
    of_entry(Traced::new(&ctx, Function::VfsSetAcl))
}

/// `vfs_remove_acl(…, dentry, …)`, since 6.2.
#[fexit(function = "vfs_remove_acl")]
pub fn acl_removed(ctx: FExitContext) -> i32 {
    of_entry(Traced::new(&ctx, Function::VfsRemoveAcl))
}

/// `vfs_fileattr_set(…, dentry, …)`, since 5.13: flags (`chattr`).
#[fexit(function = "vfs_fileattr_set")]
pub fn flags_set(ctx: FExitContext) -> i32 {
    of_entry(Traced::new(&ctx, Function::VfsFileattrSet))
}

/// `mnt_drop_write_file(file)`: the end of what changes a file's attributes through a descriptor. Before 5.13 each file system sets the flags in a way of its
/// own, and calls this behind it.
#[fentry(function = "mnt_drop_write_file")]
pub fn flags_were_set(ctx: FEntryContext) -> i32 {
    if actor::is_ours() {
        return 0;
    }
    let file = Traced::new(&ctx, Function::MntDropWriteFile).file();
    finish(Kind::Attr, file.dentry().and_then(try_of_entry)) as i32
}

#[inline(always)]
fn of_entry(call: Traced) -> i32 {
    if call.has_failed() || actor::is_ours() {
        return 0;
    }
    finish(Kind::Attr, try_of_entry(call.dentry())) as i32
}

#[inline(always)]
fn try_of_entry(dentry: Dentry) -> Result<(), Fault> {
    let key = key::of_inode(dentry.inode()?)?;
    if let Some(slot) = slot(dentry, &key)? {
        emit::change(&Change {
            slot,
            kind: Kind::Attr,
            level: Level::Done,
            key,
            writers: 0,
            parent_name: 0,
        });
    }
    Ok(())
}

/// The watched object whose attributes these are: by inode, else by name. To a directory it is nothing that something in it has other attributes.
#[inline(always)]
fn slot(dentry: Dentry, key: &Key) -> Result<Option<u32>, Fault> {
    match filter::inode(key) {
        Some(slot) => Ok(Some(slot)),
        None => filter::declared_entry(dentry),
    }
}
