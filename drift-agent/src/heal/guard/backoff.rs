//! The brake of one path: a healer that fights another program is worse than none. Pure: the time is an argument.

use std::time::{Duration, Instant, SystemTime};

use crate::declare::Backoff;

/// Whether to heal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Go,
    /// Not before.
    Hold(Instant),
}

/// How often a path was healed lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brake {
    /// Heals in a row, each soon after the one before.
    row: u32,
    until: Option<Instant>,
}

impl Brake {
    /// May the path be healed now?
    #[must_use]
    pub fn ask(&self, now: Instant) -> Verdict {
        match self.until {
            Some(until) if now < until => Verdict::Hold(until),
            _ => Verdict::Go,
        }
    }

    /// As it was before a restart: heals in a row, and until when it held by the wall clock. `wall` and `now` are the same moment.
    #[must_use]
    pub fn resumed(row: u32, not_before: SystemTime, wall: SystemTime, now: Instant) -> Self {
        let until = match not_before.duration_since(wall) {
            Ok(left) => now.checked_add(left),
            // Over already, but the row may go on.
            Err(over) => now.checked_sub(over.duration()),
        };
        Self {
            row,
            until: Some(until.unwrap_or(now)),
        }
    }

    /// Until when it holds by the wall clock. `wall` and `now` are the same moment.
    #[must_use]
    pub fn not_before(&self, wall: SystemTime, now: Instant) -> SystemTime {
        let left = self.until.map(|until| until.saturating_duration_since(now));
        wall + left.unwrap_or_default()
    }

    /// Heals in a row so far.
    #[must_use]
    pub fn row(&self) -> u32 {
        self.row
    }

    /// It was healed, or tried to be. The row ends when the path was left in peace for the longest wait after the last hold was over.
    pub fn tried(&mut self, now: Instant, backoff: &Backoff) {
        if self.until.is_some_and(|until| now >= until + backoff.cap) {
            self.row = 0;
        }
        self.until = Some(now + wait(backoff, self.row));
        self.row = self.row.saturating_add(1);
    }
}

/// `first` times `factor` to the power of `row`, at most `cap`.
fn wait(backoff: &Backoff, row: u32) -> Duration {
    let mut wait = backoff.first;
    for _ in 0..row {
        if wait >= backoff.cap || wait.is_zero() {
            break;
        }
        wait = wait.saturating_mul(backoff.factor);
    }
    wait.min(backoff.cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_secs(2),
        factor: 3,
        cap: Duration::from_secs(300),
    };

    #[test]
    fn each_heal_in_a_row_waits_longer_up_to_the_cap() {
        let mut now = Instant::now();
        let mut brake = Brake::default();
        let mut waits = Vec::new();
        assert_eq!(brake.ask(now), Verdict::Go);
        for _ in 0..7 {
            brake.tried(now, &BACKOFF);
            let Verdict::Hold(until) = brake.ask(now) else {
                panic!("held");
            };
            waits.push((until - now).as_secs());
            now = until;
            assert_eq!(brake.ask(now), Verdict::Go);
        }
        assert_eq!(waits, [2, 6, 18, 54, 162, 300, 300]);
    }

    #[test]
    fn a_quiet_time_ends_the_row() {
        let now = Instant::now();
        let mut brake = Brake::default();
        brake.tried(now, &BACKOFF);
        brake.tried(now + Duration::from_secs(2), &BACKOFF);
        let later = now + Duration::from_secs(8 + 300);
        brake.tried(later, &BACKOFF);
        assert_eq!(
            brake.ask(later),
            Verdict::Hold(later + Duration::from_secs(2))
        );
    }

    #[test]
    fn a_restart_does_not_release_it() {
        let (now, wall) = (
            Instant::now(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(9),
        );
        let mut brake = Brake::default();
        brake.tried(now, &BACKOFF);
        brake.tried(now, &BACKOFF);
        let not_before = brake.not_before(wall, now);
        assert_eq!(not_before, wall + Duration::from_secs(6));
        // Four seconds later, in a process whose clock tells something else.
        let (later, wall) = (
            now + Duration::from_secs(1000),
            wall + Duration::from_secs(4),
        );
        let mut resumed = Brake::resumed(brake.row(), not_before, wall, later);
        let until = later + Duration::from_secs(2);
        assert_eq!(resumed.ask(later), Verdict::Hold(until));
        resumed.tried(until, &BACKOFF);
        assert_eq!(
            resumed.ask(until),
            Verdict::Hold(until + Duration::from_secs(18))
        );
        // Long after it was over the row begins anew.
        let wall = not_before + Duration::from_secs(300);
        let mut resumed = Brake::resumed(brake.row(), not_before, wall, later);
        assert_eq!(resumed.ask(later), Verdict::Go);
        resumed.tried(later, &BACKOFF);
        assert_eq!(resumed.ask(later), Verdict::Hold(until));
    }

    #[test]
    fn without_a_first_wait_there_is_none() {
        let now = Instant::now();
        let mut brake = Brake::default();
        for _ in 0..1000 {
            brake.tried(
                now,
                &Backoff {
                    first: Duration::ZERO,
                    ..BACKOFF
                },
            );
            assert_eq!(brake.ask(now), Verdict::Go);
        }
    }
}
