//! `cargo xtask sweep`: the random tests, for as long as somebody has time, with another seed each time.

use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result};

use crate::{step::Step, workspace::Workspace};

const EXAMPLES: &str = "\
Examples:
  sudo -E cargo xtask sweep                        10,000 sequences; another seed each time
  sudo -E cargo xtask sweep --seed 1 --sequences 5 the same again

It prints what was compared, and the seed. A failure is made small before it is shown.";

/// Do random things to a tree, and hold what the agent finds against a model: nothing missed, nothing false.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Sequences of operations, each on a tree and a declaration of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    sequences: u32,
    /// What the sequences are made from [default: the time].
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let seed = match args.seed {
        Some(seed) => seed,
        None => UNIX_EPOCH
            .elapsed()
            .context("a clock before 1970")?
            .as_secs(),
    };
    let sequences = args.sequences;
    Step::cargo(format!(
        "hold the agent against the oracle ({sequences} sequences)"
    ))
    .args(["test", "--package", "drift-tests", "--test", "flow_oracle"])
    .args(["--", "--nocapture"])
    .env("DRIFT_ORACLE_SEQUENCES", sequences.to_string())
    .env("DRIFT_ORACLE_SEED", seed.to_string())
    .hint(format!(
        "Type `cargo xtask sweep --sequences {sequences} --seed {seed}` for the same sequences."
    ))
    .current_dir(&workspace.root)
    .run()
}
