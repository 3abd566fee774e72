//! Other names of declared files: told, never changed, and no reason to fight.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::Command,
};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, program, tool},
    scene::{HEAL_AT_ONCE, Scene},
};
use serde_json::{Value, json};

const SPEC: &str = r#"files:
    - {path: TREE/linked.conf, content: {inline: "declared\n"}, mode: "0644"}
    - {path: TREE/allowed.conf, content: {inline: "declared\n"}, mode: "0644", hardLinks: allow}
"#;

/// B022: another name of a declared file is told; what is done through it is put back, and the other name keeps it.
#[test]
fn another_name_is_told_and_what_comes_through_it_is_put_back() -> Result<()> {
    if !has_probes("another_name_is_told_and_what_comes_through_it_is_put_back") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, SPEC)?;
    let [linked, allowed] = ["linked.conf", "allowed.conf"].map(|name| scene.at(name));
    for path in [&linked, &allowed] {
        fs::write(path, "declared\n")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    }
    let agent = Agent::start(&scene, &[])?;
    let [other, also] = ["other", "also"].map(|name| scene.elsewhere().join(name));
    let mark = agent.mark();
    fs::hard_link(&linked, &other)?;
    fs::hard_link(&allowed, &also)?;
    let detected = agent.event(mark, "config.drift.detected", &linked)?;
    ensure!(detected["drift"] == json!(["hardlinked"]), "{detected}");
    let message = detected["message"].as_str().unwrap_or_default();
    ensure!(message == "it has another name", "{detected}");
    // Attributes are not set on what is there under another name, too.
    let mark = agent.mark();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o666))?;
    fs::set_permissions(&also, fs::Permissions::from_mode(0o666))?;
    let healed = agent.event(mark, "config.drift.healed", &linked)?;
    ensure!(healed["drift"] == json!(["mode", "hardlinked"]), "{healed}");
    let mode = |path| fs::metadata(path).map(|metadata| metadata.mode() & 0o7777);
    ensure!(mode(&linked)? == 0o644 && mode(&other)? == 0o666);
    ensure!(fs::metadata(&linked)?.nlink() == 1);
    // Where other names are allowed, they are.
    agent.event(mark, "config.drift.healed", &allowed)?;
    ensure!(mode(&allowed)? == 0o644 && mode(&also)? == 0o644);
    ensure!(fs::metadata(&allowed)?.nlink() == 2);
    ensure!(agent.stop()?.success());
    Ok(())
}

/// A save that keeps the old file under another name for a moment tells nothing of names.
#[test]
fn a_name_that_goes_again_is_not_told() -> Result<()> {
    if !has_probes("a_name_that_goes_again_is_not_told") {
        return Ok(());
    }
    let scene = Scene::new()?;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, SPEC)?;
    for path in ["linked.conf", "allowed.conf"] {
        fs::write(scene.at(path), "declared\n")?;
        fs::set_permissions(scene.at(path), fs::Permissions::from_mode(0o644))?;
    }
    let agent = Agent::start(&scene, &[])?;
    let linked = scene.at("linked.conf");
    let mark = agent.mark();
    // As dpkg does it.
    let script = format!(
        "import os\np = '{}'\nos.link(p, p + '.old')\nopen(p + '.new', 'w').write('declared\\n')\nos.rename(p + '.new', p)\nos.unlink(p + '.old')",
        linked.display()
    );
    tool("python3", &["-c", &script])?;
    // What comes after it was looked at later.
    tool("chmod", &["600", &linked.display().to_string()])?;
    agent.event(mark, "config.drift.healed", &linked)?;
    let told = agent.since(mark);
    let kinds = |record: &Value| record["drift"].to_string();
    ensure!(
        !told
            .iter()
            .any(|record| kinds(record).contains("hardlinked")),
        "{}",
        agent.all()
    );
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B023: one file under two declared names is told of each with the other, and gets what each wants without a fight.
#[test]
fn two_declared_names_of_one_file_are_told_together_and_do_not_fight() -> Result<()> {
    if !has_probes("two_declared_names_of_one_file_are_told_together_and_do_not_fight") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let same = r#"files:
    - {path: TREE/one.conf, content: {inline: "declared\n"}}
    - {path: TREE/two.conf, content: {inline: "declared\n"}}
"#;
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, same)?;
    let [one, two] = ["one.conf", "two.conf"].map(|name| scene.at(name));
    fs::write(&one, "declared\n")?;
    fs::hard_link(&one, &two)?;
    let agent = Agent::start(&scene, &[])?;
    for (path, other) in [(&one, &two), (&two, &one)] {
        let detected = agent.event(0, "config.drift.detected", path)?;
        ensure!(detected["drift"] == json!(["hardlinked"]), "{detected}");
        let expected = format!(
            "it has another name; it is {} too, which is declared",
            other.display()
        );
        ensure!(detected["message"] == expected, "{detected}");
    }
    let told = |agent: &Agent, mark: usize| {
        let all = agent.since(mark).into_iter();
        all.filter(|record| record["event"] == "config.drift.detected")
            .count()
    };
    ensure!(told(&agent, 0) == 2, "{}", agent.all());
    let check = Command::new(program())
        .args(["check", "-o", "jsonl", "--policies"])
        .arg(scene.policies())
        .env("XDG_CACHE_HOME", scene.root().join("cache"))
        .output()?;
    let said = String::from_utf8_lossy(&check.stdout);
    ensure!(check.status.code() == Some(4), "{said}");
    ensure!(
        said.matches("too, which is declared").count() == 2,
        "{said}"
    );
    // Now each wants something else of the one file.
    let mark = agent.mark();
    let apart = r#"files:
    - {path: TREE/one.conf, content: {inline: "declared\n"}, mode: "0600"}
    - {path: TREE/two.conf, content: {inline: "declared\n"}, mode: "0640"}
