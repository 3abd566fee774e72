//! The brakes of paths: back-off that a restart does not release.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, SystemTime},
};

use redb::{ReadableTable, TableDefinition};

use super::{State, millis};
use crate::store::StoreError;

/// By path: heals in a row, and not before when to heal again, in milliseconds since 1970.
pub(super) const BRAKES: TableDefinition<&[u8], (u32, u64)> = TableDefinition::new("brakes");
/// By path: until when it is left alone because it is fought over, in milliseconds since 1970.
pub(super) const CONTESTED: TableDefinition<&[u8], u64> = TableDefinition::new("contested");
/// By policy: heals of the last minute, each entry the time in milliseconds since 1970 (8 bytes, little endian) and how many (4 bytes).
pub(super) const SPENT: TableDefinition<&str, &[u8]> = TableDefinition::new("spent");
/// By policy: the version that is being put in place, until all of it was as declared once.
pub(super) const ACTIVATING: TableDefinition<&str, &str> = TableDefinition::new("activating");

/// The brake of a path, in a form that outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBrake {
    /// Heals in a row.
    pub row: u32,
    /// When it may be healed again.
    pub not_before: SystemTime,
    /// Until when it is left alone because it is fought over.
    pub contested: Option<SystemTime>,
}

/// The longest waits that any policy has. None holds for longer, even if the clock was set back.
#[derive(Clone, Copy, Debug)]
pub struct Longest {
    pub backoff: Duration,
    pub contested: Duration,
}

/// Heals, and when they were.
pub type Spent = Vec<(SystemTime, u32)>;

/// Brakes that are to be written down.
#[derive(Debug, Default)]
pub(super) struct Noted {
    waiting: Mutex<BTreeMap<PathBuf, HeldBrake>>,
    /// By policy.
    spent: Mutex<BTreeMap<String, Spent>>,
    /// Held by the one who writes.
    writing: Mutex<()>,
}

impl State {
    /// Notes how a path is braked, to be written by [`State::write_brakes`]. Does not block.
    pub fn note_brake(&self, path: PathBuf, brake: HeldBrake) {
        self.waiting().insert(path, brake);
    }

    /// Whether something was noted that no thread has begun to write.
    #[must_use]
    pub fn has_unwritten_brakes(&self) -> bool {
        !self.waiting().is_empty()
    }

    /// Whether a thread is writing brakes now.
    #[must_use]
    pub fn is_writing_brakes(&self) -> bool {
        matches!(
            self.brakes.writing.try_lock(),
            Err(TryLockError::WouldBlock)
        )
    }

    /// Writes what was noted so far, once: what is noted meanwhile is left for the next. Waits for another thread that does so.
    pub fn write_brakes(&self) -> Result<(), StoreError> {
        // It guards nothing but the order of writes.
        let writing = self.brakes.writing.lock();
        let _writing = writing.unwrap_or_else(PoisonError::into_inner);
        let noted = std::mem::take(&mut *self.waiting());
        if noted.is_empty() {
            return Ok(());
        }
        let brakes: Vec<_> = noted
            .iter()
            .map(|(path, brake)| (path.as_path(), Some(*brake)))
            .collect();
        let spent = std::mem::take(&mut *self.spent_waiting());
        self.write(&brakes, &spent)
    }

    /// Notes the heals of a policy, to be written with the brakes. Does not block.
    pub fn note_spent(&self, policy: &str, spent: Spent) {
        self.spent_waiting().insert(policy.to_owned(), spent);
    }

