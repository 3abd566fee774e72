//! A path that is changed faster than it can be looked at is left alone for a moment after each look: what comes meanwhile finds the mark up, which costs its
//! writer next to nothing, and the next look sees all of it.

use std::time::{Duration, Instant};

/// More changes than this between two looks at a path are a burst.
const BURST: u64 = 16;
/// How long a path is left alone after a look that found a burst: the last change of one is found so much later at most, and others have the processor meanwhile.
const REST: Duration = Duration::from_millis(10);

/// The pause of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rest {
    /// Changes that the kernel half had counted at the last look.
    changes: Option<u64>,
    until: Option<Instant>,
}

impl Rest {
    /// A look is over: `changes` had been counted by then.
    pub fn looked(&mut self, changes: Option<u64>, now: Instant) {
        let before = std::mem::replace(&mut self.changes, changes);
        let is_burst = match (before, changes) {
            (Some(before), Some(changes)) => changes.saturating_sub(before) > BURST,
            _ => false,
        };
        self.until = is_burst.then(|| now + REST);
    }

    /// Until when it is left alone, if it is.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_rests_after_a_look_that_found_a_burst_and_after_no_other() {
        let now = Instant::now();
        let mut rest = Rest::default();
        rest.looked(Some(1_000), now);
        assert_eq!(
            rest.until(now),
            None,
            "nobody knows since when these were made"
        );
        rest.looked(Some(1_000 + BURST), now);
        assert_eq!(rest.until(now), None);
        rest.looked(Some(1_001 + 2 * BURST), now);
        assert_eq!(rest.until(now), Some(now + REST));
        assert_eq!(rest.until(now + REST), None, "it is over");
        rest.looked(Some(1_002 + 2 * BURST), now);
        assert_eq!(rest.until(now), None, "so is the burst");
        rest.looked(None, now);
        rest.looked(Some(9_000), now);
        assert_eq!(
            rest.until(now),
            None,
            "other marks, which count from nothing"
        );
    }
}
