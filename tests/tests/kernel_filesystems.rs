//! The same on file systems whose inodes are not what `stat` shows: the kernel half names them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes, tool},
    scene::{DEFAULT, HEAL_AT_ONCE, Scene, file},
};

/// A mount that goes away with its value.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        // What stays mounted keeps the scene's folder from being removed, and that is seen.
        let _status = Command::new("umount").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str], place: &Path) -> Result<Mount> {
    let mut all = arguments.to_vec();
    let place_text = place.display().to_string();
    all.push(&place_text);
    tool("mount", &all)?;
    Ok(Mount(place.to_owned()))
}

/// Mounts something over the scene's tree, and drifts one file in it in every basic way.
#[track_caller]
fn check(test: &str, prepare: impl FnOnce(&Scene) -> Result<Mount>) -> Result<()> {
    if !has_probes(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mut declared = file("app.conf", "declared\n");
    declared.mode = Some("0644");
    let files = [declared];
    let mounted = prepare(&scene)?;
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    let name = app.display().to_string();
    for command in [
        format!("echo x >> {name}"),
        format!("exec sed -i s/declared/other/ {name}"),
        format!("exec chmod 600 {name}"),
        format!("exec truncate -s 1 {name}"),
        format!("exec rm {name}"),
        format!("exec cp /proc/self/status {name}"),
    ] {
        let mark = agent.mark();
        let pid = tool("sh", &["-c", &command])?;
        let detected = agent.event(mark, "config.drift.detected", &app)?;
        ensure!(
            detected["cause"] == "kernel" && detected["actor"]["pid"] == pid,
            "{command}: not by {pid}: {detected}"
        );
        agent.event(mark, "config.drift.healed", &app)?;
        ensure!(fs::read_to_string(&app)? == "declared\n", "{command}");
    }
    ensure!(agent.stop()?.success());
    drop(mounted);
    Ok(())
}

#[test]
fn drifts_on_tmpfs_are_seen_and_healed() -> Result<()> {
    check("drifts_on_tmpfs_are_seen_and_healed", |scene| {
        mount(&["-t", "tmpfs", "none"], &scene.tree())
    })
}

#[test]
fn drifts_on_overlay_are_seen_and_healed_also_when_they_copy_up() -> Result<()> {
    check(
        "drifts_on_overlay_are_seen_and_healed_also_when_they_copy_up",
        |scene| {
            let below = layers(scene)?;
            let overlay = overlay(&scene.elsewhere(), &scene.elsewhere(), &scene.tree())?;
            // The overlay holds the layers' file system: taken away lazily, it goes when the overlay does.
            tool("umount", &["-l", &scene.elsewhere().display().to_string()])?;
            std::mem::forget(below);
            Ok(overlay)
        },
    )
}

/// Layers on a tmpfs of their own: the machine's root may be an overlay itself, and those do not stack for ever.
fn layers(scene: &Scene) -> Result<Mount> {
    let layers = scene.elsewhere();
    let below = mount(&["-t", "tmpfs", "none"], &layers)?;
    for layer in ["lower", "upper", "work"] {
        fs::create_dir(layers.join(layer))?;
    }
    fs::write(layers.join("lower/app.conf"), "declared\n")?;
    Ok(below)
}

/// Over what is in `lower/lower`, with what changes in `layers`.
fn overlay(lower: &Path, layers: &Path, place: &Path) -> Result<Mount> {
    let options = format!(
        "lowerdir={}/lower,upperdir={1}/upper,workdir={1}/work",
        lower.display(),
        layers.display()
    );
    mount(&["-t", "overlay", "overlay", "-o", &options], place)
}

/// B032: of an overlay on an overlay the inode is another one again.
#[test]
fn drifts_on_an_overlay_of_an_overlay_are_seen_and_healed() -> Result<()> {
    check(
        "drifts_on_an_overlay_of_an_overlay_are_seen_and_healed",
        |scene| {
            let below = layers(scene)?;
            let first = scene.elsewhere().join("first");
            for name in [
                "first",
                "first/lower",
                "second",
                "second/upper",
                "second/work",
            ] {
                fs::create_dir(scene.elsewhere().join(name))?;
            }
            let one = overlay(&scene.elsewhere(), &scene.elsewhere(), &first.join("lower"))?;
            let two = overlay(&first, &scene.elsewhere().join("second"), &scene.tree())?;
            for place in [first.join("lower"), scene.elsewhere()] {
                tool("umount", &["-l", &place.display().to_string()])?;
            }
            std::mem::forget((below, one));
            Ok(two)
        },
    )
}

/// Whether the kernel says where an overlay keeps what is in its layers: not of a module before 5.11.
fn tells_of_layers(test: &str) -> bool {
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let is_module = modules.lines().any(|line| line.starts_with("overlay "));
    if !is_module || Path::new("/sys/kernel/btf/overlay").exists() {
        return true;
    }
    drift_tests::skip::skip(
        test,
        "overlay is a module here, and this kernel does not say what types it has",
    );
    false
}

/// B031: what is written through an overlay is no event in its layers, and what is written in a layer none on the overlay.
#[test]
fn a_change_of_an_overlay_is_seen_through_it_and_in_its_layer() -> Result<()> {
    const TEST: &str = "a_change_of_an_overlay_is_seen_through_it_and_in_its_layer";
    if !has_probes(TEST) || !tells_of_layers(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let below = layers(&scene)?;
    let overlay = overlay(&scene.elsewhere(), &scene.elsewhere(), &scene.tree())?;
    let files = [file("app.conf", "declared\n")];
    scene.declare("1.0.0", DEFAULT, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let app = scene.at("app.conf");
    // The first copies it up, the second is beneath, the third is through the overlay again. Each is seen as who reads by the declared path sees it.
    for (number, path) in [&app, &scene.elsewhere().join("upper/app.conf"), &app]
        .into_iter()
        .enumerate()
    {
        let mark = agent.mark();
        let pid = tool(
            "sh",
            &["-c", &format!("echo {number} >> {}", path.display())],
        )?;
        let detected = agent.event(mark, "config.drift.detected", &app)?;
        let digest = format!("blake3:{}", blake3::hash(&fs::read(&app)?).to_hex());
        ensure!(
            detected["cause"] == "kernel"
                && detected["actor"]["pid"] == pid
                && detected["observed"]["digest"] == digest.as_str(),
            "{}: not by {pid}, or not {digest}: {detected}",
            path.display()
        );
    }
    ensure!(agent.stop()?.success());
    drop(overlay);
    drop(below);
    Ok(())
}

/// A file system on a loop device over the scene's tree.
fn on_a_loop_device(scene: &Scene, kind: &str) -> Result<Mount> {
    let image = scene.elsewhere().join("image");
    // The smallest that all of them accept; what is not written takes no room.
    fs::File::create(&image)?.set_len(400 << 20)?;
    let image = image.display().to_string();
    let quiet = if kind == "xfs" || kind == "ext4" {
        "-q"
    } else {
        "--quiet"
    };
    tool(&format!("mkfs.{kind}"), &[quiet, &image])?;
    mount(&["-t", kind, "-o", "loop", &image], &scene.tree())
}

/// Whether this machine can make and mount one; where not, the test is skipped with the reason.
fn has_file_system(test: &str, kind: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").is_ok_and(|all| {
        all.lines()
            .any(|line| line.split('\t').next_back() == Some(kind))
    });
    let reason = if !known {
        format!("this kernel has no {kind}")
    } else if !Command::new(format!("mkfs.{kind}"))
        .arg(if kind == "btrfs" { "--version" } else { "-V" })
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        format!("not installed: mkfs.{kind}")
    } else {
        return true;
    };
    drift_tests::skip::skip(test, &reason);
    false
}

#[test]
fn drifts_on_ext4_are_seen_and_healed() -> Result<()> {
    const TEST: &str = "drifts_on_ext4_are_seen_and_healed";
    if !has_file_system(TEST, "ext4") {
        return Ok(());
    }
    check(TEST, |scene| on_a_loop_device(scene, "ext4"))
}

#[test]
fn drifts_on_xfs_are_seen_and_healed() -> Result<()> {
    const TEST: &str = "drifts_on_xfs_are_seen_and_healed";
    if !has_file_system(TEST, "xfs") {
        return Ok(());
    }
    check(TEST, |scene| on_a_loop_device(scene, "xfs"))
}

#[test]
fn drifts_on_btrfs_are_seen_and_healed() -> Result<()> {
    const TEST: &str = "drifts_on_btrfs_are_seen_and_healed";
    if !has_file_system(TEST, "btrfs") {
        return Ok(());
    }
    check(TEST, |scene| on_a_loop_device(scene, "btrfs"))
}
