//! The power is cut at any moment: what was reported is there afterwards, and everything is whole.

use std::{
    env, fs,
    hash::{BuildHasher as _, RandomState},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use drift_agent::sync::sync_directory;
use drift_tests::{
    agent::is_built,
    sweep::{
        Ground, Operation, State,
        power::{Disk, Kind, has_power, without_sync},
    },
};

/// Cuts of all tests together: `cargo xtask sweep power --cuts`.
const CUTS: &str = "DRIFT_CUTS";
const FEW: usize = 20;

/// Operations, file systems, and places of the state folder.
const COMBINATIONS: usize = 3 * 2 * 2;

/// Somewhere before this time.
fn somewhere(before: Duration) -> Duration {
    let part = RandomState::new().hash_one(0) % 1000;
    before * u32::try_from(part).unwrap_or(0) / 1000
}

fn cuts(test: &str, operation: Operation) -> Result<()> {
    if !is_built(test) || !has_power(test) {
        return Ok(());
    }
    let all = match env::var(CUTS) {
        Ok(cuts) => cuts.parse()?,
        Err(_) => FEW,
    };
    for kind in Kind::ALL {
        for is_apart in [false, true] {
            let scratch = tempfile::Builder::new().prefix("drift-power-").tempdir()?;
            let disk = Disk::new(kind, scratch.path())?;
            let elsewhere = scratch.path().join("elsewhere");
            fs::create_dir(&elsewhere)?;
            let other = if is_apart { &elsewhere } else { disk.place() };
            let ground = Ground::at(operation, disk.place(), other)?;
            disk.sync()?;
            let start = Instant::now();
            let ended = Ground::end(ground.start()?)?;
            ensure!(ended.output.status.success(), "{}", ended.said());
            let usual = start.elapsed();
            let (mut reported, mut old) = (0, 0);
            let cuts = all.div_ceil(COMBINATIONS);
            for cut in 0..cuts {
                ground.reset()?;
                disk.sync()?;
                let child = ground.start()?;
                thread::sleep(somewhere(usual * 3 / 2));
                disk.cut()?;
                let ended = Ground::end(child)?;
                disk.start_again()?;
                let what = || {
                    format!(
                        "{operation:?} on {kind:?}, state apart: {is_apart}, cut {cut}: {}",
                        ended.said()
                    )
                };
                let is_reported = ended.output.status.success();
                let state = ground.state().with_context(what)?;
                ensure!(
                    !is_reported || state == State::New,
                    "reported and lost: {}",
                    what()
                );
                let (recovered, _) = ground.recovered().with_context(what)?;
                ensure!(
                    !is_reported || recovered == State::New,
                    "reported and lost: {}",
                    what()
                );
                reported += usize::from(is_reported);
                old += usize::from(state == State::Old);
            }
            eprintln!(
                "{operation:?} on {kind:?}, state folder {}: {cuts} cuts, {reported} after it was reported, {old} left all as it was; torn 0, mixed 0, reported and \
                 lost 0",
                if is_apart {
                    "on another file system"
                } else {
                    "on the same"
                }
            );
        }
    }
    Ok(())
}

#[test]
fn a_heal_whose_power_is_cut_is_whole_and_there_when_it_was_reported() -> Result<()> {
    let test = "a_heal_whose_power_is_cut_is_whole_and_there_when_it_was_reported";
    cuts(test, Operation::Heal)
}

#[test]
fn a_heal_in_place_whose_power_is_cut_comes_to_its_end_and_is_there_when_it_was_reported()
-> Result<()> {
    let test =
        "a_heal_in_place_whose_power_is_cut_comes_to_its_end_and_is_there_when_it_was_reported";
    cuts(test, Operation::InPlace)
}

#[test]
fn an_activation_whose_power_is_cut_is_whole_and_there_when_it_was_reported() -> Result<()> {
    let test = "an_activation_whose_power_is_cut_is_whole_and_there_when_it_was_reported";
    cuts(test, Operation::Activate)
}

/// The tests above would find it out.
#[test]
fn without_the_sync_of_the_directory_what_was_reported_is_lost() -> Result<()> {
    let test = "without_the_sync_of_the_directory_what_was_reported_is_lost";
    if !has_power(test) {
        return Ok(());
    }
    for kind in Kind::ALL {
        let scratch = tempfile::Builder::new().prefix("drift-power-").tempdir()?;
        let disk = Disk::new(kind, scratch.path())?;
        let file = disk.place().join("file");
        let mut lost = 0;
        for _ in 0..20 {
            fs::write(&file, "old")?;
            disk.sync()?;
            without_sync(&file, "new")?;
            ensure!(fs::read(&file)? == b"new");
            disk.cut()?;
            disk.start_again()?;
            lost += usize::from(fs::read(&file)? == b"old");
        }
        eprintln!("{kind:?}: reported and lost {lost} of 20, without the sync");
        ensure!(
            lost == 20,
            "{kind:?}: a cut loses nothing ({lost} of 20): these tests prove nothing"
        );
    }
    Ok(())
}

/// Where a disk fails the programs go on, unlike without power: a file system that has shut down has kept nothing of what its directory was asked to keep. (An xfs says
/// otherwise: what was committed counted as done, and the journal, on another disk, was ended.)
#[test]
fn a_directory_of_a_dead_file_system_is_never_synced() -> Result<()> {
    const TEST: &str = "a_directory_of_a_dead_file_system_is_never_synced";
    if !has_power(TEST) {
        return Ok(());
    }
    for kind in Kind::ALL {
        let scratch = tempfile::Builder::new().prefix("drift-power-").tempdir()?;
        let disk = Disk::new(kind, scratch.path())?;
        let tree = disk.place().join("tree");
        fs::create_dir(&tree)?;
        fs::write(tree.join("old"), "")?;
        let directory = fs::File::open(&tree)?;
        sync_directory(&directory)?;
        fs::rename(tree.join("old"), tree.join("new"))?;
        disk.cut()?;
        let synced = sync_directory(&directory);
        ensure!(synced.is_err(), "{kind:?} has lost it and says it has not");
        drop(directory);
        disk.start_again()?;
        let is_old = tree.join("old").exists();
        ensure!(is_old, "{kind:?} has kept it: this shows nothing");
    }
    Ok(())
}
