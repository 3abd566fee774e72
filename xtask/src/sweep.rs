//! `cargo xtask sweep`: far more of the random and the systematic tests than the tests themselves try.

mod cluster;
mod crash;
mod evasion;
mod fault;
mod flood;
mod fuzz;
mod oracle;
mod power;
mod race;
mod rival;

use anyhow::{Result, bail};

use crate::{
    build, setup,
    step::Step,
    test,
    workspace::{Profile, Workspace},
};

const EXAMPLES: &str = "\
Examples:
  sudo -E cargo xtask sweep oracle               10,000 sequences; another seed each time
  cargo xtask sweep oracle --seed 1 --sequences 5   the same again
  TMPDIR=/dev/shm cargo xtask sweep crash        kill each operation at each of its calls
  TMPDIR=/dev/shm cargo xtask sweep fault        let each call fail, once and for good
  sudo -E cargo xtask sweep evasion              every technique 20 times, docs/evasion.md anew
  sudo -E cargo xtask sweep flood                a million changes; some minutes
  cargo xtask sweep fuzz                         any bytes for each parser, five minutes each
  sudo -E cargo xtask sweep power --cuts 1000    cut the power of the disk at any moment
  sudo -E cargo xtask sweep cluster --faults 1000   what goes wrong with an API server
  sudo -E cargo xtask sweep race                 a million heals among eight attackers
  sudo -E cargo xtask sweep rival                a rival for ten minutes

Each takes from ten minutes to some hours. The tests themselves try a few of each.";

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
    Cluster(cluster::Args),
    Crash(crash::Args),
    Fault(fault::Args),
    Flood(flood::Args),
    Fuzz(fuzz::Args),
    Evasion(evasion::Args),
    Power(power::Args),
    Race(race::Args),
    Rival(rival::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Oracle(args) => oracle::run(args),
        What::Cluster(args) => cluster::run(args),
        What::Crash(args) => crash::run(args),
        What::Fault(args) => fault::run(args),
        What::Flood(args) => flood::run(args),
        What::Fuzz(args) => fuzz::run(args),
        What::Evasion(args) => evasion::run(args),
        What::Power(args) => power::run(args),
        What::Race(args) => race::run(args),
        What::Rival(args) => rival::run(args),
    }
}

/// Runs the tests of a program, those whose name begins so, with all that they can try, on an agent as it is shipped. Programs that they need are installed where
/// that is possible.
fn long((program, tests): (&str, &str), variables: &[(&str, &str)]) -> Result<()> {
    let workspace = Workspace::find()?;
    let toolchain = setup::ensure(&workspace)?;
    build::probes(&workspace, &toolchain)?;
    let agent = build::agent(&workspace, Profile::Release)?;
    let missing = test::install_programs();
    if !missing.is_empty() {
        bail!("not installed: {}", missing.join(", "));
    }
    let step = Step::cargo("sweep")
        .args(["test", "--package", "drift-tests", "--test", program])
        .args(["--", tests, "--nocapture", "--test-threads=1"]);
    let with = |step: Step, (name, value): &(&str, &str)| step.env(name, value);
    let step = variables.iter().fold(step, with);
    step.env("DRIFT_AGENT", &agent)
        .env("DRIFT_PROBES", workspace.probes())
        .current_dir(&workspace.root)
        .run()
}
