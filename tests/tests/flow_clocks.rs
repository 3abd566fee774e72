//! Clocks that are not those of the kernel half.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, program, tool},
    scene::{HEAL, Scene, file},
    skip::skip,
};
use jiff::Timestamp;

/// B164: the time since boot is another one for the agent than for the kernel half. Who did it, when, and how long a heal waits are as they are elsewhere.
#[test]
fn in_a_time_namespace_names_times_and_brakes_are_right() -> Result<()> {
    const TEST: &str = "in_a_time_namespace_names_times_and_brakes_are_right";
    if !has_probes(TEST) {
        return Ok(());
    }
    let apart = |offset: &str| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--boottime", offset, "--monotonic", offset]);
        command
    };
    if !apart("1000").arg("true").status()?.success() {
        skip(TEST, "this machine makes no time namespaces");
        return Ok(());
    }
    for offset in ["100000", "-5"] {
        let scene = Scene::new()?;
        let files = [file("app.conf", "declared\n")];
        scene.lay_out(&files)?;
        scene.declare("1.0.0", HEAL, &files)?;
        let mut command = apart(offset);
        command
            .arg(program())
            .args(["run", "--policies"])
            .arg(scene.policies());
        let agent = Agent::start_as(command, &scene)?;
        ensure!(
            fs::read_to_string(format!("/proc/{}/timens_offsets", agent.pid()))?.contains(offset),
            "it is in no time namespace"
        );
        let app = scene.at("app.conf");
        let change = || -> Result<(u32, Timestamp, Timestamp)> {
            let before = Timestamp::now();
            let pid = tool("sh", &["-c", &format!("echo x > {}", app.display())])?;
            Ok((pid, before, Timestamp::now()))
        };
        let (pid, before, after) = change()?;
        let detected = agent.event(0, "config.drift.detected", &app)?;
        ensure!(
            detected["cause"] == "kernel" && detected["actor"]["pid"] == pid,
            "not by {pid}: {detected}"
        );
        let told: Timestamp = detected["time"].as_str().context("a time")?.parse()?;
        let ago = i64::try_from(detected["seen_ns"].as_u64().context("no seen_ns")?)?;
        let rang = told - jiff::SignedDuration::from_nanos(ago);
        // Two clocks are read one after the other.
        let clocks = jiff::SignedDuration::from_millis(50);
        ensure!(
            before - clocks <= rang && rang <= after + clocks,
            "{before} {rang} {after}: {detected}"
        );
        agent.event(0, "config.drift.healed", &app)?;
        // The second heal waits for two seconds, by the agent's own clock.
        let mark = agent.mark();
        let (pid, ..) = change()?;
        let held = agent.event(mark, "config.drift.heal_suppressed", &app)?;
        ensure!(held["reason"] == "backoff", "{held}");
        let healed = agent.event(mark, "config.drift.healed", &app)?;
        let time = |record: &serde_json::Value| -> Result<Timestamp> {
            Ok(record["time"].as_str().context("a time")?.parse()?)
        };
        let waited = time(&healed)?.duration_since(time(&held)?);
        ensure!(
            waited.as_secs() < 10 && waited >= jiff::SignedDuration::from_millis(500),
            "{waited:?}"
        );
        let detected = agent.event(mark, "config.drift.detected", &app)?;
        ensure!(detected["actor"]["pid"] == pid, "not by {pid}: {detected}");
        ensure!(agent.stop()?.success());
    }
    Ok(())
}
