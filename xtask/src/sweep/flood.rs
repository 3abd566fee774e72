//! `cargo xtask sweep flood`: as many changes as a machine makes, and a reader that does not come.

/// Change 1,000 files 100,000 times while the agent is stopped for 5 s with a ring of 4 KiB, and 1,000,000 times by 16 writers: every change is accounted
/// for, every file is told as it is in the end. Takes some minutes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<()> {
    super::long(("flow", "flow_flood::"), &[("DRIFT_SWEEP", "1")])
}
