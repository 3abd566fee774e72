//! `cargo xtask bench noise`: what a machine that opens files all the time takes of the agent, and what of the agent's hearing.

use std::{
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::observer::{Declared, Observer, load};
use crate::{
    build,
    interrupt::Interrupt,
    machine,
    workspace::{Profile, Workspace},
};

/// Measure drift while files that nobody declared are opened all the time.
///
/// Two threads open and close as fast as they can (or as fast as `--rate` says); meanwhile a declared file is changed ten times a second, and it is measured how
/// long it takes until its drift is reported, what the agent uses, and what it has lost.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Opens in a second, of both threads together [default: as many as there can be].
    #[arg(long)]
    rate: Option<u64>,
    /// The agent to measure [default: built here, optimised].
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
}

const DECLARED: usize = 100;

pub(super) fn run(args: &Args) -> Result<()> {
    ensure!(
        machine::is_root(),
        "loading kernel programs needs root: sudo -E cargo xtask bench noise"
    );
    let interrupt = Interrupt::listen()?;
    let program = match &args.agent {
        Some(agent) => agent.clone(),
        None => build::agent(&Workspace::find()?, Profile::Release)?,
    };
    let folder = tempfile::tempdir().context("making a scratch folder")?;
    let tree = folder.path().join("tree");
    fs::create_dir(&tree)?;
    let files: Vec<PathBuf> = (0..DECLARED)
        .map(|number| tree.join(format!("f{number}.conf")))
        .collect();
    for file in &files {
        fs::write(file, "declared")?;
    }
    let declared = Declared::new(folder.path(), &files, "declared")?;
    let begun = load();
    let agent = declared.agent(&program, &[], &interrupt)?;
    let other = folder.path().join("unwatched");
    fs::write(&other, "x")?;
    let (cpu_before, memory_before) = agent.used()?;
    let (opens, stop) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let started = Instant::now();
    let noise: Vec<_> = (0..2)
        .map(|_| {
            let (opens, stop, other, rate) = (
                Arc::clone(&opens),
                Arc::clone(&stop),
                other.clone(),
                args.rate,
            );
            thread::spawn(move || -> std::io::Result<()> {
                const BATCH: u64 = 100;
                let begun = Instant::now();
                let mut own = 0;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..BATCH {
                        drop(File::open(&other)?);
                    }
                    opens.fetch_add(BATCH, Ordering::Relaxed);
                    own += BATCH;
                    if let Some(rate) = rate {
                        let due = Duration::from_secs_f64(own as f64 / (rate as f64 / 2.0));
                        thread::park_timeout(due.saturating_sub(begun.elapsed()));
                    }
                }
                Ok(())
            })
        })
        .collect();
    let changes = change(&files, Duration::from_secs(args.seconds), &interrupt);
    stop.store(true, Ordering::Relaxed);
    for thread in noise {
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    let changes = changes?;
    let took = started.elapsed();
    let (cpu_after, memory_after) = agent.used()?;
    let (mut seen, lost) = records(&agent, changes, &interrupt)?;
    seen.sort_unstable();
    let part = |share: f64| {
        let index = ((seen.len() as f64 * share) as usize).min(seen.len().saturating_sub(1));
        seen.get(index).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
    };
    let rate = opens.load(Ordering::Relaxed) as f64 / took.as_secs_f64();
    let share = (cpu_after - cpu_before).as_secs_f64() / took.as_secs_f64() * 100.0;
    println!(
        "{rate:.0} unwatched opens a second for {:.0} s, load {begun} at the start\n",
        took.as_secs_f64()
    );
    println!(
        " changes of declared files    {changes}, reported {}",
        seen.len()
    );
    println!(
        " change to report             p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms",
        part(0.5),
        part(0.99),
        part(1.0)
    );
    println!(" lost                         {lost}");
    println!(
        " agent                        {share:.2} % of one core, reporting {:.0} drifts a second included",
        changes as f64 / took.as_secs_f64()
    );
    println!(
        " its memory                   {:.1} MiB before, {:.1} MiB after",
        memory_before as f64 / f64::from(1 << 20),
        memory_after as f64 / f64::from(1 << 20)
    );
    Ok(())
}

/// Changes declared files one after the other, each to something it has not held before: ten a second. Returns how many.
fn change(files: &[PathBuf], time: Duration, interrupt: &Interrupt) -> Result<usize> {
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < time {
        interrupt.check()?;
        let mut file = File::create(&files[count % files.len()])?;
        write!(file, "change {count}")?;
        drop(file);
        count += 1;
        let due = Duration::from_millis(100) * count as u32;
        thread::park_timeout(due.saturating_sub(begun.elapsed()));
    }
    Ok(count)
}

/// Nanoseconds from each change to its report, and how many losses were told.
fn records(agent: &Observer, changes: usize, interrupt: &Interrupt) -> Result<(Vec<u64>, usize)> {
    let (mut seen, mut lost) = (Vec::new(), 0);
    let end = Instant::now() + Duration::from_secs(10);
    while seen.len() < changes && Instant::now() < end {
        interrupt.check()?;
        let Ok(line) = agent.lines.recv_timeout(Duration::from_millis(100)) else {
            continue;
        };
        let record: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        if record["event"] == "config.events.lost" {
            lost += 1;
        }
        if record["event"] == "config.drift.detected" {
            seen.push(
                record["seen_ns"]
                    .as_u64()
                    .context("a drift that no probe saw")?,
            );
        }
    }
    Ok((seen, lost))
}
