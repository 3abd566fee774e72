//! What outlives the pipeline: the policies in force, and how paths are braked. Written in the background: the disk may be slow.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use log::warn;

use crate::{
    declare::{Snapshot, Sources},
    heal::{Brake, Fights},
    memory,
    store::{HeldBrake, Longest},
};

use super::{Pipeline, timers::Timer};

/// A kill within this time after a heal in a row of them may lose what that heal has done to the brake, and no more.
const BETWEEN_WRITES: Duration = Duration::from_millis(250);

impl Pipeline {
    /// Keeps what is declared now as the last good declaration.
    pub(super) fn keep(&self, snapshot: &Snapshot, sources: Sources) {
        let store = Arc::clone(&self.store);
        let in_force = store.in_force(&self.settings.policies, snapshot, sources);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.keep(&in_force) {
                warn!("the policies in force are not kept for a start without them: {error}");
            }
            if let Some(sentence) = store.usage().sentence() {
                warn!("{sentence}");
            }
            drop(in_force);
            memory::give_back();
        });
    }

    /// A path was healed, or that was tried, or it is fought over: the next try may have to wait, over a restart too. `wall` and `now` are the same moment.
    pub(super) fn note_brake(
        &mut self,
        index: usize,
        contested: Option<Instant>,
        wall: SystemTime,
        now: Instant,
    ) {
        let file = &self.snapshot.files[index];
        let brake = &self.paths[index].brake;
        let held = HeldBrake {
            row: brake.row(),
            not_before: brake.not_before(wall, now),
            contested: contested.map(|until| wall + until.saturating_duration_since(now)),
        };
        let state = self.store.state();
        if let Some(spent) = self.spent(&file.policy.name, wall, now) {
            state.note_spent(&file.policy.name, spent);
        }
        state.note_brake(file.path.clone(), held);
        if self.timers.get(Timer::Brakes).is_none() {
            self.write_brakes(now);
        }
    }

    /// What was noted is written, in the background. What is noted from then on waits a little: each write waits for the disk, which heals do too.
    pub(super) fn write_brakes(&mut self, now: Instant) {
        if !self.store.state().has_unwritten_brakes() {
            return;
        }
        self.timers.set(Timer::Brakes, now + BETWEEN_WRITES);
        if self.store.state().is_writing_brakes() {
            // A slow disk: the timer comes again, and no threads queue up.
            return;
        }
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.state().write_brakes() {
                warn!("what holds healing back would not survive a restart: {error}");
            }
        });
    }

    /// Paths are braked as they were before the restart.
    pub(super) fn resume_brakes(&mut self) {
        let (wall, now) = (SystemTime::now(), Instant::now());
        let guards = || self.snapshot.policies.iter().map(|policy| &policy.guard);
        let backoff = guards().map(|guard| guard.backoff.cap).max();
        let contested = guards().filter_map(|guard| guard.fight.map(|fight| fight.hold));
        let longest = Longest {
            backoff: backoff.unwrap_or_default(),
            contested: contested.max().unwrap_or_default(),
        };
        let files = &self.snapshot.files;
        let find = |path: &Path| files.binary_search_by(|file| file.path.as_path().cmp(path));
        let is_declared = |path: &Path| find(path).is_ok();
        match self.store.state().brakes(wall, longest, is_declared) {
            Ok(brakes) => {
                for (path, held) in brakes {
                    let Some(index) = find(&path).ok().filter(|index| self.was_active(*index))
                    else {
                        continue;
                    };
                    let state = &mut self.paths[index];
                    state.brake = Brake::resumed(held.row, held.not_before, wall, now);
                    if let Some(until) = held.contested {
                        let left = until.duration_since(wall).unwrap_or_default();
                        state.fights = Fights::resumed(now + left);
                    }
                }
            }
            Err(error) => warn!("back-off begins anew: {error}"),
        }
        match self.store.state().spent() {
            Ok(spent) => self.resume_budgets(&spent, wall, now),
            Err(error) => warn!("the budgets of heals begin anew: {error}"),
        }
    }
}
