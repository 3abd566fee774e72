//! Links, masks, directories, and paths at which nothing may be: seen, attributed, put back.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, is_built, tool},
    scene::{HEAL_AT_ONCE, Scene},
};
use serde_json::Value;

const SPEC: &str = r"files:
    - {path: TREE/conf.d/a.conf, content: {inline: a}}
  symlinks:
    - {path: TREE/link, target: over/there}
  masks:
    - {path: TREE/masked.service}
  absent:
    - {path: TREE/gone}
  directories:
    - {path: TREE/conf.d, mode: '0750', exhaustive: true, ignore: ['*.bak'], onUnexpected: remove}
    - {path: TREE/watched.d, exhaustive: true}
";

fn lay_out(scene: &Scene) -> Result<()> {
    for name in ["conf.d", "watched.d"] {
        fs::create_dir(scene.at(name))?;
    }
    fs::set_permissions(scene.at("conf.d"), fs::Permissions::from_mode(0o750))?;
    fs::write(scene.at("conf.d/a.conf"), "a")?;
    symlink("over/there", scene.at("link"))?;
    symlink("/dev/null", scene.at("masked.service"))?;
    Ok(())
}

fn kinds(record: &Value) -> String {
    record["drift"].to_string()
}

/// A tool's drift of `kind` at `path` is seen by the kernel, from the right process, and healed.
fn drifts<A: AsRef<std::ffi::OsStr>>(
    agent: &Agent,
    path: &Path,
    kind: &str,
    program: &str,
    arguments: &[A],
) -> Result<()> {
    let mark = agent.mark();
    let pid = tool(program, arguments)?;
    let detected = agent.event(mark, "config.drift.detected", path)?;
    ensure!(kinds(&detected) == format!("[\"{kind}\"]"), "{detected}");
    ensure!(detected["cause"] == "kernel", "{detected}");
    ensure!(detected["actor"]["pid"] == pid, "not by {pid}: {detected}");
    agent.event(mark, "config.drift.healed", path)?;
    Ok(())
}

