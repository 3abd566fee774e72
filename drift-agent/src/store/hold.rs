//! Versions that are held instead of those the policy folder says, and versions whose activation failed: who, when, why, how often.
//!
//! A file of its own beside the database: what was rolled back must not come back because a cache was lost.

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
    time::SystemTime,
};

use drift_common::policy::{Hold, Holds};
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, folder::Folder, journal, sealed};
use crate::declare::Snapshot;

const NAME: &str = "holds";
const MAGIC: &str = "drift-holds-1";

/// Bytes of the file, at most.
const MOST: u64 = 16 << 20;

/// Failures that are remembered, at most.
const MOST_FAILURES: usize = 1000;

/// Characters of a reason or a name that are kept, at most.
pub(super) const MOST_TEXT: usize = 1000;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// By policy.
    pub held: BTreeMap<String, Held>,
    /// The newest last.
    pub failures: Vec<Failure>,
}

/// A version that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub version: String,
    /// The `activeVersion` that it takes the place of: another one releases it.
    pub instead_of: String,
    pub since: SystemTime,
    /// Who asked for it.
    pub by: String,
    pub reason: String,
}

/// A version whose activation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub policy: String,
    pub version: String,
    pub count: u32,
    pub last: SystemTime,
    /// One of a closed set.
    pub reason: String,
    pub message: String,
}

impl Holding {
    /// As the reader of policies takes them. A version that is none holds nothing.
    #[must_use]
    pub fn holds(&self) -> Holds {
        let each = self.held.iter().filter_map(|(policy, held)| {
            let version = held.version.parse().ok()?;
            let instead_of = held.instead_of.parse().ok()?;
            let hold = Hold {
                version,
                instead_of,
            };
            Some((policy.clone(), hold))
        });
        each.collect()
    }

    /// What is known of a version's failing.
    #[must_use]
    pub fn failure(&self, policy: &str, version: &str) -> Option<&Failure> {
        let mut failures = self.failures.iter();
        failures.find(|failure| failure.policy == policy && failure.version == version)
    }

    /// A version has failed again, or for the first time.
    pub fn failed(
        &mut self,
        policy: &str,
        version: &str,
        reason: &str,
        message: &str,
        now: SystemTime,
    ) {
        let before = self.failure(policy, version).map_or(0, |known| known.count);
        self.forget_failure(policy, version);
        self.failures.push(Failure {
            policy: policy.to_owned(),
            version: version.to_owned(),
            count: before.saturating_add(1),
            last: now,
            reason: reason.to_owned(),
            message: message.chars().take(MOST_TEXT).collect(),
        });
        let over = self.failures.len().saturating_sub(MOST_FAILURES);
        self.failures.drain(..over);
    }

    /// A version has become active after all.
    pub fn forget_failure(&mut self, policy: &str, version: &str) {
        self.failures
            .retain(|failure| failure.policy != policy || failure.version != version);
    }

    /// Holds whose policy says another version than when they began, or is gone, are over. Returns their policies.
    fn release(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let stays = |policy: &str, held: &Held| {
            let policy = snapshot.policy(policy);
            policy.is_some_and(|(_, terms)| terms.said == held.instead_of)
        };
        let over: Vec<String> = self
            .held
            .iter()
            .filter(|(policy, held)| !stays(policy, held))
            .map(|(policy, _)| policy.clone())
            .collect();
        self.held.retain(|policy, held| stays(policy, held));
        over
    }
}

/// What this process knows of it.
#[derive(Debug)]
pub(super) struct Known {
    holding: Holding,
    /// It may have become something else, and could not be read since.
    is_old: bool,
    /// It stands in its file, not in the journal alone.
    is_written: bool,
}

impl From<Holding> for Known {
    fn from(holding: Holding) -> Self {
        Self {
            holding,
            is_old: false,
            is_written: true,
        }
    }
}

/// What is in the state folder; what is wrong with it is added to `notes`, and then nothing is held. What a change of versions has decided counts from then on,
/// wherever it was interrupted: its journal says it where the file could not be written.
pub(super) fn read(folder: &Folder, notes: &mut Vec<String>) -> Result<Known, StoreError> {
    let written = read_file(folder, notes)?;
    Ok(match journal::decided(folder)? {
        Some(holding) if holding != written => Known {
            holding,
            is_old: false,
            is_written: false,
        },
        _ => written.into(),
    })
}

