//! `cargo xtask bench fleet`: many agents, and one API server that goes and comes again.

use anyhow::Result;

use super::cluster::measured;

/// Count what many agents ask of their API server: in quiet times, while it is away, and when it is there again.
///
/// Each is the agent's own way to and from a cluster (what it watches, and what it writes of its node), all of them in one process; what they would look at and
/// heal is not there. What they ask is counted on its way.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1000))]
    agents: u32,
    /// Seconds of quiet times. Ten minutes show what is done every few minutes.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(10..=7200))]
    quiet: u32,
    /// Seconds for which the API server is away.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    away: u32,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let numbers = [args.agents, args.quiet, args.away].map(|number| number.to_string());
    measured("drift-bench-fleet", &numbers, None)
}
