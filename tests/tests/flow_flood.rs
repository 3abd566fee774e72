//! More changes than the agent can hear of one by one: each is accounted for, and what stands there in the end is what is told. A few here;
//! `cargo xtask sweep flood` makes as many as the issue asks for.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, program},
    scene::{DEFAULT, Declared, Scene, file},
    wait,
};
use rustix::process::Signal;
use serde_json::Value;

/// Says that all of it is wanted, and the figures too: `cargo xtask sweep flood`.
const FULL: &str = "DRIFT_SWEEP";

fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// How long the agent may take; a machine with much else to do gets more time where no figure is asked for.
fn patience(figure: Duration) -> Duration {
    if is_full() { figure } else { figure * 10 }
}

fn declared(count: usize) -> Vec<Declared> {
    (0..count)
        .map(|number| file(format!("f{number}.conf").leak(), "declared\n"))
        .collect()
}

/// What the kernel half has counted of closes: sent, coalesced, lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Closes {
    sent: u64,
    coalesced: u64,
    lost: u64,
}

impl Closes {
    fn of(scene: &Scene) -> Result<Closes> {
        let output = Command::new(program())
            .args(["status", "-o", "json", "--state"])
            .arg(scene.root().join("state"))
            .output()?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let close = &status["sensor"]["counted"]["close"];
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        Ok(Closes {
            sent: number(&close["sent"]),
            coalesced: number(&close["coalesced"]),
            lost: number(&close["lost"]["ring_full"]),
        })
    }

    fn since(self, before: Closes) -> Closes {
        Closes {
            sent: self.sent - before.sent,
            coalesced: self.coalesced - before.coalesced,
            lost: self.lost - before.lost,
        }
    }

    const fn all(self) -> u64 {
        self.sent + self.coalesced + self.lost
    }
}

/// One change: an open, a write and a close.
fn change(path: &Path, text: &str) -> Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}

/// The digest that was last told of each path.
fn told(records: &[Value]) -> HashMap<String, String> {
    let mut told = HashMap::new();
    for record in records {
        if let (Some(path), Some(digest)) = (
            record["path"].as_str(),
            record["observed"]["digest"].as_str(),
        ) {
            told.insert(path.to_owned(), digest.to_owned());
        }
    }
    told
}

/// How many of the files are not told as they are now.
fn wrong(scene: &Scene, files: &[Declared], told: &HashMap<String, String>) -> Result<usize> {
    let mut wrong = 0;
    for file in files {
        let path = scene.at(file.path);
        let digest = format!("blake3:{}", blake3::hash(&fs::read(&path)?).to_hex());
        wrong += usize::from(told.get(&path.display().to_string()) != Some(&digest));
    }
    Ok(wrong)
}

