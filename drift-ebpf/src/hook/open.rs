//! A file was opened: for writing, a change may follow; for reading, a process loads it.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::{Counter, Kind, Learned, Level};

use crate::{
    actor,
    emit::{self, Change},
    fault::{Fault, count, finish},
    filter,
    kernel::{Task, returned},
    key,
    map::{LEARNED, READERS, WRITERS},
};

/// `sys_exit` of every call that returns a new descriptor for a path.
#[tracepoint]
pub fn open_exit(ctx: TracePointContext) -> u32 {
    finish(try_open_exit(&ctx))
}

#[inline(always)]
fn try_open_exit(ctx: &TracePointContext) -> Result<(), Fault> {
    let fd = returned(ctx);
    if fd < 0 {
        return Ok(());
    }
    let Some(file) = Task::current().file(fd as i32)? else {
        return Ok(());
    };
    if actor::is_agent() {
        // The agent asks the kernel for the name of an inode by opening it.
        let (_, thread) = actor::ids();
        let inode = file.inode()?;
        let learned = Learned {
            key: key::of_inode(inode)?,
            writers: inode.writers()?,
            _reserved: 0,
        };
        return LEARNED
            .insert(thread, learned, 0)
            .map_err(|_| Fault::Kernel);
    }
    let (reads, writes) = file.access()?;
    let key = key::of_inode(file.inode()?)?;
    if writes
        && let Some(slot) = filter::file(file, &key)?
        && !actor::is_ours()
    {
        // An LRU table does not refuse.
        let _always = WRITERS.insert(actor::ids().0, slot, 0);
        emit::change(&Change {
            slot,
            kind: Kind::Write,
            level: Level::Open,
            key,
            writers: file.inode()?.writers()?,
            parent_name: 0,
        });
    }
    if reads
        && let Some(slot) = filter::inode(&key)
        && !actor::is_ours()
    {
        emit::load(slot, Kind::Open, key);
        expect_read();
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
        count(Counter::ReadersFull);
        return;
    }
    super::read::arm();
}
