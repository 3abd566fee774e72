//! `cargo xtask sweep evasion`.

use anyhow::Result;

use crate::{
    build, setup,
    step::Step,
    workspace::{Profile, Workspace},
};

/// Change files in every way that somebody may hope nobody sees, and write down what the agent made of it (docs/evasion.md).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files for each technique on each file system.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    runs: u32,
    /// Print the table, and leave docs/evasion.md as it is.
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find()?;
    let toolchain = setup::ensure(&workspace)?;
    build::probes(&workspace, &toolchain)?;
    let agent = build::agent(&workspace, Profile::Release)?;
    let mut step = Step::cargo("sweep")
        .args(["test", "--package", "drift-tests", "--test", "flow_evasion"])
        .args(["--", "--nocapture"])
        .env("DRIFT_EVASION_RUNS", args.runs.to_string())
        .env("DRIFT_AGENT", &agent)
        .env("DRIFT_PROBES", workspace.probes())
        .current_dir(&workspace.root);
    if !args.print {
        step = step.env(
            "DRIFT_EVASION_PAGE",
            workspace.root.join("docs").join("evasion.md"),
        );
    }
    step.run()
}
