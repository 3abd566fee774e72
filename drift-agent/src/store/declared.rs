//! A policy folder and what is known of it: versions never change, and what was good is kept.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, atomic::Ordering},
    time::SystemTime,
};

use drift_common::policy::Holds;

use super::{Activation, Holding, Restored, Seen, Store, StoreError, declaration};
use crate::declare::{self, ActivePolicy, Basis, Mode, Rejected, Snapshot, Sources};

/// What is in force now and is to be kept. Made in the order in which things came into force; kept in any.
#[derive(Debug)]
pub struct InForce {
    turn: u64,
    folder: PathBuf,
    active: Vec<Activation>,
    sources: Sources,
}

impl Store {
    /// [`declare::look`]; a content that is named by its digest may be one that is kept here, and a folder in which a version that is known has
    /// another content is rejected too.
    pub fn look(
        &self,
        folder: &Path,
        host_root: &Path,
        mode: Option<Mode>,
    ) -> (Result<Snapshot, Rejected>, Basis) {
        // What another folder's policies were held at says nothing of these.
        let holds = match self.other_folder(&absolute(folder)) {
            Some(_) => Ok(Holds::new()),
            None => self.holding_now().map(|holding| holding.holds()),
        };
        let known = holds.as_ref().map_or_else(|_| self.holds(), Clone::clone);
        let (outcome, basis) = self.look_with(folder, host_root, mode, &known);
        let outcome = outcome.and_then(|snapshot| {
            holds.map_err(|error| Rejected::HoldsUnreadable {
                sentence: error.to_string(),
            })?;
            self.begin_anew_for_another(folder);
            self.admit(&snapshot)?;
            self.release_holds(&snapshot);
            Ok(snapshot)
        });
        (outcome, basis)
    }

    /// What the folder would declare if these versions were held. Nothing is remembered of it.
    pub fn look_with(
        &self,
        folder: &Path,
        host_root: &Path,
        mode: Option<Mode>,
        holds: &Holds,
    ) -> (Result<Snapshot, Rejected>, Basis) {
        let kept = |digest: &_| self.body(digest).ok();
        declare::look_beside(folder, host_root, mode, holds, &kept)
    }

    /// Remembers what the versions of a snapshot are.
    ///
    /// # Errors
    /// One of them was something else before.
    pub fn admit(&self, snapshot: &Snapshot) -> Result<(), Rejected> {
        let policies = snapshot.policies.iter();
        let seen: Vec<_> = policies.map(|policy| seen(policy)).collect();
        match self.state.admit(&seen, SystemTime::now()) {
            Ok(()) => Ok(()),
            Err(error @ StoreError::VersionChanged { .. }) => Err(Rejected::VersionChanged {
                sentence: error.to_string(),
            }),
            // What is remembered is a cache: without it the folder counts.
            Err(error) => {
                log::warn!("whether versions have changed is not known: {error}");
                Ok(())
            }
        }
    }

    /// A state folder that was used with another policy folder knows nothing of the versions in this one, though they have the same names.
    fn begin_anew_for_another(&self, folder: &Path) {
        let Some(other) = self.other_folder(&absolute(folder)) else {
            return;
        };
        log::warn!(
            "the state folder was used with the policies in {}: what was known of their versions is forgotten",
            drift_common::escape::path(&other)
        );
        if let Err(error) = self.state.forget_versions() {
            log::warn!("what was known of versions cannot be forgotten: {error}");
        }
        if let Err(error) = self.set_holding(&Holding::default()) {
            log::warn!("{error}");
        }
    }

    /// What is to be kept of a snapshot that is in force now. Pure, but for counting.
    pub fn in_force(&self, folder: &Path, snapshot: &Snapshot, sources: Sources) -> InForce {
        let blobs: BTreeSet<[u8; 32]> = sources
            .values()
            .map(|body| *body.digest().as_bytes())
            .collect();
        let declaration = blake3::hash(&declaration::bytes(&sources));
        let activation = |policy: &Arc<ActivePolicy>| Activation {
            seen: seen(policy),
            declaration: Some(declaration),
            blobs: blobs.clone(),
        };
        InForce {
            turn: self.turns.fetch_add(1, Ordering::Relaxed) + 1,
            folder: absolute(folder),
            active: snapshot.policies.iter().map(activation).collect(),
            sources,
        }
    }

    /// Keeps it as the last good one, unless something newer was kept already. Returns whether it is another one than before.
    pub fn keep(&self, in_force: &InForce) -> Result<bool, StoreError> {
        let InForce {
            turn,
            folder,
            active,
            sources,
        } = in_force;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if *kept > *turn {
            return Ok(false);
        }
        let now = SystemTime::now();
        // First, so that no blob of it is given up for another one of it.
        self.state.activate(active, now)?;
        let saved = self.save(folder, sources, now)?;
        self.put(&declaration::bytes(sources))?;
        *kept = *turn;
        Ok(saved)
    }

    /// The last good policies of this folder, laid out again. See [`Store::restore`].
    pub fn last_good(&self, folder: &Path) -> Result<Option<Restored>, StoreError> {
        self.restore(&absolute(folder))
    }
}

fn seen(policy: &ActivePolicy) -> Seen {
    Seen {
        policy: policy.name.clone(),
        version: policy.version.clone(),
        digest: policy.digest,
    }
}

/// The same folder, wherever the agent is started.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}
