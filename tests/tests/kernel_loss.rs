//! A ring that is full loses the *who*, never the *that*: what was lost is counted exactly, told, and answered by a look.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    scene::{DEFAULT, Declared, Scene, file},
};
use rustix::process::Signal;
use serde_json::Value;

/// The smallest ring there is: one page.
fn page() -> usize {
    rustix::param::page_size()
}

/// Doorbells that fit into a ring of one page: 96 bytes and a header of 8 each, and the kernel never fills it to the last byte.
fn room() -> usize {
    (page() - 1) / (96 + 8)
}

fn declared(count: usize) -> Vec<Declared> {
    (0..count)
        .map(|number| file(format!("f{number}.conf").leak(), "declared\n"))
        .collect()
}

fn of<'a>(records: &'a [Value], event: &'a str) -> impl Iterator<Item = &'a Value> {
    records
        .iter()
        .filter(move |record| record["event"] == event)
}

/// `961 events (ring full); all 961 files concerned …`: the first two numbers.
fn numbers(lost: &Value) -> Result<(usize, usize)> {
    let message = lost["message"].as_str().context("no message")?;
    let mut numbers = message
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok());
    Ok((
        numbers.next().context("no number of events")?,
        numbers.next().context("no number of files")?,
    ))
}

#[test]
fn every_event_that_did_not_fit_is_counted_and_every_file_is_found() -> Result<()> {
    if !has_probes("every_event_that_did_not_fit_is_counted_and_every_file_is_found") {
        return Ok(());
    }
    const FILES: usize = 200;
    let scene = Scene::new()?;
    let files = declared(FILES);
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    for number in 0..FILES {
        fs::write(scene.elsewhere().join(format!("new-{number}")), "other\n")?;
    }
    let agent = Agent::start(&scene, &["--ring", &page().to_string()])?;
    agent.signal(Signal::STOP)?;
    // A rename rings once, whatever the file system does besides.
    for (number, file) in files.iter().enumerate() {
        fs::rename(
            scene.elsewhere().join(format!("new-{number}")),
            scene.at(file.path),
        )?;
    }
    agent.signal(Signal::CONT)?;
    agent.wait(0, "every drift", |records| {
        (of(records, "config.drift.detected").count() == FILES).then_some(())
    })?;
    let lost = agent.wait(0, "the loss", |records| {
        of(records, "config.events.lost").next().cloned()
    })?;
    ensure!(lost["reason"] == "ring_full", "{lost}");
    let expected = FILES - room();
    ensure!(
        numbers(&lost)? == (expected, expected),
        "not {expected}: {lost}"
    );
    let records = agent.since(0);
    let unnamed = of(&records, "config.drift.detected")
        .filter(|record| record["actor"].is_null())
        .count();
    ensure!(
        unnamed == expected,
        "{unnamed} have no name, {expected} lost it"
    );
    for record in of(&records, "config.drift.detected") {
        let named = record["actor"]["pid"] == std::process::id();
        let why = record["actor_unknown"].as_str().unwrap_or_default();
        ensure!(record["cause"] == "kernel", "{record}");
        ensure!(named || why.contains("lost"), "{record}");
    }
    ensure!(
        of(&records, "config.events.lost").count() == 1,
        "{}",
        agent.all()
    );
    Ok(())
}

#[test]
fn a_hundred_thousand_changes_while_the_reader_is_stopped_hide_no_file() -> Result<()> {
    if !has_probes("a_hundred_thousand_changes_while_the_reader_is_stopped_hide_no_file") {
        return Ok(());
    }
    const FILES: usize = 500;
    // A guest's processor is slow, and what is tested is no figure there.
    let rounds = if std::env::var_os("DRIFT_TEST_SENSOR").is_some() {
        10
    } else {
        100_000 / FILES
    };
    let scene = Scene::new()?;
    let files = declared(FILES);
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &["--ring", &page().to_string()])?;
    agent.signal(Signal::STOP)?;
    for round in 1..=rounds {
        for file in &files {
            fs::write(scene.at(file.path), format!("round {round}\n"))?;
        }
    }
    agent.signal(Signal::CONT)?;
    let resumed = Instant::now();
    agent.wait(0, "every drift", |records| {
        (of(records, "config.drift.detected").count() >= FILES).then_some(())
    })?;
    let took = resumed.elapsed();
    println!("{FILES} files found {took:?} after the reader went on");
    // The figure itself is printed; a loaded machine must not fail the test.
    ensure!(took < Duration::from_secs(15), "{took:?}");
    agent.wait(0, "the loss", |records| {
        of(records, "config.events.lost").next().map(drop)
    })?;
    let records = agent.since(0);
    let last = format!("round {rounds}\n");
    let digest = format!("blake3:{}", blake3::hash(last.as_bytes()).to_hex());
    for record in of(&records, "config.drift.detected") {
        ensure!(record["observed"]["digest"] == digest.as_str(), "{record}");
        ensure!(record["cause"] == "kernel", "{record}");
    }
    ensure!(agent.stop()?.success());
    Ok(())
}
