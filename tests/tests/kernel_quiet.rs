//! What is no change is told to nobody, and one change once.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, IoSliceMut, Read, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, symlink},
    },
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, has_probes, program},
    scene::{DEFAULT, Declared, Scene, file},
    stage::{Kind, Mounts},
    wait,
};
use rustix::fs::{CWD, RenameFlags};
use serde_json::Value;

/// An agent that watches, and has heard itself for the last time.
fn started(scene: &Scene, files: &[Declared]) -> Result<Agent> {
    scene.lay_out(files)?;
    scene.declare("1.0.0", DEFAULT, files)?;
    let agent = Agent::start(scene, &["--self-test", "1h"])?;
    wait::until(SOON, || {
        let counted = counted(scene).map_err(|error| format!("{error:#}"))?;
        match counted["close"]["sent"].as_u64() {
            Some(1..) => Ok(()),
            _ => Err(counted.to_string()),
        }
    })
    .map_err(anyhow::Error::msg)?;
    Ok(agent)
}

/// What the kernel half has counted, by the kind of change.
fn counted(scene: &Scene) -> Result<Value> {
    let output = Command::new(program())
        .args(["status", "-o", "json", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    let status: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(status["sensor"]["counted"].clone())
}

fn sent(counted: &Value, kind: &str) -> u64 {
    counted[kind]["sent"].as_u64().unwrap_or(0)
}

/// Calls as nobody, which may change nothing here. In a thread of its own, which is nobody to its end.
fn as_nobody(call: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    const NOBODY: libc::c_long = 65_534;
    let joined = std::thread::scope(|scope| {
        let nobody = scope.spawn(|| {
            let unchanged: libc::c_long = -1;
            // SAFETY: no pointer is handed over; without the library, which would do it to all threads.
            let result =
                unsafe { libc::syscall(libc::SYS_setresuid, unchanged, NOBODY, unchanged) };
            ensure!(result == 0, "{}", io::Error::last_os_error());
            call()
        });
        nobody.join()
    });
    joined.map_err(|_| anyhow::anyhow!("panicked"))?
}

fn fails<T>(what: &str, result: io::Result<T>) -> Result<()> {
    let failed = result.err().map(drop);
    failed.with_context(|| format!("{what}: it was to fail"))
}

/// B043: a call that fails is taken for what it was to do, and what is known of the file is forgotten.
#[test]
fn a_call_that_fails_rings_nobody_and_what_comes_after_it_is_seen() -> Result<()> {
    const TEST: &str = "a_call_that_fails_rings_nobody_and_what_comes_after_it_is_seen";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let other = scene.root().join("other");
    fs::create_dir(&other)?;
    let apart = Kind::Tmpfs.mount(&other, |_| Ok(()))?;
    let agent = started(&scene, &[file("app.conf", "declared\n")])?;
    let (app, aside) = (scene.at("app.conf"), scene.elsewhere().join("new"));
    fs::write(&aside, "other\n")?;
    let before = counted(&scene)?;
    fails("EXDEV, away", fs::rename(&app, apart.join("away")))?;
    fs::write(apart.join("new"), "other\n")?;
    fails("EXDEV, onto", fs::rename(apart.join("new"), &app))?;
    fails("ENOENT", fs::rename(scene.elsewhere().join("gone"), &app))?;
    let keep = RenameFlags::NOREPLACE;
    let kept = rustix::fs::renameat_with(CWD, &aside, CWD, &app, keep);
    fails("EEXIST, rename", kept.map_err(Into::into))?;
    fails("EEXIST, link", fs::hard_link(&aside, &app))?;
    fails("EEXIST, symlink", symlink("x", &app))?;
    fails("EEXIST, mkdir", fs::create_dir(&app))?;
    fails("EEXIST, open", File::create_new(&app))?;
    fails("ENOTDIR, rmdir", fs::remove_dir(&app))?;
    fails("EISDIR, unlink", fs::remove_file(scene.tree()))?;
    as_nobody(|| {
        fails("EACCES, unlink", fs::remove_file(&app))?;
        fails("EACCES, rename", fs::rename(&app, &aside))?;
        fails("EACCES, open", OpenOptions::new().write(true).open(&app))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fails("EPERM, chmod", fs::set_permissions(&app, mode))?;
        fails(
            "EPERM, chown",
            std::os::unix::fs::chown(&app, Some(1), None),
        )
    })?;
    let after = counted(&scene)?;
    ensure!(before == after, "{before} {after}");
    // It is known as it was: the next one is seen, and is the first that is told.
    fs::rename(&aside, &app)?;
    let first = agent.wait(0, "a change", |records| {
        let path = app.display().to_string();
        records
            .iter()
            .find(|record| record["path"] == path)
            .cloned()
    })?;
    ensure!(
        first["event"] == "config.drift.detected"
            && first["cause"] == "kernel"
            && first["actor"]["pid"] == std::process::id(),
        "{first}"
    );
    let after = counted(&scene)?;
    ensure!(
        sent(&after, "replace") == sent(&before, "replace") + 1,
        "{after}"
    );
    ensure!(agent.stop()?.success());
    mounts.clear()
}

/// B044: opened to be written and closed as it was is told as a change.
#[test]
fn what_is_opened_to_write_and_is_as_it_was_in_the_end_is_no_drift() -> Result<()> {
    const TEST: &str = "what_is_opened_to_write_and_is_as_it_was_in_the_end_is_no_drift";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let agent = started(&scene, &[file("app.conf", "declared\n")])?;
    let app = scene.at("app.conf");
    for _ in 0..20 {
        drop(OpenOptions::new().read(true).write(true).open(&app)?);
        OpenOptions::new().append(true).open(&app)?.write_all(b"")?;
        OpenOptions::new()
            .write(true)
            .open(&app)?
            .write_all(b"declared\n")?;
        let now = fs::FileTimes::new().set_modified(std::time::SystemTime::now());
        OpenOptions::new().write(true).open(&app)?.set_times(now)?;
    }
    let rung = counted(&scene)?;
    ensure!(sent(&rung, "close") > 1, "nothing was heard: {rung}");
    // Whatever was said of it before was wrong.
    OpenOptions::new()
        .append(true)
        .open(&app)?
        .write_all(b"x")?;
    agent.event(0, "config.drift.detected", &app)?;
    let told = agent.since(0);
    let of_drift = |record: &&Value| {
        let event = record["event"].as_str().unwrap_or_default();
        event.starts_with("config.drift.")
    };
    let about: Vec<_> = told.iter().filter(of_drift).collect();
    ensure!(about.len() == 1, "{}", agent.all());
    let digest = format!("blake3:{}", blake3::hash(b"declared\nx").to_hex());
    ensure!(
        about[0]["observed"]["digest"] == digest.as_str(),
        "{}",
        about[0]
    );
    ensure!(agent.stop()?.success());
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<()> {
    // As `echo other > path` does it: emptied, written, closed.
    Ok(File::create(path)?.write_all(text.as_bytes())?)
}

/// B159: one change is told twice, as it is emptied and as it is written.
#[test]
fn one_change_is_one_drift() -> Result<()> {
    if !has_probes("one_change_is_one_drift") {
        return Ok(());
    }
    const FILES: usize = 50;
    let scene = Scene::new()?;
    let files: Vec<_> = (0..FILES)
        .map(|number| file(format!("f{number}.conf").leak(), "declared\n"))
        .collect();
    let agent = started(&scene, &files)?;
    // How many, and about how many paths.
    let told = |records: &[Value], event: &str| {
        let told = records.iter().filter(|record| record["event"] == event);
        let paths: Vec<_> = told.map(|record| record["path"].to_string()).collect();
        let each: HashSet<_> = paths.iter().collect();
        (paths.len(), each.len())
    };
    for (text, event) in [
        ("other\n", "config.drift.detected"),
        // What was told twice was told before it is told that it is as declared again.
        ("declared\n", "config.drift.resolved"),
    ] {
        for file in &files {
            save(&scene.at(file.path), text)?;
        }
        agent.wait(0, event, |records| {
            (told(records, event).1 == FILES).then_some(())
        })?;
    }
    for event in ["config.drift.detected", "config.drift.resolved"] {
        let told = told(&agent.since(0), event);
        ensure!(told == (FILES, FILES), "{event}: {}", agent.all());
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B111: who reads much floods those who want to know who has read.
#[test]
fn reading_a_file_again_and_again_is_told_once_for_each_process_and_file() -> Result<()> {
    const TEST: &str = "reading_a_file_again_and_again_is_told_once_for_each_process_and_file";
    if !has_probes(TEST) {
        return Ok(());
    }
    const FILES: u64 = 20;
    let scene = Scene::new()?;
    let files: Vec<_> = (0..FILES)
        .map(|number| file(format!("f{number}.conf").leak(), "declared\n"))
        .collect();
    let agent = started(&scene, &files)?;
    let before = counted(&scene)?;
    for _ in 0..100 {
        for file in &files {
            let mut text = String::new();
            File::open(scene.at(file.path))?.read_to_string(&mut text)?;
            ensure!(text == "declared\n");
        }
    }
    let after = counted(&scene)?;
    for kind in ["open", "read"] {
        let more = sent(&after, kind) - sent(&before, kind);
        ensure!(more == FILES, "{kind}: {more}, not {FILES}: {after}");
    }
    // And nothing of it is a record.
    ensure!(
        agent
            .since(0)
            .iter()
            .all(|record| record["event"] == "config.policy.activated"),
        "{}",
        agent.all()
    );
    ensure!(agent.stop()?.success());
    Ok(())
}

/// One way to take in what a file holds. The second file can be written to.
type Reading = fn(from: &File, to: &File) -> Result<()>;

const READINGS: [(&str, Reading); 9] = [
    ("read", |mut from, _| {
        ensure!(from.read(&mut [0; 4])? == 4);
        Ok(())
    }),
    ("pread64", |from, _| Ok(from.read_exact_at(&mut [0; 4], 1)?)),
    ("readv", |mut from, _| {
        let (mut one, mut two) = ([0; 2], [0; 2]);
        let mut room = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        ensure!(from.read_vectored(&mut room)? == 4);
        Ok(())
    }),
    ("preadv", |from, _| {
        let mut four = [0; 4];
        let mut room = [IoSliceMut::new(&mut four)];
        ensure!(rustix::io::preadv(from, &mut room, 1)? == 4);
        Ok(())
    }),
    ("preadv2", |from, _| {
        let mut four = [0; 4];
        let mut room = [IoSliceMut::new(&mut four)];
        let flags = rustix::io::ReadWriteFlags::empty();
        ensure!(rustix::io::preadv2(from, &mut room, 1, flags)? == 4);
        Ok(())
    }),
    ("sendfile", |from, to| {
        ensure!(rustix::fs::sendfile(to, from, None, 4)? == 4);
        Ok(())
    }),
    ("copy_file_range", |from, to| {
        ensure!(rustix::fs::copy_file_range(from, None, to, None, 4)? == 4);
        Ok(())
    }),
    ("splice", |from, _| {
        let (_out, into) = io::pipe()?;
        let nowhere = std::ptr::null_mut();
        // SAFETY: no pointer is handed over.
        let moved =
            unsafe { libc::splice(from.as_raw_fd(), nowhere, into.as_raw_fd(), nowhere, 4, 0) };
        ensure!(moved == 4, "{}", io::Error::last_os_error());
        Ok(())
    }),
    ("mmap", |from, _| {
        let (nowhere, flags) = (std::ptr::null_mut(), libc::MAP_PRIVATE);
        // SAFETY: a mapping of its own, which nobody looks into before it goes.
        let result = unsafe {
            let at = libc::mmap(nowhere, 4096, libc::PROT_READ, flags, from.as_raw_fd(), 0);
            if at == libc::MAP_FAILED {
                -1
            } else {
                libc::munmap(at, 4096)
            }
        };
        ensure!(result == 0, "{}", io::Error::last_os_error());
        Ok(())
    }),
];

#[test]
fn whoever_takes_in_a_file_by_any_call_has_read_it_once() -> Result<()> {
    if !has_probes("whoever_takes_in_a_file_by_any_call_has_read_it_once") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = READINGS.map(|(name, _)| file(name, "declared\n"));
    let agent = started(&scene, &files)?;
    let to = File::create(scene.elsewhere().join("to"))?;
    let before = counted(&scene)?;
    for (number, (name, reading)) in READINGS.into_iter().enumerate() {
        let from = File::open(scene.at(name))?;
        for _ in 0..3 {
            reading(&from, &to).context(name)?;
            io::Seek::rewind(&mut &from)?;
        }
        let after = counted(&scene)?;
        let more = sent(&after, "read") - sent(&before, "read");
        ensure!(more == number as u64 + 1, "{name}: {more}: {after}");
    }
    ensure!(agent.stop()?.success());
    Ok(())
}
