//! `cargo xtask sweep power`.

use anyhow::Result;

/// Cut the power of ext4 and xfs while a file is healed or a version activated: what was reported is there afterwards, and everything is whole.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Cuts of all file systems together.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    cuts: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    super::long(
        ("flow", "flow_power::"),
        &[("DRIFT_CUTS", &args.cuts.to_string())],
    )
}
