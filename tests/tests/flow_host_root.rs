//! The host's file tree beneath another root: as an agent in a pod has it.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    process::Command,
};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, program, tool},
    scene::{HEAL_AT_ONCE, Scene},
    stage::Mounts,
};
use serde_json::{Value, json};

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Every path of a tree, with what says that it was changed.
fn all(tree: &Path) -> Result<Vec<(String, u64, i64)>> {
    let mut found = Vec::new();
    let mut left = vec![tree.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path)?;
        found.push((text(&path), meta.ino(), meta.ctime_nsec()));
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[test]
fn beneath_a_root_links_users_and_heals_are_of_that_root_and_nothing_else_is_touched() -> Result<()>
{
    const TEST: &str =
        "beneath_a_root_links_users_and_heals_are_of_that_root_and_nothing_else_is_touched";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let root = scene.tree();
    // The link's target is absolute. The same path of the machine is a trap.
    let trap = scene.elsewhere().join("app");
    fs::create_dir(&trap)?;
    fs::write(trap.join("app.conf"), "trap\n")?;
    let real = root.join(trap.strip_prefix("/")?);
    fs::create_dir_all(&real)?;
    fs::create_dir(root.join("etc"))?;
    symlink(&trap, root.join("etc/app"))?;
    fs::write(root.join("etc/passwd"), "drifter:x:4321:4322::/:\n")?;
    fs::write(root.join("etc/group"), "drifters:x:4322:\n")?;
    let spec = format!(
        "files:\n    - path: /etc/app/app.conf\n      through: [{{path: /etc/app, target: {}}}]\n      content: {{inline: \"declared\\n\"}}\n      \
         owner: drifter\n      group: drifters\n",
        text(&trap)
    );
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, &spec)?;
    let outside = all(&scene.elsewhere())?;
    let agent = Agent::start(&scene, &["--host-root", &text(&root)])?;
    let path = Path::new("/etc/app/app.conf");
    let file = real.join("app.conf");
    let is_whole = || -> Result<()> {
        let meta = fs::metadata(&file)?;
        ensure!(fs::read_to_string(&file)? == "declared\n");
        ensure!((meta.uid(), meta.gid()) == (4321, 4322), "{meta:?}");
        Ok(())
    };
    agent.event(0, "config.drift.healed", path)?;
    is_whole()?;
    for (change, kinds) in [
        ("echo evil >> \"$0\"", json!(["content"])),
        ("chown 0:0 \"$0\"", json!(["owner"])),
        ("rm \"$0\"", json!(["missing"])),
    ] {
        let mark = agent.mark();
        tool("sh", &["-c", change, &text(&file)])?;
        let detected = agent.event(mark, "config.drift.detected", path)?;
        ensure!(detected["drift"] == kinds, "{change}: {detected}");
        agent.event(mark, "config.drift.healed", path)?;
        is_whole()?;
    }
    ensure!(agent.stop()?.success());
    ensure!(all(&scene.elsewhere())? == outside, "outside of the root");

    // Without an agent, by hand.
    fs::write(&file, "evil\n")?;
    let healed = Command::new(program())
        .args(["heal", "--host-root", &text(&root), "--policies"])
        .arg(scene.policies())
        .arg("--state")
        .arg(scene.root().join("state"))
        .output()?;
    ensure!(healed.status.success(), "{healed:?}");
    is_whole()?;
    ensure!(all(&scene.elsewhere())? == outside, "outside of the root");
    Ok(())
}

#[test]
fn in_a_pod_what_is_not_mounted_is_named_and_never_written_to() -> Result<()> {
    const TEST: &str = "in_a_pod_what_is_not_mounted_is_named_and_never_written_to";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let (host, pod) = (scene.elsewhere(), scene.tree());
    // The host has both directories. One of them is mounted into the pod; at the other's place the container has a file of its own.
    for folder in ["etc/app", "etc/other"] {
        fs::create_dir_all(host.join(folder))?;
        fs::create_dir_all(pod.join(folder))?;
    }
    fs::write(host.join("etc/other/other.conf"), "the host's\n")?;
    fs::write(pod.join("etc/other/other.conf"), "the container's\n")?;
    tool(
        "mount",
        &[
            "--bind",
            &text(&host.join("etc/app")),
            &text(&pod.join("etc/app")),
        ],
    )?;
    let spec = "files:\n    - {path: /etc/app/app.conf, content: {inline: \"declared\\n\"}}\n    \
                - {path: /etc/other/other.conf, content: {inline: \"declared\\n\"}}\n    \
                - {path: /etc/none/there/f, content: {inline: \"declared\\n\"}}\n";
    scene.declare_spec("1.0.0", HEAL_AT_ONCE, spec)?;
    let mut command = Command::new(program());
    command
        .args(["run", "--sensor", "tracepoint", "--policies"])
        .arg(scene.policies())
        .arg("--host-root")
        .arg(&pod)
        .env("KUBERNETES_SERVICE_HOST", "192.0.2.1");
    let agent = Agent::start_as(command, &scene)?;
    agent.event(0, "config.drift.healed", Path::new("/etc/app/app.conf"))?;
    ensure!(fs::read_to_string(host.join("etc/app/app.conf"))? == "declared\n");
    for (path, missing) in [
        ("/etc/other/other.conf", "etc/other"),
        ("/etc/none/there/f", "etc/none/there"),
    ] {
        let path = Path::new(path);
        let detected = agent.event(0, "config.drift.detected", path)?;
        let message = detected["message"].as_str().unwrap_or_default();
        ensure!(
            detected["drift"] == json!(["relocated"])
                && message.contains(&format!("mount the host's /{missing} "))
                && message.contains(&text(&pod.join(missing))),
            "{detected}"
        );
        let suppressed = agent.event(0, "config.drift.heal_suppressed", path)?;
        ensure!(suppressed["reason"] == "relocated", "{suppressed}");
        ensure!(
            agent
                .errors()
                .contains(&format!("mount the host's /{missing} ")),
            "{}",
            agent.errors()
        );
    }
    let healed = |record: &Value| record["event"] == "config.drift.healed";
    ensure!(
        agent
            .since(0)
            .iter()
            .filter(|record| healed(record))
            .count()
            == 1
    );
    ensure!(agent.stop()?.success());
    ensure!(fs::read_to_string(pod.join("etc/other/other.conf"))? == "the container's\n");
    ensure!(fs::read_to_string(host.join("etc/other/other.conf"))? == "the host's\n");
    ensure!(!pod.join("etc/none").exists(), "written into the container");
    mounts.clear()
}
