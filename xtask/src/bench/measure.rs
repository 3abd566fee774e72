//! What a program costs: the time on the wall, the processors' time, the memory it had at most.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use wait4::Wait4 as _;

use crate::{shell, step};

/// One run of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) wall: Duration,
    /// Of all its threads, in user space and in the kernel.
    pub(super) cpu: Duration,
    /// Bytes.
    pub(super) rss: u64,
}

/// Runs `command` to its end; what it says is not shown. It must end with 0.
pub(super) fn once(command: &mut Command) -> Result<Cost> {
    let rendered = shell::render(command);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("cannot run: {rendered}"))?;
    let used = child.wait4().with_context(|| rendered.clone())?;
    let wall = start.elapsed();
    if !used.status.success() {
        bail!("{}: {rendered}", step::ended(used.status));
    }
    Ok(Cost {
        wall,
        cpu: used.rusage.utime + used.rusage.stime,
        rss: used.rusage.maxrss,
    })
}

/// The median of each figure by itself. Of an even number, the greater one of the two.
pub(super) fn median(costs: &[Cost]) -> Cost {
    fn middle<T: Copy + Ord + Default>(costs: &[Cost], figure: impl Fn(&Cost) -> T) -> T {
        let mut figures: Vec<T> = costs.iter().map(figure).collect();
        figures.sort_unstable();
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    }
    Cost {
        wall: middle(costs, |cost| cost.wall),
        cpu: middle(costs, |cost| cost.cpu),
        rss: middle(costs, |cost| cost.rss),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_its_own_median() {
        let cost = |wall, cpu, rss| Cost {
            wall: Duration::from_secs(wall),
            cpu: Duration::from_secs(cpu),
            rss,
        };
        let median = median(&[cost(9, 1, 5), cost(1, 2, 6), cost(5, 3, 4)]);
        assert_eq!(
            (median.wall, median.cpu, median.rss),
            (Duration::from_secs(5), Duration::from_secs(2), 5)
        );
    }

    #[test]
    fn a_program_is_measured_and_one_that_fails_is_said() {
        let mut burns = Command::new("sh");
        burns.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let cost = once(&mut burns).unwrap();
        assert!(
            cost.cpu > Duration::ZERO && cost.rss > 100 << 10,
            "{cost:?}"
        );
        let failed = once(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(failed.to_string(), "exit status 3: sh -c 'exit 3'");
    }
}
