//! What is done through a descriptor that stays open: no close tells of it. Each way here has a program of its own under the sensor btf, and nothing else that
//! names the process.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    fuse,
    scene::{DEFAULT, Scene, file, lay_out_in},
    skip::skip,
    stage::{Kind, Mounts},
};
use rustix::fs::FallocateFlags;

/// Opens the declared file before there is an agent, changes it through that descriptor, and waits for the kernel's word of it while it is open still.
fn check(test: &str, on: Kind, change: impl FnOnce(&Scene, &File) -> Result<()>) -> Result<()> {
    if !has_probes(test) {
        return Ok(());
    }
    if let Some(reason) = on.lacks() {
        skip(test, &reason);
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let files = [file("app.conf", "declared\n")];
    on.mount(scene.root(), |place| lay_out_in(place, &files))?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let app = scene.at("app.conf");
    let held = OpenOptions::new().write(true).open(&app)?;
    let agent = Agent::start(&scene, &[])?;
    change(&scene, &held)?;
    let detected = agent.event(0, "config.drift.detected", &app)?;
    ensure!(
        detected["cause"] == "kernel" && detected["actor"]["pid"] == std::process::id(),
        "{detected}"
    );
    drop(held);
    ensure!(agent.stop()?.success());
    mounts.clear()
}

#[test]
fn a_hole_punched_into_a_file_that_stays_open_is_seen() -> Result<()> {
    const TEST: &str = "a_hole_punched_into_a_file_that_stays_open_is_seen";
    // On tmpfs, where that makes no inode dirty.
    check(TEST, Kind::Tmpfs, |_, held| {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(held, flags, 0, 4)?)
    })
}

#[test]
fn content_shared_with_a_file_that_stays_open_is_seen() -> Result<()> {
    const TEST: &str = "content_shared_with_a_file_that_stays_open_is_seen";
    check(TEST, Kind::Btrfs, |scene, held| {
        let source = scene.at("source");
        fs::write(&source, [b'x'; 8192])?;
        Ok(rustix::fs::ioctl_ficlone(held, File::open(source)?)?)
    })
}

#[test]
fn a_file_that_is_made_and_opened_in_one_step_is_seen_before_it_is_closed() -> Result<()> {
    const TEST: &str = "a_file_that_is_made_and_opened_in_one_step_is_seen_before_it_is_closed";
    if !has_probes(TEST) {
        return Ok(());
    }
    if let Some(reason) = fuse::lacks() {
        skip(TEST, &reason);
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let server = fuse::serve(&scene.tree())?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files).context("on FUSE")?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let app = scene.at("app.conf");
    let agent = Agent::start(&scene, &[])?;
    fs::remove_file(&app)?;
    let detected = agent.event(0, "config.drift.detected", &app)?;
    ensure!(
        detected["drift"] == serde_json::json!(["missing"]),
        "{detected}"
    );
    let mark = agent.mark();
    let mut held = File::create(&app)?;
    held.write_all(b"other\n")?;
    let detected = agent.event(mark, "config.drift.detected", &app)?;
    ensure!(
        detected["drift"] == serde_json::json!(["content"])
            && detected["cause"] == "kernel"
            && detected["actor"]["pid"] == std::process::id(),
        "{detected}"
    );
    drop(held);
    ensure!(agent.stop()?.success());
    mounts.clear()?;
    // A thread that panicked has answered something wrongly.
    ensure!(server.join().is_ok(), "the file system's thread panicked");
    Ok(())
}
