//! `cargo xtask bench cluster`: how soon three nodes have what their cluster says, and how soon it knows what has happened to them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::{
    build,
    kube::Kit,
    machine, setup,
    step::Step,
    workspace::{Profile, Workspace},
};

/// Measure the time from a policy that is applied to its files on each of three nodes; and from a drift to its heal, to the NodeDrift and to the Event.
///
/// The three agents run on this machine, each with mounts of its own, against an API server and an etcd of their own.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How often a policy is applied.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    applies: u32,
    /// How many drifts each node has: after ten an agent tells the cluster less often.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=6))]
    drifts: u32,
    /// The agent to measure [default: built here, optimised].
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let agent = match &args.agent {
        Some(agent) => agent.clone(),
        None => {
            let workspace = Workspace::find()?;
            build::probes(&workspace, &setup::ensure(&workspace)?)?;
            build::agent(&workspace, Profile::Release)?
        }
    };
    let numbers = [args.applies, args.drifts].map(|number| number.to_string());
    measured("drift-bench-cluster", &numbers, Some(&agent))
}

/// Runs a program of the tests' package, which measures, with the programs and keys for an API server of its own.
pub(super) fn measured(program: &str, arguments: &[String], agent: Option<&Path>) -> Result<()> {
    ensure!(
        machine::is_root(),
        "a cluster needs root: sudo -E cargo xtask bench …"
    );
    let workspace = Workspace::find()?;
    let step = Step::cargo("build what measures")
        .args(["build", "--release", "--package", "drift-tests"])
        .args(["--bin", program])
        .current_dir(&workspace.root);
    step.run()?;
    let kit = match Kit::new(&workspace)? {
        Ok(kit) => kit,
        Err(reason) => bail!("{reason}"),
    };
    let program = workspace
        .target
        .join(Profile::Release.folder())
        .join(program);
    let step = Step::new("measure", program)
        .args(arguments)
        .env("DRIFT_KUBE", kit.folder());
    let step = match agent {
        Some(agent) => step.env("DRIFT_AGENT", agent),
        None => step,
    };
    step.run()
}
