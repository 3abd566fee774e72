//! What is to happen later.

use std::{
    collections::{BTreeSet, HashMap},
    time::Instant,
};

/// Something that happens at a time. Each is set once at most: setting it again moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Timer {
    /// Look at what is not urgent.
    Tick,
    /// The periodic scan.
    Scan,
    /// The scan that reads everything, where the periodic one looks at times only.
    FullScan,
    /// The periodic scan may go on.
    Pace,
    /// The sweep that was put off.
    Sweep,
    /// The self-test begins, or must be over.
    SelfTest,
    /// Look at what is mounted.
    Mounts,
    /// Look at what people hold healing back with.
    Stops,
    /// What versions wait for may be over.
    Waiting,
    /// A heal by hand is answered, whatever has come of it.
    ByHand,
    /// Write down what was noted meanwhile of how paths are braked.
    Brakes,
    /// Note which policies are as declared.
    Health,
    /// The service manager wants to hear that the agent goes on.
    Service,
    /// A path wants to be looked at, or healed.
    Path(usize),
}

/// The times, soonest first.
#[derive(Debug, Default)]
pub struct Timers {
    order: BTreeSet<(Instant, Timer)>,
    set: HashMap<Timer, Instant>,
}

impl Timers {
    /// Sets or moves a timer.
    pub fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(before) = self.set.insert(timer, at) {
            self.order.remove(&(before, timer));
        }
        self.order.insert((at, timer));
    }

    /// Sets a timer, or leaves it where it is earlier already.
    pub fn set_no_later(&mut self, timer: Timer, at: Instant) {
        if self.set.get(&timer).is_none_or(|before| at < *before) {
            self.set(timer, at);
        }
    }

    /// Forgets one.
    pub fn clear(&mut self, timer: Timer) {
        if let Some(before) = self.set.remove(&timer) {
            self.order.remove(&(before, timer));
        }
    }

    /// Forgets those of paths: another snapshot numbers them anew.
    pub fn clear_paths(&mut self) {
        self.order
            .retain(|(_, timer)| !matches!(timer, Timer::Path(_)));
        self.set.retain(|timer, _| !matches!(timer, Timer::Path(_)));
    }

    /// Whether it is set, and for when.
    pub fn get(&self, timer: Timer) -> Option<Instant> {
        self.set.get(&timer).copied()
    }

    /// Takes out one whose time has come.
    pub fn due(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = self.order.first().copied()?;
        if at > now {
            return None;
        }
        self.clear(timer);
        Some(timer)
    }

    /// Waits for the soonest; for ever, where there is none.
    pub async fn next(&self) {
        match self.order.first() {
            Some((at, _)) => tokio::time::sleep_until((*at).into()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_timer_is_set_once_and_comes_in_its_order() {
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        let mut timers = Timers::default();
        timers.set(Timer::Scan, after(10));
        timers.set(Timer::Path(1), after(5));
        timers.set(Timer::Path(1), after(20));
        timers.set_no_later(Timer::Path(1), after(30));
        timers.set_no_later(Timer::Tick, after(15));
        assert_eq!(timers.due(after(9)), None);
        assert_eq!(timers.due(after(30)), Some(Timer::Scan));
        assert_eq!(timers.due(after(30)), Some(Timer::Tick));
        assert_eq!(timers.due(after(30)), Some(Timer::Path(1)));
        assert_eq!(timers.due(after(30)), None);
    }

    #[test]
    fn paths_are_forgotten_together() {
        let now = Instant::now();
        let mut timers = Timers::default();
        timers.set(Timer::Path(1), now);
        timers.set(Timer::Scan, now);
        timers.clear_paths();
        assert_eq!(timers.get(Timer::Path(1)), None);
        assert_eq!(timers.due(now), Some(Timer::Scan));
        assert_eq!(timers.due(now), None);
    }
}
