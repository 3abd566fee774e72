//! What can be declared of a file: how its content is written, how much it takes to be a drift, and what follows.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, is_built, tool},
    scene::{HEAL_AT_ONCE, Scene},
};
use serde_json::Value;

/// Without probes: what is declared does not depend on how changes are seen.
const SCAN: [&str; 4] = ["--sensor", "scan", "--scan-interval", "100ms"];

/// What was said of a path since a mark.
fn about(agent: &Agent, mark: usize, path: &Path) -> Vec<Value> {
    let path = path.display().to_string();
    let all = agent.since(mark).into_iter();
    all.filter(|record| record["path"] == path).collect()
}

#[test]
fn a_content_is_the_same_however_it_is_written() -> Result<()> {
    if !is_built("a_content_is_the_same_however_it_is_written") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let digest = blake3::hash(b"a").to_hex();
    scene.declare_spec(
        "1.0.0",
        HEAL_AT_ONCE,
        &format!(
            r#"files:
    - {{path: TREE/base64, content: {{base64: YQ==}}}}
    - {{path: TREE/gzip-1, content: {{gzip: H4sIAAAAAAACA0sEAEO+t+gBAAAA}}}}
    - {{path: TREE/gzip-2, content: {{gzip: H4sIAAAAAAAEA0sEAEO+t+gBAAAA}}}}
    - {{path: TREE/url, content: {{dataUrl: "data:,%61"}}}}
    - {{path: TREE/blob, content: {{digest: "blake3:{digest}"}}}}
"#
        ),
    )?;
    fs::create_dir(scene.policies().join("blobs"))?;
    fs::write(scene.policies().join(format!("blobs/{digest}")), "a")?;
    let names = ["base64", "gzip-1", "gzip-2", "url", "blob"];
    // B046: what is packed is compared by what it holds.
    fs::write(scene.at("gzip-1"), "a")?;
    let agent = Agent::start(&scene, &SCAN)?;
    for name in names.iter().filter(|name| **name != "gzip-1") {
        agent.event(0, "config.drift.healed", &scene.at(name))?;
        ensure!(fs::read(scene.at(name))? == b"a", "{name}");
    }
    ensure!(
        about(&agent, 0, &scene.at("gzip-1")).is_empty(),
        "{}",
        agent.all()
    );
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn a_final_line_end_that_does_not_count_is_no_drift_and_healing_is_a_fixed_point() -> Result<()> {
    if !is_built("a_final_line_end_that_does_not_count_is_no_drift_and_healing_is_a_fixed_point") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec(
        "1.0.0",
        HEAL_AT_ONCE,
        r"files:
    - {path: TREE/ignore, content: {inline: x}, finalNewline: ignore}
    - {path: TREE/exact, content: {inline: x}}
",
    )?;
    let (ignore, exact) = (scene.at("ignore"), scene.at("exact"));
    for path in [&ignore, &exact] {
        fs::write(path, "x")?;
    }
    let agent = Agent::start(&scene, &SCAN)?;
    // B047: one more line end, of either kind.
    for more in ["\n", "\r\n"] {
        let mark = agent.mark();
        for path in [&ignore, &exact] {
            fs::write(path, format!("x{more}"))?;
        }
        // B048: what healing wrote, without a line end at its end, is as declared.
        agent.event(mark, "config.drift.healed", &exact)?;
        ensure!(fs::read(&exact)? == b"x");
        ensure!(fs::read(&ignore)? == format!("x{more}").as_bytes());
    }
    let mark = agent.mark();
    fs::write(&ignore, "y\n")?;
    agent.event(mark, "config.drift.healed", &ignore)?;
    ensure!(fs::read(&ignore)? == b"x");
    let events = |path| {
        let told = about(&agent, 0, path);
        let events = told.iter().map(|record| record["event"].to_string());
        events.collect::<Vec<_>>().join(" ")
    };
    let once = r#""config.drift.detected" "config.drift.healed""#;
    ensure!(
        events(&exact) == format!("{once} {once}"),
        "{}",
        agent.all()
    );
    ensure!(events(&ignore) == once, "{}", agent.all());
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B049: other line ends do not count where that is said, and healing writes those that are declared.
#[test]
fn line_ends_that_do_not_count_are_no_drift_and_elsewhere_come_to_rest() -> Result<()> {
    if !is_built("line_ends_that_do_not_count_are_no_drift_and_elsewhere_come_to_rest") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec(
        "1.0.0",
        HEAL_AT_ONCE,
        r#"files:
    - {path: TREE/ignore, content: {inline: "a\nb\n"}, lineEndings: ignore}
    - {path: TREE/exact, content: {inline: "a\nb\n"}}
"#,
    )?;
    let (ignore, exact) = (scene.at("ignore"), scene.at("exact"));
    for path in [&ignore, &exact] {
        fs::write(path, "a\nb\n")?;
    }
    let agent = Agent::start(&scene, &SCAN)?;
    for path in [&ignore, &exact] {
        fs::write(path, "a\r\nb\r\n")?;
    }
    agent.event(0, "config.drift.healed", &exact)?;
    ensure!(fs::read(&exact)? == b"a\nb\n");
    // Something else is drift, and is put right with the line ends that are declared.
    fs::write(&ignore, "a\r\nc\r\n")?;
    agent.event(0, "config.drift.healed", &ignore)?;
    ensure!(fs::read(&ignore)? == b"a\nb\n");
    for path in [&ignore, &exact] {
        let told = about(&agent, 0, path);
        ensure!(told.len() == 2, "{}", agent.all());
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn a_file_says_what_happens_on_its_drift_how_much_it_matters_and_what_is_too_large() -> Result<()> {
    if !is_built("a_file_says_what_happens_on_its_drift_how_much_it_matters_and_what_is_too_large")
    {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec(
        "1.0.0",
        HEAL_AT_ONCE,
        r"files:
    - {path: TREE/watched, content: {inline: a}, onDrift: observe, severity: critical}
    - {path: TREE/small, content: {inline: a}, maxSize: 1KiB, onDrift: observe}
    - {path: TREE/healed, content: {inline: a}}
",
    )?;
    let at = |name: &str| scene.at(name);
    for name in ["watched", "small", "healed"] {
        fs::write(at(name), "a")?;
    }
    let agent = Agent::start(&scene, &SCAN)?;
    let mark = agent.mark();
    for name in ["watched", "healed"] {
        fs::write(at(name), "b")?;
    }
    tool(
        "truncate",
        &["-s", "1025", &at("small").display().to_string()],
    )?;
    let watched = agent.event(mark, "config.drift.detected", &at("watched"))?;
    ensure!(watched["severity"] == "critical", "{watched}");
    let healed = agent.event(mark, "config.drift.healed", &at("healed"))?;
    ensure!(healed["severity"] == "warning", "{healed}");
    // B055: too large is a state of its own, never a digest of something else.
    let small = agent.event(mark, "config.drift.detected", &at("small"))?;
    ensure!(small["observed"].get("digest").is_none(), "{small}");
    ensure!(small["observed"]["size"] == 1025, "{small}");
    ensure!(fs::read(at("watched"))? == b"b");
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn what_the_agent_does_not_act_on_it_refuses() -> Result<()> {
    if !is_built("what_the_agent_does_not_act_on_it_refuses") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec(
        "1.0.0",
        HEAL_AT_ONCE,
        r"files:
    - {path: TREE/a, content: {inline: a}}
  environment:
    - {process: /usr/bin/app, variables: [{name: LANG, value: C}]}
",
    )?;
    let why = Agent::start(&scene, &SCAN).map(drop);
    let why = why.err().map(|why| format!("{why:#}")).unwrap_or_default();
    ensure!(why.contains("`environment` is not supported yet"), "{why}");
    Ok(())
}
