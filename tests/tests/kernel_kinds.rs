//! Each kind of change, made by this process through each call that makes it: seen by the kernel half, with the right process, and healed. The same under
//! each sensor (`cargo xtask vmtest`).

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::Write,
    os::{
        fd::AsFd,
        unix::fs::{OpenOptionsExt, PermissionsExt, chown, fchown, symlink},
    },
    path::Path,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    scene::{HEAL_AT_ONCE, Scene, file},
};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};

/// One way, from a declared file, and a folder beside it, to something else.
type Change = fn(app: &Path, aside: &Path) -> Result<()>;

const READ_ONLY: &str = "open for reading with O_TRUNC";

const CHANGES: [(&str, Change); 17] = [
    ("write", |app, _| {
        Ok(OpenOptions::new().append(true).open(app)?.write_all(b"x")?)
    }),
    ("open with O_TRUNC", |app, _| {
        File::create(app)?;
        Ok(())
    }),
    (READ_ONLY, |app, _| {
        // POSIX leaves open what this does; Linux truncates.
        let flags = OFlags::RDONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        rustix::fs::open(app, flags, Mode::empty())?;
        Ok(())
    }),
    ("truncate", |app, _| {
        let file = OpenOptions::new().write(true).open(app)?;
        Ok(file.set_len(2)?)
    }),
    ("the last of two descriptors", |app, _| {
        let first = OpenOptions::new().append(true).open(app)?;
        let mut second = first.try_clone()?;
        drop(first);
        Ok(second.write_all(b"x")?)
    }),
    ("chmod", |app, _| {
        Ok(fs::set_permissions(app, Permissions::from_mode(0o600))?)
    }),
    ("fchmod", |app, _| {
        Ok(File::open(app)?.set_permissions(Permissions::from_mode(0o666))?)
    }),
    ("chown", |app, _| Ok(chown(app, Some(7), None)?)),
    ("fchown", |app, _| {
        Ok(fchown(File::open(app)?, Some(7), None)?)
    }),
    ("unlink", |app, _| Ok(fs::remove_file(app)?)),
    ("rename away", |app, aside| {
        Ok(fs::rename(app, aside.join("away"))?)
    }),
    ("rename onto", |app, aside| {
        fs::write(aside.join("new"), "other\n")?;
        Ok(fs::rename(aside.join("new"), app)?)
    }),
    ("exchange", |app, aside| {
        let other = aside.join("exchanged");
        fs::write(&other, "other\n")?;
        Ok(rustix::fs::renameat_with(
            CWD,
            app,
            CWD,
            &other,
            RenameFlags::EXCHANGE,
        )?)
    }),
    ("symlink", |app, _| {
        fs::remove_file(app)?;
        Ok(symlink("nowhere", app)?)
    }),
    ("mkdir", |app, _| {
        fs::remove_file(app)?;
        Ok(fs::create_dir(app)?)
    }),
    ("mknod", |app, _| {
        fs::remove_file(app)?;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::mknodat(CWD, app, FileType::Fifo, mode, 0)?)
    }),
    ("link of a file without a name", |app, aside| {
        let mut file = OpenOptions::new()
            .write(true)
            .custom_flags(OFlags::TMPFILE.bits().cast_signed())
            .open(aside)?;
        file.write_all(b"other\n")?;
        fs::remove_file(app)?;
        let name = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&file.as_fd())
        );
        Ok(rustix::fs::linkat(
            CWD,
            name,
            CWD,
            app,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }),
];

#[test]
fn each_kind_of_change_is_seen_with_its_process_and_healed() -> Result<()> {
    if !has_probes("each_kind_of_change_is_seen_with_its_process_and_healed") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mut declared = file("app.conf", "declared\n");
    declared.mode = Some("0644");
    declared.owner = Some("0");
    let files = [declared];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    for (what, change) in CHANGES {
        // What only the sensor btf tells the process of: the descriptor was never one for writing.
        if what == READ_ONLY && std::env::var("DRIFT_TEST_SENSOR").as_deref() != Ok("btf") {
            continue;
        }
        let mark = agent.mark();
        change(&app, &scene.elsewhere()).with_context(|| what.to_owned())?;
        let detected = agent
            .event(mark, "config.drift.detected", &app)
            .with_context(|| what.to_owned())?;
        ensure!(
            detected["cause"] == "kernel" && detected["actor"]["pid"] == std::process::id(),
            "{what}: {detected}"
        );
        agent
            .event(mark, "config.drift.healed", &app)
            .with_context(|| what.to_owned())?;
        ensure!(fs::read_to_string(&app)? == "declared\n", "{what}");
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn a_directory_on_the_way_that_is_moved_is_seen_with_the_process() -> Result<()> {
    if !has_probes("a_directory_on_the_way_that_is_moved_is_seen_with_the_process") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("deep/er/app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", "", &files)?;
    let agent = Agent::start(&scene, &[])?;
    let (app, deep) = (scene.at("deep/er/app.conf"), scene.at("deep"));
    let away = scene.elsewhere().join("deep");
    let mark = agent.mark();
    fs::rename(&deep, &away)?;
    let detected = agent.event(mark, "config.drift.detected", &app)?;
    ensure!(
        detected["cause"] == "kernel" && detected["actor"]["pid"] == std::process::id(),
        "{detected}"
    );
    fs::rename(&away, &deep)?;
    agent.event(mark, "config.drift.resolved", &app)?;
    Ok(())
}
