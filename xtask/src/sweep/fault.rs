//! `cargo xtask sweep fault`.

use anyhow::Result;

/// Let each system call of a heal, an activation, a rollback and a compaction fail, once and for good, with each error: in a process of their own, and in each
/// process of a running agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Not each call, but every so manieth.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    super::long("flow_fault", "DRIFT_SWEEP", &args.every.to_string())
}
