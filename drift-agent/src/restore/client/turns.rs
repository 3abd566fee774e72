//! Declarations that are under way: what is put back meanwhile waits for them.

use std::sync::{MutexGuard, PoisonError};

use super::{PATIENCE, Restorer};

/// Declarations that were begun, and how far they are.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) begun: u64,
    pub(super) done: u64,
}

/// The place of a declaration among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(pub(super) u64);

impl Restorer {
    /// A declaration begins, for [`Self::declare`]: nothing is put back before it has come to its end.
    pub fn turn(&self) -> Turn {
        let mut turns = self.turns();
        turns.begun += 1;
        Turn(turns.begun)
    }

    /// Waits for declarations that have begun.
    pub(super) fn declared(&self) {
        let turns = self.turns();
        let begun = turns.begun;
        let waiting = self
            .more
            .wait_timeout_while(turns, PATIENCE, |turns| turns.done < begun);
        // Without it the answer is that of something else declared: said by who asks.
        drop(waiting);
    }

    pub(super) fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
