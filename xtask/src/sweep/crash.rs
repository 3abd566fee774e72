//! `cargo xtask sweep crash`.

use anyhow::Result;

/// Kill a change of versions at each of its system calls: afterwards it has happened, or it has not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    super::every_point("flow_crash")
}
