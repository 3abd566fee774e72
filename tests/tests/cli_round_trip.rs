//! All of this machine's /etc, copied: declared as it is, changed at random, found, healed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, is_built},
    command::{check, is_clean, snapshot},
    mutate::{Random, mutate},
    scene::Scene,
    skip::skip,
    tree::{self, Tree},
    wait,
};
use serde_json::Value;

/// What `check` finds, by path.
fn found(records: &[Value]) -> Result<BTreeMap<PathBuf, BTreeSet<&str>>> {
    records
        .iter()
        .map(|record| {
            let path = record["path"].as_str().context("no path")?;
            let kinds = record["drift"].as_array().context("no kinds")?;
            Ok((
                path.into(),
                kinds.iter().filter_map(Value::as_str).collect(),
            ))
        })
        .collect()
}

/// The status that these drifts come to.
fn expected_status(drifts: &BTreeMap<PathBuf, BTreeSet<&str>>) -> i32 {
    let bit = |kind: &&str| match *kind {
        "unexpected" => 1,
        "missing" => 2,
        _ => 4,
    };
    let kinds = drifts.values().flatten();
    kinds.map(bit).fold(0, |status, bit| status | bit)
}

/// A copy of all of this machine's /etc, and a snapshot of it in which nothing else may be. The original is only read.
fn etc() -> Result<(Scene, Tree)> {
    let scene = Scene::new()?;
    let copied = scene.at("etc");
    let skipped = tree::copy(Path::new("/etc"), &copied)?;
    for path in &skipped {
        eprintln!("not copied: {}", path.display());
    }
    let arguments = ["tree/etc", "--exhaustive", "-o", "policies/etc.yaml"];
    let (status, out, err) = snapshot(&scene, &arguments)?;
    ensure!(status == 0, "{out}{err}");
    eprintln!("{out}");
    let before = tree::read(&copied)?;
    Ok((scene, before))
}

/// 200 random changes; all that is seen of them is as the oracle says.
fn changed(
    scene: &Scene,
    before: &Tree,
    seed: u64,
) -> Result<BTreeMap<PathBuf, BTreeSet<&'static str>>> {
    const CHANGES: usize = 200;
    let root = scene.at("etc");
    let mut random = Random::new(seed);
    let paths: Vec<PathBuf> = before
        .keys()
        .filter(|path| **path != root)
        .cloned()
        .collect();
    let mut done = Vec::new();
    for _ in 0..CHANGES * 100 {
        if done.len() == CHANGES {
            break;
        }
        done.extend(mutate(&mut random, &root, &paths)?);
    }
    ensure!(done.len() == CHANGES, "only {} changes", done.len());
    let expected = tree::drifts(before, &tree::read(&root)?, &root);
    let (status, records) = check(scene)?;
    let found = found(&records)?;
    let all: BTreeSet<&PathBuf> = expected.keys().chain(found.keys()).collect();
    let wrong: Vec<String> = all
        .into_iter()
        .filter(|path| expected.get(*path) != found.get(*path))
        .map(|path| {
            let (expected, found) = (expected.get(path), found.get(path));
            format!("{}: expected {expected:?}, found {found:?}", path.display())
        })
        .collect();
    ensure!(
        wrong.is_empty(),
        "seed {seed}:\n{}\nafter:\n{}",
        wrong.join("\n"),
        done.join("\n")
    );
    ensure!(
        status == expected_status(&expected),
        "seed {seed}: {status}"
    );
    eprintln!(
        "seed {seed}: {CHANGES} changes, {} paths drift, all found and no other",
        expected.len()
    );
    Ok(expected)
}

fn seed() -> Result<u64> {
    match std::env::var("DRIFT_SEED") {
        Ok(seed) => Ok(seed.parse()?),
        Err(_) => {
            let now = SystemTime::UNIX_EPOCH.elapsed()?;
            Ok(u64::from(now.subsec_nanos()))
        }
    }
}

