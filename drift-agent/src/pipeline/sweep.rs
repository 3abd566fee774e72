//! The sweep: the times of everything are compared with what was last seen, at a bounded rate.

use std::time::{Duration, Instant};

use drift_common::abi::SWEEP_SLOT;

use crate::report::Cause;

use super::{Pipeline, path::Why, timers::Timer, work::Haste};

/// Sweeps take at most one part in so many of a core's time.
const SWEEP_SHARE: u32 = 100;
/// And come no more often than this.
const SWEEP_PAUSE: Duration = Duration::from_millis(50);

/// The sweep: what is looked at when it cannot be told which object was meant.
#[derive(Debug, Default)]
pub struct Sweep {
    running: bool,
    /// A sweep was asked for while one was running.
    again: Option<Why>,
    /// Of the sweep that runs, or was put off.
    why: Option<Why>,
    /// Not before.
    rest_until: Option<Instant>,
    /// Changes counted on the sweep's slot at the start of the last one.
    changes: u64,
}

impl Pipeline {
    /// Asks for a sweep, now or as soon as its share of the time allows.
    pub(super) fn want_sweep(&mut self, why: Why) {
        if self.sweep.running {
            self.sweep.again.get_or_insert(why);
            return;
        }
        // Who has asked first waits longest.
        self.sweep.why.get_or_insert(why);
        let now = Instant::now();
        match self.sweep.rest_until {
            Some(until) if now < until => self.timers.set_no_later(Timer::Sweep, until),
            _ => self.start_sweep(Cause::Kernel),
        }
    }

    /// Looks at the times of everything.
    pub(super) fn start_sweep(&mut self, cause: Cause) {
        if self.sweep.running {
            return;
        }
        let mut why = self.sweep.why.take().unwrap_or_else(|| {
            Why::without_doorbell(cause, "found by the periodic scan: no probe saw the change")
        });
        if let Some(register) = &self.register {
            let changes = register
                .watch
                .slot(SWEEP_SLOT)
                .map_or(0, |slot| slot.changes);
            self.clear(SWEEP_SLOT);
            // One call since the last sweep: it was that one. Of several, nobody knows which.
            why.certain &= changes == self.sweep.changes + 1;
            self.sweep.changes = changes;
        }
        self.sweep.why = Some(why);
        self.sweep.running = true;
        let haste = match cause {
            Cause::Scan => Haste::Patient,
            Cause::Kernel | Cause::Start | Cause::Policy => Haste::Urgent,
        };
        self.sweep_job(haste);
    }

    pub(super) fn swept(&mut self, changed: &[usize], cost: Duration) {
        self.sweep.running = false;
        self.sweep.rest_until = Some(Instant::now() + (cost * SWEEP_SHARE).max(SWEEP_PAUSE));
        if let Some(mut why) = self.sweep.why.take() {
            // Of several changes, one call has made one.
            why.certain &= changed.len() == 1;
            for index in changed {
                self.look_why(*index, why.clone(), true);
            }
        }
        if let Some(why) = self.sweep.again.take() {
            self.want_sweep(why);
        }
    }
}
