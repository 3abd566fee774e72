//! Reading and healing while others write and look: in this process, where it can be watched at every moment.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use drift_agent::{
    compare::{self, Drift},
    declare::{self, Declared},
    heal,
    observe::{Found, Host, observe},
};
use drift_tests::{
    scene::{HEAL_AT_ONCE, Scene},
    skip::skip,
};

/// The declared paths of a scene, as the agent sees them.
fn declared(scene: &Scene, spec: &str) -> Result<declare::Snapshot> {
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, spec)?;
    let snapshot = declare::load(
        &scene.policies(),
        Path::new("/"),
        None,
        &declare::Holds::new(),
    );
    snapshot.map_err(|why| anyhow::anyhow!("{why}"))
}

/// Heals one path once; the drifts that were there.
fn heal_once(host: &Host, declared: &Declared) -> Result<Vec<Drift>> {
    let observed = observe(host, declared, None, &mut |_| {});
    let drifts = compare::differences(declared, &observed);
    if !drifts.is_empty() {
        let action = heal::plan(declared, &drifts, &observed.found)
            .map_err(|why| anyhow::anyhow!("{}", why.sentence()))?;
        heal::execute(host, declared, &action, observed.stat.as_ref())?;
    }
    Ok(drifts)
}

fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(test, "giving files away needs root");
    }
    root
}

#[test]
fn what_is_read_while_somebody_appends_is_a_state_that_was_there_or_unstable() -> Result<()> {
    // B057. Each line is written whole, so that the states are known.
    const LINE: &[u8] = b"one more line of a log that grows\n";
    const LINES: usize = 20_000;
    let scene = Scene::new()?;
    let path = scene.at("growing");
    // Long enough to be appended to while it is read.
    let head = vec![b'x'; 4 << 20];
    fs::write(&path, &head)?;
    let mut states = BTreeSet::new();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head);
    states.insert(*hasher.finalize().as_bytes());
    for _ in 0..LINES {
        hasher.update(LINE);
        states.insert(*hasher.finalize().as_bytes());
    }
    let snapshot = declared(
        &scene,
        "files:\n    - {path: TREE/growing, content: {inline: x}}\n",
    )?;
    let host = Host::new(Path::new("/"))?;
    let done = AtomicBool::new(false);
    let (mut stable, mut unstable) = (0, 0);
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<()> {
            let mut file = fs::OpenOptions::new().append(true).open(&path)?;
            for _ in 0..LINES {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                file.write_all(LINE)?;
                thread::sleep(Duration::from_micros(200));
            }
            Ok(())
        });
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end && !writer.is_finished() {
            match observe(&host, &snapshot.files[0], None, &mut |_| {}).found {
                Found::Unstable => unstable += 1,
                Found::File(Some(digest)) => {
                    ensure!(
                        states.contains(digest.as_bytes()),
                        "a state that never was: {digest}"
                    );
                    stable += 1;
                }
                other => anyhow::bail!("{other:?}"),
            }
        }
        done.store(true, Ordering::Relaxed);
        let ended = writer.join();
        ended.map_err(|_| anyhow::anyhow!("the writer panicked"))?
    })?;
    ensure!(stable + unstable > 0, "nothing was read");
    // Nobody writes: it is read, once and for all.
    let found = observe(&host, &snapshot.files[0], None, &mut |_| {}).found;
    ensure!(matches!(found, Found::File(Some(_))), "{found:?}");
    println!("{stable} reads of a state that was there, {unstable} unstable");
    Ok(())
}

