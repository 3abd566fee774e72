//! A restart is not a hole: what the agent has kept on its node counts at its next start.

use std::fs;

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, has_probes},
    scene::{HEAL_AT_ONCE, Scene, file},
    wait,
};

/// Cases B077, B153: a copy of what was good is kept, and not used; a state that is damaged ends everything.
#[test]
fn a_start_with_a_bad_folder_goes_on_with_the_last_good_policies_and_heals() -> Result<()> {
    if !has_probes("a_start_with_a_bad_folder_goes_on_with_the_last_good_policies_and_heals") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let kept = scene.root().join("state/last-good");
    wait::until(SOON, || kept.exists().then_some(()).ok_or("not kept"))
        .map_err(anyhow::Error::msg)?;
    drop(agent);
    let app = scene.at("app.conf");
    let bad = |spoil: &dyn Fn() -> std::io::Result<()>| -> Result<Agent> {
        spoil()?;
        fs::write(&app, "drifted while nobody looked\n")?;
        let agent = Agent::start(&scene, &[])?;
        agent.event(0, "config.drift.healed", &app)?;
        ensure!(fs::read_to_string(&app)? == "declared\n");
        ensure!(
            agent
                .errors()
                .contains("degraded: the policy folder was rejected"),
            "{}",
            agent.all()
        );
        let records = agent.since(0);
        ensure!(
            records
                .iter()
                .any(|record| record["event"] == "config.policy.rejected"),
            "{records:?}"
        );
        Ok(agent)
    };
    let policy = scene.policies().join("policy.yaml");
    drop(bad(&|| fs::write(&policy, "kind: Polizy\n"))?);
    // With the database gone or unusable too.
    let database = scene.root().join("state/state.redb");
    fs::write(&database, "rubbish")?;
    drop(bad(&|| fs::remove_file(&policy))?);
    let agent = bad(&|| fs::remove_dir(scene.policies()))?;
    // A good folder is taken by itself.
    let mark = agent.mark();
    fs::create_dir(scene.policies())?;
    scene.declare("1.1.0", HEAL_AT_ONCE, &[file("app.conf", "newer\n")])?;
    agent.activated(mark, "1.1.0")?;
    ensure!(fs::read_to_string(&app)? == "newer\n");
    Ok(())
}

#[test]
fn back_off_survives_a_kill() -> Result<()> {
    if !has_probes("back_off_survives_a_kill") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    let slow = "  mode: heal\n  guard: {backoff: {first: 300s, factor: 2, cap: 600s}}\n";
    scene.declare("1.0.0", slow, &files)?;
    let app = scene.at("app.conf");
    let database = scene.root().join("state/state.redb");
    let agent = Agent::start(&scene, &[])?;
    // The back-off is written after what was healed is told. Writing the policies down is over by then, or changes the file too.
    let is_written = || fs::read(&database).map(|bytes| bytes.windows(8).any(|w| w == b"app.conf"));
    fs::write(&app, "drift\n")?;
    agent.event(0, "config.drift.healed", &app)?;
    wait::until(SOON, || match is_written() {
        Ok(true) => Ok(()),
        other => Err(format!("the brake is not written: {other:?}")),
    })
    .map_err(anyhow::Error::msg)?;
    drop(agent); // killed
    fs::write(&app, "drift again\n")?;
    let agent = Agent::start(&scene, &[])?;
    let held = agent.event(0, "config.drift.heal_suppressed", &app)?;
    ensure!(held["reason"] == "backoff", "{held}");
    let message = held["message"].as_str().context("a message")?;
    ensure!(
        message.contains("healed once just before: holding for 2"),
        "{message}"
    );
    ensure!(fs::read_to_string(&app)? == "drift again\n");
    Ok(())
}
