//! `cargo xtask sweep crash`.

use anyhow::Result;

/// Kill a heal, an activation, a rollback and a compaction at each of their system calls, in a process of their own, and in each process of a running agent:
/// afterwards it has happened, or it has not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Not each call, but every so manieth.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Of a running agent, this process alone: detector, keeper or restorer.
    #[arg(long, value_name = "NAME", value_parser = ["detector", "keeper", "restorer"])]
    process: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let every = args.every.to_string();
    let mut variables = vec![("DRIFT_SWEEP", &*every)];
    variables.extend(
        args.process
            .as_deref()
            .map(|name| ("DRIFT_SWEEP_PROCESS", name)),
    );
    super::long(("flow", "flow_crash::"), &variables)
}
