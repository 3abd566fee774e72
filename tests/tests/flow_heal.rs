//! From a change to a verified heal, on the real kernel: what was done, seen, by whom, put back, told.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, tool},
    scene::{DEFAULT, HEAL, HEAL_AT_ONCE, Scene, file},
};
use serde_json::Value;

fn kinds(record: &Value) -> Vec<&str> {
    record["drift"]
        .as_array()
        .map(|kinds| kinds.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Drifts with a tool, and waits for detection by the kernel with the right process, and for the heal.
#[track_caller]
fn drifts(agent: &Agent, path: &Path, kind: &str, pid: impl FnOnce() -> Result<u32>) -> Result<()> {
    let mark = agent.mark();
    let pid = pid()?;
    let detected = agent.event(mark, "config.drift.detected", path)?;
    ensure!(kinds(&detected).contains(&kind), "{detected}");
    ensure!(detected["cause"] == "kernel", "{detected}");
    ensure!(detected["actor"]["pid"] == pid, "not by {pid}: {detected}");
    let healed = agent.event(mark, "config.drift.healed", path)?;
    ensure!(healed["outcome"] == "healed", "{healed}");
    Ok(())
}

#[test]
fn every_way_an_ordinary_tool_drifts_a_file_is_seen_attributed_and_healed() -> Result<()> {
    if !has_probes("every_way_an_ordinary_tool_drifts_a_file_is_seen_attributed_and_healed") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mut declared = file("app.conf", "listen = 80\n");
    declared.mode = Some("0640");
    declared.owner = Some("root");
    let files = [declared, file("sub/limits.conf", "soft 1\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    let name = app.display().to_string();
    let limits = scene.at("sub/limits.conf");
    // Never a file of the machine: were the link not healed, what follows would write through it.
    let bait = scene.elsewhere().join("bait").display().to_string();

    drifts(&agent, &app, "content", || {
        tool("sed", &["-i", "s/80/81/", &name])
    })?;
    drifts(&agent, &app, "content", || {
        tool("sh", &["-c", &format!("echo evil >> {name}")])
    })?;
    drifts(&agent, &app, "content", || {
        tool(
            "python3",
            &["-c", &format!("open('{name}', 'w').write('x')")],
        )
    })?;
    drifts(&agent, &app, "content", || {
        tool("truncate", &["-s", "3", &name])
    })?;
    drifts(&agent, &app, "content", || {
        tool(
            "dd",
            &[
                "if=/dev/zero",
                &format!("of={name}"),
                "count=1",
                "status=none",
            ],
        )
    })?;
    drifts(&agent, &app, "content", || {
        fs::write(scene.elsewhere().join("new"), "other")?;
        tool("mv", &[&scene.elsewhere().join("new"), &app])
    })?;
    drifts(&agent, &app, "content", || {
        tool("cp", &["/proc/self/status", &name])
    })?;
    drifts(&agent, &app, "mode", || tool("chmod", &["666", &name]))?;
    drifts(&agent, &app, "owner", || tool("chown", &["1234", &name]))?;
    drifts(&agent, &app, "missing", || tool("rm", &[&app]))?;
    drifts(&agent, &app, "missing", || {
        tool("mv", &[&app, &scene.elsewhere().join("away")])
    })?;
    drifts(&agent, &app, "type", || tool("ln", &["-sf", &bait, &name]))?;
    // One process, so that nobody heals between its two calls.
    for make in ["mkfifo", "mkdir"] {
        drifts(&agent, &app, "type", || {
            let script = format!("import os; os.unlink('{name}'); os.{make}('{name}')");
            tool("python3", &["-c", &script])
        })?;
    }
    drifts(&agent, &limits, "missing", || {
        tool("rm", &["-r", &scene.at("sub").display().to_string()])
    })?;
    drifts(&agent, &limits, "missing", || {
        tool("mv", &[scene.at("sub"), scene.at("sub.off")])
    })?;

    ensure!(fs::read_to_string(&app)? == "listen = 80\n");
    ensure!(fs::metadata(&app)?.permissions().mode() & 0o7777 == 0o640);
    ensure!(fs::read_to_string(&limits)? == "soft 1\n");
    let left: Vec<_> = fs::read_dir(scene.tree())?
        .filter_map(Result::ok)
        .map(|entry| entry.file_name())
        .collect();
    ensure!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains(".drift-")),
        "{left:?}"
    );
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn what_is_not_declared_stays_as_it_was_when_a_file_is_replaced() -> Result<()> {
    if !has_probes("what_is_not_declared_stays_as_it_was_when_a_file_is_replaced") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    let app = scene.at("app.conf");
    fs::set_permissions(&app, fs::Permissions::from_mode(0o4751))?;
    std::os::unix::fs::chown(&app, Some(12), Some(34))?;
    fs::set_permissions(&app, fs::Permissions::from_mode(0o4751))?;
    rustix::fs::setxattr(&app, "user.note", b"kept", rustix::fs::XattrFlags::empty())?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    // Content by replacement, so that the new file carries the attributes of a stranger: what is kept are those of the file that stands there.
    let mark = agent.mark();
    tool("sh", &["-c", &format!("echo other >> {}", app.display())])?;
    agent.event(mark, "config.drift.healed", &app)?;
    let meta = fs::metadata(&app)?;
    use std::os::unix::fs::MetadataExt;
    // Writing to the file cleared its setuid bit, as it does for everybody but root; then it is not there to be kept.
    ensure!((meta.uid(), meta.gid()) == (12, 34), "{meta:?}");
    ensure!(meta.mode() & 0o777 == 0o751, "{:o}", meta.mode());
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(&app, "user.note", &mut value)?;
    ensure!(&value[..length] == b"kept");
    Ok(())
}

#[test]
fn a_missing_file_without_a_declared_mode_becomes_0644_root() -> Result<()> {
    if !has_probes("a_missing_file_without_a_declared_mode_becomes_0644_root") {
        return Ok(());
    }
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new()?;
    let files = [file("deep/er/app.conf", "declared\n")];
    scene.declare("1.0.0", HEAL, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("deep/er/app.conf");
    let detected = agent.event(0, "config.drift.detected", &app)?;
    ensure!(
        detected["cause"] == "start" && detected["actor"].is_null(),
        "{detected}"
    );
    agent.event(0, "config.drift.healed", &app)?;
    let meta = fs::metadata(&app)?;
    ensure!(
        (meta.mode() & 0o7777, meta.uid(), meta.gid()) == (0o644, 0, 0),
        "{meta:?}"
    );
    ensure!(fs::metadata(scene.at("deep"))?.mode() & 0o7777 == 0o755);
    Ok(())
}

#[test]
fn observing_is_the_default_and_changes_nothing() -> Result<()> {
    if !has_probes("observing_is_the_default_and_changes_nothing") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    let mark = agent.mark();
    fs::write(&app, "other\n")?;
    agent.event(mark, "config.drift.detected", &app)?;
    // Somebody else puts it back.
    let mark = agent.mark();
    fs::write(&app, "declared\n")?;
    let resolved = agent.event(mark, "config.drift.resolved", &app)?;
    ensure!(resolved["actor"]["pid"] == std::process::id(), "{resolved}");
    // Written with equal content: touched, and no drift.
    let mark = agent.mark();
    fs::write(&app, "declared\n")?;
    agent.event(mark, "config.touched", &app)?;
    ensure!(
        !agent.since(0).iter().any(|record| record["event"]
            .as_str()
            .is_some_and(|event| event.contains("heal"))),
        "{}",
        agent.all()
    );
    ensure!(fs::read_to_string(&app)? == "declared\n");
    Ok(())
}

#[test]
fn a_half_written_file_is_not_a_drift() -> Result<()> {
    if !has_probes("a_half_written_file_is_not_a_drift") {
        return Ok(());
    }
    use std::io::Write;
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    let mark = agent.mark();
    // B016: truncated, then written 100 ms later.
    let mut writer = fs::File::create(&app)?;
    std::thread::sleep(Duration::from_millis(100));
    writer.write_all(b"final\n")?;
    drop(writer);
    let detected = agent.event(mark, "config.drift.detected", &app)?;
    ensure!(detected["observed"]["size"] == 6, "{detected}");
    let all: Vec<_> = agent.since(mark);
    ensure!(
        all.iter()
            .filter(|record| record["event"] == "config.drift.detected")
            .count()
            == 1,
        "{all:?}"
    );
    // A writer that never closes is not waited for for ever.
    let mark = agent.mark();
    let mut writer = fs::OpenOptions::new().append(true).open(&app)?;
    writer.write_all(b"more\n")?;
    let detected = agent.event(mark, "config.drift.detected", &app)?;
    ensure!(detected["observed"]["size"] == 11, "{detected}");
    Ok(())
}

/// Cases B074, B075: what has changed while no agent ran is what should be there from then on.
#[test]
fn a_killed_agent_finds_at_its_start_what_happened_meanwhile() -> Result<()> {
    if !has_probes("a_killed_agent_finds_at_its_start_what_happened_meanwhile") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL, &files)?;
    Agent::start(&scene, &[])?.kill()?;
    let app = scene.at("app.conf");
    fs::write(&app, "other\n")?;
    let agent = Agent::start(&scene, &[])?;
    let detected = agent.event(0, "config.drift.detected", &app)?;
    ensure!(detected["cause"] == "start", "{detected}");
    ensure!(
        detected["actor"].is_null() && detected["actor_unknown"].is_string(),
        "{detected}"
    );
    agent.event(0, "config.drift.healed", &app)?;
    ensure!(fs::read_to_string(&app)? == "declared\n");
    Ok(())
}

#[test]
fn an_immutable_file_heals_when_it_can_be_written_again() -> Result<()> {
    // B115: one failed attempt must not be the last.
    if !has_probes("an_immutable_file_heals_when_it_can_be_written_again") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let app = scene.at("app.conf");
    fs::write(&app, "other\n")?;
    tool("chattr", &["+i", &app.display().to_string()])?;
    let agent = Agent::start(&scene, &[])?;
    let failed = agent.event(0, "config.drift.heal_failed", &app);
    tool("chattr", &["-i", &app.display().to_string()])?;
    let failed = failed?;
    ensure!(failed["reason"] == "not-permitted", "{failed}");
    agent.event(0, "config.drift.healed", &app)?;
    Ok(())
}

#[test]
fn a_planted_link_in_the_way_is_reported_and_not_followed() -> Result<()> {
    // B130.
    if !has_probes("a_planted_link_in_the_way_is_reported_and_not_followed") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("sub/app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let mark = agent.mark();
    fs::rename(scene.at("sub"), scene.at("sub.real"))?;
    std::os::unix::fs::symlink(scene.elsewhere(), scene.at("sub"))?;
    let suppressed = agent.event(
        mark,
        "config.drift.heal_suppressed",
        &scene.at("sub/app.conf"),
    )?;
    ensure!(suppressed["reason"] == "relocated", "{suppressed}");
    ensure!(
        fs::read_dir(scene.elsewhere())?.next().is_none(),
        "something was written through the link"
    );
    // The way is free again.
    let mark = agent.mark();
    fs::remove_file(scene.at("sub"))?;
    fs::rename(scene.at("sub.real"), scene.at("sub"))?;
    agent.event(mark, "config.drift.resolved", &scene.at("sub/app.conf"))?;
    Ok(())
}

#[test]
fn of_two_processes_in_a_row_the_wrong_one_is_never_named() -> Result<()> {
    if !has_probes("of_two_processes_in_a_row_the_wrong_one_is_never_named") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    // Observing: a heal between the two would be a change of its own.
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    let name = app.display().to_string();
    for _ in 0..20 {
        let mark = agent.mark();
        // `rm` is a child of the shell, which then becomes `mkfifo`: what stands there in the end is the shell's number's work.
        let pid = tool("sh", &["-c", &format!("rm {name}; exec mkfifo {name}")])?;
        let detected = agent.wait(mark, "the fifo", |records| {
            records
                .iter()
                .find(|record| record["observed"]["type"] == "fifo")
                .cloned()
        })?;
        ensure!(
            detected["actor"]["pid"] == pid || detected["actor_unknown"].is_string(),
            "not by {pid}: {detected}"
        );
        let mark = agent.mark();
        fs::remove_file(&app)?;
        fs::write(&app, "declared\n")?;
        agent.event(mark, "config.drift.resolved", &app)?;
    }
    Ok(())
}
