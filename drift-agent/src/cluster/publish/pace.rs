//! How often a node writes. Pure: the time is an argument.

use std::time::{Duration, Instant};

use crate::cluster::client::jittered;

/// What is heard within this time is written once.
const GATHER: Duration = Duration::from_millis(300);
/// Between two writes, at least.
const SHORTEST: Duration = Duration::from_secs(1);
/// Between two writes, where they go on for long.
const EVERY: Duration = Duration::from_secs(30);
/// So many may come before that.
const BURST: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<Instant>,
    /// When all writes until now would be over, with one in [`EVERY`].
    over: Option<Instant>,
}

impl Pace {
    /// When to write what was heard now.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let soon = now + GATHER / 2 + jittered(GATHER / 2);
        let spaced = self.last.map(|last| last + SHORTEST);
        let paid = self
            .over
            .and_then(|over| over.checked_sub(EVERY * (BURST - 1)));
        [spaced, paid]
            .into_iter()
            .flatten()
            .fold(soon, Instant::max)
    }

    pub(super) fn wrote(&mut self, now: Instant) {
        self.last = Some(now);
        self.over = Some(self.over.map_or(now, |over| over.max(now)) + EVERY);
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
        assert!((120..135).contains(&writes), "{writes} in an hour");
        // Then it is quiet.
        let later = now + EVERY * 5;
        assert!(pace.next(later) <= later + GATHER);
        pace.wrote(later);
        let again = later + Duration::from_millis(100);
        assert!(pace.next(again) <= later + SHORTEST + GATHER);
    }
}
