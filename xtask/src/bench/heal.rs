//! `cargo xtask bench heal`: from a change to its end, beside what the disk takes and what the least healer takes.

mod agent;
mod disk;
mod figure;
pub(super) mod healer;

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use serde_json::json;

use crate::{
    build,
    interrupt::Interrupt,
    setup,
    workspace::{Profile, Workspace},
};

use self::{
    agent::Agent,
    disk::{Disk, Many},
    figure::Figure,
    healer::Healer,
};

const EXAMPLES: &str = "\
Examples:
  sudo -E cargo xtask bench heal                 1000 heals, 100 activations and rollbacks
  sudo -E cargo xtask bench heal --dir /var/tmp  on another disk
  sudo -E cargo xtask bench heal -o json         for a program";

/// Measure how long healing takes, with all its syncs, verification and journal.
///
/// One file of 1 KiB is written by somebody else and healed; a version of 100 files is activated and rolled back. Beside them, in turns: the same syncs alone
/// (the floor), and a healer of fifty lines that does nothing but wait, compare and write with the same syncs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Heals of one file.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    heals: u32,
    /// Activations, and as many rollbacks.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    switches: u32,
    /// Files of a version.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    files: u32,
    /// Where the scratch folder is made: figures are those of its disk [default: where the system keeps temporary files].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The agent to measure [default: built here, optimised].
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Bytes of a file.
const SIZE: usize = 1024;

/// Of each entrant, before the next one has its turn.
const TURN: u32 = 25;

/// What a file holds in a version.
fn content(file: u32, version: u32) -> Vec<u8> {
    let mut content = format!("# file {file} of version {version}\n").into_bytes();
    content.resize(SIZE - 1, b'.');
    content.push(b'\n');
    content
}

pub(super) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let agent = match &args.agent {
        Some(agent) => fs::canonicalize(agent)
            .with_context(|| format!("there is no agent at {}", agent.display()))?,
        None => {
            let workspace = Workspace::find()?;
            let toolchain = setup::ensure(&workspace)?;
            build::probes(&workspace, &toolchain)?;
            build::agent(&workspace, Profile::Release)?
        }
    };
    let scratch = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    }
    .context("making a scratch folder")?;
    let one = one_file(args, &agent, scratch.path(), &interrupt)?;
    let many = many_files(args, &agent, scratch.path(), &interrupt)?;
    match args.output {
        Output::Table => {
            println!(
                "a file of {SIZE} bytes, {} times: from the writer's close to the line that says it is healed\n",
                args.heals
            );
            print!("{}", figure::table(&one));
            println!(
                "\na version of {} files of {SIZE} bytes, {} times: from the start of the command to its end\n",
                args.files, args.switches
            );
            print!("{}", figure::table(&many));
        }
        Output::Json => println!(
            "{:#}",
            json!({"bytes": SIZE, "files": args.files, "one": figure::as_json(&one), "version": figure::as_json(&many)})
        ),
    }
    Ok(())
}

const FLOOR: &str = "write + fsync + rename + fsync of the directory";
const MINIMAL: &str = "a minimal healer with these syncs";
const SAME_SYNCS: &str = "the same syncs alone, the files' 8 at a time";

fn one_file(
    args: &Args,
    agent: &Path,
    scratch: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<Figure>> {
    let folder = |name: &str| {
        let folder = scratch.join("one").join(name);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    let declared = content(0, 1);
    let other = content(0, 2);
    let disk = Disk::new(&folder("floor")?)?;
    let this = env::current_exe().context("finding this program")?;
    let mut minimal = Healer::start(&this, &folder("minimal")?, &declared)?;
    let mut drift = Agent::start(agent, &folder("drift")?, 1, interrupt)?;
    let [mut floor, mut least, mut told, mut healed] = [(); 4].map(|()| Vec::new());
    // The first turn does not count.
    let turns = 1 + args.heals.div_ceil(TURN);
    for turn in 0..turns {
        interrupt.check()?;
        for round in 0..TURN {
            let bytes = if round % 2 == 0 { &declared } else { &other };
            floor.push(disk.replace(bytes)?);
        }
        for _ in 0..TURN {
            least.push(minimal.heal(&other)?);
        }
        for _ in 0..TURN {
            let (seen, done) = drift.heal(&other)?;
            told.push(seen);
            healed.push(done);
        }
        if turn == 0 {
            for times in [&mut floor, &mut least, &mut told, &mut healed] {
                times.clear();
            }
        }
    }
    drift.stop()?;
    let least = Figure::new(MINIMAL, least);
    Ok(vec![
        Figure::new(FLOOR, floor),
        Figure::new("drift-agent: told as a drift", told).beside(&least),
        Figure::new("drift-agent: healed", healed).beside(&least),
        least,
    ])
}

fn many_files(
    args: &Args,
    agent: &Path,
    scratch: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<Figure>> {
    let place = scratch.join("many");
    let floor = place.join("floor");
    fs::create_dir_all(&floor)?;
    let alone = Many::new(&floor, args.files, 1)?;
    let together = Many::new(&floor, args.files, 8)?;
    let drift = Agent::start(agent, &place.join("drift"), args.files, interrupt)?;
    let [mut one_by_one, mut shared, mut activations, mut rollbacks] =
        [(); 4].map(|()| Vec::<Duration>::new());
    for round in 0..=args.switches {
        interrupt.check()?;
        let version = 1 + round % 2;
        one_by_one.push(alone.switch(version)?);
        shared.push(together.switch(version)?);
        activations.push(drift.command(&["activate", "bench", "2.0.0"])?);
        ensure!(drift.has(2)?, "the files are not those of version 2.0.0");
        rollbacks.push(drift.command(&["rollback", "bench", "--to", "1.0.0"])?);
        ensure!(drift.has(1)?, "the files are not those of version 1.0.0");
        if round == 0 {
            for times in [
                &mut one_by_one,
                &mut shared,
                &mut activations,
                &mut rollbacks,
            ] {
                times.clear();
            }
        }
    }
    drift.stop()?;
    let shared = Figure::new(SAME_SYNCS, shared);
    Ok(vec![
        Figure::new("the same syncs alone, one after the other", one_by_one).beside(&shared),
        Figure::new("drift-agent activate", activations).beside(&shared),
        Figure::new("drift-agent rollback", rollbacks).beside(&shared),
        shared,
    ])
}
