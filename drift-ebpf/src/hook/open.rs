//! A file was opened: for writing, a change may follow; for reading, a process loads it.

use aya_ebpf::{
    helpers::bpf_ktime_get_boot_ns,
    macros::{fexit, tracepoint},
    programs::{FExitContext, TracePointContext},
};
use drift_common::abi::{Counter, Function, Kind, Learned, Level};

use crate::{
    actor,
    emit::{self, Change, NO_KEY},
    fault::{Fault, count, finish},
    filter,
    kernel::{File, returned},
    key,
    map::{LEARNED, READERS, WRITERS},
    traced::Traced,
};

/// `sys_exit` of every call that returns a new descriptor for a path.
#[tracepoint]
pub fn open_exit(ctx: TracePointContext) -> u32 {
    finish(Kind::Open, try_open_exit(&ctx))
}

#[inline(always)]
fn try_open_exit(ctx: &TracePointContext) -> Result<(), Fault> {
    let fd = returned(ctx);
    if fd < 0 {
        return Ok(());
    }
    match File::opened(fd as i32)? {
        Some(file) => opened::<true>(file),
        None => Ok(()),
    }
}

/// `vfs_open(path, file)`: at its end the file has its inode, whatever it was opened for. Sees what opens without a system call (io_uring), too.
#[fexit(function = "vfs_open")]
pub fn file_opened(ctx: FExitContext) -> i32 {
    traced(Traced::new(&ctx, Function::VfsOpen))
}

/// `finish_open(file, dentry, open)`: where the file system makes and opens in one step (FUSE, NFS), and for files without a name.
#[fexit(function = "finish_open")]
pub fn made_and_opened(ctx: FExitContext) -> i32 {
    traced(Traced::new(&ctx, Function::FinishOpen))
}

#[inline(always)]
fn traced(call: Traced) -> i32 {
    if call.has_failed() {
        return 0;
    }
    finish(Kind::Open, opened::<false>(call.file())) as i32
}

/// A process has got a new descriptor of a file. `BY_CALL`: nothing else tells what an open has emptied (`notify_change` does).
#[inline(always)]
pub fn opened<const BY_CALL: bool>(file: File) -> Result<(), Fault> {
    if actor::is_agent() {
        // The agent asks the kernel for the name of an inode by opening it.
        let (_, thread) = actor::ids();
        let inode = file.inode()?;
        let learned = Learned {
            key: key::of_inode(inode)?,
            writers: inode.writers()?,
            holders: file.dentry()?.holders(inode)?,
            real: match inode.upper()? {
                Some(upper) => key::of_inode(upper)?,
                None => NO_KEY,
            },
            // SAFETY: a helper without arguments.
            time_ns: unsafe { bpf_ktime_get_boot_ns() },
        };
        return LEARNED
            .insert(thread, learned, 0)
            .map_err(|_| Fault::Kernel);
    }
    let (reads, writes) = file.access()?;
    let inode = file.inode()?;
    // What only reads is of interest where the inode is known; what writes may also be a new file in a declared place.
    if !writes && !filter::maybe(inode)? {
        return Ok(());
    }
    if actor::is_restorer() {
        return Ok(());
    }
    let key = key::of_inode(inode)?;
    if writes && let Some(slot) = filter::file(file, &key)? {
        // An LRU table does not refuse.
        let _always = WRITERS.insert(actor::ids().0, slot, 0);
        emit::change(&Change {
            slot,
            kind: Kind::Write,
            level: Level::Open,
            key,
            writers: inode.writers()?,
            parent_name: 0,
        });
    }
    if reads && let Some(slot) = filter::inode(&key) {
        emit::load(slot, Kind::Open, key);
        expect_read();
        // O_TRUNC empties a file for who may not write through the descriptor too, and the flag is gone by now.
        if BY_CALL && !writes && inode.size()? == 0 {
            emit::emptied(slot, key);
        }
    }
    Ok(())
}

/// From now on the read hook looks at what this process reads.
#[inline(always)]
fn expect_read() {
    let tgid = actor::ids().0;
    if let Some(opened) = READERS.get_ptr_mut(tgid) {
        // SAFETY: the pointer is into the map; two threads of one process may count one too few, which costs a load event.
        unsafe { *opened += 1 };
    } else if READERS.insert(tgid, 1, 0).is_err() {
        count(Kind::Open, Counter::ReadersFull);
        return;
    }
    super::read::arm();
}