/// B083: the ring is full, and what was changed is found all the same. B086: what was lost is counted to the last one.
#[test]
fn a_stopped_reader_with_the_smallest_ring_finds_every_file_when_it_goes_on() -> Result<()> {
    if !has_probes("a_stopped_reader_with_the_smallest_ring_finds_every_file_when_it_goes_on") {
        return Ok(());
    }
    let (count, changes, stopped) = if is_full() {
        (1_000, 100_000, Duration::from_secs(5))
    } else {
        (200, 4_000, Duration::ZERO)
    };
    let scene = Scene::new()?;
    let files = declared(count);
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let page = rustix::param::page_size().to_string();
    let agent = Agent::start(&scene, &["--ring", &page, "--self-test", "1h"])?;
    // The self-test at the start is over before anything is counted.
    wait::until(drift_tests::agent::SOON, || match Closes::of(&scene) {
        Ok(closes) if closes.sent > 0 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .map_err(anyhow::Error::msg)?;
    let before = Closes::of(&scene)?;
    let began = Instant::now();
    agent.signal(Signal::STOP)?;
    for number in 0..changes {
        let path = scene.at(files[number % count].path);
        change(&path, &format!("change {number}\n"))?;
    }
    // A reader that is stopped for a time is what this is about.
    std::thread::park_timeout(stopped.saturating_sub(began.elapsed()));
    agent.signal(Signal::CONT)?;
    let resumed = Instant::now();
    agent.wait(0, "every drift", |records| {
        let found = records
            .iter()
            .filter(|record| record["event"] == "config.drift.detected")
            .count();
        (found >= count).then_some(())
    })?;
    let took = resumed.elapsed();
    println!("{changes} changes of {count} files, all found {took:?} after the reader went on");
    ensure!(took < patience(Duration::from_secs(2)), "{took:?}");
    let lost = agent.wait(0, "the loss", |records| {
        let is_lost = |record: &&Value| record["event"] == "config.events.lost";
        records.iter().find(is_lost).cloned()
    })?;
    ensure!(lost["reason"] == "ring_full", "{lost}");
    // Every close is in one of the three; the first of each file rang, or would have.
    let closes = Closes::of(&scene)?.since(before);
    println!(
        "closes: {closes:?}; {}",
        lost["message"].as_str().unwrap_or_default()
    );
    ensure!(closes.all() == changes as u64, "{closes:?}");
    ensure!(closes.sent + closes.lost == count as u64, "{closes:?}");
    ensure!(closes.lost > 0, "{closes:?}");
    let message = lost["message"].as_str().context("no message")?;
    ensure!(
        message.contains(&format!("close {}", closes.lost)),
        "not {closes:?}: {message}"
    );
    let wrong = wrong(&scene, &files, &told(&agent.since(0)))?;
    ensure!(wrong == 0, "{wrong} files are not told as they are");
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B084: under load each change is accounted for. B086 again: what was sent, what needed no sending and what was lost are all there were.
#[test]
fn sixteen_writers_leave_no_change_unaccounted_for_and_the_end_is_told() -> Result<()> {
    if !has_probes("sixteen_writers_leave_no_change_unaccounted_for_and_the_end_is_told") {
        return Ok(());
    }
    const WRITERS: usize = 16;
    let (count, changes) = if is_full() {
        (1_000, 1_000_000)
    } else {
        (100, 16_000)
    };
    let scene = Scene::new()?;
    let files = declared(count);
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &["--self-test", "1h"])?;
    wait::until(drift_tests::agent::SOON, || match Closes::of(&scene) {
        Ok(closes) if closes.sent > 0 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .map_err(anyhow::Error::msg)?;
    let before = Closes::of(&scene)?;
    let began = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (scene, files) = (&scene, &files);
                scope.spawn(move || -> Result<()> {
                    for number in (writer..changes).step_by(WRITERS) {
                        // Every writer comes by every file, each in an order of its own.
                        let index = (number / WRITERS * (2 * writer + 1)) % files.len();
                        change(
                            &scene.at(files[index].path),
                            &format!("{writer} {number}\n"),
                        )?;
                    }
                    Ok(())
                })
            })
            .collect();
        for writer in writers {
            writer
                .join()
                .map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        Ok(())
    })?;
    let wrote = began.elapsed();
    // What stands there now is told, whatever was told on the way.
    let settled = Instant::now();
    wait::until(patience(Duration::from_secs(20)), || {
        match wrong(&scene, &files, &told(&agent.since(0))) {
            Ok(0) => Ok(()),
            Ok(wrong) => Err(format!("{wrong} files are not told as they are")),
            Err(error) => Err(error.to_string()),
        }
    })
    .map_err(anyhow::Error::msg)?;
    let closes = Closes::of(&scene)?.since(before);
    println!(
        "{changes} changes of {count} files by {WRITERS} writers in {wrote:?}; the end was told {:?} later; closes: {closes:?}; unaccounted: {}",
        settled.elapsed(),
        changes as i64 - closes.all() as i64
    );
    ensure!(closes.all() == changes as u64, "{closes:?}");
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B106: what is known of processes grows with each that comes, for not every end is heard of. Each of these opens a declared file to read it and another to write
/// to it, does neither, and ends with both open.
#[test]
fn processes_that_come_and_go_leave_nothing_behind() -> Result<()> {
    if !has_probes("processes_that_come_and_go_leave_nothing_behind") {
        return Ok(());
    }
    const SHELLS: usize = 2;
    // There is room for 8,192 that have not read yet.
    let processes = if is_full() { 1_000_000 } else { 12_000 };
    let scene = Scene::new()?;
    let files = declared(2);
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &["--self-test", "1h"])?;
    let come_and_go = |count: usize| -> Result<()> {
        let script = "i=0; while [ $i -lt $3 ]; do (exec 3<$1 4>>$2); i=$((i+1)); done";
        let start = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", script, "sh"]);
            shell.args(files.iter().map(|file| scene.at(file.path)));
            shell.arg((count / SHELLS).to_string()).spawn()
        };
        let shells: Vec<_> = (0..SHELLS)
            .map(|_| start())
            .collect::<std::io::Result<_>>()?;
        for mut shell in shells {
            ensure!(shell.wait()?.success());
        }
        Ok(())
    };
    // What is taken once is taken now.
    come_and_go(processes / 10)?;
    let (memory_before, descriptors_before) = agent.footprint()?;
    let began = Instant::now();
    come_and_go(processes)?;
    let took = began.elapsed();
    let (memory, descriptors) = agent.footprint()?;
    println!(
        "{processes} processes in {took:?}: {} KiB resident before, {} KiB after",
        memory_before >> 10,
        memory >> 10
    );
    ensure!(
        memory < memory_before + (2 << 20),
        "memory grew from {memory_before} to {memory}"
    );
    ensure!(
        descriptors <= descriptors_before + 2,
        "descriptors grew from {descriptors_before} to {descriptors}"
    );
    // It is still heard who does something, and no table was full.
    let path = scene.at(files[1].path);
    change(&path, "other\n")?;
    let detected = agent.event(0, "config.drift.detected", &path)?;
    ensure!(detected["actor"]["pid"] == std::process::id(), "{detected}");
    let records = agent.since(0);
    let is_lost = |record: &&Value| record["event"] == "config.events.lost";
    ensure!(records.iter().find(is_lost).is_none(), "{}", agent.all());
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B108: who is busy with a flood hears of all else when it is too late. The agent has one processor, which it shares with writers that never rest.
#[test]
fn beside_writers_that_never_rest_one_processor_is_enough_to_hear_of_all_else() -> Result<()> {
    if !has_probes("beside_writers_that_never_rest_one_processor_is_enough_to_hear_of_all_else") {
        return Ok(());
    }
    const QUIET: usize = 10;
    let (count, time) = if is_full() {
        (1_000, Duration::from_secs(30))
    } else {
        (100, Duration::from_secs(3))
    };
    let scene = Scene::new()?;
    let files = declared(count + QUIET);
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &["--self-test", "1h"])?;
    wait::until(drift_tests::agent::SOON, || match Closes::of(&scene) {
        Ok(closes) if closes.sent > 0 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .map_err(anyhow::Error::msg)?;
    // With all its threads, those that are to come too.
    let pinned = Command::new("taskset")
        .args(["-a", "-p", "-c", "0"])
        .arg(agent.pid().to_string())
        .output()
        .context("taskset")?;
    ensure!(pinned.status.success(), "{pinned:?}");
    let before = Closes::of(&scene)?;
    let (changes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    let write = |writer: usize| -> Result<()> {
        for number in (0_usize..).take_while(|_| !stop.load(Ordering::Relaxed)) {
            let path = scene.at(files[number * (2 * writer + 1) % count].path);
            change(&path, &format!("{writer} {number}\n"))?;
            changes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let heard = std::thread::scope(|scope| {
        let write = &write;
        let writers = [0, 1, 2, 3].map(|writer| scope.spawn(move || write(writer)));
        // One after the other, all through the flood.
        let heard = files[count..].iter().map(|file| {
            std::thread::park_timeout(time / QUIET as u32);
            let path = scene.at(file.path);
            let changed = Instant::now();
            change(&path, "other\n")?;
            let detected = agent.event(0, "config.drift.detected", &path)?;
            ensure!(
                detected["cause"] == "kernel" && detected["actor"]["pid"] == std::process::id(),
                "{detected}"
            );
            Ok(changed.elapsed())
        });
        let heard = heard.collect::<Result<Vec<_>>>();
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer
                .join()
                .map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        heard
    })?;
    let wrote = began.elapsed();
    wait::until(patience(Duration::from_secs(20)), || {
        match wrong(&scene, &files, &told(&agent.since(0))) {
            Ok(0) => Ok(()),
            Ok(wrong) => Err(format!("{wrong} files are not told as they are")),
            Err(error) => Err(error.to_string()),
        }
    })
    .map_err(anyhow::Error::msg)?;
    let changes = changes.into_inner() + QUIET as u64;
    let closes = Closes::of(&scene)?.since(before);
    println!(
        "{:.0} changes a second of {count} files; of {QUIET} others each was told within {:?}; closes: {closes:?}",
        changes as f64 / wrote.as_secs_f64(),
        heard.iter().max().context("none")?
    );
    ensure!(
        closes.all() == changes && closes.lost == 0,
        "{changes}: {closes:?}"
    );
    // Who comes again before he was looked at rings nobody.
    ensure!(closes.sent < closes.coalesced, "{closes:?}");
    ensure!(agent.stop()?.success());
    Ok(())
}