#[test]
fn targets_that_are_no_files_are_watched_by_the_kernel_and_put_back() -> Result<()> {
    if !has_probes("targets_that_are_no_files_are_watched_by_the_kernel_and_put_back") {
        return Ok(());
    }
    let scene = Scene::new()?;
    lay_out(&scene)?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, SPEC)?;
    let agent = Agent::start(&scene, &["--sensor", "tracepoint"])?;
    let at = |name: &str| scene.at(name);
    let name = |name: &str| scene.at(name).display().to_string();
    // Never a file of the machine.
    let bait = scene.elsewhere().join("bait").display().to_string();

    drifts(
        &agent,
        &at("link"),
        "link-target",
        "ln",
        &["-sfn", &bait, &name("link")],
    )?;
    drifts(&agent, &at("link"), "missing", "rm", &[at("link")])?;
    drifts(
        &agent,
        &at("masked.service"),
        "type",
        // One process, so that nobody heals between its two calls.
        "python3",
        &[
            "-c".to_owned(),
            format!(
                "import os; os.unlink('{0}'); os.mkdir('{0}')",
                name("masked.service")
            ),
        ],
    )?;
    drifts(&agent, &at("gone"), "unexpected", "touch", &[at("gone")])?;
    drifts(&agent, &at("gone"), "unexpected", "mkdir", &[at("gone")])?;
    drifts(
        &agent,
        &at("gone"),
        "unexpected",
        "ln",
        &["-s", &bait, &name("gone")],
    )?;
    let conf = at("conf.d");
    drifts(&agent, &conf, "mode", "chmod", &["777", &name("conf.d")])?;
    drifts(&agent, &conf, "unexpected", "touch", &[at("conf.d/stray")])?;
    drifts(&agent, &conf, "unexpected", "mkdir", &[at("conf.d/sub")])?;
    drifts(
        &agent,
        &conf,
        "unexpected",
        "ln",
        &["-s", &bait, &name("conf.d/l")],
    )?;
    fs::write(scene.elsewhere().join("new"), "x")?;
    let new = scene.elsewhere().join("new").display().to_string();
    drifts(
        &agent,
        &conf,
        "unexpected",
        "mv",
        &[&new, &name("conf.d/z")],
    )?;
    drifts(
        &agent,
        &conf,
        "missing",
        "mv",
        &[
            name("conf.d"),
            scene.elsewhere().join("off").display().to_string(),
        ],
    )?;
    // What is declared in it comes back with it.
    agent.wait(0, "the file in it", |_| {
        at("conf.d/a.conf").exists().then_some(())
    })?;

    // What is ignored is no drift; what is only reported stays.
    let mark = agent.mark();
    fs::write(at("conf.d/a.bak"), "x")?;
    tool("touch", &[at("watched.d/stray")])?;
    let told = agent.event(mark, "config.drift.detected", &at("watched.d"))?;
    let message = told["message"].as_str().unwrap_or_default();
    ensure!(message.contains("nobody declared stray in it"), "{told}");
    // Two processes changed this directory, and nothing says when the first change was read: who did it may be unknown.
    let after = agent.mark();
    tool("touch", &[at("conf.d/last")])?;
    let detected = agent.event(after, "config.drift.detected", &conf)?;
    ensure!(kinds(&detected) == "[\"unexpected\"]", "{detected}");
    agent.event(after, "config.drift.healed", &conf)?;
    ensure!(at("watched.d/stray").exists() && at("conf.d/a.bak").exists());
    let conf = conf.display().to_string();
    let of_conf =
        |record: &&Value| record["path"] == conf && record["event"] == "config.drift.detected";
    ensure!(
        agent.since(mark).iter().filter(of_conf).count() == 1,
        "{}",
        agent.all()
    );
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn they_are_found_at_start_and_by_scanning_and_a_second_start_has_nothing_to_do() -> Result<()> {
    if !is_built("they_are_found_at_start_and_by_scanning_and_a_second_start_has_nothing_to_do") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, SPEC)?;
    fs::write(scene.at("gone"), "x")?;
    let scan = ["--sensor", "scan", "--scan-interval", "100ms"];
    let agent = Agent::start(&scene, &scan)?;
    for name in [
        "gone",
        "link",
        "masked.service",
        "conf.d",
        "watched.d",
        "conf.d/a.conf",
    ] {
        agent.event(0, "config.drift.healed", &scene.at(name))?;
    }
    let mark = agent.mark();
    fs::remove_file(scene.at("link"))?;
    fs::write(scene.at("conf.d/stray"), "x")?;
    for name in ["link", "conf.d"] {
        agent.event(mark, "config.drift.healed", &scene.at(name))?;
    }
    ensure!(agent.stop()?.success());

    ensure!(fs::read_link(scene.at("link"))? == Path::new("over/there"));
    ensure!(fs::read_link(scene.at("masked.service"))? == Path::new("/dev/null"));
    ensure!(!scene.at("gone").exists() && !scene.at("conf.d/stray").exists());
    let mode = fs::metadata(scene.at("conf.d"))?.permissions().mode();
    ensure!(mode & 0o7777 == 0o750, "{mode:o}");
    let agent = Agent::start(&scene, &scan)?;
    let drifts = agent.since(0).into_iter();
    let drifts: Vec<Value> = drifts
        .filter(|record| record.get("path").is_some())
        .collect();
    ensure!(drifts.is_empty(), "{drifts:?}");
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn what_is_beneath_a_directory_that_became_a_link_is_put_back_after_it() -> Result<()> {
    let test = "what_is_beneath_a_directory_that_became_a_link_is_put_back_after_it";
    if !is_built(test) {
        return Ok(());
    }
    let sensors = if has_probes(test) {
        &["scan", "tracepoint"][..]
    } else {
        &["scan"][..]
    };
    for sensor in sensors {
        let scene = Scene::new()?;
        scene.declare_spec(
            "1.0.0",
            HEAL_AT_ONCE,
            "files:\n    - {path: TREE/way.d/sub/beneath, content: {inline: a}}\n  directories:\n    - {path: TREE/way.d}\n",
        )?;
        fs::create_dir_all(scene.at("way.d/sub"))?;
        fs::write(scene.at("way.d/sub/beneath"), "a")?;
        let agent = Agent::start(&scene, &["--sensor", sensor])?;
        let mark = agent.mark();
        fs::rename(scene.at("way.d"), scene.elsewhere().join("way.d"))?;
        symlink(scene.elsewhere(), scene.at("way.d"))?;
        let beneath = scene.at("way.d/sub/beneath");
        for path in [&scene.at("way.d"), &beneath] {
            agent.event(mark, "config.drift.healed", path)?;
        }
        ensure!(fs::read(beneath)? == b"a" && !scene.at("way.d").is_symlink());
    }
    Ok(())
}
