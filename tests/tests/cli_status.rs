//! `drift-agent status`: the truth about the node, or that it is not known.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, has_probes, is_built, program},
    scene::{DEFAULT, HEAL, HEAL_AT_ONCE, Scene, file},
    wait,
};
use rustix::process::Signal;
use serde_json::Value;

/// The status of the command, and what it says.
fn status(scene: &Scene) -> Result<(i32, Value)> {
    let output = Command::new(program())
        .args(["status", "-o", "json", "--state"])
        .arg(scene.root().join("state"))
        .stderr(Stdio::inherit())
        .output()?;
    let code = output.status.code().context("ended by a signal")?;
    let said = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{code}: {}", String::from_utf8_lossy(&output.stdout)))?;
    Ok((code, said))
}

/// Asks until the answer is as wanted.
fn until(scene: &Scene, wanted: impl Fn(&Value) -> bool) -> Result<(i32, Value)> {
    wait::until(SOON, || {
        let (code, said) = status(scene).map_err(|error| format!("{error:#}"))?;
        if wanted(&said) {
            Ok((code, said))
        } else {
            Err(format!("{said:#}"))
        }
    })
    .map_err(anyhow::Error::msg)
}

fn reasons(said: &Value) -> Vec<&str> {
    let reasons = said["reasons"].as_array().into_iter().flatten();
    reasons.filter_map(|one| one["reason"].as_str()).collect()
}

