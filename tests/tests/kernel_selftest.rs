//! The agent tries whether it would hear a change. Each way to make it deaf is really taken here: it is told, repaired, and a change is heard again.

use std::fs;

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, program, tool},
    scene::{DEFAULT, Scene, file},
    tamper, wait,
};
use serde_json::Value;

/// As often as it may be.
const OFTEN: [&str; 2] = ["--self-test", "2s"];

fn started() -> Result<(Scene, Agent)> {
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n"), file("other.conf", "o\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &OFTEN)?;
    Ok((scene, agent))
}

fn status(scene: &Scene) -> Result<Value> {
    let output = std::process::Command::new(program())
        .args(["status", "-o", "json", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Waits for the record that says that it was noticed, and what was done.
fn told(agent: &Agent, mark: usize, reason: &str) -> Result<String> {
    told_of(agent, mark, reason, "")
}

/// The same, with these words in it.
fn told_of(agent: &Agent, mark: usize, reason: &str, words: &str) -> Result<String> {
    let message = |record: &Value| record["message"].as_str().unwrap_or_default().to_owned();
    let what = format!("a loss because of {reason}: {words}");
    let record = agent.wait(mark, &what, |records| {
        let is_told = |record: &&Value| {
            record["event"] == "config.events.lost"
                && record["reason"] == reason
                && message(record).contains(words)
        };
        records.iter().find(is_told).cloned()
    })?;
    Ok(message(&record))
}

/// A change is heard, with its actor.
fn hears(scene: &Scene, agent: &Agent) -> Result<()> {
    let mark = agent.mark();
    let path = scene.at("app.conf");
    let pid = tool("sh", &["-c", &format!("echo other >> {}", path.display())])?;
    let detected = agent.event(mark, "config.drift.detected", &path)?;
    ensure!(detected["cause"] == "kernel", "{detected}");
    ensure!(detected["actor"]["pid"] == pid, "not by {pid}: {detected}");
    Ok(())
}

/// The status says nothing of the sensor any more.
fn is_sound_again(scene: &Scene) -> Result<()> {
    wait::until(drift_tests::agent::SOON, || {
        let status = status(scene).map_err(|error| error.to_string())?;
        let reasons = status["reasons"].to_string();
        if reasons.contains("sensor-fault") {
            Err(reasons)
        } else {
            Ok(())
        }
    })
    .map_err(anyhow::Error::msg)
}

/// Whether this kernel keeps the agent from loading its programs anew, as it has said: where `perf_event_paranoid` is above 2, which Debian's kernels alone know,
/// an event of a tracepoint is for CAP_SYS_ADMIN, which the agent has given up by then (docs/limits.md). Anywhere else it is a failure.
fn is_kept_from_loading(message: &str) -> Result<bool> {
    if !message.contains("could not be loaded anew") {
        return Ok(false);
    }
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")?;
    let paranoid: i32 = paranoid.trim().parse()?;
    ensure!(paranoid > 2, "perf_event_paranoid is {paranoid}: {message}");
    eprintln!("perf_event_paranoid is {paranoid}: the programs cannot be loaded anew here");
    Ok(true)
}

/// Its status says that it is not well, and why; what changes is told all the same. How that was found.
fn is_unwell_and_tells(scene: &Scene, agent: &Agent, why: &str) -> Result<Value> {
    let now = status(scene)?;
    ensure!(now["health"] == "degraded", "{now}");
    ensure!(now["reasons"].to_string().contains(why), "{now}");
    let mark = agent.mark();
    let path = scene.at("app.conf");
    fs::write(&path, "other\n")?;
    agent.event(mark, "config.drift.detected", &path)
}

#[test]
fn the_canary_is_heard_and_is_neither_a_drift_nor_in_the_history() -> Result<()> {
    if !has_probes("the_canary_is_heard_and_is_neither_a_drift_nor_in_the_history") {
        return Ok(());
    }
    let (scene, agent) = started()?;
    // Each doorbell of a close is the canary's: nobody else closes anything that is watched.
    wait::until(drift_tests::agent::SOON, || {
        let status = status(&scene).map_err(|error| error.to_string())?;
        match status["sensor"]["counted"]["close"]["sent"].as_u64() {
            Some(3..) if status["health"] == "healthy" => Ok(()),
            _ => Err(status.to_string()),
        }
    })
    .map_err(anyhow::Error::msg)?;
    let records = agent.since(0);
    ensure!(
        records
            .iter()
            .all(|record| record["event"] == "config.policy.activated"),
        "{records:?}"
    );
    ensure!(agent.stop()?.success());
    let history = std::process::Command::new(program())
        .args(["history", "-o", "jsonl", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    let text = String::from_utf8(history.stdout)?;
    ensure!(
        !text.contains("canary") && text.lines().count() == 1,
        "{text}"
    );
    Ok(())
}

/// B087: the agent seems to be well and hears nothing.
#[test]
fn a_program_that_was_detached_is_noticed_and_attached_again() -> Result<()> {
    if !has_probes("a_program_that_was_detached_is_noticed_and_attached_again") {
        return Ok(());
    }
    let (scene, agent) = started()?;
    let links = tamper::links(agent.pid())?;
    if links.is_empty() {
        drift_tests::skip::skip(
            "a_program_that_was_detached_is_noticed_and_attached_again",
            "this kernel (before 5.15) attaches to perf events without links",
        );
        return Ok(());
    }
    // Half of all there are, from rename to chmod: what no write would tell.
    let mark = agent.mark();
    tamper::close(agent.pid(), &links[links.len() / 2..])?;
    let message = told(&agent, mark, "detached")?;
    ensure!(message.contains("loaded anew"), "{message}");
    ensure!(message.contains("all 2 files were read again"), "{message}");
    if is_kept_from_loading(&message)? {
        let why = "not allowed to load kernel programs";
        let detected = is_unwell_and_tells(&scene, &agent, why)?;
        ensure!(detected["cause"] == "scan", "{detected}");
        ensure!(detected["actor"].is_null(), "{detected}");
        return Ok(());
    }
    is_sound_again(&scene)?;
    let now = tamper::links(agent.pid())?.len();
    ensure!(
        now == links.len(),
        "{now} links, not {}: {}",
        links.len(),
        agent.all()
    );
    hears(&scene, &agent)?;
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn a_kernel_table_that_somebody_changes_is_noticed_and_made_anew() -> Result<()> {
    if !has_probes("a_kernel_table_that_somebody_changes_is_noticed_and_made_anew") {
        return Ok(());
    }
    let (scene, agent) = started()?;
    let mark = agent.mark();
    let taken = tamper::forget_inodes(agent.pid())?;
    ensure!(taken >= 2, "{taken}");
    // Nobody hears this one.
    fs::write(scene.at("other.conf"), "changed\n")?;
    let message = told(&agent, mark, "tampered")?;
    ensure!(message.contains("INODES"), "{message}");
    ensure!(message.contains("1 drifting"), "{message}");
    agent.event(mark, "config.drift.detected", &scene.at("other.conf"))?;
    is_sound_again(&scene)?;
    hears(&scene, &agent)?;
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B088: each program is attached, and does not do what it is there for. (That each does it, in each kernel: `kernel_kinds`.)
#[test]
fn an_agent_that_does_not_hear_itself_says_so_and_starts_to_hear_again() -> Result<()> {
    if !has_probes("an_agent_that_does_not_hear_itself_says_so_and_starts_to_hear_again") {
        return Ok(());
    }
    let (scene, agent) = started()?;
    let mark = agent.mark();
    // The marks can be set back no more: the canary's first change rings, its second one finds the mark up.
    tamper::freeze_marks(agent.pid())?;
    let message = told(&agent, mark, "self-test")?;
    ensure!(message.contains("did not tell of it"), "{message}");
    ensure!(message.contains("loaded anew"), "{message}");
    if is_kept_from_loading(&message)? {
        // Those that are attached go on.
        is_unwell_and_tells(&scene, &agent, "sensor-fault")?;
        return Ok(());
    }
    is_sound_again(&scene)?;
    hears(&scene, &agent)?;
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn a_canary_that_cannot_be_written_is_told_and_degrades_the_status_until_it_can() -> Result<()> {
    if !has_probes("a_canary_that_cannot_be_written_is_told_and_degrades_the_status_until_it_can") {
        return Ok(());
    }
    let (scene, agent) = started()?;
    let canary = scene.root().join("state/canary");
    let mark = agent.mark();
    wait::until(drift_tests::agent::SOON, || {
        fs::remove_file(&canary).map_err(|error| error.to_string())
    })
    .map_err(anyhow::Error::msg)?;
    fs::create_dir(&canary)?;
    // The file may have gone between its write and its read: that is told too, and first.
    told_of(&agent, mark, "self-test", "could not be written")?;
    let now = status(&scene)?;
    ensure!(now["health"] == "degraded", "{now}");
    ensure!(now["reasons"].to_string().contains("sensor-fault"), "{now}");
    ensure!(
        now["sensor"]["cannot_see"]
            .to_string()
            .contains("self-test"),
        "{now}"
    );
    fs::remove_dir(&canary)?;
    is_sound_again(&scene)?;
    hears(&scene, &agent)?;
    Ok(())
}
