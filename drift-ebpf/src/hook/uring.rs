//! What is done through io_uring, which no system call shows. A request is looked at when it has come to its end: what is linked to another is submitted long
//! before it happens. The process running then is the one that has submitted it: its own threads, and those the kernel made for it, complete requests.

use aya_ebpf::{EbpfContext, macros::raw_tracepoint, programs::RawTracePointContext};
use drift_common::abi::{Kind, Level, SWEEP_SLOT};

use super::{open, write};
use crate::{
    actor,
    emit::{self, Change, NO_KEY},
    fault::{Fault, finish},
    filter,
    kernel::{File, Request},
    key,
    map::WRITERS,
};

/// `enum io_uring_op`, stable like the numbers of system calls.
const WRITEV: u8 = 2;
const WRITE_FIXED: u8 = 5;
const FALLOCATE: u8 = 17;
const OPENAT: u8 = 18;
const CLOSE: u8 = 19;
const WRITE: u8 = 23;
const OPENAT2: u8 = 28;
const SPLICE: u8 = 30;
const RENAMEAT: u8 = 35;
const UNLINKAT: u8 = 36;
const MKDIRAT: u8 = 37;
const SYMLINKAT: u8 = 38;
const LINKAT: u8 = 39;
const FSETXATTR: u8 = 41;
const SETXATTR: u8 = 42;
const FTRUNCATE: u8 = 55;
const WRITEV_FIXED: u8 = 61;

/// `io_uring_complete(ring, request, …)`: paid by nobody but those who use io_uring.
#[raw_tracepoint]
pub fn uring_complete(ctx: RawTracePointContext) -> i32 {
    finish(Kind::Write, try_complete(&ctx)) as i32
}

#[inline(always)]
fn try_complete(ctx: &RawTracePointContext) -> Result<(), Fault> {
    // SAFETY: the agent attaches this only where the tracepoint has two arguments or more; the verifier checks the constant offset.
    let address = unsafe { *ctx.as_ptr().cast::<u64>().add(1) };
    let Some(request) = Request::new(address) else {
        return Ok(());
    };
    let opcode = request.opcode()?;
    let result = request.result()?;
    if result < 0 {
        return Ok(());
    }
    match opcode {
        WRITE | WRITEV | WRITE_FIXED | WRITEV_FIXED | SPLICE | FALLOCATE | FTRUNCATE => {
            match request.file()? {
                Some(file) => written(file),
                None => Ok(()),
            }
        }
        // A file in the ring's own table has no descriptor: its first write tells of it.
        OPENAT | OPENAT2 => match File::of(result)? {
            Some(file) => open::opened::<true>(file),
            None => Ok(()),
        },
        CLOSE => {
            // Which file that was cannot be told any more: the agent looks at those that this process has open.
            // SAFETY: the value is a plain u32.
            if unsafe { WRITERS.get(actor::ids().0) }.is_some() {
                emit::ended();
            }
            Ok(())
        }
        // Their names are gone by now.
        RENAMEAT => everything(Kind::Replace),
        UNLINKAT => everything(Kind::Remove),
        MKDIRAT | SYMLINKAT | LINKAT => everything(Kind::Create),
        SETXATTR | FSETXATTR => everything(Kind::Attr),
        _ => Ok(()),
    }
}

#[inline(always)]
fn written(file: File) -> Result<(), Fault> {
    let inode = file.inode()?;
    let key = key::of_inode(inode)?;
    match filter::inode(&key) {
        Some(slot) => write::writing(slot, inode, key),
        None => Ok(()),
    }
}

/// Asks for a sweep.
#[inline(always)]
fn everything(kind: Kind) -> Result<(), Fault> {
    emit::change(&Change {
        slot: SWEEP_SLOT,
        kind,
        level: Level::Done,
        key: NO_KEY,
        writers: 0,
        parent_name: 0,
    });
    Ok(())
}
