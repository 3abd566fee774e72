//! The agent's own changes are verified and are no drift. Whoever only calls himself so is somebody else.

use std::{fs, process::Command};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, tool},
    scene::{HEAL_AT_ONCE, Scene, file},
};

/// B080: what the agent itself writes is taken for drift.
#[test]
fn a_heal_is_verified_and_is_no_drift_of_its_own() -> Result<()> {
    if !has_probes("a_heal_is_verified_and_is_no_drift_of_its_own") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let path = scene.at("app.conf");
    for round in 0..5 {
        let mark = agent.mark();
        let pid = tool("sh", &["-c", &format!("echo {round} > {}", path.display())])?;
        let detected = agent.event(mark, "config.drift.detected", &path)?;
        ensure!(detected["actor"]["pid"] == pid, "{detected}");
        let healed = agent.event(mark, "config.drift.healed", &path)?;
        ensure!(healed["outcome"] == "healed", "{healed}");
        ensure!(fs::read_to_string(&path)? == "declared\n");
    }
    let own = agent.pid();
    let records = agent.since(0);
    let count = |event: &str| {
        let of = records.iter().filter(|record| record["event"] == event);
        of.count()
    };
    ensure!(
        (count("config.drift.detected"), count("config.touched")) == (5, 0),
        "{}",
        agent.all()
    );
    ensure!(
        records.iter().all(|record| record["actor"]["pid"] != own),
        "{}",
        agent.all()
    );
    Ok(())
}

/// Case B136: who is told apart by a name that anybody can have.
#[test]
fn another_process_that_calls_itself_drift_agent_is_reported() -> Result<()> {
    if !has_probes("another_process_that_calls_itself_drift_agent_is_reported") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    // The same name, the same arguments, another program.
    let impostor = scene.elsewhere().join("drift-agent");
    let shell = fs::canonicalize("/bin/sh")?;
    fs::copy(shell, &impostor)?;
    let path = scene.at("app.conf");
    let mut child = Command::new(&impostor)
        .args(["-c", &format!("echo evil > {}", path.display()), "run"])
        .spawn()?;
    let pid = child.id();
    ensure!(child.wait()?.success());
    let detected = agent.event(0, "config.drift.detected", &path)?;
    ensure!(detected["actor"]["pid"] == pid, "{detected}");
    ensure!(detected["actor"]["comm"] == "drift-agent", "{detected}");
    ensure!(detected["actor"]["pid"] != agent.pid(), "{detected}");
    agent.event(0, "config.drift.healed", &path)?;
    Ok(())
}
