//! Identity is the inode, not the string: no other name of a declared file hides a change.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, tool},
    scene::{HEAL_AT_ONCE, Scene, file},
};

/// Starts an agent on one file, drifts it in some way, and waits for the kernel's word of it and the heal.
#[track_caller]
fn check(test: &str, drift: impl FnOnce(&Scene, &Agent) -> Result<u32>) -> Result<()> {
    if !has_probes(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    let pid = drift(&scene, &agent)?;
    // That the file has another name may have been told before.
    let path = app.display().to_string();
    let detected = agent.wait(0, "the content's drift", |records| {
        let is_content = |record: &&serde_json::Value| {
            record["event"] == "config.drift.detected"
                && record["path"] == path
                && record["drift"][0] == "content"
        };
        records.iter().find(is_content).cloned()
    })?;
    ensure!(detected["cause"] == "kernel", "{detected}");
    ensure!(detected["actor"]["pid"] == pid, "not by {pid}: {detected}");
    agent.event(0, "config.drift.healed", &app)?;
    ensure!(fs::read_to_string(&app)? == "declared\n");
    Ok(())
}

fn append(path: &std::path::Path) -> Result<u32> {
    tool("sh", &["-c", &format!("echo evil >> {}", path.display())])
}

#[test]
fn a_write_through_a_symbolic_link_is_seen() -> Result<()> {
    check("a_write_through_a_symbolic_link_is_seen", |scene, _| {
        let link = scene.elsewhere().join("link");
        std::os::unix::fs::symlink(scene.at("app.conf"), &link)?;
        append(&link)
    })
}

#[test]
fn a_write_through_a_hard_link_elsewhere_is_seen() -> Result<()> {
    // B021, B022.
    check(
        "a_write_through_a_hard_link_elsewhere_is_seen",
        |scene, agent| {
            let link = scene.elsewhere().join("hard");
            fs::hard_link(scene.at("app.conf"), &link)?;
            // Who made the link has changed the inode, too: until that is read, it were two.
            agent.event(0, "config.drift.detected", &scene.at("app.conf"))?;
            append(&link)
        },
    )
}

/// A bind mount that is taken away again.
struct Bind(PathBuf);

impl Drop for Bind {
    fn drop(&mut self) {
        // A mount that stays would fail the test below; there is nobody to tell here.
        let _status = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_write_through_a_bind_mount_is_seen() -> Result<()> {
    // B026.
    check("a_write_through_a_bind_mount_is_seen", |scene, _| {
        let place = scene.elsewhere().join("bound");
        fs::create_dir(&place)?;
        tool(
            "mount",
            &[
                "--bind",
                &scene.tree().display().to_string(),
                &place.display().to_string(),
            ],
        )?;
        let bind = Bind(place);
        append(&bind.0.join("app.conf"))
    })
}

#[test]
fn a_write_from_another_mount_namespace_is_seen() -> Result<()> {
    check(
        "a_write_from_another_mount_namespace_is_seen",
        |scene, _| {
            let script = format!(
                "mount --bind {tree} {other} && exec sh -c 'echo evil >> {other}/app.conf'",
                tree = scene.tree().display(),
                other = scene.elsewhere().display()
            );
            // `unshare` and both shells are one process after another in the same number.
            tool("unshare", &["-m", "sh", "-c", &script])
        },
    )
}

/// B029: a path with a prefix of a mount in it, or twice, or none that anybody has declared.
#[test]
fn however_a_writer_reaches_the_file_what_is_told_is_the_declared_path() -> Result<()> {
    const TEST: &str = "however_a_writer_reaches_the_file_what_is_told_is_the_declared_path";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("d/app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let place = scene.elsewhere().join("bound");
    fs::create_dir(&place)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("d/app.conf");
    let [tree, bound, path] = [&scene.tree(), &place, &app].map(|at| at.display().to_string());
    tool("mount", &["--bind", &tree, &bound])?;
    let bind = Bind(place);
    // `unshare`, `chroot` and the shells are one process after another in the same number.
    let apart = |place: &str, last: &str| {
        format!("exec unshare -m sh -c 'mount {place} {bound} && exec {last}'")
    };
    let write = |path: &str| format!("echo evil >> {path}");
    let ways = [
        write(&path),
        format!("cd {tree}/d && echo evil >> ../d/./app.conf"),
        write(&format!("{bound}/d/app.conf")),
        apart(
            &format!("--bind {tree}/d"),
            &format!("sh -c \"{}\"", write(&format!("{bound}/app.conf"))),
        ),
        apart(
            "--rbind /",
            &format!("chroot {bound} sh -c \"{}\"", write(&path)),
        ),
    ];
    for way in &ways {
        let mark = agent.mark();
        let pid = tool("sh", &["-c", way])?;
        let detected = agent.event(mark, "config.drift.detected", &app)?;
        ensure!(
            detected["cause"] == "kernel" && detected["actor"]["pid"] == pid,
            "{way}: not by {pid}: {detected}"
        );
        agent.event(mark, "config.drift.healed", &app)?;
    }
    // A path with slashes need not tell which file was meant: who did it may be nobody then, and is nobody else.
    for words in [
        vec!["rm".to_owned(), format!("{bound}/d/app.conf")],
        vec![
            "mv".to_owned(),
            format!("{bound}/d"),
            format!("{bound}/away"),
        ],
    ] {
        let mark = agent.mark();
        let pid = tool(&words[0], &words[1..])?;
        let detected = agent.event(mark, "config.drift.detected", &app)?;
        let actor = &detected["actor"];
        ensure!(
            detected["cause"] == "kernel" && (actor.is_null() || actor["pid"] == pid),
            "{words:?}: not by {pid}: {detected}"
        );
        if words[0] == "rm" {
            agent.event(mark, "config.drift.healed", &app)?;
        }
    }
    let told = agent.since(0);
    let mut paths = told.iter().filter_map(|record| record["path"].as_str());
    ensure!(paths.all(|told| told == path), "{}", agent.all());
    ensure!(agent.stop()?.success());
    drop(bind);
    Ok(())
}

#[test]
fn a_file_of_the_same_name_in_another_mount_namespace_is_no_drift() -> Result<()> {
    // B030: a tmpfs over the directory, in a namespace of its own.
    if !has_probes("a_file_of_the_same_name_in_another_mount_namespace_is_no_drift") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let tree = scene.tree().display().to_string();
    let script = format!("mount -t tmpfs none {tree} && echo evil > {tree}/app.conf");
    tool("unshare", &["-m", "sh", "-c", &script])?;
    // A change that is one comes after it, and is the first to be told.
    append(&scene.at("app.conf"))?;
    agent.event(0, "config.drift.healed", &scene.at("app.conf"))?;
    let detected = agent
        .since(0)
        .iter()
        .filter(|record| record["event"] == "config.drift.detected")
        .count();
    ensure!(detected == 1, "{}", agent.all());
    Ok(())
}

#[test]
fn a_change_of_mode_through_a_link_is_seen() -> Result<()> {
    // The call names a path that nobody declared.
    if !has_probes("a_change_of_mode_through_a_link_is_seen") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mut declared = file("app.conf", "declared\n");
    declared.mode = Some("0600");
    scene.lay_out(std::slice::from_ref(&declared))?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &[declared])?;
    let agent = Agent::start(&scene, &[])?;
    let link = scene.elsewhere().join("link");
    std::os::unix::fs::symlink(scene.at("app.conf"), &link)?;
    tool("chmod", &["666", &link.display().to_string()])?;
    let detected = agent.event(0, "config.drift.detected", &scene.at("app.conf"))?;
    ensure!(
        detected["cause"] == "kernel" && detected["drift"] == serde_json::json!(["mode"]),
        "{detected}"
    );
    agent.event(0, "config.drift.healed", &scene.at("app.conf"))?;
    Ok(())
}

#[test]
fn an_inode_number_that_is_used_again_is_not_mistaken_for_the_declared_file() -> Result<()> {
    // B041: nothing the new owner of the number does is credited to the declared path.
    if !has_probes("an_inode_number_that_is_used_again_is_not_mistaken_for_the_declared_file") {
        return Ok(());
    }
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    // Observing: a heal would take the number for itself.
    scene.declare("1.0.0", "", &files)?;
    let agent = Agent::start(&scene, &[])?;
    let number = fs::metadata(scene.at("app.conf"))?.ino();
    fs::remove_file(scene.at("app.conf"))?;
    let stranger = scene.elsewhere().join("stranger");
    fs::write(&stranger, "x")?;
    let same = fs::metadata(&stranger)?.ino() == number;
    let detected = agent.event(0, "config.drift.detected", &scene.at("app.conf"))?;
    ensure!(
        detected["drift"] == serde_json::json!(["missing"]),
        "{detected}"
    );
    let mark = agent.mark();
    append(&stranger)?;
    fs::write(scene.at("app.conf"), "declared\n")?;
    agent.event(mark, "config.drift.resolved", &scene.at("app.conf"))?;
    ensure!(
        agent.since(mark).len() == 1,
        "number reused: {same}; {}",
        agent.all()
    );
    Ok(())
}
