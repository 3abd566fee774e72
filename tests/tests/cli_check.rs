//! `drift-agent check`: one look, and a status that says what was found.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{is_built, program},
    scene::{DEFAULT, Declared, Scene, file},
};
use serde_json::Value;

/// Status, records, and what was said to people.
fn check(scene: &Scene, arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = Command::new(program())
        .arg("check")
        .arg("--policies")
        .arg(scene.policies())
        .args(arguments)
        .output()?;
    Ok((
        output.status.code().context("ended by a signal")?,
        String::from_utf8(output.stdout)?,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

fn scene() -> Result<(Scene, [Declared; 3])> {
    let scene = Scene::new()?;
    let mut moded = file("c.conf", "c\n");
    moded.mode = Some("0600");
    let files = [file("a.conf", "a\n"), file("sub/b.conf", "b\n"), moded];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", DEFAULT, &files)?;
    Ok((scene, files))
}

#[test]
fn a_clean_tree_is_status_0_and_a_sentence() -> Result<()> {
    if !is_built("a_clean_tree_is_status_0_and_a_sentence") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    let (status, out, err) = check(&scene, &[])?;
    ensure!(
        status == 0 && out.starts_with("all 3 paths are as declared"),
        "{status} {out} {err}"
    );
    let (status, out, _) = check(&scene, &["--full", "-o", "jsonl"])?;
    ensure!(status == 0 && out.is_empty(), "{out}");
    let (status, out, _) = check(&scene, &["-o", "json"])?;
    ensure!(
        status == 0 && serde_json::from_str::<Value>(&out)? == serde_json::json!([]),
        "{out}"
    );
    Ok(())
}

#[test]
fn each_kind_of_drift_sets_its_bit_and_is_told_once() -> Result<()> {
    if !is_built("each_kind_of_drift_sets_its_bit_and_is_told_once") {
        return Ok(());
    }
    let (scene, files) = scene()?;
    fs::write(scene.at("a.conf"), "other\n")?;
    let (status, out, _) = check(&scene, &["-o", "jsonl"])?;
    ensure!(status == 4, "changed: {status} {out}");
    fs::remove_dir_all(scene.at("sub"))?;
    let (status, out, _) = check(&scene, &["-o", "jsonl"])?;
    ensure!(status == 6, "changed and missing: {status} {out}");
    scene.lay_out(&files[..1])?;
    let (status, out, _) = check(&scene, &["-o", "json"])?;
    ensure!(status == 2, "missing: {status} {out}");
    let records: Vec<Value> = serde_json::from_str(&out)?;
    ensure!(
        records.len() == 1 && records[0]["drift"] == serde_json::json!(["missing"]),
        "{out}"
    );
    ensure!(
        records[0]["actor"].is_null() && records[0]["cause"] == "scan",
        "{out}"
    );
    // A person sees each in a line, and the sum.
    let (_, out, _) = check(&scene, &[])?;
    ensure!(
        out.contains("2 of 3 paths are as declared, 1 are not"),
        "{out}"
    );
    Ok(())
}

#[test]
fn policies_with_problems_are_status_10() -> Result<()> {
    if !is_built("policies_with_problems_are_status_10") {
        return Ok(());
    }
    let (scene, _) = scene()?;
    fs::write(scene.policies().join("policy.yaml"), "kind: Polizy\n")?;
    let (status, _, err) = check(&scene, &[])?;
    ensure!(
        status == 10 && err.contains("policy.yaml:1:"),
        "{status} {err}"
    );
    Ok(())
}