#[test]
fn without_an_agent_it_says_so_and_what_the_last_one_knew() -> Result<()> {
    if !is_built("without_an_agent_it_says_so_and_what_the_last_one_knew") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (code, said) = status(&scene)?;
    ensure!(code == 3 && said["health"] == "no-agent", "{code} {said}");
    ensure!(said["policies"] == serde_json::json!([]), "{said}");
    let files = [file("a.conf", "a\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &["--sensor", "scan", "--soak", "0s"])?;
    until(&scene, |said| {
        said["policies"][0]["last_known_good"] == "1.0.0"
    })?;
    agent.kill()?;
    let (code, said) = status(&scene)?;
    ensure!(code == 3 && reasons(&said) == ["no-agent"], "{code} {said}");
    let policy = &said["policies"][0];
    ensure!(
        policy["policy"] == "p" && policy["version"] == "1.0.0",
        "{said}"
    );
    ensure!(policy["last_known_good"] == "1.0.0", "{said}");
    // What cannot be read is told, and is no failure of the command.
    fs::write(scene.root().join("state/state.redb"), "rubbish")?;
    let (code, said) = status(&scene)?;
    ensure!(
        code == 3 && reasons(&said) == ["no-agent", "state-database"],
        "{said}"
    );
    Ok(())
}

#[test]
fn a_node_is_healthy_or_heals_or_holds_and_the_status_says_which() -> Result<()> {
    if !has_probes("a_node_is_healthy_or_heals_or_holds_and_the_status_says_which") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "a\n"), file("b.conf", "b\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let (code, said) = status(&scene)?;
    ensure!(code == 0 && said["health"] == "healthy", "{code} {said}");
    ensure!(
        said["pid"] == agent.pid() && said["events_lost"] == 0,
        "{said}"
    );
    let sensor = &said["sensor"];
    ensure!(
        sensor["name"] == "btf" || sensor["name"] == "tracepoint",
        "{said}"
    );
    ensure!(sensor["hooks_attached"].as_u64() > Some(0), "{said}");
    ensure!(said["last_full_scan"]["files"] == 2, "{said}");
    let a = scene.at("a.conf");
    fs::write(&a, "drift\n")?;
    agent.event(0, "config.drift.healed", &a)?;
    until(&scene, |said| said["policies"][0]["healed_24h"] == 1)?;
    fs::write(&a, "drift again\n")?;
    agent.event(0, "config.drift.heal_suppressed", &a)?;
    let (code, said) = status(&scene)?;
    let held = &said["policies"][0]["held"];
    ensure!(code == 4 && said["health"] == "drifting", "{code} {said}");
    ensure!(held["count"] == 1, "{said}");
    ensure!(
        held["paths"][0]["path"] == a.display().to_string(),
        "{said}"
    );
    ensure!(held["paths"][0]["reason"] == "backoff", "{said}");
    ensure!(held["paths"][0]["until"].is_string(), "{said}");
    let (code, _) = until(&scene, |said| said["health"] == "healthy")?;
    ensure!(code == 0);
    // Heals of the last day count over a restart.
    ensure!(agent.stop()?.success());
    let _agent = Agent::start(&scene, &[])?;
    until(&scene, |said| said["policies"][0]["healed_24h"] == 2)?;
    Ok(())
}

/// B135: with healing off a drifted file is never called ready.
#[test]
fn b135_a_drift_that_is_only_watched_makes_the_node_drifting() -> Result<()> {
    if !has_probes("b135_a_drift_that_is_only_watched_makes_the_node_drifting") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "a\n"), file("b.conf", "b\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &[])?;
    fs::remove_file(scene.at("a.conf"))?;
    agent.event(0, "config.drift.detected", &scene.at("a.conf"))?;
    let (code, said) = status(&scene)?;
    let policy = &said["policies"][0];
    ensure!(code == 4 && said["health"] == "drifting", "{code} {said}");
    ensure!(policy["mode"] == "observe", "{said}");
    ensure!(
        policy["drifting"] == 1 && policy["as_declared"] == 1,
        "{said}"
    );
    ensure!(
        policy["held"]["count"] == 0,
        "watching is not holding: {said}"
    );
    Ok(())
}

/// B076: a restart does not make a drift nothing, not for a moment.
#[test]
fn b076_from_the_first_answer_after_a_restart_a_drift_is_a_drift_or_not_compared_yet() -> Result<()>
{
    if !has_probes(
        "b076_from_the_first_answer_after_a_restart_a_drift_is_a_drift_or_not_compared_yet",
    ) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let contents: Vec<String> = (0..200).map(|n| format!("declared {n}\n")).collect();
    let names: Vec<&'static str> = (0..200)
        .map(|n| &*Box::leak(format!("{n}.conf").into_boxed_str()))
        .collect();
    let files: Vec<_> = names
        .iter()
        .zip(&contents)
        .map(|(name, content)| file(name, content))
        .collect();
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    fs::write(scene.at("199.conf"), "drift\n")?;
    for _ in 0..3 {
        let starting = thread::scope(|scope| {
            let starting = scope.spawn(|| Agent::start(&scene, &["--sensor", "scan"]));
            let mut answers = 0;
            while !starting.is_finished() || answers == 0 {
                let (code, said) = status(&scene)?;
                if said["health"] == "no-agent" {
                    continue;
                }
                answers += 1;
                let policy = &said["policies"][0];
                let of = |field: &str| policy[field].as_u64().context("a number");
                ensure!(code == 4 || code == 5, "{code} {said}");
                ensure!(of("drifting")? + of("not_compared")? >= 1, "{said}");
                ensure!(
                    of("as_declared")? + of("drifting")? + of("not_compared")? == 200,
                    "{said}"
                );
                ensure!(
                    (code == 5) == reasons(&said).contains(&"not-compared"),
                    "{said}"
                );
            }
            starting.join().map_err(|_| anyhow::anyhow!("panicked"))?
        });
        starting?.kill()?;
    }
    Ok(())
}

/// B163: what is put right is that file, and nothing else is said to be because something has changed.
#[test]
fn b163_a_drift_is_over_when_that_file_is_as_that_file_is_declared() -> Result<()> {
    if !has_probes("b163_a_drift_is_over_when_that_file_is_as_that_file_is_declared") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "a\n"), file("b.conf", "b\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let [a, b] = ["a.conf", "b.conf"].map(|name| scene.at(name));
    for path in [&a, &b] {
        fs::write(path, "drift\n")?;
        agent.event(0, "config.drift.detected", path)?;
    }
    let mark = agent.mark();
    fs::write(&a, "a\n")?;
    agent.event(mark, "config.drift.resolved", &a)?;
    let drifting = |said: &Value| said["policies"][0]["drifting"].clone();
    let (code, said) = until(&scene, |said| drifting(said) == 1)?;
    ensure!(code == 4, "{code} {said}");
    // Something else than declared, and then what is declared of the other file, is a drift as before.
    for text in ["drift again\n", "a\n"] {
        let mark = agent.mark();
        fs::write(&b, text)?;
        let record = agent.event(mark, "config.drift.detected", &b)?;
        let digest = format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex());
        ensure!(record["observed"]["digest"] == digest.as_str(), "{record}");
    }
    fs::write(&b, "b\n")?;
    agent.event(mark, "config.drift.resolved", &b)?;
    let resolved: Vec<_> = agent
        .since(0)
        .into_iter()
        .filter(|record| record["event"] == "config.drift.resolved")
        .collect();
    ensure!(resolved.len() == 2, "{resolved:?}");
    let (code, said) = until(&scene, |said| drifting(said) == 0)?;
    ensure!(code == 0, "{code} {said}");
    Ok(())
}

/// B160: what was found stays until it is compared again, and how long ago that was is told.
#[test]
fn b160_while_nothing_is_compared_the_age_grows_and_the_drift_stays() -> Result<()> {
    if !has_probes("b160_while_nothing_is_compared_the_age_grows_and_the_drift_stays") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "a\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    fs::write(scene.at("a.conf"), "drift\n")?;
    let agent = Agent::start(&scene, &["--scan-interval", "1h"])?;
    let age = |said: &Value| said["last_full_scan"]["age_s"].as_u64();
    let (_, first) = status(&scene)?;
    let (code, later) = until(&scene, |said| age(said) > age(&first))?;
    ensure!(
        code == 4 && later["policies"][0]["drifting"] == 1,
        "{later}"
    );
    let ended = |said: &Value| said["last_full_scan"]["ended"].clone();
    ensure!(ended(&first) == ended(&later), "{first} {later}");
    // An agent that is stopped answers nobody: that is said, and nothing is made up.
    agent.signal(Signal::STOP)?;
    let output = Command::new(program())
        .args(["status", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    agent.signal(Signal::CONT)?;
    let err = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{:?}", output.status);
    ensure!(
        output.stdout.is_empty() && err.contains("does not answer"),
        "{err}"
    );
    Ok(())
}

#[test]
fn a_version_is_the_last_known_good_one_after_its_soak_and_a_restart_keeps_it() -> Result<()> {
    if !has_probes("a_version_is_the_last_known_good_one_after_its_soak_and_a_restart_keeps_it") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "a\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let good = |said: &Value| said["policies"][0]["last_known_good"].clone();
    let agent = Agent::start(&scene, &["--soak", "1h"])?;
    // As declared, but not for long enough.
    let (_, said) = until(&scene, |said| said["policies"][0]["soak_left_s"].is_u64())?;
    ensure!(good(&said).is_null(), "{said}");
    ensure!(
        said["policies"][0]["soak_left_s"].as_u64() > Some(3500),
        "{said}"
    );
    ensure!(agent.stop()?.success());

    let agent = Agent::start(&scene, &["--soak", "500ms"])?;
    until(&scene, |said| good(said) == "1.0.0")?;
    agent.kill()?;

    // Another version does not take its place before it has soaked, and never while it drifts.
    let observed = [file("a.conf", "newer\n")];
    scene.declare("2.0.0", DEFAULT, &observed)?;
    let agent = Agent::start(&scene, &["--soak", "500ms"])?;
    let (code, said) = status(&scene)?;
    ensure!(code == 4 && good(&said) == "1.0.0", "{code} {said}");
    // Some soaks in which nothing must happen.
    let (_, said) = until(&scene, |said| said["uptime_s"].as_u64() >= Some(3))?;
    ensure!(said["policies"][0]["version"] == "2.0.0", "{said}");
    ensure!(good(&said) == "1.0.0", "{said}");
    ensure!(said["policies"][0]["soak_left_s"].is_null(), "{said}");
    scene.lay_out(&observed)?;
    until(&scene, |said| good(said) == "2.0.0")?;
    drop(agent);
    Ok(())
}

/// Case B150: good, bad, and the same good again: the state follows what was said last.
#[test]
fn a_folder_that_was_rejected_makes_the_node_degraded_until_it_is_good_again() -> Result<()> {
    if !is_built("a_folder_that_was_rejected_makes_the_node_degraded_until_it_is_good_again") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "a\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &["--sensor", "scan", "--store-quota", "3MiB"])?;
    let (_, said) = status(&scene)?;
    ensure!(said["store"]["quota"] == 3 << 20, "{said}");
    fs::write(scene.policies().join("bad.yaml"), "kind: Polizy\n")?;
    agent.signal(Signal::HUP)?;
    let (code, said) = until(&scene, |said| said["health"] == "degraded")?;
    ensure!(
        code == 5 && reasons(&said) == ["policies-rejected"],
        "{said}"
    );
    ensure!(said["policies"][0]["as_declared"] == 1, "{said}");
    let table = Command::new(program())
        .args(["status", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    let table = String::from_utf8(table.stdout)?;
    ensure!(table.contains("bad.yaml"), "the reason is told: {table}");
    fs::remove_file(scene.policies().join("bad.yaml"))?;
    agent.signal(Signal::HUP)?;
    let (code, _) = until(&scene, |said| said["health"] == "healthy")?;
    ensure!(code == 0);
    Ok(())
}
