//! `cargo xtask sweep rival`.

use anyhow::Result;

/// Write another thing to a healed file ten times a second: heals stay within bounds, the agent costs little, and there is one alert.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long.
    #[arg(long, value_name = "COUNT", default_value_t = 600)]
    seconds: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    super::long(
        ("flow", "flow_rival::"),
        &[("DRIFT_RIVAL_SECONDS", &args.seconds.to_string())],
    )
}
