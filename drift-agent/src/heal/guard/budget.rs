//! How many heals a policy may have in a minute on this node.

use std::{
    collections::VecDeque,
    num::NonZero,
    time::{Duration, Instant},
};

const MINUTE: Duration = Duration::from_secs(60);

/// Heals of one second are one entry: sixty entries are a minute, whatever the budget.
const GRAIN: Duration = Duration::from_secs(1);

/// The heals of the last minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Oldest first: when the second began, and the heals in it.
    spent: VecDeque<(Instant, u32)>,
}

impl Budget {
    /// As it was before a restart: heals, and how long ago they were.
    #[must_use]
    pub fn resumed(spent: impl IntoIterator<Item = (Duration, u32)>, now: Instant) -> Self {
        let mut spent: VecDeque<_> = spent
            .into_iter()
            .filter_map(|(ago, heals)| Some((now.checked_sub(ago)?, heals)))
            .collect();
        spent.make_contiguous().sort_unstable();
        Self { spent }
    }

    /// Heals, and how long ago they were, oldest first.
    pub fn spent(&self, now: Instant) -> impl Iterator<Item = (Duration, u32)> + '_ {
        let recent = self.spent.iter();
        recent
            .map(move |(began, heals)| (now.saturating_duration_since(*began), *heals))
            .filter(|(ago, _)| *ago < MINUTE)
    }

    /// `None`: one more is within the budget. Else when it will be.
    #[must_use]
    pub fn ask(&self, most: NonZero<u32>, now: Instant) -> Option<Instant> {
        let mut left = most.get();
        // From the newest: the heal that uses up the budget is the one whose end is waited for.
        for (began, heals) in self.spent.iter().rev() {
            let until = *began + MINUTE + GRAIN;
            if until <= now {
                break;
            }
            left = left.saturating_sub(*heals);
            if left == 0 {
                return Some(until);
            }
        }
        None
    }

    /// One more.
    pub fn spend(&mut self, now: Instant) {
        while self
            .spent
            .front()
            .is_some_and(|(began, _)| *began + MINUTE + GRAIN <= now)
        {
            self.spent.pop_front();
        }
        match self.spent.back_mut() {
            Some((began, heals)) if now < *began + GRAIN => *heals = heals.saturating_add(1),
            _ => self.spent.push_back((now, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(number: u32) -> NonZero<u32> {
        NonZero::new(number).expect("not zero")
    }

    #[test]
    fn in_no_minute_are_there_more_than_the_budget_allows() {
        let start = Instant::now();
        let mut budget = Budget::default();
        let mut heals: Vec<Duration> = Vec::new();
        // A drift every 70 ms, for five minutes.
        for step in 0..(300_000 / 70) {
            let now = start + Duration::from_millis(step * 70);
            match budget.ask(most(100), now) {
                None => {
                    budget.spend(now);
                    heals.push(now - start);
                }
                Some(until) => assert!(until > now),
            }
            assert!(budget.spent.len() <= 62);
        }
        for (index, heal) in heals.iter().enumerate() {
            let later = heals[index..]
                .iter()
                .filter(|later| **later < *heal + MINUTE);
            assert!(later.count() <= 100, "from {heal:?}");
        }
        // It is used, not saved.
        assert!(heals.len() >= 400, "{}", heals.len());
    }

    #[test]
    fn the_time_that_is_told_is_the_time_when_there_is_room() {
        let now = Instant::now();
        let mut budget = Budget::default();
        for _ in 0..3 {
            assert_eq!(budget.ask(most(3), now), None);
            budget.spend(now);
        }
        let until = budget.ask(most(3), now).expect("it is used up");
        assert!(budget.ask(most(3), until - GRAIN).is_some());
        assert_eq!(budget.ask(most(3), until), None);
        // A larger one has room at once.
        assert_eq!(budget.ask(most(4), now), None);
    }

    #[test]
    fn a_restart_does_not_fill_it() {
        let now = Instant::now();
        let mut budget = Budget::default();
        budget.spend(now);
        budget.spend(now + Duration::from_secs(30));
        let later = now + Duration::from_secs(45);
        let spent: Vec<_> = budget.spent(later).collect();
        assert_eq!(
            spent,
            [(Duration::from_secs(45), 1), (Duration::from_secs(15), 1)]
        );
        let resumed = Budget::resumed(spent, later);
        assert_eq!(resumed, budget);
        assert!(resumed.ask(most(2), later).is_some());
    }
}