/// What a heal may not touch where nothing drifts: everything.
fn stamps(tree: &Tree) -> BTreeMap<&Path, (u64, (i64, i64))> {
    let stamp = |(path, node): (_, &tree::Node)| (path, (node.ino, node.changed));
    tree.iter()
        .map(|(path, node)| (path.as_path(), node))
        .map(stamp)
        .collect()
}

/// Declared files and links in whose place a directory stands now that holds something. A heal deletes nothing that it did not write.
fn occupied(before: &Tree, now: &Tree) -> Vec<PathBuf> {
    let holds =
        |node: &tree::Node| matches!(&node.what, tree::What::Directory(names) if !names.is_empty());
    before
        .iter()
        .filter(|(_, node)| !matches!(node.what, tree::What::Directory(_)))
        .filter(|(path, _)| now.get(*path).is_some_and(holds))
        .map(|(path, _)| path.clone())
        .collect()
}

#[test]
fn all_of_etc_goes_round_clean_then_exactly_what_changed_then_healed_then_at_rest() -> Result<()> {
    let test = "all_of_etc_goes_round_clean_then_exactly_what_changed_then_healed_then_at_rest";
    if !is_built(test) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(
            test,
            "reading all of /etc, and giving files away, needs root",
        );
        return Ok(());
    }
    let seed = seed()?;
    eprintln!("DRIFT_SEED={seed}");
    let (scene, before) = etc()?;
    let root = scene.at("etc");
    is_clean(&scene)?;
    changed(&scene, &before, seed)?;

    // Heals until nothing is left but what nobody declared, which it only reports. Where that stands in the way, a person moves it.
    let in_the_way = occupied(&before, &tree::read(&root)?);
    let heal = [
        "--mode",
        "heal",
        "--sensor",
        "scan",
        "--scan-interval",
        "1s",
    ];
    let agent = Agent::start(&scene, &heal)?;
    for path in in_the_way {
        eprintln!("in the way: {}", path.display());
        let failed = agent.event(0, "config.drift.heal_failed", &path)?;
        let why = failed["message"].as_str().unwrap_or_default();
        ensure!(why.contains("not empty"), "seed {seed}: {failed}");
        fs::remove_dir_all(path)?;
    }
    let healed = wait::until(Duration::from_secs(60), || {
        let (_, records) = check(&scene).map_err(|error| error.to_string())?;
        let left = found(&records).map_err(|error| error.to_string())?;
        let is_healed = left
            .values()
            .all(|kinds| *kinds == BTreeSet::from(["unexpected"]));
        if is_healed {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
    healed.map_err(|left| {
        let all = agent.all();
        let said: Vec<&str> = all
            .lines()
            .filter(|line| !line.contains("healed"))
            .collect();
        anyhow::anyhow!("seed {seed}: not healed: {left}\n{}", said.join("\n"))
    })?;
    agent.stop()?;
    for path in tree::read(&root)?.keys().rev() {
        if before.contains_key(path) {
            continue;
        }
        if fs::symlink_metadata(path)?.is_dir() {
            fs::remove_dir(path)?;
        } else {
            fs::remove_file(path)?;
        }
    }
    is_clean(&scene)?;
    let after = tree::read(&root)?;
    let left = tree::drifts(&before, &after, &root);
    ensure!(left.is_empty(), "seed {seed}: {left:?}");

    // Where nothing drifts, nothing is written.
    let agent = Agent::start(&scene, &heal)?;
    agent.stop()?;
    let again = tree::read(&root)?;
    ensure!(stamps(&after) == stamps(&again), "seed {seed}: touched");
    is_clean(&scene)
}

#[test]
fn whatever_changes_in_etc_exactly_that_is_found() -> Result<()> {
    let test = "whatever_changes_in_etc_exactly_that_is_found";
    if !is_built(test) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(
            test,
            "reading all of /etc, and giving files away, needs root",
        );
        return Ok(());
    }
    // These are the same on every machine but for what it has; the other test has a new one each time.
    for seed in 1..=4 {
        let (scene, before) = etc()?;
        let drifts = changed(&scene, &before, seed)?;
        ensure!(drifts.len() > 50, "seed {seed}: {}", drifts.len());
    }
    Ok(())
}
