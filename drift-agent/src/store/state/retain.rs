//! What is kept of versions that are not active any more, and for how long.

use std::collections::{BTreeMap, HashSet};

use blake3::Hash;
use redb::{ReadableTable, ReadableTableMetadata, Table};

use super::{ACTIVE, GOOD, RETAINED, Seen, State, VERSIONS, VersionKey, VersionRow};
use crate::store::StoreError;

/// Versions of a policy that keep their blobs, beside the active and the last good one.
pub const MOST_RETAINED: usize = 5;

/// Versions that are remembered, of all policies. Beyond it the ones that were active longest ago are forgotten.
pub const MOST_VERSIONS: usize = 10_000;

impl State {
    /// The digests of all blobs that retained versions need.
    pub(in crate::store) fn needed(&self) -> Result<HashSet<Hash>, StoreError> {
        let read = self.read()?;
        let mut needed = HashSet::new();
        for row in read.open_table(RETAINED)?.iter()? {
            let row = row?.1;
            let (blobs, _) = row.value().as_chunks();
            needed.extend(blobs.iter().map(|bytes| Hash::from_bytes(*bytes)));
        }
        Ok(needed)
    }

    /// The first of the blobs that a version needs, if it is retained and needs any.
    pub(in crate::store) fn first_blob(
        &self,
        policy: &str,
        version: &str,
    ) -> Result<Option<Hash>, StoreError> {
        let read = self.read()?;
        let row = read.open_table(RETAINED)?.get((policy, version))?;
        let first = row.and_then(|row| row.value().first_chunk().copied());
        Ok(first.map(Hash::from_bytes))
    }

    /// Gives up the blobs of the version that was active longest ago, if there is one that is neither active nor the last good one.
    /// Returns its policy and version.
    pub(in crate::store) fn release_oldest(&self) -> Result<Option<(String, String)>, StoreError> {
        let oldest = {
            let read = self.read()?;
            let kept = kept(
                &read.open_table(ACTIVE)?,
                &read.open_table(GOOD)?,
                std::iter::empty(),
            )?;
            let versions = read.open_table(VERSIONS)?;
            let mut oldest: Option<(u64, (String, String))> = None;
            for row in read.open_table(RETAINED)?.iter()? {
                let key = row?.0;
                let key = owned(key.value());
                let time = last_active(&versions, &key)?;
                if !kept.contains(&key) && oldest.as_ref().is_none_or(|(least, _)| time < *least) {
                    oldest = Some((time, key));
                }
            }
            oldest.map(|(_, key)| key)
        };
        if let Some((policy, version)) = &oldest {
            self.change(|write| {
                write
                    .open_table(RETAINED)?
                    .remove((policy.as_str(), version.as_str()))?;
                Ok(())
            })?;
        }
        Ok(oldest)
    }
}

fn owned((policy, version): (&str, &str)) -> (String, String) {
    (policy.to_owned(), version.to_owned())
}

/// What is never given up: active and last good versions, and those that are being declared.
pub(super) fn kept<'s>(
    active: &impl ReadableTable<&'static str, &'static str>,
    good: &impl ReadableTable<&'static str, &'static str>,
    declared: impl Iterator<Item = &'s Seen>,
) -> Result<HashSet<(String, String)>, StoreError> {
    let mut kept: HashSet<_> = declared
        .map(|seen| (seen.policy.clone(), seen.version.clone()))
        .collect();
    for row in active.iter()?.chain(good.iter()?) {
        let (policy, version) = row?;
        kept.insert(owned((policy.value(), version.value())));
    }
    Ok(kept)
}

fn last_active(
    versions: &impl ReadableTable<VersionKey, VersionRow>,
    (policy, version): &(String, String),
) -> Result<u64, StoreError> {
    let row = versions.get((policy.as_str(), version.as_str()))?;
    Ok(row.map_or(0, |row| row.value().2))
}

/// Beyond [`MOST_RETAINED`] versions of a policy that are not `kept`, the ones that were active longest ago lose their blobs.
pub(super) fn retain_latest(
    versions: &impl ReadableTable<VersionKey, VersionRow>,
    retained: &mut Table<'_, VersionKey, &'static [u8]>,
    kept: &HashSet<(String, String)>,
) -> Result<(), StoreError> {
    let mut by_policy: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for row in retained.iter()? {
        let key = owned(row?.0.value());
        if !kept.contains(&key) {
            let time = last_active(versions, &key)?;
            by_policy.entry(key.0).or_default().push((time, key.1));
        }
    }
    for (policy, mut olds) in by_policy {
        olds.sort_unstable();
        olds.truncate(olds.len().saturating_sub(MOST_RETAINED));
        for (_, version) in olds {
            retained.remove((policy.as_str(), version.as_str()))?;
        }
    }
    Ok(())
}

/// Beyond [`MOST_VERSIONS`], versions that are not `kept` are forgotten, those first that were active longest ago.
pub(super) fn forget_oldest(
    versions: &mut Table<'_, VersionKey, VersionRow>,
    retained: &mut Table<'_, VersionKey, &'static [u8]>,
    kept: &HashSet<(String, String)>,
) -> Result<(), StoreError> {
    let count = usize::try_from(versions.len()?).unwrap_or(usize::MAX);
    if count <= MOST_VERSIONS {
        return Ok(());
    }
    let mut olds = Vec::new();
    for row in versions.iter()? {
        let (key, value) = row?;
        let key = owned(key.value());
        if !kept.contains(&key) {
            let (_, first, last) = value.value();
            olds.push((first.max(last), key));
        }
    }
    olds.sort_unstable();
    olds.truncate(count - MOST_VERSIONS);
    for (_, (policy, version)) in olds {
        let key = (policy.as_str(), version.as_str());
        versions.remove(key)?;
        retained.remove(key)?;
    }
    Ok(())
}
