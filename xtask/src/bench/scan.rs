//! `cargo xtask bench scan`: `drift-agent check` of many small files, warm in the cache.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use serde_json::json;

use super::{
    floor::What,
    measure::{self, Cost},
    tree::Tree,
};
use crate::{
    apt, build,
    interrupt::Interrupt,
    machine,
    workspace::{Profile, Workspace},
};

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench scan                  100,000 files; some minutes, most of them AIDE's
  cargo xtask bench scan --files 10000    fewer
  cargo xtask bench scan -o json          for a program";

/// Measure `drift-agent check` of many small files, warm in the cache.
///
/// Beside it: opening, reading and closing them (the floor of a full check), asking for their times (that of one that finds nothing changed), and `b3sum -c`
/// and `aide --check` of the same files. Makes the files in a scratch folder and removes them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How many files.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Runs of each program, after one that does not count. AIDE has two.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Where the scratch folder is made [default: where the system keeps temporary files].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The agent to measure [default: built here, optimised].
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Leave out others' programs.
    #[arg(long)]
    alone: bool,
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// More would measure patience.
const RUNS_OF_AIDE: u32 = 2;

/// A program that is measured.
struct Entrant {
    name: &'static str,
    command: Command,
    /// The name of what it is held against.
    floor: &'static str,
    runs: u32,
    costs: Vec<Cost>,
}

const READ: &str = "open + read + close, 2 threads";
const STAT: &str = "stat, 2 threads";

pub(super) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let agent = match &args.agent {
        Some(agent) => agent.clone(),
        None => build::agent(&Workspace::find()?, Profile::Release)?,
    };
    let mut missing = Vec::new();
    let others: &[&str] = if args.alone { &[] } else { &["b3sum", "aide"] };
    for package in others {
        if machine::which(package).is_none() && apt::may_install() {
            // Not being there is said below.
            if let Err(error) = apt::install(&[package]) {
                eprintln!("warning: {error:#}");
            }
        }
        if machine::which(package).is_none() {
            missing.push(*package);
        }
    }
    let scratch = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    }
    .context("making a scratch folder")?;
    eprintln!("==> make {} files", args.files);
    let tree = Tree::make(scratch.path(), args.files as usize)?;
    let has = |package| others.contains(&package) && !missing.contains(&package);
    let mut entrants = entrants(&tree, &agent, scratch.path(), args.runs)?;
    if has("b3sum") {
        entrants.push(b3sum(&tree, args.runs));
    }
    if has("aide") {
        eprintln!("==> let AIDE make its database");
        measure::once(aide(&tree).arg("--init"))?;
        let mut check = aide(&tree);
        check.arg("--check");
        let runs = args.runs.min(RUNS_OF_AIDE);
        entrants.push(Entrant::new("aide --check", check, READ, runs));
    }
    // In turns, so that a disturbance does not hit one of them alone.
    for run in 0..=args.runs {
        eprintln!("==> run {run} of {}", args.runs);
        for entrant in &mut entrants {
            interrupt.check()?;
            if run <= entrant.runs {
                let cost = measure::once(&mut entrant.command)?;
                if run > 0 {
                    entrant.costs.push(cost);
                }
            }
        }
    }
    let rows = rows(&entrants)?;
    match args.output {
        Output::Table => print!("{}", table(&tree, &rows)),
        Output::Json => println!("{:#}", as_json(&tree, &rows)),
    }
    for package in missing {
        eprintln!("not measured: {package} is not installed and cannot be installed from here");
    }
    Ok(())
}

impl Entrant {
    fn new(name: &'static str, command: Command, floor: &'static str, runs: u32) -> Entrant {
        Entrant {
            name,
            command,
            floor,
            runs,
            costs: Vec::new(),
        }
    }
}