fn read_file(folder: &Folder, notes: &mut Vec<String>) -> Result<Holding, StoreError> {
    let why = match folder.read(NAME, MOST) {
        Ok(None) => return Ok(Holding::default()),
        Ok(Some(bytes)) => match sealed::open(MAGIC, &bytes) {
            Ok(holding) => return Ok(holding),
            Err(why) => why,
        },
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => error.to_string(),
        Err(error) => return Err(StoreError::io("read which versions are held")(error)),
    };
    let aside = format!("{NAME}.corrupt");
    folder
        .remove(&aside)
        .and_then(|()| folder.rename(NAME, &aside))
        .map_err(StoreError::io("move a corrupt file aside"))?;
    notes.push(format!(
        "which versions are held could not be read ({why}): the file was moved to {aside}. Each policy has the version now that its Policy \
         says; roll back again what should not have that"
    ));
    Ok(Holding::default())
}

/// What the state folder of an agent says is held, as [`read`]. Changes nothing: what is no such file holds nothing, as at the start of an agent.
pub(super) fn peek(folder: &Folder) -> Result<Holding, StoreError> {
    if let Some(decided) = journal::decided(folder)? {
        return Ok(decided);
    }
    match folder.read(NAME, MOST) {
        Ok(bytes) => {
            let holding = bytes.and_then(|bytes| sealed::open(MAGIC, &bytes).ok());
            Ok(holding.unwrap_or_default())
        }
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Ok(Holding::default()),
        Err(source) => Err(StoreError::Peek { source }),
    }
}

impl Store {
    /// What is held, and what has failed, as far as is known: to be shown. What decides goes by [`Store::holding_now`].
    pub fn holding(&self) -> Holding {
        self.held().holding.clone()
    }

    /// The versions that are held, as far as is known.
    pub fn holds(&self) -> Holds {
        self.held().holding.holds()
    }

    /// What is held, and what has failed. Read again if it could not be read when it may have changed.
    ///
    /// # Errors
    /// It cannot be read now either: what was held before would take back what somebody else has changed.
    pub fn holding_now(&self) -> Result<Holding, StoreError> {
        if self.is_holding_old() {
            self.read_holding_again()?;
        }
        Ok(self.holding())
    }

    /// Whether it could not be read when it may have changed.
    pub fn is_holding_old(&self) -> bool {
        self.held().is_old
    }

    /// Another process may have written it: see [`Store::beside`].
    ///
    /// # Errors
    /// It cannot be read. What cannot be believed is moved aside, and then nothing is held.
    pub fn read_holding_again(&self) -> Result<(), StoreError> {
        let mut known = self.held();
        let mut notes = Vec::new();
        known.is_old = true;
        *known = read(&self.folder, &mut notes)?;
        for note in notes {
            log::warn!("{note}");
        }
        Ok(())
    }

    /// Keeps this from now on: it lasts when it returns.
    pub fn set_holding(&self, holding: &Holding) -> Result<(), StoreError> {
        let mut known = self.held();
        if !known.is_old && known.is_written && known.holding == *holding {
            return Ok(());
        }
        let io = StoreError::io("write which versions are held");
        let bytes = sealed::seal(MAGIC, holding).map_err(|error| io(error.into()))?;
        self.folder.write(NAME, &bytes).map_err(io)?;
        *known = holding.clone().into();
        Ok(())
    }

    /// A folder was found good: holds that it has made void are over.
    pub(super) fn release_holds(&self, snapshot: &Snapshot) {
        let mut holding = self.holding();
        let over = holding.release(snapshot);
        if over.is_empty() {
            return;
        }
        for policy in &over {
            log::warn!(
                "{} is held no longer: its Policy says another version",
                drift_common::escape::name(policy)
            );
        }
        // Void all the same: the next reading of the folder finds that again.
        if let Err(error) = self.set_holding(&holding) {
            log::warn!("{error}");
        }
    }

    fn held(&self) -> MutexGuard<'_, Known> {
        // Replaced whole.
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
