//! Which versions are healthy: every path of the policy is as declared. One that was for the soak time is the last known good one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use log::{info, warn};

use super::{
    Pipeline,
    path::{Ongoing, PathState},
};
use crate::declare::ActivePolicy;

/// Health is noted at least so often, and four times in a soak.
const LONGEST: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_millis(100);

/// Whether somebody is noting: one at a time, so that nothing is noted after what came later.
#[derive(Debug, Default)]
pub(super) struct Noting(AtomicBool);

/// How the paths of a policy are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) files: usize,
    pub(super) drifting: usize,
    /// Never looked at since they were declared.
    pub(super) not_compared: usize,
}

impl Tally {
    /// Compared, and found as declared.
    pub(super) fn as_declared(self) -> usize {
        self.files
            .saturating_sub(self.drifting)
            .saturating_sub(self.not_compared)
    }

    /// Every path was compared and is as declared.
    fn is_healthy(self) -> bool {
        self.drifting == 0 && self.not_compared == 0
    }
}

impl Pipeline {
    pub(super) fn health_interval(&self) -> Duration {
        (self.settings.soak / 4).clamp(SHORTEST, LONGEST)
    }

    /// For each policy, in the order of the snapshot.
    pub(super) fn tallies(&self) -> Vec<Tally> {
        let mut tallies = vec![Tally::default(); self.snapshot.policies.len()];
        for (at, _, state) in self.by_policy() {
            let tally = &mut tallies[at];
            tally.files += 1;
            tally.drifting += usize::from(state.drift.as_deref().is_some_and(Ongoing::matters));
            tally.not_compared += usize::from(!state.looked);
        }
        tallies
    }

    /// Each path's index, and that of its policy in the snapshot. Neighbours mostly have the same policy.
    pub(super) fn by_policy(&self) -> impl Iterator<Item = (usize, usize, &PathState)> {
        let policies = &self.snapshot.policies;
        let mut at = 0;
        let files = self.snapshot.files.iter().zip(&self.paths).enumerate();
        files.filter_map(move |(index, (file, state))| {
            let is_same = policies
                .get(at)
                .is_some_and(|known| Arc::ptr_eq(known, &file.policy));
            if !is_same {
                let find = |policy: &Arc<ActivePolicy>| policy.name.cmp(&file.policy.name);
                at = policies.binary_search_by(find).ok()?;
            }
            Some((at, index, state))
        })
    }

    /// Notes it in the store, in the background. What was not as declared for a moment in between was not healthy.
    pub(super) fn note_health(&mut self) {
        if self.noting.0.swap(true, Ordering::AcqRel) {
            return; // the disk is slow: what was unsound meanwhile is noted next time
        }
        let unsound = std::mem::take(&mut self.unsound);
        let policies = self.snapshot.policies.iter().cloned().zip(self.tallies());
        let healthy: Vec<_> = policies
            .map(|(policy, tally)| {
                let healthy = tally.is_healthy() && !unsound.contains(&policy.name);
                (policy, healthy)
            })
            .collect();
        let (store, noting) = (Arc::clone(&self.store), Arc::clone(&self.noting));
        let soak = self.settings.soak;
        tokio::task::spawn_blocking(move || {
            for (policy, healthy) in healthy {
                let (name, version) = (&policy.name, &policy.version);
                match store
                    .state()
                    .note_health(name, version, healthy, SystemTime::now(), soak)
                {
                    Ok(true) => info!("{name} {version} is the last known good version now"),
                    Ok(false) => {}
                    Err(error) => warn!("that {name} {version} is healthy is not noted: {error}"),
                }
            }
            noting.0.store(false, Ordering::Release);
        });
    }
}
