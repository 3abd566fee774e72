//! Time as the kernel half counts it: since boot, without the time in which the machine was suspended left out. In a time namespace of its own this process sees
//! that clock, and when processes started, moved by as much as the namespace says (time_namespaces(7)); the kernel half does not.

use std::{fs, sync::OnceLock};

use drift_common::abi::TICK_NS;
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, on the clock of the kernel half's events.
#[must_use]
pub fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let now = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(now - i128::from(moved_by())).unwrap_or(0)
}

/// Ticks since boot, as the kernel half counts them, from what /proc says.
pub(super) fn without_namespace(ticks: u64) -> u64 {
    ticks.saturating_add_signed(-(moved_by() / TICK_NS as i64))
}

/// By how many nanoseconds the clock that this process sees is moved.
fn moved_by() -> i64 {
    static MOVED: OnceLock<i64> = OnceLock::new();
    // A process does not leave its time namespace while it runs, and a kernel without the file has none.
    *MOVED.get_or_init(|| {
        let text = fs::read_to_string("/proc/self/timens_offsets");
        text.ok().and_then(|text| boottime(&text)).unwrap_or(0)
    })
}

/// From `boottime 1000 0`: seconds, nanoseconds.
fn boottime(text: &str) -> Option<i64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("boottime"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let of = |line: &str| boottime(&format!("monotonic           5         0\n{line}\n"));
        assert_eq!(
            of("boottime          1000         7"),
            Some(1_000_000_000_007)
        );
        assert_eq!(
            of("boottime           -10         0"),
            Some(-10_000_000_000)
        );
        assert_eq!(of("boottime             0"), None);
        assert_eq!(boottime(""), None);
        assert_eq!(of("boottime 9223372036854775807 0"), None);
    }
}
