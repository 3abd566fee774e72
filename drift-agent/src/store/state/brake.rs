//! The brakes of paths: back-off that a restart does not release.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use redb::{ReadableTable, TableDefinition};

use super::{State, millis};
use crate::store::StoreError;

/// By path: heals in a row, and not before when to heal again, in milliseconds since 1970.
pub(super) const BRAKES: TableDefinition<&[u8], (u32, u64)> = TableDefinition::new("brakes");

/// The brake of a path, in a form that outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBrake {
    /// Heals in a row.
    pub row: u32,
    /// When it may be healed again.
    pub not_before: SystemTime,
}

impl State {
    /// Writes down how paths are braked; `None`: no more. One transaction for all of them.
    pub fn set_brakes(&self, brakes: &[(&Path, Option<HeldBrake>)]) -> Result<(), StoreError> {
        if brakes.is_empty() {
            return Ok(());
        }
        self.change(|write| {
            let mut table = write.open_table(BRAKES)?;
            for (path, brake) in brakes {
                let path = path.as_os_str().as_bytes();
                match brake {
                    Some(brake) => {
                        table.insert(path, (brake.row, millis(brake.not_before)))?;
                    }
                    None => {
                        table.remove(path)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// The brakes of paths that `is_declared`, to be taken up at the start. Those of other paths, and those that have been over for longer
    /// than `longest`, the longest wait there is, are forgotten. None holds for longer than that, even if the clock was set back.
    pub fn brakes(
        &self,
        now: SystemTime,
        longest: Duration,
        is_declared: impl Fn(&Path) -> bool,
    ) -> Result<BTreeMap<PathBuf, HeldBrake>, StoreError> {
        let mut brakes = BTreeMap::new();
        let mut over = Vec::new();
        {
            let read = self.read()?;
            for row in read.open_table(BRAKES)?.iter()? {
                let (path, brake) = row?;
                let path = PathBuf::from(OsStr::from_bytes(path.value()));
                let (row, until) = brake.value();
                let until = SystemTime::UNIX_EPOCH
                    .checked_add(Duration::from_millis(until))
                    .unwrap_or(now);
                let is_over = now.duration_since(until).is_ok_and(|time| time > longest);
                if is_over || !is_declared(&path) {
                    over.push(path);
                    continue;
                }
                let not_before = until.min(now.checked_add(longest).unwrap_or(now));
                brakes.insert(path, HeldBrake { row, not_before });
            }
        }
        let over: Vec<_> = over.iter().map(|path| (path.as_path(), None)).collect();
        self.set_brakes(&over)?;
        Ok(brakes)
    }
}