    fn spent_waiting(&self) -> MutexGuard<'_, BTreeMap<String, Spent>> {
        // Each entry is whole at any time.
        let spent = self.brakes.spent.lock();
        spent.unwrap_or_else(PoisonError::into_inner)
    }

    /// The heals of each policy, as they were written last.
    pub fn spent(&self) -> Result<BTreeMap<String, Spent>, StoreError> {
        let mut all = BTreeMap::new();
        for row in self.read()?.open_table(SPENT)?.iter()? {
            let (policy, spent) = row?;
            let entries = spent.value().chunks_exact(12).filter_map(|entry| {
                let (time, heals) = entry.split_first_chunk::<8>()?;
                let time = time_of(u64::from_le_bytes(*time))?;
                Some((time, u32::from_le_bytes(heals.try_into().ok()?)))
            });
            all.insert(policy.value().to_owned(), entries.collect());
        }
        Ok(all)
    }

    /// The version that is being put in place for each policy.
    pub fn activating(&self) -> Result<BTreeMap<String, String>, StoreError> {
        super::texts(&self.read()?, ACTIVATING)
    }

    /// A version is being put in place (`Some`), or is in place.
    pub fn set_activating(&self, policy: &str, version: Option<&str>) -> Result<(), StoreError> {
        self.change(|write| {
            let mut table = write.open_table(ACTIVATING)?;
            match version {
                Some(version) => table.insert(policy, version)?,
                None => table.remove(policy)?,
            };
            Ok(())
        })
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<PathBuf, HeldBrake>> {
        // Each entry is whole at any time.
        let waiting = self.brakes.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down how paths are braked; `None`: no more. One transaction for all of them.
    pub fn set_brakes(&self, brakes: &[(&Path, Option<HeldBrake>)]) -> Result<(), StoreError> {
        self.write(brakes, &BTreeMap::new())
    }

    fn write(
        &self,
        brakes: &[(&Path, Option<HeldBrake>)],
        spent: &BTreeMap<String, Spent>,
    ) -> Result<(), StoreError> {
        if brakes.is_empty() && spent.is_empty() {
            return Ok(());
        }
        self.change(|write| {
            let mut table = write.open_table(BRAKES)?;
            let mut contested = write.open_table(CONTESTED)?;
            for (path, brake) in brakes {
                let path = path.as_os_str().as_bytes();
                match brake {
                    Some(brake) => table.insert(path, (brake.row, millis(brake.not_before)))?,
                    None => table.remove(path)?,
                };
                match brake.and_then(|brake| brake.contested) {
                    Some(until) => contested.insert(path, millis(until))?,
                    None => contested.remove(path)?,
                };
            }
            let mut table = write.open_table(SPENT)?;
            for (policy, spent) in spent {
                let mut bytes = Vec::new();
                for (time, heals) in spent {
                    bytes.extend(millis(*time).to_le_bytes());
                    bytes.extend(heals.to_le_bytes());
                }
                table.insert(policy.as_str(), bytes.as_slice())?;
            }
            Ok(())
        })
    }

    /// The brakes of paths that `is_declared`, to be taken up at the start. Those of other paths, and those that have been over for longer
    /// than the longest back-off, are forgotten.
    pub fn brakes(
        &self,
        now: SystemTime,
        longest: Longest,
        is_declared: impl Fn(&Path) -> bool,
    ) -> Result<BTreeMap<PathBuf, HeldBrake>, StoreError> {
        let mut brakes = BTreeMap::new();
        let mut over = Vec::new();
        {
            let read = self.read()?;
            let no_later = |until: u64, longest: Duration| {
                let until = time_of(until).unwrap_or(now);
                until.min(now.checked_add(longest).unwrap_or(now))
            };
            let fought = read.open_table(CONTESTED)?;
            for row in read.open_table(BRAKES)?.iter()? {
                let (path, brake) = row?;
                let contested = fought.get(path.value())?;
                let contested = contested.map(|until| no_later(until.value(), longest.contested));
                let contested = contested.filter(|until| *until > now);
                let path = PathBuf::from(OsStr::from_bytes(path.value()));
                let (row, until) = brake.value();
                let not_before = no_later(until, longest.backoff);
                let is_over = contested.is_none()
                    && now
                        .duration_since(not_before)
                        .is_ok_and(|time| time > longest.backoff);
                if is_over || !is_declared(&path) {
                    over.push(path);
                    continue;
                }
                brakes.insert(
                    path,
                    HeldBrake {
                        row,
                        not_before,
                        contested,
                    },
                );
            }
        }
        let over: Vec<_> = over.iter().map(|path| (path.as_path(), None)).collect();
        self.set_brakes(&over)?;
        Ok(brakes)
    }
}

/// The brakes of all paths, as they were written last. Of a database in which nothing was braked yet there are none.
pub(super) fn all(
    read: &redb::ReadTransaction,
) -> Result<BTreeMap<PathBuf, HeldBrake>, redb::Error> {
    let (brakes, contested) = match (read.open_table(BRAKES), read.open_table(CONTESTED)) {
        (Ok(brakes), Ok(contested)) => (brakes, contested),
        (Err(redb::TableError::TableDoesNotExist(_)), _)
        | (_, Err(redb::TableError::TableDoesNotExist(_))) => return Ok(BTreeMap::new()),
        (Err(error), _) | (_, Err(error)) => return Err(error.into()),
    };
    let mut all = BTreeMap::new();
    for row in brakes.iter()? {
        let (path, brake) = row?;
        let (row, until) = brake.value();
        let until_contested = contested.get(path.value())?;
        let brake = HeldBrake {
            row,
            not_before: time_of(until).unwrap_or(SystemTime::UNIX_EPOCH),
            contested: until_contested.and_then(|until| time_of(until.value())),
        };
        all.insert(PathBuf::from(OsStr::from_bytes(path.value())), brake);
    }
    Ok(all)
}

fn time_of(millis: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}
