//! `cargo xtask sweep`: far more of the random and the systematic tests than the tests themselves try.

mod crash;
mod evasion;
mod fault;
mod oracle;

use anyhow::Result;

use crate::{
    build, setup,
    step::Step,
    workspace::{Profile, Workspace},
};

const EXAMPLES: &str = "\
Examples:
  sudo -E cargo xtask sweep oracle               10,000 sequences; another seed each time
  cargo xtask sweep oracle --seed 1 --sequences 5   the same again
  cargo xtask sweep crash                        kill a change of versions at each of its calls
  TMPDIR=/dev/shm cargo xtask sweep fault       let each call fail, once and for good
  sudo -E cargo xtask sweep evasion              every technique 20 times, docs/evasion.md anew

Each takes from half an hour to some hours, the last one ten minutes. The tests themselves try a few of
the first two, and each technique once.";

/// Try what can go wrong for as long as somebody has time, not a few times as the tests do.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Oracle(oracle::Args),
    Crash(crash::Args),
    Fault(fault::Args),
    Evasion(evasion::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Oracle(args) => oracle::run(args),
        What::Crash(args) => crash::run(args),
        What::Fault(args) => fault::run(args),
        What::Evasion(args) => evasion::run(args),
    }
}

/// Runs a test of a change of versions at every point there is, on an agent as it is shipped.
fn every_point(test: &str) -> Result<()> {
    let workspace = Workspace::find()?;
    let toolchain = setup::ensure(&workspace)?;
    build::probes(&workspace, &toolchain)?;
    let agent = build::agent(&workspace, Profile::Release)?;
    Step::cargo("sweep")
        .args(["test", "--package", "drift-tests", "--test", test])
        .args(["--", "--nocapture"])
        .env("DRIFT_SWEEP", "1")
        .env("DRIFT_AGENT", &agent)
        .env("DRIFT_PROBES", workspace.probes())
        .current_dir(&workspace.root)
        .run()
}
