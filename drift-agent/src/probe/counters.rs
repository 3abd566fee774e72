//! What the kernel half has sent and lost.

use aya::maps::{MapData, MapError, PerCpuArray};
use drift_common::abi::{Counter, Kind};

/// The per-CPU counters, summed.
pub struct Counters {
    map: PerCpuArray<MapData, u64>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<u64>);

impl Counters {
    pub(super) fn new(map: PerCpuArray<MapData, u64>) -> Self {
        Counters { map }
    }

    fn cell(&self, index: u32) -> Result<u64, MapError> {
        let cells = self.map.get(&index, 0)?;
        Ok(cells.iter().sum())
    }

    /// All that was lost since the programs were loaded, of every kind and cause: one look, to know whether [`Counters::all`] has anything to tell.
    pub fn lost(&self) -> Result<u64, MapError> {
        self.cell(Counter::LOSSES)
    }

    /// Every counter since the programs were loaded.
    pub fn all(&self) -> Result<Counts, MapError> {
        let cells: Result<_, _> = (0..Counter::CELLS).map(|index| self.cell(index)).collect();
        cells.map(Counts)
    }
}

impl Counts {
    #[must_use]
    pub fn of(&self, kind: Kind, counter: Counter) -> u64 {
        let cell = self.0.get(counter.cell(kind) as usize);
        cell.copied().unwrap_or(0)
    }

    /// What was lost since `before`, by cause and kind of change; nothing that is zero.
    pub fn losses_since(&self, before: &Counts) -> Vec<(Counter, Kind, u64)> {
        let causes = Counter::ALL.into_iter().filter(|counter| counter.is_loss());
        causes
            .flat_map(|counter| Kind::ALL.map(|kind| (counter, kind)))
            .filter_map(|(counter, kind)| {
                let lost = self
                    .of(kind, counter)
                    .saturating_sub(before.of(kind, counter));
                (lost > 0).then_some((counter, kind, lost))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_by_cause_and_kind_and_traffic_is_none() {
        let mut before = Counts(vec![0; Counter::CELLS as usize]);
        before.0[Counter::RingFull.cell(Kind::Close) as usize] = 5;
        let mut now = before.clone();
        now.0[Counter::RingFull.cell(Kind::Close) as usize] = 12;
        now.0[Counter::CallsFull.cell(Kind::Attr) as usize] = 1;
        now.0[Counter::Sent.cell(Kind::Write) as usize] = 99;
        now.0[Counter::Coalesced.cell(Kind::Write) as usize] = 99;
        assert_eq!(
            now.losses_since(&before),
            [
                (Counter::RingFull, Kind::Close, 7),
                (Counter::CallsFull, Kind::Attr, 1)
            ]
        );
        assert_eq!(now.losses_since(&now), []);
        assert_eq!(Counts::default().of(Kind::Exit, Counter::Coalesced), 0);
    }
}
