//! What people hold healing back with, on the built agent: pauses, windows, the break-glass file, the kill switch. Observing goes on in all of them.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, is_built},
    command::{run, says},
    scene::{HEAL_AT_ONCE, Scene, file},
    wait,
};
use serde_json::Value;

/// Without probes: these tests are about what is decided, wherever they run.
const SCAN: [&str; 4] = ["--sensor", "scan", "--scan-interval", "100ms"];

struct Place {
    scene: Scene,
    app: PathBuf,
    glass: PathBuf,
}

impl Place {
    fn new(spec: &str) -> Result<Self> {
        let scene = Scene::new()?;
        let files = [file("app.conf", "declared\n")];
        scene.lay_out(&files)?;
        scene.declare("1.0.0", spec, &files)?;
        let (app, glass) = (scene.at("app.conf"), scene.root().join("glass"));
        Ok(Self { scene, app, glass })
    }

    fn start(&self) -> Result<Agent> {
        let glass = self.glass.display().to_string();
        Agent::start(
            &self.scene,
            &[&SCAN[..], &["--break-glass", &glass]].concat(),
        )
    }

    /// Drifts, and is held for this reason.
    fn is_held(&self, agent: &Agent, content: &str, reason: &str) -> Result<Value> {
        let mark = agent.mark();
        fs::write(&self.app, content)?;
        agent.event(mark, "config.drift.detected", &self.app)?;
        let held = agent.event(mark, "config.drift.heal_suppressed", &self.app)?;
        ensure!(held["reason"] == reason, "{held}");
        ensure!(fs::read_to_string(&self.app)? == content);
        Ok(held)
    }

    /// It comes back without another change.
    fn comes_back(&self, agent: &Agent, mark: usize) -> Result<()> {
        agent.event(mark, "config.drift.healed", &self.app)?;
        ensure!(fs::read_to_string(&self.app)? == "declared\n");
        Ok(())
    }

    fn state(&self, name: &str) -> PathBuf {
        self.scene.root().join("state").join(name)
    }
}

/// The record of a brake that was put on, told at the file that says so.
fn told(agent: &Agent, mark: usize, reason: &str) -> Result<Value> {
    agent.wait(mark, reason, |records| {
        let mut records = records.iter();
        records
            .find(|record| {
                record["event"] == "config.drift.heal_suppressed"
                    && record["reason"] == reason
                    && record["declared"].is_null()
                    && record["drift"].is_null()
            })
            .cloned()
    })
}

fn resumed(agent: &Agent, mark: usize) -> Result<Value> {
    agent.wait(mark, "healing that goes on", |records| {
        let mut records = records.iter();
        records
            .find(|record| record["reason"] == "healing-resumed")
            .cloned()
    })
}

