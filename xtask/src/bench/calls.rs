//! What single system calls take, in a loop: a program of its own, so that nothing of xtask disturbs it.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result};

/// Names of the loops, in their order.
pub(super) const LOOPS: [&str; 5] = [
    "getppid",
    "read(1)",
    "open+close, unwatched",
    "open+close, watched",
    "open+write+close, watched",
];

/// Times each loop and prints nanoseconds a turn, one figure a line.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    watched: PathBuf,
    unwatched: PathBuf,
    #[arg(long, default_value_t = 20_000)]
    turns: u32,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let Args {
        watched,
        unwatched,
        turns,
    } = args;
    let turns = *turns;
    // A file that is read to and fro without moving through the page cache.
    let mut zero = File::open("/dev/zero").context("/dev/zero")?;
    let mut byte = [0];
    let open = |path: &Path| File::open(path).map(drop);
    let write = |path: &Path| -> std::io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(b"x")
    };
    let figures = [
        time(turns * 10, || {
            std::hint::black_box(rustix::process::getppid());
            Ok(())
        })?,
        time(turns * 4, || zero.read(&mut byte).map(drop))?,
        time(turns, || open(unwatched))?,
        time(turns, || open(watched))?,
        time(turns, || write(watched))?,
    ];
    for figure in figures {
        println!("{figure:.1}");
    }
    Ok(())
}

/// The best of ten parts: what disturbs a part only makes it slower.
fn time(turns: u32, mut turn: impl FnMut() -> std::io::Result<()>) -> Result<f64> {
    const PARTS: u32 = 10;
    let mut best = f64::INFINITY;
    for _ in 0..PARTS {
        let start = Instant::now();
        for _ in 0..turns / PARTS {
            turn()?;
        }
        let each = start.elapsed().as_nanos() as f64 / f64::from(turns / PARTS);
        best = best.min(each);
    }
    Ok(best)
}
