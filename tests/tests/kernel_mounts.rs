//! Each call that mounts, moves or unmounts something rings, also where it changes nothing of what is declared; and what it puts over a declared path is told
//! with the process.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, program, tool},
    scene::{DEFAULT, Scene, file},
    stage::Mounts,
};
use rustix::{
    fs::CWD,
    mount::{
        MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree,
        unmount,
    },
};
use serde_json::Value;

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// How many such calls the kernel half has seen.
fn seen(scene: &Scene) -> Result<u64> {
    let output = Command::new(program())
        .args(["status", "-o", "json", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    let status: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let counted = &status["sensor"]["counted"]["mount"];
    let count = |what: &str| counted[what].as_u64().unwrap_or(0);
    Ok(count("sent") + count("coalesced"))
}

/// How many more it has seen after this, which must come true.
fn rung(scene: &Scene, make: impl Fn() -> Result<bool>) -> Result<u64> {
    let before = seen(scene)?;
    ensure!(make()?);
    Ok(seen(scene)? - before)
}

#[test]
fn each_call_that_moves_mounts_rings_and_one_that_fails_does_not() -> Result<()> {
    const TEST: &str = "each_call_that_moves_mounts_rings_and_one_that_fails_does_not";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let files = [file("d/app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let (aside, other) = (
        scene.elsewhere().join("aside"),
        scene.elsewhere().join("other"),
    );
    for place in [&aside, &other] {
        fs::create_dir(place)?;
    }
    // Nothing is mounted there.
    ensure!(
        rung(&scene, || Ok(
            unmount(&aside, UnmountFlags::empty()).is_err()
        ))? == 0
    );
    let calls: [(&str, &dyn Fn() -> Result<bool>); 3] = [
        ("mount", &|| {
            mount("none", &aside, "tmpfs", MountFlags::empty(), None)?;
            Ok(true)
        }),
        ("move_mount", &|| {
            let tree = open_tree(CWD, &aside, OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&tree, "", CWD, &other, flags)?;
            Ok(true)
        }),
        ("umount", &|| {
            unmount(&other, UnmountFlags::empty())?;
            Ok(true)
        }),
    ];
    for (call, make) in calls {
        let rung = rung(&scene, make).with_context(|| call.to_owned())?;
        ensure!(rung == 1, "{call}: {rung}\n{}", agent.all());
    }
    // In a namespace of its own, whose root is a mount that can be put aside. The same without the call tells what the preparations ring.
    let (from, to) = (text(&aside), text(&other));
    let in_namespace = |last: &str| {
        let script = format!(
            "mount --rbind / {from} && mount -t tmpfs none {from}{to} && mkdir {from}{to}/old && chroot {from} {last}"
        );
        rung(&scene, || {
            tool("unshare", &["-m", "sh", "-c", &script]).map(|_| true)
        })
    };
    let without = in_namespace("true")?;
    let with = in_namespace(&format!("pivot_root {to} {to}/old"))?;
    ensure!(
        with == without + 1,
        "pivot_root: {with}, and {without} without it\n{}",
        agent.all()
    );
    ensure!(agent.stop()?.success());
    mounts.clear()
}

#[test]
fn what_is_put_over_a_declared_path_is_told_with_the_process() -> Result<()> {
    const TEST: &str = "what_is_put_over_a_declared_path_is_told_with_the_process";
    if !has_probes(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    let files = [file("d/app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let (path, over) = (scene.at("d/app.conf"), text(&scene.at("d")));
    let pid = tool("mount", &["-t", "tmpfs", "on-top", &over])?;
    let detected = agent.event(0, "config.drift.detected", &path)?;
    ensure!(
        detected["drift"] == serde_json::json!(["relocated"])
            && detected["cause"] == "kernel"
            && detected["actor"]["pid"] == pid,
        "not by {pid}: {detected}"
    );
    tool("umount", &[&over])?;
    agent.event(0, "config.drift.resolved", &path)?;
    ensure!(agent.stop()?.success());
    mounts.clear()
}
