//! `cargo xtask sweep`: every point at which something can go wrong, not a few of them as in the tests.

use anyhow::Result;

use crate::{
    build, setup,
    step::Step,
    workspace::{Profile, Workspace},
};

const EXAMPLES: &str = "\
Examples:
  cargo xtask sweep crash                      kill a change of versions at each of its calls
  TMPDIR=/dev/shm cargo xtask sweep fault      let each call fail, once and for good, with each error

Takes from half an hour to some hours. The tests themselves try a few points all over.";

/// Try every point at which something can go wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    what: What,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// A change of versions that is killed.
    Crash,
    /// A change of versions in which a call fails.
    Fault,
}

impl What {
    /// The test that does it.
    const fn test(self) -> &'static str {
        match self {
            What::Crash => "flow_crash",
            What::Fault => "flow_fault",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let toolchain = setup::ensure(&workspace)?;
    build::probes(&workspace, &toolchain)?;
    let agent = build::agent(&workspace, Profile::Release)?;
    Step::cargo("sweep")
        .args(["test", "--package", "drift-tests", "--test"])
        .arg(args.what.test())
        .args(["--", "--nocapture"])
        .env("DRIFT_SWEEP", "1")
        .env("DRIFT_AGENT", &agent)
        .env("DRIFT_PROBES", workspace.probes())
        .current_dir(&workspace.root)
        .run()
}
