//! `drift-agent history`: what was reported is on the node, beside a running agent and after it, and never a reason not to start.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, has_probes, is_built, program},
    scene::{HEAL_AT_ONCE, Scene, file},
    wait,
};
use serde_json::Value;

/// Status, standard output, standard error.
fn history(scene: &Scene, arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = Command::new(program())
        .arg("history")
        .arg("--state")
        .arg(scene.root().join("state"))
        .args(arguments)
        .output()?;
    Ok((
        output.status.code().context("ended by a signal")?,
        String::from_utf8(output.stdout)?,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

fn records(scene: &Scene, arguments: &[&str]) -> Result<Vec<Value>> {
    let arguments = [arguments, &["-o", "jsonl"]].concat();
    let (status, out, err) = history(scene, &arguments)?;
    ensure!(status == 0, "{status} {err}");
    let lines = out.lines().map(|line| Ok(serde_json::from_str(line)?));
    lines.collect()
}

/// The segments of the history, oldest first.
fn segments(scene: &Scene) -> Result<Vec<PathBuf>> {
    let folder = fs::read_dir(scene.root().join("state/history"))?;
    let mut paths = folder
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// A scene of two files, and an agent that heals them.
fn scene() -> Result<(Scene, Agent)> {
    let scene = Scene::new()?;
    let files = [file("a.conf", "a\n"), file("sub/b.conf", "b\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    Ok((scene, agent))
}

fn drift(agent: &Agent, path: &Path, content: &str) -> Result<()> {
    let mark = agent.mark();
    fs::write(path, content)?;
    agent.event(mark, "config.drift.healed", path)?;
    Ok(())
}

#[test]
fn history_is_read_beside_the_agent_and_after_a_kill_and_holds_no_content() -> Result<()> {
    if !has_probes("history_is_read_beside_the_agent_and_after_a_kill_and_holds_no_content") {
        return Ok(());
    }
    let (scene, agent) = scene()?;
    let (a, b) = (scene.at("a.conf"), scene.at("sub/b.conf"));
    drift(&agent, &a, "hunter2-in-a-file\n")?;
    drift(&agent, &b, "hunter2-in-a-file\n")?;
    // What was said is kept within moments; both ways out are asked, and both have the same.
    let same = || -> Result<(), String> {
        let kept = records(&scene, &[]).map_err(|error| error.to_string())?;
        if kept == agent.since(0) {
            return Ok(());
        }
        Err(format!("{kept:?}\n{}", agent.all()))
    };
    wait::until(SOON, same).map_err(anyhow::Error::msg)?;
    let said = agent.since(0);
    agent.kill()?;
    ensure!(records(&scene, &[])? == said, "a kill loses nothing");
    for segment in segments(&scene)? {
        let text = fs::read_to_string(segment)?;
        ensure!(!text.contains("hunter2"), "content in the history: {text}");
    }
    let agent = Agent::start(&scene, &[])?;
    drift(&agent, &a, "again\n")?;
    wait::until(SOON, || {
        let kept = records(&scene, &[]).map_err(|error| error.to_string())?;
        let expected = [said.clone(), agent.since(0)].concat();
        (kept == expected).then_some(()).ok_or(format!("{kept:?}"))
    })
    .map_err(anyhow::Error::msg)?;

    let of = |arguments: &[&str]| -> Result<Vec<String>> {
        let found = records(&scene, arguments)?;
        Ok(found
            .iter()
            .map(|record| record["event"].as_str().unwrap_or_default().to_owned())
            .collect())
    };
    let (tree, below) = (scene.tree(), b.display().to_string());
    ensure!(
        of(&[&below])? == ["config.drift.detected", "config.drift.healed"],
        "{:?}",
        of(&[&below])?
    );
    ensure!(of(&[&tree.join("sub").display().to_string(), "--event", "healed"])?.len() == 1);
    ensure!(of(&["--event", "healed"])?.len() == 3);
    ensure!(of(&["--policy", "p", "--since", "1h", "-n", "2"])?.len() == 2);
    ensure!(of(&["--policy", "other"])?.is_empty());
    ensure!(of(&["--since", "2999-01-01T00:00:00Z"])?.is_empty());
    Ok(())
}

#[test]
fn one_record_is_shown_by_the_end_of_its_id_and_every_form_is_the_same() -> Result<()> {
    if !has_probes("one_record_is_shown_by_the_end_of_its_id_and_every_form_is_the_same") {
        return Ok(());
    }
    let (scene, agent) = scene()?;
    let a = scene.at("a.conf");
    drift(&agent, &a, "drift\n")?;
    ensure!(agent.stop()?.success());
    let all = records(&scene, &[])?;
    let healed = all.last().context("a record")?;
    let id = healed["id"].as_str().context("an id")?;
    let short = &id[id.len() - 8..];
    let (_, table, _) = history(&scene, &[])?;
    let line = table.lines().last().context("a line")?;
    ensure!(line.contains(short) && line.contains("healed"), "{table}");
    for part in [short, id, &id[..30]] {
        let (status, shown, err) = history(&scene, &["--show", part, "-o", "json"])?;
        ensure!(status == 0, "{part}: {err}");
        ensure!(serde_json::from_str::<Value>(&shown)? == *healed, "{shown}");
    }
    let (status, shown, _) = history(&scene, &["--show", short])?;
    ensure!(
        status == 0 && shown.contains(&format!("id: \"{id}\"")),
        "{shown}"
    );
    // All ids begin with the same hours.
    let (status, _, err) = history(&scene, &["--show", &id[..4]])?;
    ensure!(status == 1 && err.contains("give more of it"), "{err}");
    let (status, _, err) = history(&scene, &["--show", "ffffffff"])?;
    ensure!(status == 1 && err.contains("no record"), "{err}");
    let (_, json, _) = history(&scene, &["-o", "json"])?;
    ensure!(serde_json::from_str::<Vec<Value>>(&json)? == all, "{json}");
    let (_, yaml, _) = history(&scene, &["-o", "yaml"])?;
    ensure!(yaml.matches("- ").count() >= all.len(), "{yaml}");
    Ok(())
}

#[test]
fn without_a_history_it_says_so() -> Result<()> {
    if !is_built("without_a_history_it_says_so") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (status, out, _) = history(&scene, &[])?;
    ensure!(status == 0 && out.starts_with("no history"), "{out}");
    let (status, out, _) = history(&scene, &["-o", "json"])?;
    ensure!(status == 0 && serde_json::from_str::<Value>(&out)? == serde_json::json!([]));
    let (status, _, err) = history(&scene, &["--event", "drift"])?;
    ensure!(status == 2 && err.contains("config.drift.healed"), "{err}");
    Ok(())
}

/// B077: whatever has become of the state folder, the agent starts, heals, and goes on keeping what it says.
#[test]
fn b077_a_history_that_was_deleted_cut_off_or_replaced_never_keeps_the_agent_from_starting()
-> Result<()> {
    if !has_probes(
        "b077_a_history_that_was_deleted_cut_off_or_replaced_never_keeps_the_agent_from_starting",
    ) {
        return Ok(());
    }
    let (scene, agent) = scene()?;
    let a = scene.at("a.conf");
    drift(&agent, &a, "drift\n")?;
    ensure!(agent.stop()?.success());
    let before = records(&scene, &[])?.len();
    let folder = scene.root().join("state/history");
    let spoil: [(&str, &dyn Fn() -> Result<()>); 4] = [
        ("cut off", &|| {
            let last = segments(&scene)?.pop().context("a segment")?;
            let bytes = fs::read(&last)?;
            Ok(fs::write(&last, &bytes[..bytes.len() - 7])?)
        }),
        ("rubbish in it", &|| {
            let last = segments(&scene)?.pop().context("a segment")?;
            let mut bytes = fs::read(&last)?;
            bytes.splice(10..40, [0; 9]);
            Ok(fs::write(&last, &bytes)?)
        }),
        ("a file in its place", &|| {
            fs::remove_dir_all(&folder)?;
            Ok(fs::write(&folder, "rubbish")?)
        }),
        ("gone", &|| Ok(fs::remove_dir_all(&folder)?)),
    ];
    for (what, spoil) in spoil {
        spoil().context(what)?;
        fs::write(&a, format!("drift while {what}\n"))?;
        let agent = Agent::start(&scene, &[])?;
        agent.event(0, "config.drift.healed", &a)?;
        let said = agent.since(0);
        ensure!(agent.stop()?.success(), "{what}");
        let kept = records(&scene, &[])?;
        ensure!(kept.ends_with(&said), "{what}: {kept:?}");
        if what == "cut off" {
            ensure!(kept.len() == before - 1 + said.len(), "{what}: {kept:?}");
        }
        if what == "rubbish in it" {
            let (_, _, err) = history(&scene, &[])?;
            ensure!(err.contains("damaged"), "{what}: {err}");
        }
    }
    Ok(())
}
