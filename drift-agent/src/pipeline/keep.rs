//! What outlives the pipeline: the policies in force, and how paths are braked. Written in the background: the disk may be slow.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use log::warn;

use crate::{
    declare::{Snapshot, Sources},
    heal::Brake,
    store::HeldBrake,
};

use super::Pipeline;

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
        });
    }

    /// A path was healed, or that was tried: the next try may have to wait, over a restart too.
    pub(super) fn note_brake(&self, path: &Path, brake: Brake, now: Instant) {
        let not_before = brake.not_before(SystemTime::now(), now);
        let row = brake.row();
        let held = HeldBrake { row, not_before };
        self.store.state().note_brake(path.to_owned(), held);
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.state().write_brakes() {
                warn!("back-off would not survive a restart: {error}");
            }
        });
    }

    /// Paths are braked as they were before the restart.
    pub(super) fn resume_brakes(&mut self) {
        let (wall, now) = (SystemTime::now(), Instant::now());
        let policies = self.snapshot.policies.iter();
        let longest: Duration = policies
            .map(|policy| policy.backoff.cap)
            .max()
            .unwrap_or_default();
        let files = &self.snapshot.files;
        let find = |path: &Path| files.binary_search_by(|file| file.path.as_path().cmp(path));
        let is_declared = |path: &Path| find(path).is_ok();
        let brakes = match self.store.state().brakes(wall, longest, is_declared) {
            Ok(brakes) => brakes,
            Err(error) => {
                warn!("back-off begins anew: {error}");
                return;
            }
        };
        for (path, HeldBrake { row, not_before }) in brakes {
            if let Ok(index) = find(&path) {
                self.paths[index].brake = Brake::resumed(row, not_before, wall, now);
            }
        }
    }
}
