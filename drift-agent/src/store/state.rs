//! What must survive a restart and is not content: which versions were seen, which is active, which was good, how hard each path is braked.
//!
//! A cache in `state.redb`. Every change is one transaction that is on the disk when the method returns.

mod brake;
mod open;
mod peek;
mod retain;

pub use brake::{HeldBrake, Longest, Spent};
pub use peek::Known;
pub(super) use peek::peek;
pub use retain::{MOST_RETAINED, MOST_VERSIONS};

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use blake3::Hash;
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};

use super::{Changed, StoreError, folder::Folder};
use retain::{forget_oldest, kept, retain_latest};

/// By policy and version.
type VersionKey = (&'static str, &'static str);

/// The digest, and when the version was seen first and was active last, in milliseconds since 1970.
type VersionRow = (&'static [u8; 32], u64, u64);

const VERSIONS: TableDefinition<VersionKey, VersionRow> = TableDefinition::new("versions");
/// The digests of the blobs a version needs, one after the other; the first is that of its declaration.
const RETAINED: TableDefinition<VersionKey, &[u8]> = TableDefinition::new("retained");
/// The active version of a policy.
const ACTIVE: TableDefinition<&str, &str> = TableDefinition::new("active");
/// The last good version of a policy.
const GOOD: TableDefinition<&str, &str> = TableDefinition::new("good");

/// A version of a policy as it is in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub policy: String,
    pub version: String,
    /// What the version is: see `PolicyVersion::digest`.
    pub digest: Hash,
}

/// A version that is active now, and the blobs it needs.
#[derive(Clone, Debug)]
pub struct Activation {
    pub seen: Seen,
    /// The blob that lists the files it is declared by: see [`super::Store::declaration`].
    pub declaration: Option<Hash>,
    pub blobs: BTreeSet<[u8; 32]>,
}

/// Policies by name, and since when they have been found healthy at every look.
type Healthy = BTreeMap<String, (String, SystemTime)>;

#[derive(Debug)]
pub struct State {
    database: Database,
    /// Not on the disk: nobody knows what was while no agent looked, so a restart begins the soak anew.
    healthy: Mutex<Healthy>,
    brakes: brake::Noted,
}

impl State {
    /// Opens the database, or makes one anew; what had to be done for it is added to `notes`, a sentence each.
    pub(super) fn open(folder: &Folder, notes: &mut Vec<String>) -> Result<Self, StoreError> {
        Ok(Self {
            database: open::open(folder, notes)?,
            healthy: Mutex::default(),
            brakes: brake::Noted::default(),
        })
    }

    /// One that nothing outlives.
    pub(super) fn in_memory() -> Result<Self, StoreError> {
        Ok(Self {
            database: open::in_memory()?,
            healthy: Mutex::default(),
            brakes: brake::Noted::default(),
        })
    }

    /// Forgets the digests of all versions.
    pub fn forget_versions(&self) -> Result<(), StoreError> {
        self.change(|write| {
            write.open_table(VERSIONS)?.retain(|_, _| false)?;
            Ok(())
        })
    }