/// Those that are on every machine.
fn entrants(tree: &Tree, agent: &Path, scratch: &Path, runs: u32) -> Result<Vec<Entrant>> {
    let this = env::current_exe().context("finding this program")?;
    let floor = |what: What| {
        let mut command = Command::new(&this);
        command.args(["bench", "floor", what.name()]);
        command.arg(tree.root()).arg(tree.files.to_string());
        command
    };
    let check = |arguments: &[&str]| {
        let mut command = Command::new(agent);
        command.arg("check").arg("--policies").arg(tree.policies());
        command.args(arguments);
        // What it keeps goes with the scratch folder.
        command.env("XDG_CACHE_HOME", scratch.join("cache"));
        command
    };
    ensure!(agent.is_file(), "there is no agent at {}", agent.display());
    Ok(vec![
        Entrant::new(READ, floor(What::Read), READ, runs),
        Entrant::new("drift-agent check --full", check(&["--full"]), READ, runs),
        Entrant::new(STAT, floor(What::Stat), STAT, runs),
        Entrant::new("drift-agent check", check(&[]), STAT, runs),
    ])
}

fn b3sum(tree: &Tree, runs: u32) -> Entrant {
    let mut command = Command::new("b3sum");
    command.args(["--check", "--quiet"]).arg(tree.sums());
    Entrant::new("b3sum -c", command, READ, runs)
}

fn aide(tree: &Tree) -> Command {
    let mut command = Command::new("aide");
    command.arg("--config").arg(tree.aide_settings());
    command
}

/// One program's medians.
struct Row {
    name: &'static str,
    median: Cost,
    best: Duration,
    floor: &'static str,
    /// Times the floor's time.
    ratio: f64,
}

fn rows(entrants: &[Entrant]) -> Result<Vec<Row>> {
    let wall_of = |name| {
        let entrant = entrants.iter().find(|entrant| entrant.name == name);
        let entrant = entrant.context("a floor is measured too")?;
        Ok::<_, anyhow::Error>(measure::median(&entrant.costs).wall)
    };
    entrants
        .iter()
        .map(|entrant| {
            let median = measure::median(&entrant.costs);
            let best = entrant.costs.iter().map(|cost| cost.wall).min();
            Ok(Row {
                name: entrant.name,
                median,
                best: best.unwrap_or_default(),
                floor: entrant.floor,
                ratio: median.wall.as_secs_f64() / wall_of(entrant.floor)?.as_secs_f64(),
            })
        })
        .collect()
}

fn table(tree: &Tree, rows: &[Row]) -> String {
    let mut table = format!(
        "{} files, {} MiB, warm in the cache; medians, and the best run\n\n {:<32} {:>9} {:>9} {:>10} {:>9} {:>12}\n",
        tree.files,
        tree.bytes >> 20,
        "",
        "time",
        "best",
        "user+sys",
        "memory",
        "times floor"
    );
    for row in rows {
        let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
        table.push_str(&format!(
            " {:<32} {:>9} {:>9} {:>10} {:>9} {:>12}\n",
            row.name,
            seconds(row.median.wall),
            seconds(row.best),
            seconds(row.median.cpu),
            format!("{:.0} MiB", row.median.rss as f64 / f64::from(1 << 20)),
            format!("{:.1}", row.ratio),
        ));
    }
    table.push_str(&format!(
        "\nThe floor of `drift-agent check` is \"{STAT}\", of all others \"{READ}\".\n"
    ));
    table
}

fn as_json(tree: &Tree, rows: &[Row]) -> serde_json::Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "wall_s": row.median.wall.as_secs_f64(),
                "best_wall_s": row.best.as_secs_f64(),
                "cpu_s": row.median.cpu.as_secs_f64(),
                "rss_bytes": row.median.rss,
                "floor": row.floor,
                "times_floor": row.ratio,
            })
        })
        .collect();
    json!({"files": tree.files, "bytes": tree.bytes, "results": rows})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_is_held_against_its_own_floor() {
        let entrant = |name, floor, seconds: &[u64]| Entrant {
            costs: seconds
                .iter()
                .map(|seconds| Cost {
                    wall: Duration::from_secs(*seconds),
                    ..Cost::default()
                })
                .collect(),
            ..Entrant::new(name, Command::new("true"), floor, 3)
        };
        let entrants = [
            entrant(READ, READ, &[4, 4, 5]),
            entrant("full", READ, &[8, 6, 9]),
            entrant(STAT, STAT, &[1, 2, 1]),
            entrant("quick", STAT, &[3, 3, 3]),
        ];
        let rows = rows(&entrants).unwrap();
        let ratios: Vec<f64> = rows.iter().map(|row| row.ratio).collect();
        assert_eq!(ratios, [1.0, 2.0, 1.0, 3.0]);
        assert_eq!(rows[1].best, Duration::from_secs(6));
    }
}
