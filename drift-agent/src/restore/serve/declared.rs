//! What the restorer takes for declared: what it has read itself, and the detector too.

use std::sync::{Arc, PoisonError, RwLockReadGuard};

use drift_common::{escape, policy::Holds};

use super::{Refusal, Server};
use crate::{
    declare::{Declared, Snapshot, Sources},
    memory,
    restore::{
        held, holds,
        process::Settings,
        seal, vouch,
        wire::{Answer, Held},
    },
    store::identity,
};

/// What is declared, and its digest.
#[derive(Default)]
pub(super) struct Sealed {
    pub(super) snapshot: Snapshot,
    pub(super) seal: String,
    /// What was declared before the last change of versions.
    pub(super) before: Vec<Arc<Declared>>,
}

impl Server {
    pub(super) fn declared(&self) -> RwLockReadGuard<'_, Arc<Sealed>> {
        // Replaced whole.
        self.declared.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn declare(&self, held: &[Held], asked: &str) -> Result<Answer, Refusal> {
        let mut declared = self
            .declared
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if declared.seal != asked {
            *declared = Arc::new(self.read(&holds(held), asked)?);
            self.host.declare(&declared.snapshot.files);
            // What is put back waits for the lock, and not for this.
            drop(declared);
            memory::give_back();
        }
        Ok(Answer::Declared)
    }

    /// What the policy folder declares; where it is not good any more, what was good last.
    pub(super) fn read(&self, holds: &Holds, asked: &str) -> Result<Sealed, Refusal> {
        let Settings {
            policies,
            state,
            mode,
            ..
        } = &self.settings;
        let (outcome, mut basis) =
            self.store
                .look_with(policies, self.store.host_root(), *mode, holds);
        let why = match outcome {
            Ok(snapshot) => match sealed(snapshot, asked) {
                Ok(sealed) => {
                    let identity = identity(policies, &basis.take_sources());
                    if let Err(error) = vouch::vouch(state, &identity) {
                        log::warn!(
                            "after a start with policies that are not valid the last good ones would not be put back: that they are good cannot be noted at {} ({error})",
                            escape::path(state)
                        );
                    }
                    return Ok(sealed);
                }
                Err(_) => {
                    "the policy folder says something else than the detecting process has read"
                        .to_owned()
                }
            },
            Err(rejected) => rejected.plain().to_string(),
        };
        match self.last_good(holds) {
            Ok(Some(snapshot)) => sealed(snapshot, asked).map_err(|_| Refusal::stale(why)),
            Ok(None) => Err(Refusal::stale(why)),
            Err(error) => Err(Refusal::stale(format!(
                "{why}; the last good policies are no help: {error}"
            ))),
        }
    }

    /// What was good last, where a restorer has found that.
    fn last_good(&self, holds: &Holds) -> Result<Option<Snapshot>, String> {
        let Settings {
            policies,
            state,
            mode,
            ..
        } = &self.settings;
        let restored = self.store.last_good(policies);
        let Some(restored) = restored.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let (outcome, mut basis) =
            self.store
                .look_with(&restored.folder, self.store.host_root(), *mode, holds);
        let snapshot = outcome.map_err(|rejected| rejected.plain().to_string())?;
        // Of the very bytes that were read: whoever changes the files meanwhile changes nothing.
        let sources: Sources = basis.take_sources();
        match vouch::is_vouched(state, &identity(policies, &sources)) {
            Ok(true) => Ok(Some(snapshot)),
            Ok(false) => Err("no restorer has ever read them from the policy folder".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn sealed(snapshot: Snapshot, asked: &str) -> Result<Sealed, ()> {
    let seal = seal(&snapshot);
    if seal == asked {
        Ok(Sealed {
            snapshot,
            seal,
            before: Vec::new(),
        })
    } else {
        log::debug!("held: {:?}", held(&snapshot));
        Err(())
    }
}
