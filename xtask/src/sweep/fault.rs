//! `cargo xtask sweep fault`.

use anyhow::Result;

/// Let each system call of a heal, an activation, a rollback and a compaction fail, once and for good, with each error.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    super::long("flow_fault", "DRIFT_SWEEP", "1")
}
