//! Where no probes run: the same verdicts, later and without a name, and said loudly.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, is_built, program},
    scene::{DEFAULT, HEAL, Scene, file},
    skip::skip,
};

#[test]
fn scanning_finds_and_heals_every_second_and_says_why_nobody_is_named() -> Result<()> {
    if !is_built("scanning_finds_and_heals_every_second_and_says_why_nobody_is_named") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL, &files)?;
    let agent = Agent::start(&scene, &["--sensor", "scan"])?;
    let app = scene.at("app.conf");
    let mark = agent.mark();
    fs::write(&app, "other\n")?;
    let detected = agent.event(mark, "config.drift.detected", &app)?;
    ensure!(detected["cause"] == "scan", "{detected}");
    ensure!(
        detected["actor"].is_null() && detected["actor_unknown"].is_string(),
        "{detected}"
    );
    agent.event(mark, "config.drift.healed", &app)?;
    ensure!(fs::read_to_string(&app)? == "declared\n");
    ensure!(agent.stop()?.success());
    Ok(())
}

/// The agent, as root of a user namespace without any capability outside it: like an ordinary container.
fn unprivileged(scene: &Scene, sensor: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
            "--no-new-privs",
        ])
        .arg(program())
        .arg("run")
        .arg("--policies")
        .arg(scene.policies())
        .arg("--state")
        .arg(scene.root().join("state-of-nobody"))
        .args(["-o", "jsonl", "--sensor", sensor]);
    command
}

#[test]
fn without_capabilities_it_goes_on_by_scanning_and_insisting_on_probes_is_refused() -> Result<()> {
    const TEST: &str =
        "without_capabilities_it_goes_on_by_scanning_and_insisting_on_probes_is_refused";
    if !is_built(TEST) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(TEST, "becoming another user needs root");
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let state = scene.root().join("state-of-nobody");
    fs::create_dir(&state)?;
    for path in [scene.root(), &state, &scene.tree(), &scene.at("app.conf")] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534))
            .context("giving the scene to nobody")?;
    }
    // The built agent may stand in a folder that nobody else may enter.
    let output = unprivileged(&scene, "tracepoint").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("failed to execute") {
        skip(TEST, "the built agent cannot be reached by another user");
        return Ok(());
    }
    ensure!(
        !output.status.success() && said.contains("no probes (not-allowed)"),
        "{said}"
    );

    let agent = Agent::spawn(unprivileged(&scene, "auto"))?;
    let app = scene.at("app.conf");
    agent.wait(0, "the active policy", |records| {
        records
            .iter()
            .any(|record| record["event"] == "config.policy.activated")
            .then_some(())
    })?;
    fs::write(&app, "other\n")?;
    let detected = agent.event(0, "config.drift.detected", &app)?;
    ensure!(
        detected["actor"].is_null() && detected["cause"] != "kernel",
        "{detected}"
    );
    ensure!(
        agent.errors().contains("degraded: no probes (not-allowed)"),
        "{}",
        agent.errors()
    );
    ensure!(agent.stop()?.success());
    Ok(())
}
