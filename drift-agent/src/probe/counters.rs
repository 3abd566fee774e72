//! What the kernel half has sent and lost.

use std::{
    fs,
    os::fd::RawFd,
    sync::atomic::{AtomicU64, Ordering},
};

use aya::maps::{MapData, MapError, PerCpuArray};
use drift_common::abi::{Counter, Kind};

/// The per-CPU counters, summed.
pub struct Counters {
    map: PerCpuArray<MapData, u64>,
    /// Programs that the kernel may leave out, by their descriptors, which stay open as long as the programs are attached.
    programs: Vec<RawFd>,
    /// How often it has.
    missed: AtomicU64,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    cells: Vec<u64>,
    missed: u64,
}

impl Counters {
    pub(super) fn new(map: PerCpuArray<MapData, u64>, programs: Vec<RawFd>) -> Self {
        Counters {
            map,
            programs,
            missed: AtomicU64::new(0),
        }
    }

    fn cell(&self, index: u32) -> Result<u64, MapError> {
        let cells = self.map.get(&index, 0)?;
        Ok(cells.iter().sum())
    }

    /// All that was lost since the programs were loaded, of every kind and cause: one look, to know whether [`Counters::all`] has anything to tell.
    pub fn lost(&self) -> Result<u64, MapError> {
        Ok(self.cell(Counter::LOSSES)? + self.missed.load(Ordering::Relaxed))
    }

    /// Every counter since the programs were loaded.
    pub fn all(&self) -> Result<Counts, MapError> {
        let cells: Result<_, _> = (0..Counter::CELLS).map(|index| self.cell(index)).collect();
        Ok(Counts {
            cells: cells?,
            missed: self.missed.load(Ordering::Relaxed),
        })
    }

    /// Asks the kernel how often it left programs out; true when it has since this was asked last. A program that is interrupted by another task (as in kernels
    /// that preempt themselves) is not begun a second time on that processor.
    pub fn look_for_missed(&self) -> bool {
        let missed = self
            .programs
            .iter()
            .filter_map(|fd| fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok())
            .filter_map(|said| missed_in(&said))
            .sum();
        self.missed.swap(missed, Ordering::Relaxed) != missed
    }
}

impl Counts {
    #[must_use]
    pub fn of(&self, kind: Kind, counter: Counter) -> u64 {
        let cell = self.cells.get(counter.cell(kind) as usize);
        cell.copied().unwrap_or(0)
    }

    /// What was lost since `before`, by cause and kind of change; nothing that is zero. Of programs that the kernel left out nobody knows what they would have seen.
    pub fn losses_since(&self, before: &Counts) -> Vec<(Counter, Option<Kind>, u64)> {
        let causes = Counter::ALL.into_iter().filter(|counter| counter.is_loss());
        let by_kind = causes
            .flat_map(|counter| Kind::ALL.map(|kind| (counter, kind)))
            .map(|(counter, kind)| {
                let lost = self
                    .of(kind, counter)
                    .saturating_sub(before.of(kind, counter));
                (counter, Some(kind), lost)
            });
        let missed = self.missed.saturating_sub(before.missed);
        by_kind
            .chain([(Counter::Missed, None, missed)])
            .filter(|(.., lost)| *lost > 0)
            .collect()
    }
}

/// From a program's page in `/proc/self/fdinfo`; kernels before 5.12 leave nothing out and do not say.
fn missed_in(said: &str) -> Option<u64> {
    said.lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))
        .and_then(|number| number.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_by_cause_and_kind_and_traffic_is_none() {
        let mut before = Counts {
            cells: vec![0; Counter::CELLS as usize],
            missed: 1,
        };
        before.cells[Counter::RingFull.cell(Kind::Close) as usize] = 5;
        let mut now = before.clone();
        now.cells[Counter::RingFull.cell(Kind::Close) as usize] = 12;
        now.cells[Counter::CallsFull.cell(Kind::Attr) as usize] = 1;
        now.cells[Counter::Sent.cell(Kind::Write) as usize] = 99;
        now.cells[Counter::Coalesced.cell(Kind::Write) as usize] = 99;
        now.missed = 3;
        assert_eq!(
            now.losses_since(&before),
            [
                (Counter::RingFull, Some(Kind::Close), 7),
                (Counter::CallsFull, Some(Kind::Attr), 1),
                (Counter::Missed, None, 2)
            ]
        );
        assert_eq!(now.losses_since(&now), []);
        assert_eq!(Counts::default().of(Kind::Exit, Counter::Coalesced), 0);
    }

    #[test]
    fn what_the_kernel_left_out_is_read_from_its_own_count() {
        let said = "pos:\t0\nprog_type:\t26\nrecursion_misses:\t17\nverified_insns:\t99\n";
        assert_eq!(missed_in(said), Some(17));
        assert_eq!(missed_in("pos:\t0\nprog_type:\t26\n"), None);
    }
}
