//! Noticing that the policies may have changed.
//!
//! Events wake; reading decides. inotify says at once that something happened to one of the names that the last outcome rests on, or on the
//! way to them; a comparison of stamps every few seconds finds what inotify cannot see (a mount on top, another machine's write to a
//! network file system, no watches left). Neither says what changed: whoever is woken looks again.

mod notify;
mod way;

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use self::{notify::Notify, way::Ways};
use super::Basis;

/// A change is passed on when nothing has happened for this long: an editor or an update makes several.
const QUIET: Duration = Duration::from_millis(50);
/// A change is passed on after this long, however much is going on.
const LATEST: Duration = Duration::from_secs(1);
/// How often stamps are compared beside inotify, and without it.
const POLL: Duration = Duration::from_secs(10);
const POLL_ALONE: Duration = Duration::from_secs(2);

/// Says when policies must be looked at again.
///
/// ```no_run
/// # use std::path::Path;
/// # use drift_agent::declare::{Changes, Holds, look};
/// # async fn example(folder: &Path, root: &Path, holds: &Holds) {
/// let (mut outcome, basis) = look(folder, root, None, holds);
/// let mut changes = Changes::since(basis);
/// loop {
///     changes.changed().await;
///     let basis;
///     (outcome, basis) = look(folder, root, None, holds);
///     changes.rebase(basis);
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Changes {
    basis: Basis,
    notify: Option<Notify>,
    /// Whether inotify may be used at all.
    may_notify: bool,
    /// How often stamps are compared without it.
    poll_alone: Duration,
    /// Whether inotify sees everything that it could see. A person has been told when not.
    complete: bool,
    poll_at: Instant,
    /// The first and the last event that has not been passed on.
    events: Option<(Instant, Instant)>,
    /// A change could have hidden in the grain of a clock until then.
    rests_at: Option<Instant>,
}

impl Changes {
    /// Notices what changed since `basis` was taken.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub fn since(basis: Basis) -> Self {
        Self::new(basis, true, POLL_ALONE)
    }

    fn new(basis: Basis, may_notify: bool, poll_alone: Duration) -> Self {
        let mut changes = Self {
            basis,
            notify: None,
            may_notify,
            poll_alone,
            complete: true,
            poll_at: Instant::now(),
            events: None,
            rests_at: None,
        };
        changes.start();
        changes
    }

    /// Notices from now on what changed since `basis` was taken.
    pub fn rebase(&mut self, basis: Basis) {
        self.basis = basis;
        self.start();
    }

    /// Waits until something may have changed. Nothing is lost when the future is dropped before that.
    pub async fn changed(&mut self) {
        loop {
            let now = Instant::now();
            if self.due().is_some_and(|due| due <= now) {
                self.events = None;
                self.rests_at = None;
                // Watched again before the caller looks: what changes after that is a new event.
                self.watch();
                return;
            }
            if self.poll_at <= now {
                self.poll_at = now + self.interval();
                if !self.basis.holds() {
                    self.event();
                    continue;
                }
            }
            let wake = self.due().map_or(self.poll_at, |due| due.min(self.poll_at));
            let Some(notify) = &mut self.notify else {
                sleep_until(wake).await;
                continue;
            };
            tokio::select! {
                event = notify.event() => match event {
                    Ok(()) => self.event(),
                    Err(error) => {
                        log::warn!("inotify failed while watching the policy folder: {error}");
                        self.notify = None;
                        self.complete = false;
                        self.event();
                    }
                },
                () = sleep_until(wake) => {}
            }
        }
    }

    fn event(&mut self) {
        let now = Instant::now();
        let first = self.events.map_or(now, |(first, _)| first);
        self.events = Some((first, now));
    }

    /// When the caller is to look again, as things are.
    fn due(&self) -> Option<Instant> {
        let events = self
            .events
            .map(|(first, last)| (first + LATEST).min(last + QUIET));
        events.into_iter().chain(self.rests_at).min()
    }

    fn interval(&self) -> Duration {
        if self.complete && self.notify.is_some() {
            POLL
        } else {
            self.poll_alone
        }
    }

    /// Watches what `basis` rests on, and looks whether something changed before it was watched.
    fn start(&mut self) {
        self.watch();
        let now = Instant::now();
        self.rests_at = self.basis.rests_in().map(|rest| now + rest);
        self.poll_at = now + self.interval();
        if !self.basis.holds() {
            self.event();
        }
    }

    fn watch(&mut self) {
        if !self.may_notify {
            return;
        }
        let was_complete = std::mem::replace(&mut self.complete, true);
        if let Err(error) = self.try_watch() {
            self.complete = false;
            if was_complete {
                log::warn!(
                    "{error}; the policy folder is looked at every {} s instead",
                    self.poll_alone.as_secs()
                );
            }
        }
    }

    fn try_watch(&mut self) -> Result<(), notify::Incomplete> {
        let notify = match self.notify.take() {
            Some(notify) => notify,
            None => Notify::new()?,
        };
        let ways = Ways::to(&self.basis);
        self.notify.insert(notify).watch(&ways)
    }
}

#[cfg(test)]
mod tests;
