//! What the kernel half has sent and lost.

use std::{
    fs,
    os::fd::RawFd,
    sync::atomic::{AtomicU64, Ordering},
};

use aya::maps::{MapData, MapError, PerCpuArray};
use drift_common::abi::Counter;

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

impl Counters {
    pub(super) fn new(map: PerCpuArray<MapData, u64>, programs: Vec<RawFd>) -> Self {
        Counters {
            map,
            programs,
            missed: AtomicU64::new(0),
        }
    }

    /// All of one counter since the programs were loaded.
    pub fn read(&self, counter: Counter) -> Result<u64, MapError> {
        if counter == Counter::Missed {
            return Ok(self.missed.load(Ordering::Relaxed));
        }
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
    fn what_the_kernel_left_out_is_read_from_its_own_count() {
        let said = "pos:\t0\nprog_type:\t26\nrecursion_misses:\t17\nverified_insns:\t99\n";
        assert_eq!(missed_in(said), Some(17));
        assert_eq!(missed_in("pos:\t0\nprog_type:\t26\n"), None);
    }
}
