//! `cargo xtask bench`: figures that anyone can measure again, each beside what the machine can do at all and what others need.

mod calls;
mod cluster;
mod fleet;
mod floor;
mod heal;
mod measure;
mod memory;
mod noise;
mod observer;
mod overhead;
mod scan;
mod tree;
mod watcher;

use anyhow::Result;
use clap::Subcommand;

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench scan            drift-agent check of 100,000 files, beside b3sum and AIDE
  sudo -E cargo xtask bench cluster    three nodes: a policy applied, a drift told
  sudo -E cargo xtask bench fleet      500 agents while the API server goes and comes again
  cargo xtask bench scan -o json    the same for a program
  sudo -E cargo xtask bench heal    one file and a version of 100, beside the disk's own time
  sudo -E cargo xtask bench overhead   what being watched adds to system calls
  sudo -E cargo xtask bench noise      drift while other files are opened all the time
  sudo -E cargo xtask bench memory     what the agent holds with 10,000 declared files";

/// Measure drift beside what the machine can do at all and what others need.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Scan(scan::Args),
    Cluster(cluster::Args),
    Fleet(fleet::Args),
    Heal(heal::Args),
    /// The least that heals: what `heal` measures the agent against.
    #[command(hide = true)]
    Healer(heal::healer::Args),
    Overhead(overhead::Args),
    Noise(noise::Args),
    Memory(memory::Args),
    /// The least that a scan can cost: what `scan` measures the others against.
    #[command(hide = true)]
    Floor(floor::Args),
    /// The loops that `overhead` measures.
    #[command(hide = true)]
    Calls(calls::Args),
    /// The least that watching by inotify takes.
    #[command(hide = true)]
    Watcher(watcher::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.bench {
        Bench::Scan(args) => scan::run(args),
        Bench::Cluster(args) => cluster::run(args),
        Bench::Fleet(args) => fleet::run(args),
        Bench::Heal(args) => heal::run(args),
        Bench::Healer(args) => heal::healer::run(args),
        Bench::Floor(args) => floor::run(args),
        Bench::Overhead(args) => overhead::run(args),
        Bench::Noise(args) => noise::run(args),
        Bench::Memory(args) => memory::run(args),
        Bench::Calls(args) => calls::run(args),
        Bench::Watcher(args) => watcher::run(args),
    }
}