/// B038: what is hashed is another reading than what is compared, and the two do not agree.
#[test]
fn what_is_compared_is_what_was_hashed_however_fast_somebody_changes_it() -> Result<()> {
    let scene = Scene::new()?;
    let path = scene.at("app.yaml");
    let snapshot = declared(
        &scene,
        "files:\n    - {path: TREE/app.yaml, content: {inline: \"key: declared\\n\"}, compare: {format: yaml}}\n",
    )?;
    let host = Host::new(Path::new("/"))?;
    let texts = ["key: one\n", "key: another\nmore: 1\n"];
    // What a look has found, and in what it differs: both of one text.
    let look = || -> Option<(blake3::Hash, blake3::Hash)> {
        let observed = observe(&host, &snapshot.files[0], None, &mut |_| {});
        let face = compare::compare(&snapshot.files[0], &observed).face();
        match (observed.found, face) {
            (Found::File(Some(digest)), Some(face)) => Some((digest, face)),
            _ => None,
        }
    };
    let mut pairs = Vec::new();
    for text in texts {
        fs::write(&path, text)?;
        pairs.push(look().context("it differs")?);
    }
    ensure!(pairs[0].0 != pairs[1].0 && pairs[0].1 != pairs[1].1);
    let done = AtomicBool::new(false);
    let seen = thread::scope(|scope| -> Result<[usize; 2]> {
        let writer = scope.spawn(|| -> Result<()> {
            let new = scene.elsewhere().join("new");
            while !done.load(Ordering::Relaxed) {
                for text in texts {
                    fs::write(&new, text)?;
                    fs::rename(&new, &path)?;
                }
            }
            Ok(())
        });
        let mut seen = [0; 2];
        let end = Instant::now() + Duration::from_secs(20);
        while seen.iter().any(|seen| *seen < 200) && !writer.is_finished() && Instant::now() < end {
            // No two looks may have agreed.
            let Some(pair) = look() else {
                continue;
            };
            let which = pairs.iter().position(|known| *known == pair);
            seen[which.context("a digest with the differences of another text")?] += 1;
        }
        done.store(true, Ordering::Relaxed);
        let ended = writer.join();
        ended.map_err(|_| anyhow::anyhow!("the writer panicked"))??;
        Ok(seen)
    })?;
    println!("{seen:?} looks at either text");
    ensure!(seen.iter().all(|seen| *seen >= 200), "{seen:?}");
    Ok(())
}

#[test]
fn setuid_survives_a_heal_of_the_owner_and_of_the_content() -> Result<()> {
    if !is_root("setuid_survives_a_heal_of_the_owner_and_of_the_content") {
        return Ok(());
    }
    // B058: a change of owner takes setuid, a write takes capabilities: the order counts.
    let scene = Scene::new()?;
    let snapshot = declared(
        &scene,
        "files:\n    - {path: TREE/tool, content: {inline: x}, mode: '4755', owner: 0, group: 1}\n",
    )?;
    let host = Host::new(Path::new("/"))?;
    let tool = &snapshot.files[0];
    let path = &tool.path;
    type Damage = fn(&Path) -> std::io::Result<()>;
    let damages: [(Damage, &[Drift]); 6] = [
        (|_| Ok(()), &[Drift::Missing]),
        (
            |path| chown(path, Some(2), Some(2)),
            &[Drift::Mode, Drift::Owner],
        ),
        (
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)),
            &[Drift::Mode],
        ),
        (|path| fs::write(path, "other"), &[Drift::Content]),
        (
            |path| {
                fs::write(path, "other")?;
                chown(path, Some(2), None)
            },
            &[Drift::Content, Drift::Mode, Drift::Owner],
        ),
        (|path| fs::remove_file(path), &[Drift::Missing]),
    ];
    for (number, (damage, expected)) in damages.into_iter().enumerate() {
        damage(path)?;
        ensure!(heal_once(&host, tool)? == expected, "damage {number}");
        let meta = fs::metadata(path)?;
        ensure!(
            (meta.mode() & 0o7777, meta.uid(), meta.gid()) == (0o4755, 0, 1),
            "damage {number}: {meta:?}"
        );
        ensure!(heal_once(&host, tool)?.is_empty(), "damage {number} again");
    }
    Ok(())
}

