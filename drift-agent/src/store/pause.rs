//! Pauses: healing that somebody holds for a time, of one policy or of all. Who, since when, until when, why.
//!
//! A file of its own, as the holds of versions: what was paused must not be healed because a cache was lost. Where it cannot be read everything is paused,
//! until somebody says otherwise.

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{Store, StoreError, folder::Folder, sealed};

pub(super) const NAME: &str = "pauses";
const MAGIC: &str = "drift-pauses-1";

/// Bytes of the file, at most.
const MOST: u64 = 4 << 20;

/// Policies that are paused by their names, at most.
const MOST_POLICIES: usize = 1000;

/// The longest pause. What is to stay away for longer is switched off (docs/brakes.md): a pause is what may be forgotten.
pub const LONGEST_PAUSE: Duration = Duration::from_hours(7 * 24);

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// Of everything.
    pub all: Option<Pause>,
    /// By policy.
    pub policies: BTreeMap<String, Pause>,
}

/// One pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub since: SystemTime,
    /// `None`: until somebody ends it.
    pub until: Option<SystemTime>,
    pub by: String,
    pub reason: String,
}

impl Pause {
    /// Whether it holds now. A clock that was set back does not make it longer than the longest.
    #[must_use]
    pub fn holds(&self, now: SystemTime) -> bool {
        let Some(until) = self.until else {
            return true;
        };
        until > now
            && until
                .duration_since(now)
                .is_ok_and(|left| left <= LONGEST_PAUSE)
    }
}

impl Pauses {
    /// What holds a policy.
    #[must_use]
    pub fn of(&self, policy: &str, now: SystemTime) -> Option<&Pause> {
        let both = [self.all.as_ref(), self.policies.get(policy)];
        both.into_iter().flatten().find(|pause| pause.holds(now))
    }

    /// Takes out those that are over.
    pub fn expire(&mut self, now: SystemTime) -> bool {
        let before = self.policies.len() + usize::from(self.all.is_some());
        self.all.take_if(|pause| !pause.holds(now));
        self.policies.retain(|_, pause| pause.holds(now));
        before != self.policies.len() + usize::from(self.all.is_some())
    }

    /// Adds one; `policy`: of everything, where there is none. In place of an earlier one.
    ///
    /// # Errors
    /// There are too many.
    pub fn add(&mut self, policy: Option<&str>, pause: Pause) -> Result<(), String> {
        match policy {
            None => self.all = Some(pause),
            Some(name) => {
                if self.policies.len() >= MOST_POLICIES && !self.policies.contains_key(name) {
                    return Err(format!(
                        "{MOST_POLICIES} policies are paused by name: pause all of them, without --policy"
                    ));
                }
                self.policies.insert(name.to_owned(), pause);
            }
        }
        Ok(())
    }

    /// Ends one; without a policy, all of them. What has ended, by the policy.
    pub fn end(&mut self, policy: Option<&str>) -> Vec<(Option<String>, Pause)> {
        match policy {
            None => {
                let all = self.all.take().map(|pause| (None, pause));
                let policies = std::mem::take(&mut self.policies).into_iter();
                all.into_iter()
                    .chain(policies.map(|(name, pause)| (Some(name), pause)))
                    .collect()
            }
            Some(name) => {
                let ended = self.policies.remove(name);
                ended
                    .map(|pause| (Some(name.to_owned()), pause))
                    .into_iter()
                    .collect()
            }
        }
    }
}

/// What is in the state folder. What cannot be believed pauses everything, which is added to `notes`.
pub(super) fn read(folder: &Folder, notes: &mut Vec<String>) -> Result<Pauses, StoreError> {
    let why = match folder.read(NAME, MOST) {
        Ok(None) => return Ok(Pauses::default()),
        Ok(Some(bytes)) => match sealed::open(MAGIC, &bytes) {
            Ok(pauses) => return Ok(pauses),
            Err(why) => why,
        },
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => error.to_string(),
        Err(error) => return Err(StoreError::io("read what is paused")(error)),
    };
    let note = format!("what is paused could not be read ({why})");
    notes.push(format!(
        "{note}: all healing is paused, until `drift-agent resume`"
    ));
    Ok(Pauses {
        all: Some(Pause {
            since: SystemTime::now(),
            until: None,
            by: "drift-agent".to_owned(),
            reason: note,
        }),
        policies: BTreeMap::new(),
    })
}

impl Store {
    /// What is paused.
    pub fn pauses(&self) -> Pauses {
        self.paused().clone()
    }

    /// Keeps this from now on: it lasts when it returns.
    ///
    /// # Errors
    /// It cannot be written, and nothing has changed.
    pub fn set_pauses(&self, pauses: &Pauses) -> Result<(), StoreError> {
        let mut known = self.paused();
        let io = StoreError::io("write what is paused");
        let bytes = sealed::seal(MAGIC, pauses).map_err(|error| io(error.into()))?;
        self.folder.write(NAME, &bytes).map_err(io)?;
        *known = pauses.clone();
        Ok(())
    }

    fn paused(&self) -> MutexGuard<'_, Pauses> {
        // Replaced whole.
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(now: SystemTime, seconds: u64) -> Pause {
        Pause {
            since: now,
            until: Some(now + Duration::from_secs(seconds)),
            by: "uid 0".to_owned(),
            reason: "a test".to_owned(),
        }
    }

    #[test]
    fn a_pause_holds_until_its_end_and_of_its_policy_alone() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 50);
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut pauses = Pauses::default();
        pauses.add(Some("web"), pause(now, 60)).unwrap();
        assert!(pauses.of("web", at(59)).is_some());
        assert!(pauses.of("web", at(60)).is_none());
        assert!(pauses.of("ssh", now).is_none());
        pauses.add(None, pause(now, 30)).unwrap();
        assert_eq!(pauses.of("ssh", now), Some(&pause(now, 30)));
        assert!(!pauses.expire(at(29)));
        assert!(pauses.expire(at(30)));
        assert_eq!(pauses.all, None);
        assert_eq!(pauses.end(Some("ssh")), []);
        assert_eq!(pauses.end(None).len(), 1);
        assert_eq!(pauses, Pauses::default());
        // The clock was set back by years.
        assert!(!pause(now, 60).holds(SystemTime::UNIX_EPOCH));
    }

    #[test]
    fn they_outlive_the_process_and_what_cannot_be_read_pauses_everything() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(dir.path(), crate::store::DEFAULT_QUOTA).unwrap();
        let now = SystemTime::now();
        let mut pauses = Pauses::default();
        pauses.add(Some("web"), pause(now, 60)).unwrap();
        let store = open();
        assert_eq!(store.pauses(), Pauses::default());
        store.set_pauses(&pauses).unwrap();
        drop(store);
        let store = open();
        assert_eq!(store.pauses(), pauses);
        drop(store);
        std::fs::write(dir.path().join(NAME), "drift-pauses-1 0\n{}").unwrap();
        let store = open();
        assert!(store.pauses().of("any", now).is_some());
        assert!(
            store.notes()[0].contains("all healing is paused"),
            "{:?}",
            store.notes()
        );
        let mut pauses = store.pauses();
        assert_eq!(pauses.end(None).len(), 1);
        store.set_pauses(&pauses).unwrap();
        drop(store);
        assert_eq!(open().pauses(), Pauses::default());
    }
}
