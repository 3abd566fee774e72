//! `cargo xtask sweep race`.

use anyhow::Result;

/// Heal while eight attackers swap links, mounts, parents and names: nothing else is written, and nobody sees a wrong owner or mode.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Heals.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    heals: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    super::long(
        ("flow_race", ""),
        &[("DRIFT_HEALS", &args.heals.to_string())],
    )
}
