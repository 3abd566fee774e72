//! `drift-agent snapshot --against`: what one tree has otherwise than another becomes a policy.

use std::{fs, os::unix::fs::symlink, path::Path};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::is_built,
    command::{is_clean, snapshot},
    scene::Scene,
};

fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().context("a parent")?;
    fs::create_dir_all(parent)?;
    Ok(fs::write(path, text)?)
}

/// B141: of a tree and the one it came from three classes, without what is ignored: changed, added, deleted; what is equal is not declared.
#[test]
fn b141_what_differs_from_another_tree_is_changed_added_or_deleted() -> Result<()> {
    if !is_built("b141_what_differs_from_another_tree_is_changed_added_or_deleted") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (etc, image) = (scene.at("etc"), scene.root().join("usr-etc"));
    for (name, text) in [
        ("equal.conf", "the same"),
        ("edited.conf", "of the image"),
        ("deleted.conf", "of the image"),
        ("deleted.d/one.conf", "1"),
        ("deleted.d/two.conf", "2"),
        ("cache.lock", "of the image"),
        ("kept.d/equal.conf", "the same"),
        ("turned", "a file"),
        ("left/out.conf", "of the image"),
    ] {
        write(&image.join(name), text)?;
        if !name.starts_with("deleted") && name != "turned" && !name.starts_with("left/") {
            write(&etc.join(name), text)?;
        }
    }
    write(&etc.join("edited.conf"), "by hand")?;
    write(&etc.join("added.conf"), "by hand")?;
    write(&etc.join("kept.d/added.conf"), "by hand")?;
    write(&etc.join("cache.lock"), "changes always")?;
    write(&etc.join("passed.lock"), "changes always")?;
    symlink("equal.conf", etc.join("turned"))?;
    let ignored = format!("{}/left", etc.display());
    let arguments = [
        etc.display().to_string(),
        "--against".to_owned(),
        image.display().to_string(),
        "-o".to_owned(),
        scene.policies().join("etc.yaml").display().to_string(),
        "--ignore".to_owned(),
        "*.lock".to_owned(),
        "--ignore".to_owned(),
        ignored,
    ];
    let (status, out, err) = snapshot(&scene, &arguments)?;
    ensure!(status == 0, "{status}: {out}{err}");
    let class = |name: &str| -> Result<Vec<String>> {
        let rest = out
            .split_once(&format!("\n{name}:\n"))
            .context(out.clone())?;
        let lines = rest.1.lines().take_while(|line| line.starts_with("   "));
        let prefix = format!("{}/", etc.display());
        let mut names: Vec<String> = lines
            .map(|line| line.trim().trim_start_matches(&prefix).to_owned())
            .collect();
        names.sort();
        Ok(names)
    };
    ensure!(class("changed")? == ["edited.conf", "turned"], "{out}");
    ensure!(
        class("added")? == ["added.conf", "kept.d/added.conf"],
        "{out}"
    );
    ensure!(class("deleted")? == ["deleted.conf", "deleted.d"], "{out}");
    let policy = fs::read_to_string(scene.policies().join("etc.yaml"))?;
    for (text, is_there) in [
        ("edited.conf", true),
        ("deleted.d", true),
        ("one.conf", false),
        ("/equal.conf", false),
        (".lock", false),
        ("/left", false),
    ] {
        ensure!(policy.contains(text) == is_there, "{text}: {policy}");
    }
    is_clean(&scene)?;

    let (status, out, err) = snapshot(
        &scene,
        &[
            etc.display().to_string(),
            "--against".to_owned(),
            etc.join("kept.d").display().to_string(),
            "-o".to_owned(),
            "-".to_owned(),
        ],
    )?;
    ensure!(
        status == 1 && err.contains("are one in the other"),
        "{status}: {out}{err}"
    );
    Ok(())
}
