//! Where a declared path is: in the host's mount namespace, from the host's root, and not in what somebody mounts over it.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, is_built, tool},
    privilege::SCAN,
    scene::{HEAL_AT_ONCE, Scene, file},
    stage::Mounts,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn what_is_mounted_over_a_path_is_told_with_who_did_it_and_never_written_to() -> Result<()> {
    const TEST: &str = "what_is_mounted_over_a_path_is_told_with_who_did_it_and_never_written_to";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let files = [file("d/app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let (path, over) = (scene.at("d/app.conf"), scene.at("d"));
    let pid = tool("mount", &["-t", "tmpfs", "on-top", &text(&over)])?;
    let detected = agent.event(0, "config.drift.detected", &path)?;
    ensure!(
        detected["drift"] == serde_json::json!(["relocated"]),
        "{detected}"
    );
    let message = detected["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("tmpfs (on-top)") && message.contains(&text(&over)),
        "{detected}"
    );
    ensure!(
        detected["actor"].is_null() || detected["actor"]["pid"] == pid,
        "{detected}"
    );
    let suppressed = agent.event(0, "config.drift.heal_suppressed", &path)?;
    ensure!(suppressed["reason"] == "relocated", "{suppressed}");
    ensure!(fs::read_dir(&over)?.count() == 0, "written into the mount");
    // A start is no new declaration: the mount is no part of the place.
    ensure!(agent.stop()?.success());
    let agent = Agent::start(&scene, &[])?;
    let again = agent.event(0, "config.drift.detected", &path)?;
    ensure!(
        again["drift"] == serde_json::json!(["relocated"]),
        "{again}"
    );
    ensure!(fs::read_dir(&over)?.count() == 0, "written into the mount");
    tool("umount", &[text(&over)])?;
    agent.event(0, "config.drift.resolved", &path)?;
    ensure!(fs::read_to_string(&path)? == "declared\n");
    ensure!(agent.stop()?.success());
    mounts.clear()
}

#[test]
fn a_mount_that_is_there_when_a_path_is_declared_is_its_place() -> Result<()> {
    const TEST: &str = "a_mount_that_is_there_when_a_path_is_declared_is_its_place";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let files = [file("d/app.conf", "declared\n")];
    scene.lay_out(&files)?;
    let (path, over) = (scene.at("d/app.conf"), scene.at("d"));
    tool("mount", &["-t", "tmpfs", "place", &text(&over)])?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    agent.event(0, "config.drift.healed", &path)?;
    ensure!(fs::read_to_string(&path)? == "declared\n");
    // Beneath it the file is as it was laid out, and is not what was declared.
    let mark = agent.mark();
    tool("umount", &[text(&over)])?;
    let detected = agent.event(mark, "config.drift.detected", &path)?;
    ensure!(
        detected["drift"] == serde_json::json!(["relocated"]),
        "{detected}"
    );
    ensure!(agent.stop()?.success());
    mounts.clear()
}

#[test]
fn from_a_root_of_a_process_the_paths_are_that_processs() -> Result<()> {
    // As in a pod with hostPID: the agent has a mount namespace of its own, in which something else stands at the path.
    const TEST: &str = "from_a_root_of_a_process_the_paths_are_that_processs";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let (path, tree) = (scene.at("app.conf"), text(&scene.tree()));
    let ready = scene.root().join("ready");
    let script =
        format!("mount -t tmpfs none {tree} && echo other > {tree}/app.conf && exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", &script])
        .arg(drift_tests::agent::program())
        .args([
            "run",
            "-o",
            "jsonl",
            "--sensor",
            "tracepoint",
            "--host-root",
        ])
        .arg(format!("/proc/{}/root", std::process::id()))
        .arg("--policies")
        .arg(scene.policies())
        .arg("--state")
        .arg(scene.root().join("state"))
        .arg("--ready-file")
        .arg(&ready);
    let agent = Agent::spawn(command)?;
    drift_tests::wait::until(drift_tests::agent::SOON, || {
        if ready.exists() { Ok(()) } else { Err(()) }
    })
    .map_err(|()| anyhow::anyhow!("it is not ready\n{}", agent.all()))?;
    // What stands in the agent's own namespace is no drift.
    let drifted = |record: &serde_json::Value| record["event"] == "config.drift.detected";
    ensure!(!agent.since(0).iter().any(drifted), "{}", agent.all());
    let pid = tool("sh", &["-c", &format!("echo evil >> {}", text(&path))])?;
    let detected = agent.event(0, "config.drift.detected", &path)?;
    ensure!(detected["actor"]["pid"] == pid, "{detected}");
    agent.event(0, "config.drift.healed", &path)?;
    ensure!(fs::read_to_string(&path)? == "declared\n");
    // A mount in this namespace is told there.
    let mounts = Mounts::of(&scene);
    let mark = agent.mark();
    tool("mount", &["-t", "tmpfs", "on-top", &tree])?;
    let detected = agent.event(mark, "config.drift.detected", &path)?;
    ensure!(
        detected["drift"] == serde_json::json!(["relocated"]),
        "{detected}"
    );
    ensure!(agent.stop()?.success());
    mounts.clear()
}

#[test]
fn from_a_folder_as_root_the_paths_begin_there() -> Result<()> {
    const TEST: &str = "from_a_folder_as_root_the_paths_begin_there";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    fs::create_dir(scene.tree().join("etc"))?;
    fs::write(scene.tree().join("etc/app.conf"), "declared\n")?;
    let spec = "files:\n    - {path: /etc/app.conf, content: {inline: \"declared\\n\"}}\n";
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, spec)?;
    let root = text(&scene.tree());
    let agent = Agent::start(&scene, &["--host-root", &root])?;
    // A process with that root names the file as it is declared.
    let mut chroot = Command::new("python3");
    chroot.args([
        "-c",
        "import os, sys\nos.chroot(sys.argv[1])\nos.chdir('/')\nopen('/etc/app.conf', 'a').write('evil')",
        &root,
    ]);
    let mut child = chroot.spawn()?;
    let pid = child.id();
    ensure!(child.wait()?.success());
    let path = Path::new("/etc/app.conf");
    let detected = agent.event(0, "config.drift.detected", path)?;
    ensure!(
        detected["cause"] == "kernel" && detected["actor"]["pid"] == pid,
        "{detected}"
    );
    agent.event(0, "config.drift.healed", path)?;
    ensure!(fs::read_to_string(scene.tree().join("etc/app.conf"))? == "declared\n");
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn the_same_name_in_two_directories_at_the_same_moment_names_both_processes() -> Result<()> {
    // Whole paths are told apart, whatever their last components are.
    const TEST: &str = "the_same_name_in_two_directories_at_the_same_moment_names_both_processes";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [
        file("one/conf/app.conf", "declared\n"),
        file("two/conf/app.conf", "declared\n"),
    ];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", "", &files)?;
    let agent = Agent::start(&scene, &[])?;
    let paths = files.map(|file| scene.at(file.path));
    let mut children = Vec::new();
    for path in &paths {
        children.push(Command::new("rm").arg(path).spawn()?);
    }
    let mut pids = Vec::new();
    for child in &mut children {
        pids.push(child.id());
        ensure!(child.wait()?.success());
    }
    for (path, pid) in paths.iter().zip(pids) {
        let detected = agent.event(0, "config.drift.detected", path)?;
        ensure!(detected["actor"]["pid"] == pid, "not {pid}: {detected}");
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

/// B129: the tree that declared paths are in is moved aside and another one put in its place, as a merge of `/etc` does: under a running agent
/// and while none runs. All is compared anew: what is missing comes back, and neither what nobody declares nor the old tree is touched.
#[test]
fn b129_a_tree_that_is_exchanged_is_compared_anew_and_the_old_one_left_alone() -> Result<()> {
    const TEST: &str = "b129_a_tree_that_is_exchanged_is_compared_anew_and_the_old_one_left_alone";
    if !is_built(TEST) {
        return Ok(());
    }
    exchanged(&SCAN)?;
    if has_probes(TEST) {
        exchanged(&[])?;
    }
    Ok(())
}

fn exchanged(arguments: &[&str]) -> Result<()> {
    let scene = Scene::new()?;
    let files = [
        file("etc/app.conf", "declared\n"),
        file("etc/d/more.conf", "more\n"),
        file("etc/d/deep/most.conf", "most\n"),
    ];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let (etc, app) = (scene.at("etc"), scene.at("etc/app.conf"));
    // A tree as a merge leaves it: one file is another, one directory has gone, one file is local.
    let merge = |number: u32| -> Result<()> {
        let (new, old) = (scene.at("etc.new"), scene.at(&format!("etc.{number}")));
        fs::create_dir(&new)?;
        fs::write(new.join("app.conf"), format!("of image {number}\n"))?;
        fs::write(new.join("local.conf"), format!("local {number}\n"))?;
        // At once, as who merges does it: what is missing in between an agent would put back.
        renameat_with(CWD, &new, CWD, &etc, RenameFlags::EXCHANGE)?;
        fs::rename(&new, &old)?;
        Ok(())
    };
    let is_healed = |agent: &Agent, mark: usize, number: u32| -> Result<()> {
        for file in &files {
            agent.event(mark, "config.drift.healed", &scene.at(file.path))?;
            let text = fs::read_to_string(scene.at(file.path))?;
            ensure!(text == file.content, "{}: {text}", file.path);
        }
        let local = fs::read_to_string(etc.join("local.conf"))?;
        ensure!(local == format!("local {number}\n"), "{local}");
        Ok(())
    };
    let agent = Agent::start(&scene, arguments)?;
    let mark = agent.mark();
    merge(1)?;
    is_healed(&agent, mark, 1)?;
    // The old tree is nobody's now, and the new one is watched.
    fs::write(scene.at("etc.1/app.conf"), "whatever\n")?;
    let mark = agent.mark();
    fs::write(&app, "by hand\n")?;
    agent.event(mark, "config.drift.healed", &app)?;
    ensure!(fs::read_to_string(scene.at("etc.1/app.conf"))? == "whatever\n");
    ensure!(agent.stop()?.success());

    // What happens between two boots: nobody runs.
    merge(2)?;
    let agent = Agent::start(&scene, arguments)?;
    is_healed(&agent, 0, 2)?;
    for record in agent.since(0) {
        ensure!(
            record["drift"] != serde_json::json!(["relocated"]),
            "{record}"
        );
    }
    ensure!(fs::read_to_string(scene.at("etc.1/app.conf"))? == "whatever\n");
    ensure!(fs::read_to_string(scene.at("etc.2/app.conf"))? == "declared\n");
    ensure!(fs::read_to_string(scene.at("etc.2/local.conf"))? == "local 1\n");
    ensure!(agent.stop()?.success());
    Ok(())
}
