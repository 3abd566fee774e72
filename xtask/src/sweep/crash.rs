//! `cargo xtask sweep crash`.

use anyhow::Result;

/// Kill a heal, an activation, a rollback and a compaction at each of their system calls: afterwards it has happened, or it has not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    super::long("flow_crash", "DRIFT_SWEEP", "1")
}
