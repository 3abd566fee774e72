//! `cargo xtask sweep crash`.

use anyhow::Result;

/// Kill a heal, an activation, a rollback and a compaction at each of their system calls, in a process of their own, and in each process of a running agent:
/// afterwards it has happened, or it has not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Not each call, but every so manieth.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    super::long("flow_crash", "DRIFT_SWEEP", &args.every.to_string())
}
