//! `cargo xtask sweep fault`.

use anyhow::Result;

/// Let each system call of a heal, an activation, a rollback and a compaction fail, once and for good, with each error: in a process of their own, and in each
/// process of a running agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Not each call, but every so manieth. With 12 each call fails in one of the twelve ways.
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
    super::long(("flow", "flow_fault::"), &variables)
}
