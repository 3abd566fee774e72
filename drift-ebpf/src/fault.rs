//! What can go wrong in a hook. Each fault is counted where it ends, never dropped.

use drift_common::abi::{Counter, Kind, SWEEP_SLOT};

use crate::map::COUNTERS;

/// Fits a register.
#[derive(Clone, Copy)]
pub enum Fault {
    /// A kernel structure could not be read.
    Kernel,
    /// User memory could not be read.
    User,
    /// The table of calls under way is full.
    CallsFull,
    /// Memory of this processor was used by another program meanwhile.
    Interrupted,
}

const _: () = assert!(size_of::<Result<(), Fault>>() <= 8);

/// Adds one to a counter of this CPU.
#[inline(always)]
pub fn count(kind: Kind, counter: Counter) {
    add_one(counter.cell(kind));
    if counter.is_loss() {
        add_one(Counter::LOSSES);
    }
}

#[inline(always)]
fn add_one(cell: u32) {
    if let Some(cell) = COUNTERS.get_ptr_mut(cell) {
        add(cell);
    }
}

/// The cell is this CPU's own, but a kernel that may put a program off for another one lets both count in it: so in one instruction. In assembler: the compiler
/// has it for this processor only as a nightly feature of another name.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn add(cell: *mut u64) {
    // SAFETY: an aligned u64 in an array map, which lives as long as the program.
    unsafe {
        core::arch::asm!(
            "lock *(u64 *)({cell} + 0) += {one}",
            cell = in(reg) cell,
            one = in(reg) 1u64,
        );
    }
}

#[cfg(not(target_arch = "bpf"))]
fn add(_cell: *mut u64) {}

/// The end of every hook: an error is counted under the kind of change that the hook sees, and where a change may have gone unseen the agent is
/// asked to look at everything again.
#[inline(always)]
pub fn finish(kind: Kind, result: Result<(), Fault>) -> u32 {
    if let Err(fault) = result {
        match fault {
            Fault::Kernel => count(kind, Counter::KernelRead),
            Fault::User => {
                count(kind, Counter::UserRead);
                crate::emit::mark(SWEEP_SLOT);
            }
            Fault::Interrupted => {
                count(kind, Counter::Interrupted);
                crate::emit::mark(SWEEP_SLOT);
            }
            Fault::CallsFull => {
                count(kind, Counter::CallsFull);
                crate::emit::mark(SWEEP_SLOT);
            }
        }
    }
    0
}