#[test]
fn nobody_ever_sees_the_file_with_another_mode_owner_or_half_of_its_content() -> Result<()> {
    const TEST: &str = "nobody_ever_sees_the_file_with_another_mode_owner_or_half_of_its_content";
    if !is_root(TEST) {
        return Ok(());
    }
    // B059: as /etc/sudoers is, which must never be anything else.
    let scene = Scene::new()?;
    let snapshot = declared(
        &scene,
        "files:\n    - {path: TREE/sudoers, content: {inline: \"root ALL=(ALL) ALL\\n\"}, mode: '0440', owner: 0, group: 1}\n",
    )?;
    let host = Host::new(Path::new("/"))?;
    let sudoers = &snapshot.files[0];
    let path = sudoers.path.as_path();
    // What stands there before each heal: other bytes, with the declared mode and owner.
    let drifted = scene.elsewhere().join("drifted");
    heal_once(&host, sudoers)?;
    let (looks, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| -> Result<()> {
        let watcher = scope.spawn(|| -> Result<()> {
            while !done.load(Ordering::Relaxed) {
                let meta = fs::symlink_metadata(path).context("a moment without the file")?;
                ensure!(
                    (meta.mode() & 0o7777, meta.uid(), meta.gid()) == (0o440, 0, 1),
                    "a moment of {meta:?}"
                );
                let text = fs::read_to_string(path).context("a moment without the file")?;
                ensure!(
                    text.starts_with("root ALL") || text == "drifted",
                    "a moment of {text:?}"
                );
                looks.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let mut heals = 0;
        let end = Instant::now() + Duration::from_secs(20);
        while (heals < 200 || looks.load(Ordering::Relaxed) < 1000)
            && !watcher.is_finished()
            && Instant::now() < end
        {
            fs::write(&drifted, "drifted")?;
            fs::set_permissions(&drifted, fs::Permissions::from_mode(0o440))?;
            chown(&drifted, Some(0), Some(1))?;
            fs::rename(&drifted, path)?;
            ensure!(heal_once(&host, sudoers)? == [Drift::Content]);
            heals += 1;
        }
        done.store(true, Ordering::Relaxed);
        let ended = watcher.join();
        ended.map_err(|_| anyhow::anyhow!("the watcher panicked"))??;
        ensure!(heals >= 200, "only {heals} heals in the time");
        Ok(())
    })
}

#[test]
fn missing_directories_on_the_way_are_made_0755_and_those_that_are_there_stay() -> Result<()> {
    const TEST: &str = "missing_directories_on_the_way_are_made_0755_and_those_that_are_there_stay";
    if !is_root(TEST) {
        return Ok(());
    }
    // B061, with the most careful umask.
    let scene = Scene::new()?;
    let snapshot = declared(
        &scene,
        "files:\n    - {path: TREE/a/b/c/f, content: {inline: x}}\n  directories:\n    - {path: TREE/a/b, mode: '0750', owner: 1}\n",
    )?;
    let host = Host::new(Path::new("/"))?;
    let a = scene.at("a");
    fs::create_dir(&a)?;
    fs::set_permissions(&a, fs::Permissions::from_mode(0o1703))?;
    chown(&a, Some(2), Some(2))?;
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let healed = snapshot.files.iter().rev().try_for_each(|declared| {
        // The file first: the declared directory on its way is not there yet, and gets what is declared of it after.
        heal_once(&host, declared).map(drop)
    });
    rustix::process::umask(before);
    healed?;
    for (path, expected) in [
        ("a", (0o1703, 2, 2)),
        ("a/b", (0o750, 1, 0)),
        ("a/b/c", (0o755, 0, 0)),
        ("a/b/c/f", (0o644, 0, 0)),
    ] {
        let meta = fs::metadata(scene.at(path))?;
        let found = (meta.mode() & 0o7777, meta.uid(), meta.gid());
        ensure!(found == expected, "{path}: {found:?}");
    }
    Ok(())
}