/// Cases B118, B137: a pause holds, says by whom, why and until when, outlives a restart, and ends by hand or by itself.
#[test]
fn a_pause_holds_over_a_restart_until_somebody_ends_it() -> Result<()> {
    if !is_built("a_pause_holds_over_a_restart_until_somebody_ends_it") {
        return Ok(());
    }
    let place = Place::new(HEAL_AT_ONCE)?;
    let agent = place.start()?;
    let (status, _, err) = run(
        &place.scene,
        &["pause", "--policy", "none", "--reason", "x"],
    )?;
    ensure!(
        status == 10 && err.contains("no policy `none`"),
        "{status} {err}"
    );
    let said = says(
        &place.scene,
        &["pause", "--for", "30m", "--reason", "ticket 4711"],
        0,
    )?;
    ensure!(
        said.contains("all healing is paused until") && said.contains("ticket 4711"),
        "{said}"
    );
    let record = told(&agent, 0, "paused")?;
    ensure!(
        record["actor"]["uid"] == rustix::process::getuid().as_raw(),
        "{record}"
    );
    ensure!(
        record["actor"]["comm"] == "drift-agent" && record["actor"]["pid"].is_number(),
        "{record}"
    );
    ensure!(
        record["message"]
            .as_str()
            .is_some_and(|text| text.contains("ticket 4711")),
        "{record}"
    );
    let held = place.is_held(&agent, "by hand\n", "paused")?;
    ensure!(
        held["message"]
            .as_str()
            .is_some_and(|text| text.contains("pid ")),
        "{held}"
    );
    let status = says(&place.scene, &["status"], 4)?;
    ensure!(status.contains("all healing is paused until"), "{status}");
    let value: Value = serde_json::from_str(&says(&place.scene, &["status", "-o", "json"], 4)?)?;
    ensure!(value["stops"][0]["reason"] == "paused", "{value}");
    ensure!(
        value["policies"][0]["held"]["paths"][0]["reason"] == "paused",
        "{value}"
    );
    let (_, explained, _) = run(
        &place.scene,
        &[
            "explain",
            "--policies",
            &place.scene.policies().display().to_string(),
            &place.app.display().to_string(),
        ],
    )?;
    ensure!(
        explained.contains("healing is held: all healing is paused"),
        "{explained}"
    );
    agent.kill()?;

    let agent = place.start()?;
    told(&agent, 0, "paused")?;
    let held = agent.event(0, "config.drift.heal_suppressed", &place.app)?;
    ensure!(held["reason"] == "paused", "{held}");
    let mark = agent.mark();
    let said = says(&place.scene, &["resume"], 0)?;
    ensure!(
        said.contains("all healing goes on; it was paused at"),
        "{said}"
    );
    let record = resumed(&agent, mark)?;
    ensure!(
        record["event"] == "config.policy.activated" && record["actor"]["pid"].is_number(),
        "{record}"
    );
    place.comes_back(&agent, mark)?;
    let history = says(&place.scene, &["history", "-o", "jsonl"], 0)?;
    ensure!(
        history.contains("healing-resumed") && history.contains("ticket 4711"),
        "{history}"
    );

    // By itself.
    says(
        &place.scene,
        &["pause", "--for", "2s", "--policy", "p", "--reason", "short"],
        0,
    )?;
    let mark = agent.mark();
    place.is_held(&agent, "again\n", "paused")?;
    place.comes_back(&agent, mark)?;
    let (status, _, err) = run(&place.scene, &["pause", "--for", "8d", "--reason", "x"])?;
    ensure!(status == 2 && err.contains("at most 7d"), "{status} {err}");
    agent.stop()?;
    Ok(())
}

/// Case B118: without an agent it is written down for the next one.
#[test]
fn a_pause_without_an_agent_holds_the_next_one() -> Result<()> {
    if !is_built("a_pause_without_an_agent_holds_the_next_one") {
        return Ok(());
    }
    let place = Place::new(HEAL_AT_ONCE)?;
    let said = says(
        &place.scene,
        &["pause", "--policy", "p", "--reason", "before the start"],
        0,
    )?;
    ensure!(said.contains("no agent is running"), "{said}");
    let status = says(&place.scene, &["status"], 3)?;
    ensure!(status.contains("before the start"), "{status}");
    fs::write(&place.app, "by hand\n")?;
    let agent = place.start()?;
    let held = agent.event(0, "config.drift.heal_suppressed", &place.app)?;
    ensure!(held["reason"] == "paused", "{held}");
    agent.stop()?;
    says(&place.scene, &["resume"], 0)?;
    let agent = place.start()?;
    place.comes_back(&agent, 0)?;
    // What cannot be believed holds everything.
    agent.stop()?;
    fs::write(place.state("pauses"), "garbage")?;
    fs::write(&place.app, "by hand\n")?;
    let agent = place.start()?;
    ensure!(
        agent.errors().contains("all healing is paused"),
        "{}",
        agent.errors()
    );
    let mark = agent.mark();
    says(&place.scene, &["resume"], 0)?;
    place.comes_back(&agent, mark)?;
    agent.stop()?;
    Ok(())
}