    /// Remembers the digests of versions that are new here.
    ///
    /// # Errors
    /// [`StoreError::VersionChanged`]: a version is known with another digest. Then nothing is remembered.
    pub fn admit(&self, seen: &[Seen], now: SystemTime) -> Result<(), StoreError> {
        let mut fresh = Vec::new();
        let mut changed = Vec::new();
        {
            let read = self.read()?;
            let versions = read.open_table(VERSIONS)?;
            for seen in seen {
                match versions.get((seen.policy.as_str(), seen.version.as_str()))? {
                    None => fresh.push(seen),
                    Some(row) => {
                        let known = Hash::from_bytes(*row.value().0);
                        if known != seen.digest {
                            changed.push(Changed {
                                seen: seen.clone(),
                                known,
                            });
                        }
                    }
                }
            }
        }
        if !changed.is_empty() {
            return Err(StoreError::VersionChanged { changed });
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let now = millis(now);
        self.change(|write| {
            let mut versions = write.open_table(VERSIONS)?;
            for seen in &fresh {
                let key = (seen.policy.as_str(), seen.version.as_str());
                versions.insert(key, (seen.digest.as_bytes(), now, 0))?;
            }
            let kept = kept(
                &write.open_table(ACTIVE)?,
                &write.open_table(GOOD)?,
                fresh.iter().map(|seen| &**seen),
            )?;
            forget_oldest(&mut versions, &mut write.open_table(RETAINED)?, &kept)
        })
    }

    /// These versions are active now, and no others. A policy that is not among them is gone: nothing is kept for it but the digests of its
    /// versions.
    pub fn activate(&self, active: &[Activation], now: SystemTime) -> Result<(), StoreError> {
        let now = millis(now);
        self.change(|write| {
            let mut versions = write.open_table(VERSIONS)?;
            let mut retained = write.open_table(RETAINED)?;
            let mut actives = write.open_table(ACTIVE)?;
            let mut good = write.open_table(GOOD)?;
            for Activation {
                seen,
                declaration,
                blobs,
            } in active
            {
                let key = (seen.policy.as_str(), seen.version.as_str());
                let first = versions.get(key)?.map_or(now, |row| row.value().1);
                versions.insert(key, (seen.digest.as_bytes(), first, now))?;
                retained.insert(
                    key,
                    declaration
                        .iter()
                        .map(Hash::as_bytes)
                        .chain(blobs)
                        .flatten()
                        .copied()
                        .collect::<Vec<u8>>()
                        .as_slice(),
                )?;
                actives.insert(key.0, key.1)?;
            }
            let policies: HashSet<&str> = active.iter().map(|a| a.seen.policy.as_str()).collect();
            actives.retain(|policy, _| policies.contains(policy))?;
            good.retain(|policy, _| policies.contains(policy))?;
            retained.retain(|(policy, _), _| policies.contains(policy))?;
            let kept = kept(&actives, &good, active.iter().map(|a| &a.seen))?;
            retain_latest(&versions, &mut retained, &kept)?;
            forget_oldest(&mut versions, &mut retained, &kept)
        })?;
        let is_active = |policy: &String, version: &String| {
            active
                .iter()
                .any(|a| a.seen.policy == *policy && a.seen.version == *version)
        };
        self.healthy()
            .retain(|policy, (version, _)| is_active(policy, version));
        Ok(())
    }

    /// The active version of each policy.
    pub fn active(&self) -> Result<BTreeMap<String, String>, StoreError> {
        texts(&self.read()?, ACTIVE)
    }

    /// Every version that was active, by policy and version, and when it was last, in milliseconds since 1970.
    pub fn active_before(&self) -> Result<BTreeMap<(String, String), u64>, StoreError> {
        let mut all = BTreeMap::new();
        for row in self.read()?.open_table(VERSIONS)?.iter()? {
            let (key, value) = row?;
            let ((policy, version), (_, _, last)) = (key.value(), value.value());
            if last > 0 {
                all.insert((policy.to_owned(), version.to_owned()), last);
            }
        }
        Ok(all)
    }

    /// The version of each policy that was healthy for long enough, last.
    pub fn last_good(&self) -> Result<BTreeMap<String, String>, StoreError> {
        texts(&self.read()?, GOOD)
    }

    /// Whether all paths of a version were found as declared. When its policy's active version was found so at every look for as long as `soak`,
    /// it becomes the last good one. Returns whether it has become that now. Of a version that is not the active one nothing is noted.
    pub fn note_health(
        &self,
        policy: &str,
        version: &str,
        healthy: bool,
        now: SystemTime,
        soak: Duration,
    ) -> Result<bool, StoreError> {
        let read = self.read()?;
        let is_active = {
            let active = read.open_table(ACTIVE)?;
            active
                .get(policy)?
                .is_some_and(|row| row.value() == version)
        };
        if !healthy || !is_active {
            self.healthy().remove(policy);
            return Ok(false);
        }
        let since = {
            let mut all = self.healthy();
            let (_, since) = all
                .entry(policy.to_owned())
                .and_modify(|(of, since)| {
                    // Another version begins anew. So does a clock that went back: what it has measured is not known.
                    if *of != version || *since > now {
                        (*of, *since) = (version.to_owned(), now);
                    }
                })
                .or_insert_with(|| (version.to_owned(), now));
            *since
        };
        let soaked = now.duration_since(since).is_ok_and(|time| time >= soak);
        let is_known = {
            let good = read.open_table(GOOD)?;
            good.get(policy)?.is_some_and(|row| row.value() == version)
        };
        if !soaked || is_known {
            return Ok(false);
        }
        self.change(|write| {
            write
                .open_table(GOOD)?
                .insert(policy, version)
                .map(|_| ())
                .map_err(StoreError::from)
        })?;
        Ok(true)
    }

    /// Since when each policy's active version has been found healthy at every look.
    pub fn healthy_since(&self) -> BTreeMap<String, (String, SystemTime)> {
        self.healthy().clone()
    }

    fn read(&self) -> Result<ReadTransaction, StoreError> {
        Ok(self.database.begin_read()?)
    }

    fn change(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let write = self.database.begin_write()?;
        change(&write)?;
        Ok(write.commit()?)
    }

    fn healthy(&self) -> MutexGuard<'_, Healthy> {
        // Each entry is whole at any time.
        self.healthy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn texts(
    read: &ReadTransaction,
    table: TableDefinition<&str, &str>,
) -> Result<BTreeMap<String, String>, StoreError> {
    let mut texts = BTreeMap::new();
    for row in read.open_table(table)?.iter()? {
        let (key, value) = row?;
        texts.insert(key.value().to_owned(), value.value().to_owned());
    }
    Ok(texts)
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
