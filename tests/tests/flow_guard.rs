//! What holds healing back, on the built agent: rivals, budgets, a policy that is wrong for its node.

use std::fs;

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, is_built, program, tool},
    command::says,
    fuse,
    scene::{Declared, HEAL, HEAL_AT_ONCE, Scene, file},
    skip::skip,
    stage::Mounts,
};
use serde_json::Value;

fn of<'a>(records: &'a [Value], event: &str) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["event"] == event)
        .collect()
}

/// Held, and why.
fn held<'a>(records: &'a [Value], reason: &str) -> Vec<&'a Value> {
    of(records, "config.drift.heal_suppressed")
        .into_iter()
        .filter(|record| record["reason"] == reason)
        .collect()
}

fn many(count: usize) -> Vec<Declared> {
    (0..count)
        .map(|number| file(&*format!("d/f{number}.conf").leak(), "declared\n"))
        .collect()
}

/// Cases B114, B124: whoever changes it back ends the healing, is named once, and is observed on.
#[test]
fn a_rival_is_named_once_and_left_alone_over_a_restart() -> Result<()> {
    if !has_probes("a_rival_is_named_once_and_left_alone_over_a_restart") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    let guard =
        "  mode: heal\n  guard: {backoff: {first: 0s}, fight: {heals: 3, within: 5m, hold: 1h}}\n";
    scene.declare("1.0.0", guard, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    let script = format!(
        "for i in $(seq 60); do echo rival $i > {}; sleep 0.05; done",
        app.display()
    );
    let rival = tool("sh", &["-c", &script])?;
    let contested = agent.event(0, "config.drift.heal_suppressed", &app)?;
    ensure!(contested["reason"] == "contested", "{contested}");
    let message = contested["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains(&format!("3 times in 5 min against sh (pid {rival}")),
        "{message}"
    );
    // The last of its changes is seen all the same.
    let last = format!("blake3:{}", blake3::hash(b"rival 60\n").to_hex());
    agent.wait(0, "the last change", |records| {
        let detected = of(records, "config.drift.detected");
        detected
            .iter()
            .any(|record| record["observed"]["digest"] == last.as_str())
            .then_some(())
    })?;
    let records = agent.since(0);
    ensure!(
        of(&records, "config.drift.healed").len() == 3,
        "{}",
        agent.all()
    );
    ensure!(held(&records, "contested").len() == 1, "{}", agent.all());
    agent.stop()?;

    let agent = Agent::start(&scene, &[])?;
    let contested = agent.event(0, "config.drift.heal_suppressed", &app)?;
    ensure!(contested["reason"] == "contested", "{contested}");
    ensure!(fs::read_to_string(&app)? == "rival 60\n");
    agent.stop()?;

    // Another version is another beginning.
    let files = [file("app.conf", "declared anew\n")];
    scene.declare("2.0.0", guard, &files)?;
    let agent = Agent::start(&scene, &[])?;
    agent.event(0, "config.drift.healed", &app)?;
    ensure!(fs::read_to_string(&app)? == "declared anew\n");
    Ok(())
}

/// Case B125: what is set and reads back as something else each time is not set for ever.
#[test]
fn what_never_reads_back_as_declared_is_said_and_left_alone() -> Result<()> {
    const TEST: &str = "what_never_reads_back_as_declared_is_said_and_left_alone";
    if !has_probes(TEST) {
        return Ok(());
    }
    if let Some(reason) = fuse::lacks() {
        skip(TEST, &reason);
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    // Every mode can be set there, and none lasts.
    let server = fuse::serve(&scene.tree())?;
    let plain = file("plain.conf", "declared\n");
    let strict = Declared {
        mode: Some("0600"),
        ..file("strict.conf", "declared\n")
    };
    for one in [&plain, &strict] {
        fs::write(scene.at(one.path), &one.content)?;
    }
    scene.declare("1.0.0", HEAL_AT_ONCE, &[plain, strict])?;
    let agent = Agent::start(&scene, &[])?;
    let (plain, strict) = (scene.at("plain.conf"), scene.at("strict.conf"));
    let failed = |reason: &'static str| {
        let path = strict.display().to_string();
        move |records: &[Value]| {
            let is_it =
                |record: &&&Value| record["path"] == path.as_str() && record["reason"] == reason;
            let failed = of(records, "config.drift.heal_failed");
            failed.iter().filter(is_it).count()
        }
    };
    let (once, at_last) = (failed("changed-meanwhile"), failed("does-not-converge"));
    agent.wait(0, "that it does not converge", |records| {
        (at_last(records) == 1).then_some(())
    })?;
    // Others are healed on.
    let mark = agent.mark();
    for number in 0..3 {
        let mark = agent.mark();
        fs::write(&plain, format!("drift {number}\n"))?;
        agent.event(mark, "config.drift.healed", &plain)?;
    }
    let later = agent.since(mark);
    ensure!((once(&later), at_last(&later)) == (0, 0), "{}", agent.all());
    ensure!(once(&agent.since(0)) == 1, "{}", agent.all());
    ensure!(agent.stop()?.success());
    mounts.clear()?;
    ensure!(server.join().is_ok(), "the file system's thread panicked");
    Ok(())
}

/// Case B116: a setting that has no effect. What holds a path back now is what the Policy says now.
#[test]
fn a_back_off_that_is_changed_counts_at_once() -> Result<()> {
    if !has_probes("a_back_off_that_is_changed_counts_at_once") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    let slow = "  mode: heal\n  guard: {backoff: {first: 300s, factor: 2, cap: 600s}}\n";
    scene.declare("1.0.0", slow, &files)?;
    let app = scene.at("app.conf");
    let agent = Agent::start(&scene, &[])?;
    fs::write(&app, "drift\n")?;
    agent.event(0, "config.drift.healed", &app)?;
    let mark = agent.mark();
    fs::write(&app, "drift again\n")?;
    let held = agent.event(mark, "config.drift.heal_suppressed", &app)?;
    ensure!(held["reason"] == "backoff", "{held}");
    let mark = agent.mark();
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    agent.event(mark, "config.drift.healed", &app)?;
    ensure!(fs::read_to_string(&app)? == "declared\n");
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn no_more_is_healed_in_a_minute_than_the_budget_allows() -> Result<()> {
    if !has_probes("no_more_is_healed_in_a_minute_than_the_budget_allows") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = many(15);
    scene.lay_out(&files)?;
    let guard = "  mode: heal\n  guard: {perMinute: 10}\n";
    scene.declare("1.0.0", guard, &files)?;
    let agent = Agent::start(&scene, &[])?;
    for file in &files {
        fs::write(scene.at(file.path), "evil\n")?;
    }
    agent.wait(0, "10 heals and 5 holds", |records| {
        let healed = of(records, "config.drift.healed").len();
        (healed == 10 && held(records, "budget").len() == 5).then_some(())
    })?;
    let records = agent.since(0);
    let message = held(&records, "budget")[0]["message"].to_string();
    ensure!(message.contains("guard.perMinute"), "{message}");
    agent.stop()?;
    // A restart does not fill it.
    let agent = Agent::start(&scene, &[])?;
    agent.wait(0, "5 holds", |records| {
        (held(records, "budget").len() == 5).then_some(())
    })?;
    ensure!(
        of(&agent.since(0), "config.drift.healed").is_empty(),
        "{}",
        agent.all()
    );
    // None at all, when that is said.
    scene.declare("1.0.0", "  mode: heal\n  guard: {perMinute: 0}\n", &files)?;
    agent.wait(0, "the other heals", |records| {
        (of(records, "config.drift.healed").len() == 5).then_some(())
    })?;
    Ok(())
}

/// Case B120.
#[test]
fn a_policy_that_finds_nearly_everything_otherwise_heals_nothing_and_says_so_once() -> Result<()> {
    if !is_built("a_policy_that_finds_nearly_everything_otherwise_heals_nothing_and_says_so_once") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = many(40);
    scene.lay_out(&files)?;
    for file in &files[..30] {
        fs::write(scene.at(file.path), "of another node\n")?;
    }
    scene.declare("1.0.0", HEAL, &files)?;
    for _ in 0..2 {
        let agent = Agent::start(&scene, &["--sensor", "scan"])?;
        agent.wait(0, "30 drifts and the hold", |records| {
            let detected = of(records, "config.drift.detected").len();
            (detected == 30 && held(records, "mass-drift").len() == 1).then_some(())
        })?;
        // One more, later, is held as well, and that is not said again.
        let late = scene.at(files[35].path);
        let mark = agent.mark();
        fs::write(&late, "late\n")?;
        agent.event(mark, "config.drift.detected", &late)?;
        fs::write(&late, "declared\n")?;
        agent.event(mark, "config.drift.resolved", &late)?;
        let records = agent.since(0);
        ensure!(held(&records, "mass-drift").len() == 1, "{}", agent.all());
        ensure!(
            of(&records, "config.drift.healed").is_empty(),
            "{}",
            agent.all()
        );
        let message = held(&records, "mass-drift")[0]["message"].to_string();
        ensure!(message.contains("30 of 40"), "{message}");
        ensure!(message.contains("massDrift: heal"), "{message}");
        let path = scene.at(files[1].path).display().to_string();
        let policies = scene.policies().display().to_string();
        let out = says(&scene, &["explain", "--policies", &policies, &path], 4)?;
        ensure!(out.contains("healing is held: 30 of 40 files"), "{out}");
        ensure!(out.contains("(mass-drift)"), "{out}");
        agent.stop()?;
    }
    let agent = Agent::start(&scene, &["--sensor", "scan"])?;
    agent.wait(0, "the hold", |records| {
        (held(records, "mass-drift").len() == 1).then_some(())
    })?;
    scene.declare(
        "1.0.0",
        "  mode: heal\n  guard: {massDrift: heal}\n",
        &files,
    )?;
    agent.wait(0, "30 heals", |records| {
        (of(records, "config.drift.healed").len() == 30).then_some(())
    })?;
    Ok(())
}

#[test]
fn a_new_version_is_put_in_place_however_much_it_changes() -> Result<()> {
    if !is_built("a_new_version_is_put_in_place_however_much_it_changes") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = many(40);
    scene.lay_out(&files)?;
    let guard = "  mode: heal\n  guard: {perMinute: 5}\n";
    scene.declare("1.0.0", guard, &files)?;
    let agent = Agent::start(&scene, &["--sensor", "scan"])?;
    let next: Vec<_> = files.iter().map(|old| file(old.path, "next\n")).collect();
    scene.declare("1.1.0", guard, &next)?;
    agent.activated(0, "1.1.0")?;
    for file in &next {
        ensure!(fs::read_to_string(scene.at(file.path))? == "next\n");
    }
    agent.stop()?;
    // Activated while no agent ran: it is an activation all the same.
    let last: Vec<_> = files.iter().map(|old| file(old.path, "last\n")).collect();
    scene.declare("1.2.0", "  mode: heal\n", &last)?;
    let agent = Agent::start(&scene, &["--sensor", "scan"])?;
    agent.wait(0, "40 heals", |records| {
        (of(records, "config.drift.healed").len() == 40).then_some(())
    })?;
    ensure!(
        held(&agent.since(0), "mass-drift").is_empty(),
        "{}",
        agent.all()
    );
    Ok(())
}

#[test]
fn what_holds_a_path_back_and_who_changed_it_last_is_explained() -> Result<()> {
    if !has_probes("what_holds_a_path_back_and_who_changed_it_last_is_explained") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    let guard = "  mode: heal\n  guard: {backoff: {first: 1h, cap: 1h}, perMinute: 7}\n";
    scene.declare("1.0.0", guard, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    let script = format!("echo other > {}", app.display());
    let pid = tool("sh", &["-c", &script])?;
    agent.event(0, "config.drift.healed", &app)?;
    ensure!(agent.stop()?.success());
    let explain = |output: &str| -> Result<String> {
        let output = std::process::Command::new(program())
            .args(["explain", "-o", output, "--policies"])
            .arg(scene.policies())
            .arg("--state")
            .arg(scene.root().join("state"))
            .arg(&app)
            .output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let text = explain("table")?;
    for part in [
        "  held back  until ",
        ", after 1 heal in a row (guard.backoff)\n",
        "at most 7 heals of its policy in any minute (guard.perMinute)\n",
        &format!("  changed by sh (pid {pid}, root), "),
    ] {
        ensure!(text.contains(part), "no {part:?}:\n{text}");
    }
    let value: Value = serde_json::from_str(&explain("json")?)?;
    ensure!(value["guard"]["per_minute"] == 7, "{value}");
    ensure!(value["guard"]["backoff"]["cap_ms"] == 3_600_000, "{value}");
    ensure!(value["kept"]["healing"]["guard"] == "backoff", "{value}");
    ensure!(
        value["kept"]["last_changed_by"]["actor"]["pid"] == pid,
        "{value}"
    );
    ensure!(value["kept"]["version"].is_null(), "{value}");
    Ok(())
}