"#;
    scene.declare_spec("1.1.0", HEAL_AT_ONCE, apart)?;
    agent.activated(mark, "1.1.0")?;
    let mode =
        |path| fs::metadata(path).map(|metadata| (metadata.mode() & 0o7777, metadata.nlink()));
    ensure!(mode(&one)? == (0o600, 1) && mode(&two)? == (0o640, 1));
    // One heal each: what the one does is nothing to the other.
    let mark = agent.mark();
    tool("chmod", &["644", &one.display().to_string()])?;
    agent.event(mark, "config.drift.healed", &one)?;
    ensure!(told(&agent, mark) == 1, "{}", agent.all());
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B042: what is known of an inode is told of one of its names, whichever was meant.
#[test]
fn of_two_names_of_one_file_each_is_told_as_what_happens_to_it() -> Result<()> {
    if !has_probes("of_two_names_of_one_file_each_is_told_as_what_happens_to_it") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let spec = r#"files:
    - {path: TREE/a/one.conf, content: {inline: "declared\n"}, hardLinks: allow}
    - {path: TREE/b/two.conf, content: {inline: "declared\n"}, hardLinks: allow}
"#;
    scene.declare_spec("1.0.0", "", spec)?;
    let [one, two] = ["a/one.conf", "b/two.conf"].map(|name| scene.at(name));
    for folder in ["a", "b"] {
        fs::create_dir(scene.at(folder))?;
    }
    fs::write(&one, "declared\n")?;
    fs::hard_link(&one, &two)?;
    let agent = Agent::start(&scene, &[])?;
    // That the inode of one that is as declared was changed may be told too, and is no drift.
    let told = |mark: usize| {
        let records = agent.since(mark).into_iter();
        let drifts = records.filter(|record| {
            let event = record["event"].as_str().unwrap_or_default();
            event.starts_with("config.drift.")
        });
        drifts.count()
    };
    for name in [&one, &two] {
        // Written to by either name, both are other files, each by its own path.
        for (text, event) in [
            ("other\n", "config.drift.detected"),
            ("declared\n", "config.drift.resolved"),
        ] {
            let mark = agent.mark();
            fs::write(name, text)?;
            for path in [&one, &two] {
                let record = agent.event(mark, event, path)?;
                ensure!(record["actor"]["pid"] == std::process::id(), "{record}");
            }
            ensure!(told(mark) == 2, "{}", agent.all());
        }
        // Moved away, one of them is missing, and the other is what it was.
        let mark = agent.mark();
        let away = scene.elsewhere().join("away");
        fs::rename(name, &away)?;
        let detected = agent.event(mark, "config.drift.detected", name)?;
        ensure!(detected["drift"] == json!(["missing"]), "{detected}");
        fs::rename(&away, name)?;
        agent.event(mark, "config.drift.resolved", name)?;
        ensure!(told(mark) == 2, "{}", agent.all());
    }
    ensure!(agent.stop()?.success());
    Ok(())
}
