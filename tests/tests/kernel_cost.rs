//! What a running agent costs those who change no file. In a guest (`cargo xtask vmtest`) the clock goes by instructions: there a difference is no noise.

use std::{fs::File, io::Write, os::unix::fs::FileExt, time::Instant};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    scene::{DEFAULT, Scene, file},
    skip::skip,
};

const CALLS: u32 = 2_000;
const ROUNDS: usize = 3;

/// Nanoseconds for each turn, of the round that was disturbed least.
fn cost(mut turn: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..CALLS {
            turn()?;
        }
        let took = start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
        least = least.min(took);
    }
    Ok(least)
}

/// A call that has nothing to do with files, one that reads, an open of a file that nobody declared.
fn costs() -> Result<[(&'static str, f64); 3]> {
    let zero = File::open("/dev/zero")?;
    let mut byte = [0];
    Ok([
        (
            "getppid",
            cost(|| {
                let _parent = rustix::process::getppid();
                Ok(())
            })?,
        ),
        (
            "read",
            cost(|| {
                zero.read_at(&mut byte, 0)?;
                Ok(())
            })?,
        ),
        (
            "open+close",
            cost(|| {
                File::open("/proc/self/status")?;
                Ok(())
            })?,
        ),
    ])
}

#[test]
fn a_call_that_has_nothing_to_do_with_files_pays_nothing_to_the_sensor_btf() -> Result<()> {
    const TEST: &str = "a_call_that_has_nothing_to_do_with_files_pays_nothing_to_the_sensor_btf";
    let Ok(sensor) = std::env::var("DRIFT_TEST_SENSOR") else {
        skip(
            TEST,
            "only a guest's clock counts instructions: cargo xtask vmtest",
        );
        return Ok(());
    };
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let without = costs()?;
    let agent = Agent::start(&scene, &[])?;
    let with = costs()?;
    drop(agent);
    let mut figures = format!("instructions with the sensor {sensor}:");
    for ((call, before), (_, after)) in without.iter().zip(&with) {
        figures += &format!(" {call} {before:.0} -> {after:.0};");
    }
    // Past libtest, which keeps what a test that passes prints.
    writeln!(std::io::stderr(), "{figures}")?;
    let (before, after) = (without[0].1, with[0].1);
    if sensor == "btf" {
        ensure!((after - before).abs() < 1.0 + before * 0.01, "{figures}");
    } else {
        // That the measure is fit to tell.
        ensure!(after > before * 1.02, "{figures}");
    }
    Ok(())
}