/// Case B118: a file that anybody at hand can make stops everything for a while, and ends by itself.
#[test]
fn a_break_glass_file_stops_all_healing_until_it_is_over() -> Result<()> {
    if !is_built("a_break_glass_file_stops_all_healing_until_it_is_over") {
        return Ok(());
    }
    let place = Place::new(HEAL_AT_ONCE)?;
    let agent = place.start()?;
    // What everybody could have written is said, and holds nothing.
    fs::write(&place.glass, "for 1h\n")?;
    fs::set_permissions(&place.glass, fs::Permissions::from_mode(0o666))?;
    wait::until(SOON, || match agent.errors() {
        errors if errors.contains("may write to it") => Ok(()),
        errors => Err(errors),
    })
    .map_err(anyhow::Error::msg)?;
    let mark = agent.mark();
    fs::write(&place.app, "x\n")?;
    place.comes_back(&agent, mark)?;
    fs::set_permissions(&place.glass, fs::Permissions::from_mode(0o644))?;
    let record = told(&agent, mark, "break-glass")?;
    ensure!(
        record["path"] == place.glass.display().to_string(),
        "{record}"
    );
    place.is_held(&agent, "by hand\n", "break-glass")?;
    // It is for people too: also for those who say --force.
    let tried = says(&place.scene, &["heal", "--force"], 4)?;
    ensure!(tried.contains("break-glass"), "{tried}");
    agent.kill()?;
    let agent = place.start()?;
    told(&agent, 0, "break-glass")?;
    let said = "all healing is stopped until";
    ensure!(
        agent.errors().matches(said).count() == 1,
        "told once: {}",
        agent.errors()
    );
    // As it will be when its hour has come.
    let mark = agent.mark();
    let file = fs::File::options().write(true).open(&place.glass)?;
    file.set_modified(SystemTime::now() - Duration::from_hours(2))?;
    resumed(&agent, mark)?;
    place.comes_back(&agent, mark)?;
    ensure!(place.glass.exists(), "whoever made it removes it");
    agent.stop()?;
    Ok(())
}

/// Case B118: switched off for good, also over a restart, until the file is removed.
#[test]
fn a_kill_switch_stops_everything_until_it_is_removed() -> Result<()> {
    if !is_built("a_kill_switch_stops_everything_until_it_is_removed") {
        return Ok(());
    }
    let place = Place::new(HEAL_AT_ONCE)?;
    fs::create_dir(place.scene.root().join("state"))?;
    fs::write(place.state("kill-switch"), "we do not trust it yet\n")?;
    fs::write(&place.app, "by hand\n")?;
    let agent = place.start()?;
    let said = "all healing is switched off until";
    ensure!(
        agent.errors().contains(said) && agent.errors().contains("trust it yet"),
        "{}",
        agent.errors()
    );
    let held = agent.event(0, "config.drift.heal_suppressed", &place.app)?;
    ensure!(held["reason"] == "kill-switch", "{held}");
    // Another version by hand is a write too.
    let files = [file("app.conf", "of 2.0.0\n")];
    let two = place.scene.policy("2.0.0", "", &files);
    let (_, version) = two.split_once("---\n").context("two documents")?;
    fs::write(place.scene.policies().join("two.yaml"), version)?;
    let refused = says(&place.scene, &["activate", "p", "2.0.0"], 10)?;
    ensure!(refused.contains("switched off"), "{refused}");
    let mark = agent.mark();
    fs::remove_file(place.state("kill-switch"))?;
    place.comes_back(&agent, mark)?;
    agent.stop()?;
    Ok(())
}

