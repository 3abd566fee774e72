//! What the kernel half has sent and lost.

use aya::maps::{MapData, MapError, PerCpuArray};
use drift_common::abi::Counter;

/// The per-CPU counters, summed.
pub struct Counters {
    map: PerCpuArray<MapData, u64>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

impl Counters {
    pub(super) fn new(map: PerCpuArray<MapData, u64>) -> Self {
        Counters { map }
    }

    /// All of one counter since the programs were loaded.
    pub fn read(&self, counter: Counter) -> Result<u64, MapError> {
        let cells = self.map.get(&(counter as u32), 0)?;
        Ok(cells.iter().sum())
    }

    /// All that was lost, of every cause.
    pub fn lost(&self) -> Result<u64, MapError> {
        Counter::ALL
            .into_iter()
            .filter(|counter| counter.is_loss())
            .map(|counter| self.read(counter))
            .sum()
    }
}
