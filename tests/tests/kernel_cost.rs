//! What a running agent costs those who change no file. In a guest (`cargo xtask vmtest`) the clock goes by instructions: there a difference is no noise.

use std::{
    fs::{self, File, Permissions},
    io::Write,
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    scene::{DEFAULT, Scene, file},
    skip::skip,
};

const CALLS: u32 = 500;
const ROUNDS: usize = 20;

/// Nanoseconds for each turn, of the round that was disturbed least.
fn cost(mut turn: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::MAX;
    for _ in 0..ROUNDS {
        let start = clock();
        for _ in 0..CALLS {
            turn()?;
        }
        let took = (clock() - start) as f64 / f64::from(CALLS);
        least = least.min(took);
    }
    Ok(least)
}

/// What this thread has run so far, in nanoseconds: what runs beside it does not count.
fn clock() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A call that has nothing to do with files, one that reads, an open of a file that nobody declared, and what unpacks a package, where nobody declared anything: a
/// file is made, written, gets its mode and its name.
fn costs(folder: &Path) -> Result<[(&'static str, f64); 4]> {
    let zero = File::open("/dev/zero")?;
    let mut byte = [0];
    let (new, name) = (folder.join("new"), folder.join("name"));
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
        (
            "unpack",
            cost(|| {
                let mut file = File::create_new(&new)?;
                file.write_all(&[b'x'; 4096])?;
                file.set_permissions(Permissions::from_mode(0o640))?;
                drop(file);
                fs::rename(&new, &name)?;
                Ok(())
            })?,
        ),
    ])
}

/// B109, B110: whoever changes many files that nobody declared is slowed down by those who watch others.
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
    // Twice, before and after: a guest that has just booted has work of its own.
    let place = scene.elsewhere();
    let early = costs(&place)?;
    let agent = Agent::start(&scene, &[])?;
    let with = costs(&place)?;
    ensure!(agent.stop()?.success());
    let late = costs(&place)?;
    let mut figures = format!("instructions with the sensor {sensor}:");
    let least = |call: usize| early[call].1.min(late[call].1);
    for (call, (name, after)) in with.iter().enumerate() {
        figures += &format!(" {name} {:.0} -> {after:.0};", least(call));
    }
    // Past libtest, which keeps what a test that passes prints.
    writeln!(std::io::stderr(), "{figures}")?;
    let (before, after) = (least(0), with[0].1);
    if sensor == "btf" {
        ensure!((after - before).abs() < 1.0 + before * 0.01, "{figures}");
    } else {
        // That the measure is fit to tell.
        ensure!(after > before * 1.02, "{figures}");
    }
    // On a file system in memory, where there is nothing that these calls wait for.
    let (before, after) = (least(3), with[3].1);
    let most = if sensor == "btf" { 1.4 } else { 1.6 };
    ensure!(after < before * most, "{figures}");
    Ok(())
}