/// Cases B118, B137: a version that the folder changes waits for the end of a pause, also over a start, and comes whole then; one that somebody asks for does not wait.
#[test]
fn a_version_that_comes_by_itself_waits_for_the_end_of_a_pause() -> Result<()> {
    if !is_built("a_version_that_comes_by_itself_waits_for_the_end_of_a_pause") {
        return Ok(());
    }
    let place = Place::new(HEAL_AT_ONCE)?;
    // With both versions in the folder: what was active before has to be there still.
    let both = |active: &str| -> Result<()> {
        let one = place
            .scene
            .policy("1.0.0", HEAL_AT_ONCE, &[file("app.conf", "declared\n")]);
        let two = place
            .scene
            .policy("2.0.0", HEAL_AT_ONCE, &[file("app.conf", "of 2.0.0\n")]);
        let (_, version) = two.split_once("---\n").context("two documents")?;
        let one = one.replace("activeVersion: 1.0.0", &format!("activeVersion: {active}"));
        let aside = place.scene.root().join("new");
        fs::write(&aside, format!("{one}---\n{version}"))?;
        fs::rename(aside, place.scene.policies().join("policy.yaml"))?;
        Ok(())
    };
    both("1.0.0")?;
    let agent = place.start()?;
    says(&place.scene, &["pause", "--reason", "freeze"], 0)?;
    let mark = agent.mark();
    both("2.0.0")?;
    let waits = agent.wait(mark, "a version that waits", |records| {
        let mut records = records.iter();
        records
            .find(|record| record["version"] == "2.0.0" && record["reason"] == "paused")
            .cloned()
    })?;
    ensure!(
        waits["message"]
            .as_str()
            .is_some_and(|text| text.contains("1.0.0 -> 2.0.0 waits")),
        "{waits}"
    );
    ensure!(fs::read_to_string(&place.app)? == "declared\n");
    agent.kill()?;
    let agent = place.start()?;
    ensure!(fs::read_to_string(&place.app)? == "declared\n");
    let mark = agent.mark();
    says(&place.scene, &["resume"], 0)?;
    agent.activated(mark, "2.0.0")?;
    ensure!(fs::read_to_string(&place.app)? == "of 2.0.0\n");
    says(&place.scene, &["pause", "--reason", "freeze"], 0)?;
    says(&place.scene, &["activate", "p", "1.0.0"], 0)?;
    ensure!(fs::read_to_string(&place.app)? == "declared\n");
    agent.stop()?;
    Ok(())
}

/// Case B118: a policy heals in its windows alone.
#[test]
fn outside_of_its_windows_a_policy_is_watched() -> Result<()> {
    if !is_built("outside_of_its_windows_a_policy_is_watched") {
        return Ok(());
    }
    // Whatever the time is: one that never opens, and one that is always open.
    let guard = |windows: &str| {
        format!("  mode: heal\n  guard: {{backoff: {{first: 0s}}, windows: [{windows}]}}\n")
    };
    let never = guard("{kind: deny, from: \"00:00\", to: \"00:00\"}");
    let place = Place::new(&never)?;
    let agent = place.start()?;
    let held = place.is_held(&agent, "by hand\n", "outside-window")?;
    ensure!(
        held["message"]
            .as_str()
            .is_some_and(|text| text.contains("guard.windows")),
        "{held}"
    );
    let forced = says(&place.scene, &["heal", "--force"], 0)?;
    ensure!(forced.contains("healed"), "{forced}");
    place.is_held(&agent, "again\n", "outside-window")?;
    let mark = agent.mark();
    let always = guard("{from: \"00:00\", to: \"12:00\"}, {from: \"12:00\", to: \"00:00\"}");
    place
        .scene
        .declare("1.0.0", &always, &[file("app.conf", "declared\n")])?;
    place.comes_back(&agent, mark)?;
    agent.stop()?;
    let bad = guard("{from: \"00:00\", to: \"01:00\", timeZone: Mars/Olympus}");
    place
        .scene
        .declare("1.0.0", &bad, &[file("app.conf", "declared\n")])?;
    let (status, _, err) = drift_tests::command::said(
        &std::process::Command::new(drift_tests::agent::program())
            .args(["check", "--policies"])
            .arg(place.scene.policies())
            .output()?,
    )?;
    ensure!(
        status == 10 && err.contains("does not know the time zone `Mars/Olympus`"),
        "{status} {err}"
    );
    Ok(())
}
