//! What a declaration should not be like: files that somebody else than root may write, which root reads.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{is_built, program},
    privilege::{SOMEBODY, is_root},
    scene::{Declared, Scene, file},
};
use serde_json::Value;

fn drift(scene: &Scene, arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(program())
        .args(arguments)
        .arg("--policies")
        .arg(scene.policies())
        .output()?)
}

fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    // As it was written, without the terminal's line ends.
    String::from_utf8_lossy(&all)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// B133: a file of a user that a process of root has open is warned of, with the names of both; one of root alone is not, and a directory on
/// the way counts.
#[test]
fn b133_what_root_reads_and_another_may_write_is_warned_of_with_both_names() -> Result<()> {
    const TEST: &str = "b133_what_root_reads_and_another_may_write_is_warned_of_with_both_names";
    if !is_built(TEST) || !is_root(TEST) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let owner = Box::leak(SOMEBODY.to_string().into_boxed_str());
    let with = |path, owner: Option<&'static str>, mode| Declared {
        owner,
        mode: Some(mode),
        ..file(path, "x = 1\n")
    };
    let files = [
        with("app.conf", Some(owner), "0644"),
        with("root.conf", Some("root"), "0644"),
        with("all.conf", Some("root"), "0666"),
        with("open/in.conf", Some("root"), "0644"),
    ];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", "", &files)?;
    fs::set_permissions(scene.root(), Permissions::from_mode(0o755))?;
    chown(scene.at("app.conf"), Some(SOMEBODY), None)?;
    fs::set_permissions(scene.at("open"), Permissions::from_mode(0o777))?;
    // This process, which is root, reads it.
    let _open = File::open(scene.at("app.conf"))?;
    let pid = std::process::id();

    let state = scene.root().join("state").display().to_string();
    let app = scene.at("app.conf").display().to_string();
    let output = drift(&scene, &["explain", &app, "--state", &state])?;
    ensure!(
        output.status.code() == Some(0),
        "a warning is no drift: {output:?}"
    );
    let text = said(&output);
    ensure!(
        text.contains(&format!("(uid {SOMEBODY}), and root reads it:"))
            && text.contains(&format!("(pid {pid}) has it open")),
        "{text}"
    );
    let output = drift(&scene, &["explain", &app, "--state", &state, "-o", "json"])?;
    let value: Value = serde_json::from_slice(&output.stdout)?;
    let warning = value["warnings"][0].as_str().context("a warning")?;
    ensure!(warning.contains("may be written by"), "{warning}");

    let root = scene.at("root.conf").display().to_string();
    let text = said(&drift(&scene, &["explain", &root, "--state", &state])?);
    ensure!(!text.contains("warning"), "{text}");

    let output = drift(&scene, &["policy", "validate", "--host"])?;
    let text = said(&output);
    ensure!(output.status.code() == Some(0), "{text}");
    for (path, who) in [
        ("app.conf may be written by", format!("(uid {SOMEBODY})")),
        ("all.conf may be written by everybody", String::new()),
        (
            "open/in.conf may be replaced in",
            "open by everybody".to_owned(),
        ),
    ] {
        ensure!(text.contains(path) && text.contains(&who), "{path}: {text}");
    }
    ensure!(!text.contains("root.conf"), "{text}");
    ensure!(text.contains("no problems"), "{text}");
    Ok(())
}
