//! How often a node writes. Pure: the time is an argument.

use std::time::{Duration, Instant};

use crate::cluster::client::jittered;

/// What is heard within this time is written once.
const GATHER: Duration = Duration::from_millis(300);
/// Between two writes, at first and at last.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Pace {
    last: Option<Instant>,
    pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            last: None,
            pause: SHORTEST,
        }
    }
}

impl Pace {
    /// When to write what was heard now.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let soon = now + GATHER / 2 + jittered(GATHER / 2);
        self.last.map_or(soon, |last| soon.max(last + self.pause))
    }

    /// Where writes go on one after the other, each pause is twice the one before; a while of quiet, and it is as at first.
    pub(super) fn wrote(&mut self, now: Instant) {
        let is_busy = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < self.pause * 4);
        self.pause = if is_busy {
            (self.pause * 2).min(LONGEST)
        } else {
            SHORTEST
        };
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_is_written_at_once_and_what_goes_on_seldom() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert!(pace.next(start) <= start + GATHER);
        // Something happens all the time, for an hour.
        let (mut now, mut writes) = (start, 0);
        while now < start + Duration::from_secs(3600) {
            now = pace.next(now);
            pace.wrote(now);
            writes += 1;
        }
        assert!((100..140).contains(&writes), "{writes} in an hour");
        // Then it is quiet.
        let later = now + LONGEST * 5;
        assert!(pace.next(later) <= later + GATHER);
        pace.wrote(later);
        let again = later + Duration::from_millis(100);
        assert!(pace.next(again) <= later + SHORTEST + GATHER);
    }
}
