//! `cargo xtask sweep fault`.

use anyhow::Result;

/// Let each system call of a change of versions fail, once and for good, with each error.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    super::every_point("flow_fault")
}
