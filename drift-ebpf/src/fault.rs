//! What can go wrong in a hook. Each fault is counted where it ends, never dropped.

use drift_common::abi::{Counter, SWEEP_SLOT};

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
pub fn count(counter: Counter) {
    if let Some(cell) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: the cell is this CPU's own, and a BPF program is not moved to another CPU while it runs.
        unsafe { *cell += 1 };
    }
}

/// The end of every hook: an error is counted, and where a change may have gone unseen the agent is asked to look at everything again.
#[inline(always)]
pub fn finish(result: Result<(), Fault>) -> u32 {
    if let Err(fault) = result {
        match fault {
            Fault::Kernel => count(Counter::KernelRead),
            Fault::User => {
                count(Counter::UserRead);
                crate::emit::mark(SWEEP_SLOT);
            }
            Fault::Interrupted => {
                count(Counter::Interrupted);
                crate::emit::mark(SWEEP_SLOT);
            }
            Fault::CallsFull => {
                count(Counter::CallsFull);
                crate::emit::mark(SWEEP_SLOT);
            }
        }
    }
    0
}
