//! Policies that change, and policies that are wrong.

use std::{collections::BTreeMap, fs, process::Command};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, SOON, has_probes, is_built, program},
    scene::{DEFAULT, HEAL_AT_ONCE, Scene, file},
    skip::skip,
    wait::until,
};

/// Runs the agent on a scene until it ends by itself: status and standard error.
fn refused(scene: &Scene, arguments: &[&str]) -> Result<(bool, String)> {
    let output = Command::new(program())
        .arg("run")
        .arg("--policies")
        .arg(scene.policies())
        .arg("--state")
        .arg(scene.root().join("state"))
        .args(arguments)
        .output()?;
    Ok((
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

#[test]
fn a_start_without_valid_policies_is_a_sentence_and_a_status() -> Result<()> {
    if !is_built("a_start_without_valid_policies_is_a_sentence_and_a_status") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (ok, said) = refused(&scene, &[])?;
    ensure!(
        !ok && said.contains("no policy files"),
        "an empty folder: {said}"
    );
    fs::write(scene.policies().join("web.yaml"), "kind: Polizy\n")?;
    let (ok, said) = refused(&scene, &[])?;
    ensure!(!ok && said.contains("web.yaml:1:"), "a bad file: {said}");
    fs::remove_dir_all(scene.policies())?;
    let (ok, said) = refused(&scene, &[])?;
    ensure!(
        !ok && said.contains(&scene.policies().display().to_string()),
        "no folder: {said}"
    );
    Ok(())
}

#[test]
fn bad_flags_and_a_bad_state_folder_are_a_sentence_and_a_status() -> Result<()> {
    if !is_built("bad_flags_and_a_bad_state_folder_are_a_sentence_and_a_status") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare("1.0.0", DEFAULT, &[file("app.conf", "x")])?;
    for arguments in [
        &["--mode", "maybe"][..],
        &["--sensor", "eyes"],
        &["--scan-interval", "soon"],
        &["--nonsense"],
    ] {
        let (ok, said) = refused(&scene, arguments)?;
        ensure!(
            !ok && !said.is_empty() && !said.contains("panicked"),
            "{arguments:?}: {said}"
        );
    }
    // A file where the state folder should be.
    fs::write(scene.root().join("state"), "")?;
    let (ok, said) = refused(&scene, &[])?;
    ensure!(!ok && said.contains("state folder"), "{said}");
    Ok(())
}

#[test]
fn a_second_agent_on_one_state_folder_is_refused() -> Result<()> {
    if !has_probes("a_second_agent_on_one_state_folder_is_refused") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "x")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let _agent = Agent::start(&scene, &["--sensor", "scan"])?;
    let (ok, said) = refused(&scene, &["--sensor", "scan"])?;
    ensure!(!ok && said.contains("another drift-agent"), "{said}");
    Ok(())
}

#[test]
fn an_error_on_line_seven_is_refused_with_its_place_and_the_last_good_policy_stays() -> Result<()> {
    if !has_probes(
        "an_error_on_line_seven_is_refused_with_its_place_and_the_last_good_policy_stays",
    ) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let good = fs::read_to_string(scene.policies().join("policy.yaml"))?;
    let bad = good.replacen("  guard:", "  guarb:", 1);
    let line = bad
        .lines()
        .position(|line| line.contains("guarb"))
        .map(|index| index + 1);
    ensure!(line == Some(7), "the error is on line 7: {line:?}\n{bad}");
    let mark = agent.mark();
    fs::write(scene.policies().join("policy.yaml"), &bad)?;
    let rejected = agent.wait(mark, "the rejection", |records| {
        records
            .iter()
            .find(|record| record["event"] == "config.policy.rejected")
            .cloned()
    })?;
    let message = rejected["message"].as_str().unwrap_or_default();
    ensure!(message.contains("policy.yaml:7:3"), "{rejected}");
    // Standard error comes by another way than the record.
    until(SOON, || {
        ensure!(agent.errors().contains("guarb"), "{}", agent.all());
        Ok(())
    })?;
    // The last good one stays in force.
    let app = scene.at("app.conf");
    let mark = agent.mark();
    fs::write(&app, "other\n")?;
    agent.event(mark, "config.drift.healed", &app)?;
    // And a good one is taken again, by itself.
    let mark = agent.mark();
    scene.declare("1.1.0", HEAL_AT_ONCE, &[file("app.conf", "newer\n")])?;
    agent.activated(mark, "1.1.0")?;
    ensure!(fs::read_to_string(&app)? == "newer\n");
    // A change of versions is no drift.
    ensure!(
        agent
            .since(mark)
            .iter()
            .all(|record| record["event"] != "config.drift.detected"),
        "{}",
        agent.all()
    );
    Ok(())
}

#[test]
fn a_hangup_reads_the_policies_again_and_changed_content_beside_them_counts() -> Result<()> {
    if !has_probes("a_hangup_reads_the_policies_again_and_changed_content_beside_them_counts") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    let text = scene
        .policy("1.0.0", HEAL_AT_ONCE, &files)
        .replace("{inline: \"declared\\n\"}", "{file: blobs/app.conf}");
    fs::create_dir(scene.policies().join("blobs"))?;
    fs::write(scene.policies().join("blobs/app.conf"), "declared\n")?;
    fs::write(scene.policies().join("policy.yaml"), &text)?;
    let agent = Agent::start(&scene, &[])?;
    ensure!(
        agent
            .since(0)
            .iter()
            .all(|record| record["event"] != "config.drift.detected"),
        "{}",
        agent.all()
    );
    // The same version with another content is none.
    let mark = agent.mark();
    fs::write(scene.policies().join("blobs/app.conf"), "newer\n")?;
    agent.signal(rustix::process::Signal::HUP)?;
    let rejected = agent.wait(mark, "the rejection", |records| {
        records
            .iter()
            .find(|record| record["event"] == "config.policy.rejected")
            .cloned()
    })?;
    ensure!(rejected["reason"] == "version-changed", "{rejected}");
    ensure!(fs::read_to_string(scene.at("app.conf"))? == "declared\n");
    // Under a new number it counts.
    let mark = agent.mark();
    let newer = text.replace("1.0.0", "1.0.1");
    fs::write(scene.policies().join("policy.yaml"), newer)?;
    agent.signal(rustix::process::Signal::HUP)?;
    agent.activated(mark, "1.0.1")?;
    ensure!(fs::read_to_string(scene.at("app.conf"))? == "newer\n");
    Ok(())
}

/// B082: files that come to be declared, and are as they are declared, are told one by one.
#[test]
fn ten_thousand_files_that_are_as_they_come_to_be_declared_are_no_news() -> Result<()> {
    if !has_probes("ten_thousand_files_that_are_as_they_come_to_be_declared_are_no_news") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mut files = vec![file("app.conf", "declared\n")];
    files.extend((0..10_000).map(|number| {
        let path = format!("more/d{}/{number}.conf", number % 100);
        file(path.leak(), &format!("{number}\n"))
    }));
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files[..1])?;
    let agent = Agent::start(&scene, &[])?;
    let mark = agent.mark();
    scene.declare("1.1.0", DEFAULT, &files)?;
    agent.activated(mark, "1.1.0")?;
    // They are watched, and what comes first of all of them is what changes first.
    let last = scene.at(files[files.len() - 1].path);
    fs::write(&last, "other\n")?;
    agent.event(mark, "config.drift.detected", &last)?;
    let events: Vec<_> = agent
        .since(mark)
        .iter()
        .map(|record| record["event"].clone())
        .collect();
    ensure!(
        events == ["config.policy.activated", "config.drift.detected"],
        "{} records: {:?}",
        events.len(),
        &agent.since(mark)[..events.len().min(5)]
    );
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B089: there are no inotify watches left, and nothing is noticed, or nobody is told which setting it is.
#[test]
fn without_inotify_the_setting_is_named_and_the_policies_are_noticed_all_the_same() -> Result<()> {
    const TEST: &str =
        "without_inotify_the_setting_is_named_and_the_policies_are_noticed_all_the_same";
    if !is_built(TEST) {
        return Ok(());
    }
    let may = Command::new("unshare")
        .args(["--user", "--map-root-user", "true"])
        .status();
    if !may.is_ok_and(|status| status.success()) {
        skip(TEST, "this machine makes no user namespaces");
        return Ok(());
    }
    for (limit, setting) in [
        ("max_inotify_instances", "fs.inotify.max_user_instances"),
        ("max_inotify_watches", "fs.inotify.max_user_watches"),
    ] {
        let scene = Scene::new()?;
        let files = [file("app.conf", "declared\n")];
        scene.lay_out(&files)?;
        scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
        // A limit of its own, which is nobody else's.
        let script = format!("echo 0 > /proc/sys/user/{limit} && exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "sh", "-c", &script])
            .arg(program())
            .args(["run", "--sensor", "scan", "--policies"])
            .arg(scene.policies());
        let agent = Agent::start_as(command, &scene)?;
        let told = until(SOON, || {
            let errors = agent.errors();
            let told = errors
                .lines()
                .find(|line| line.contains(&format!("(raise {setting})")));
            told.map(str::to_owned).ok_or(errors.clone())
        })
        .map_err(anyhow::Error::msg)?;
        ensure!(told.contains("is looked at every 2 s instead"), "{told}");
        let mark = agent.mark();
        scene.declare("1.1.0", HEAL_AT_ONCE, &[file("app.conf", "newer\n")])?;
        agent.activated(mark, "1.1.0")?;
        ensure!(fs::read_to_string(scene.at("app.conf"))? == "newer\n");
        ensure!(agent.stop()?.success());
    }
    Ok(())
}

/// Who was told that a drift has begun is told that it is over, though nobody has put it back.
#[test]
fn a_drift_from_a_version_that_is_not_in_force_any_more_is_over() -> Result<()> {
    if !is_built("a_drift_from_a_version_that_is_not_in_force_any_more_is_over") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let both = [file("app.conf", "1\n"), file("gone.conf", "1\n")];
    scene.lay_out(&both)?;
    scene.declare("1.0.0", DEFAULT, &both)?;
    let agent = Agent::start(&scene, &["--sensor", "scan", "--scan-interval", "100ms"])?;
    let (app, gone) = (scene.at("app.conf"), scene.at("gone.conf"));
    for path in [&app, &gone] {
        fs::write(path, "other\n")?;
        agent.event(0, "config.drift.detected", path)?;
    }
    let mark = agent.mark();
    scene.declare("2.0.0", DEFAULT, &[file("app.conf", "other\n")])?;
    agent.activated(mark, "2.0.0")?;
    for (path, now) in [
        (&app, "p 2.0.0 declares it now"),
        (&gone, "no policy declares it any more"),
    ] {
        let over = agent.event(mark, "config.drift.resolved", path)?;
        ensure!(
            over["reason"] == "superseded"
                && over["version"] == "1.0.0"
                && over["cause"] == "policy"
                && over["message"] == now,
            "{over}"
        );
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

/// What a kernel table, or all of them, are said to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tables {
    objects: u64,
    room: u64,
    bytes: u64,
}

impl Tables {
    /// As the agent says it.
    fn of(scene: &Scene) -> Result<Tables> {
        let output = Command::new(program())
            .args(["status", "-o", "json", "--state"])
            .arg(scene.root().join("state"))
            .output()?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| {
            let number = status["sensor"]["tables"][name].as_u64();
            number.with_context(|| format!("no {name}: {status}"))
        };
        Ok(Tables {
            objects: number("objects")?,
            room: number("room")?,
            bytes: number("bytes")?,
        })
    }
}

/// As the kernel has it in the agent's descriptors, each table once: several may be of one.
fn locked(agent: &Agent) -> Result<u64> {
    let mut tables = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{}/fdinfo", agent.pid()))? {
        // One that was closed meanwhile is none of them.
        let info = fs::read_to_string(entry?.path()).unwrap_or_default();
        let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(number), Some(taken)) = (line("map_id:"), line("memlock:")) {
            tables.insert(number.trim().to_owned(), taken.trim().parse::<u64>()?);
        }
    }
    Ok(tables.values().sum())
}

/// B107: each policy has tables of its own, and nobody knows what they take.
#[test]
fn a_hundred_policies_share_the_tables_and_it_is_told_what_these_take() -> Result<()> {
    if !has_probes("a_hundred_policies_share_the_tables_and_it_is_told_what_these_take") {
        return Ok(());
    }
    const FILES: usize = 2_000;
    const LIMIT: u64 = 64 << 20;
    let all: Vec<_> = (0..FILES)
        .map(|number| file(format!("f{number}.conf").leak(), "declared\n"))
        .collect();
    let taken = |policies: usize| -> Result<Tables> {
        let scene = Scene::new()?;
        scene.lay_out(&all)?;
        for (number, files) in all.chunks(FILES / policies).enumerate() {
            let text = scene.policy("1.0.0", DEFAULT, files);
            let text = text.replace("name: p", &format!("name: p{number}"));
            let text = text.replace("policy: p", &format!("policy: p{number}"));
            fs::write(scene.policies().join(format!("{number}.yaml")), text)?;
        }
        let agent = Agent::start(&scene, &[])?;
        let told = Tables::of(&scene)?;
        let locked = locked(&agent)?;
        ensure!(told.bytes == locked, "{told:?}, and the kernel {locked}");
        ensure!(agent.stop()?.success());
        Ok(told)
    };
    let (one, hundred) = (taken(1)?, taken(100)?);
    ensure!(one == hundred, "{one:?} {hundred:?}");
    ensure!(
        one.objects >= FILES as u64 && one.objects <= one.room,
        "{one:?}"
    );
    ensure!(one.bytes < LIMIT, "{one:?}");
    Ok(())
}
