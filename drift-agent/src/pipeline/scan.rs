//! What comes by time: looks at everything, and how long the last one is ago.

use std::time::{Duration, Instant, SystemTime};

use crate::{
    report::Cause,
    settings::{SCAN_ALONE, SCAN_BESIDE_PROBES},
};

use super::{Ears, Pipeline, PipelineError, TICK, path::PathState, timers::Timer};

/// Looks at everything: the one under way, and the last that came to its end. A path that cannot be looked at keeps it from ending.
#[derive(Debug, Default)]
pub(super) struct FullScans {
    running: Option<Running>,
    last: Option<FullScan>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    begun: Instant,
    files: usize,
    /// Not compared yet.
    left: usize,
}

/// A look at everything that came to its end: everything was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FullScan {
    pub(super) ended: Instant,
    pub(super) at: SystemTime,
    pub(super) files: usize,
    pub(super) took: Duration,
}

impl FullScans {
    /// One begins, unless one is under way: that one has to end first.
    fn begin(&mut self, paths: &mut [PathState], now: Instant) {
        if self.running.is_none() {
            self.begin_anew(paths, now);
        }
    }

    /// One begins, whatever was under way.
    pub(super) fn begin_anew(&mut self, paths: &mut [PathState], now: Instant) {
        for state in &mut *paths {
            state.awaited = true;
        }
        self.running = Some(Running {
            begun: now,
            files: paths.len(),
            left: paths.len(),
        });
        self.end_if_over(now);
    }

    /// A path was compared.
    pub(super) fn compared(&mut self, state: &mut PathState, now: Instant) {
        if !std::mem::take(&mut state.awaited) {
            return;
        }
        if let Some(running) = &mut self.running {
            running.left = running.left.saturating_sub(1);
        }
        self.end_if_over(now);
    }

    fn end_if_over(&mut self, now: Instant) {
        if let Some(running) = self.running.take_if(|running| running.left == 0) {
            self.last = Some(FullScan {
                ended: now,
                at: SystemTime::now(),
                files: running.files,
                took: now.saturating_duration_since(running.begun),
            });
        }
    }

    pub(super) fn last(&self) -> Option<FullScan> {
        self.last
    }

    /// For how long one has been under way.
    pub(super) fn running_for(&self, now: Instant) -> Option<Duration> {
        self.running
            .map(|running| now.saturating_duration_since(running.begun))
    }
}

impl Pipeline {
    pub(super) fn scan_interval(&self) -> Duration {
        let default = if self.deaf.is_some() {
            SCAN_ALONE
        } else {
            SCAN_BESIDE_PROBES
        };
        let interval = self.settings.scan_interval.unwrap_or(default);
        // A sweep looks at everything at once: its rate is kept by the time between two.
        interval.max(self.pace.time_for(self.paths.len()))
    }

    /// How often everything is compared.
    pub(super) fn full_scan_interval(&self) -> Duration {
        if self.deaf.is_some() {
            SCAN_BESIDE_PROBES.max(self.pace.time_for(self.paths.len()))
        } else {
            self.scan_interval()
        }
    }

    /// A time has come.
    pub(super) fn time(&mut self, ears: &mut Option<Ears>) -> Result<(), PipelineError> {
        let now = Instant::now();
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::Tick => {
                    self.timers.set(Timer::Tick, now + TICK);
                    self.end_activations();
                    self.tick(ears)?;
                }
                Timer::Scan => {
                    self.timers.set(Timer::Scan, now + self.scan_interval());
                    self.end_activations();
                    if self.deaf.is_some() {
                        self.start_sweep(Cause::Scan);
                    } else {
                        self.scan();
                    }
                }
                Timer::FullScan => {
                    self.timers
                        .set(Timer::FullScan, now + self.full_scan_interval());
                    self.scan();
                }
                // The jobs that may start are started after every wake.
                Timer::Pace => {}
                Timer::Sweep => self.start_sweep(Cause::Kernel),
                Timer::SelfTest => self.self_test(ears, now)?,
                Timer::Mounts => self.mounted(None),
                Timer::Brakes => self.write_brakes(now),
                Timer::Health => {
                    self.keep_places();
                    self.timers.set(Timer::Health, now + self.health_interval());
                    self.note_health();
                    self.again |= self.knows_holding_again();
                }
                Timer::Stops => self.look_at_stops(Cause::Scan, None)?,
                Timer::Waiting => self.again |= std::mem::take(&mut self.halt.waits),
                Timer::ByHand => self.end_by_hand(),
                Timer::Service => self.go_on(),
                Timer::Path(index) => self.path_due(index),
            }
        }
        Ok(())
    }

    /// Looks at everything, without haste.
    fn scan(&mut self) {
        self.scans.begin(&mut self.paths, Instant::now());
        for index in 0..self.paths.len() {
            self.look(index, Cause::Scan, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B160: a scan that is stuck does not count as one, and the age of the last that ended grows.
    #[test]
    fn b160_a_scan_that_does_not_end_leaves_the_age_of_the_last_one() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut paths = [PathState::default(), PathState::default()];
        let mut scans = FullScans::default();
        assert_eq!(scans.last(), None);
        scans.begin_anew(&mut paths, start);
        scans.compared(&mut paths[0], after(1));
        scans.compared(&mut paths[0], after(2));
        assert_eq!(scans.last(), None, "one path was not compared");
        scans.compared(&mut paths[1], after(3));
        let first = scans.last().expect("it is over");
        assert_eq!((first.ended, first.files), (after(3), 2));
        assert_eq!(first.took, Duration::from_secs(3));
        assert_eq!(scans.running_for(after(4)), None);
        // The next one is stuck at one path, however often it is begun and however often the other is compared.
        for second in (10..100).step_by(10) {
            scans.begin(&mut paths, after(second));
            scans.compared(&mut paths[0], after(second + 1));
            assert_eq!(scans.last(), Some(first));
        }
        assert_eq!(scans.running_for(after(100)), Some(Duration::from_secs(90)));
        scans.compared(&mut paths[1], after(100));
        assert_eq!(scans.last().map(|scan| scan.ended), Some(after(100)));
    }

    #[test]
    fn with_nothing_declared_a_scan_is_over_at_once() {
        let mut scans = FullScans::default();
        scans.begin_anew(&mut [], Instant::now());
        assert_eq!(scans.last().map(|scan| scan.files), Some(0));
    }
}
